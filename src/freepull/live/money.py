"""Money: whole minor units of a named currency, never a float."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from freepull import checks
from freepull.errors import InvalidInput

DIGITS = {
    **dict.fromkeys(
        [
            "BIF",
            "CLP",
            "DJF",
            "GNF",
            "ISK",
            "JPY",
            "KMF",
            "KRW",
            "PYG",
            "RWF",
            "UGX",
            "UYI",
            "VND",
            "VUV",
            "XAF",
            "XOF",
            "XPF",
        ],
        0,
    ),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}
"""Decimal places by ISO 4217; every other currency has 2."""
MOST = 10**15
_FORM = re.compile(r"(\d{1,16})(?:\.(\d{1,4}))? ?([A-Z]{3})", re.ASCII)


@dataclass(frozen=True)
class Money:
    """An amount in minor units (cents) of a currency.

    >>> Money.parse("price", "0.50 EUR")
    Money(minor=50, currency='EUR')
    >>> str(Money(1250, "EUR")), str(Money(1250, "JPY"))
    ('12.50 EUR', '1250 JPY')
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
            raise InvalidInput(f"{name} must be an amount and a currency such as '0.50 EUR', got {checks.shown(text)}.")
        whole, fraction, currency = found[1], found[2] or "", found[3]
        digits = DIGITS.get(currency, 2)
        if len(fraction.rstrip("0")) > digits:
            raise InvalidInput(f"{name} must have at most {digits} decimals in {currency}, got {checks.shown(text)}.")
        minor = int(whole + fraction[:digits].ljust(digits, "0"))
        if minor > MOST:
            raise InvalidInput(f"{name} must be at most {cls(MOST, currency)}, got {checks.shown(text)}.")
        return cls(minor, currency)

    def __str__(self) -> str:
        digits = DIGITS.get(self.currency, 2)
        if digits == 0:
            return f"{self.minor} {self.currency}"
        sign, minor = "-" * (self.minor < 0), abs(self.minor)
        return f"{sign}{minor // 10**digits}.{minor % 10**digits:0{digits}d} {self.currency}"
