"""Money: whole minor units of a named currency, never a float."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from freepull import validation
from freepull.errors import InvalidInput

MOST = 10**15
"""Minor units of one amount."""
MOST_PRICE = 2 * 10**9
"""Minor units of one bonus: as many of them as there can be are still a number of 63 bits, as ledgers add them up."""
DIGITS = {
    **dict.fromkeys(["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"], 0),
    **dict.fromkeys(["RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}
"""How many decimals a currency has, by ISO 4217, where they are not two."""
_PLACES = {places: "|".join(it for it in DIGITS if DIGITS[it] == places) for places in sorted(set(DIGITS.values()))}
_FORM = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))? ?([A-Z]{3})", re.ASCII)


@dataclass(frozen=True)
class Money:
    """An amount in minor units (cents) of a currency.

    >>> Money.parse("price", "0.50 EUR")
    Money(minor=50, currency='EUR')
    >>> str(Money(1250, "EUR")), str(Money(1250, "JPY")), f"{Money(1250, 'JPY'):,}"
    ('12.50 EUR', '1250 JPY', '1,250 JPY')
    """

    minor: int
    """Whole minor units: cents, yen."""
    currency: str
    """Three letters, such as EUR."""

    @classmethod
    def parse(cls, name: str, text: Any) -> Money:
        """Read an amount such as "0.50 EUR", which must be whole minor units."""
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InvalidInput(
                f"{name} must be an amount and a currency such as '0.50 EUR', got {validation.shown(text)}."
            )
        whole, fraction, currency = found[1], found[2] or "", found[3]
        decimals = DIGITS.get(currency, 2)
        if len(fraction.rstrip("0")) > decimals:
            raise InvalidInput(
                f"{name} must have at most {decimals} decimals in {currency}, got {validation.shown(text)}."
            )
        minor = int(whole + fraction[:decimals].ljust(decimals, "0"))
        if minor > MOST:
            raise InvalidInput(f"{name} must be at most {cls(MOST, currency)}, got {validation.shown(text)}.")
        return cls(minor, currency)

    @classmethod
    def price(cls, text: Any) -> Money:
        """Read what one bonus costs, which is more than nothing."""
        found = cls.parse("price", text)
        if found.minor == 0:
            raise InvalidInput(f"price must be above 0, got {validation.shown(text)}.")
        if found.minor > MOST_PRICE:
            most = cls(MOST_PRICE, found.currency)
            raise InvalidInput(f"price must be at most {most}, got {validation.shown(text)}.")
        return found

    @property
    def units(self) -> float:
        """The amount in whole units of the currency: 0.5 for 0.50 EUR."""
        whole: int = 10 ** DIGITS.get(self.currency, 2)
        return self.minor / whole

    def times(self, count: float) -> Money:
        """Return the price of this many, which may be a mean with two decimals, rounded to a minor unit.

        >>> str(Money(10, "EUR").times(1234.5))
        '123.45 EUR'
        """
        return Money(round(self.minor * Decimal(str(round(count, 2)))), self.currency)

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        decimals = DIGITS.get(self.currency, 2)
        whole, part = divmod(abs(self.minor), 10**decimals)
        cents = f".{part:0{decimals}d}" if decimals else ""
        return f"{'-' * (self.minor < 0)}{whole:{spec}}{cents} {self.currency}"


def below(limit: int) -> str:
    """Return a pattern of the whole numbers below one that is at least 10.

    >>> below(366)
    '([0-9]{1,2}|[0-2][0-9]{2}|3[0-5][0-9]{1}|36[0-5])'
    """
    digits = str(limit)
    ways = [f"[0-9]{{1,{len(digits) - 1}}}"]
    for i, digit in enumerate(digits):
        if digit != "0":
            left = len(digits) - i - 1
            ways.append(f"{digits[:i]}[0-{int(digit) - 1}]" + (f"[0-9]{{{left}}}" if left else ""))
    return f"({'|'.join(ways)})"


def pattern(most: int) -> str:
    """Return a pattern of all amounts of at most so many minor units, with as many decimals as their currencies have.

    >>> [bool(re.search(pattern(MOST_PRICE), it)) for it in ("0.50 EUR", "1.5 JPY", "20000000.01 EUR", "0.005 BHD")]
    [True, False, False, True]
    """
    others = "|".join(DIGITS)
    ways = []
    for places, currencies in (*_PLACES.items(), (2, f"(?!{others})[A-Z]{{3}}")):
        whole = most // 10**places
        decimals = rf"(\.[0-9]{{1,{places}}}0{{0,9}})?" if places else r"(\.0{1,9})?"
        ways.append(rf"({below(whole)}{decimals}|{whole}(\.0{{1,9}})?) ?({currencies})")
    return f"^0{{0,9}}({'|'.join(ways)})$"
