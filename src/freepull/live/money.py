"""Money: whole minor units of a named currency, never a float."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from freepull import checks
from freepull.currencies import check_decimals, digits
from freepull.errors import InvalidInput

MOST = 10**15
_FORM = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))? ?([A-Z]{3})", re.ASCII)


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
        decimals = digits(currency)
        check_decimals(name, fraction, currency, text)
        minor = int(whole + fraction[:decimals].ljust(decimals, "0"))
        if minor > MOST:
            raise InvalidInput(f"{name} must be at most {cls(MOST, currency)}, got {checks.shown(text)}.")
        return cls(minor, currency)

    def __str__(self) -> str:
        decimals = digits(self.currency)
        if decimals == 0:
            return f"{self.minor} {self.currency}"
        sign, minor = "-" * (self.minor < 0), abs(self.minor)
        return f"{sign}{minor // 10**decimals}.{minor % 10**decimals:0{decimals}d} {self.currency}"
