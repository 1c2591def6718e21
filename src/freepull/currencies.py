"""How many decimals a currency has, by ISO 4217."""

from __future__ import annotations

from typing import Any

from freepull import checks
from freepull.errors import InvalidInput

DIGITS = {
    **dict.fromkeys(["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"], 0),
    **dict.fromkeys(["RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}


def digits(currency: str) -> int:
    """Return the decimals of a currency.

    >>> digits("EUR"), digits("JPY")
    (2, 0)
    """
    return DIGITS.get(currency, 2)


def check_decimals(name: str, fraction: str, currency: str, given: Any) -> None:
    """Refuse an amount with more decimals than its currency has."""
    most = digits(currency)
    if len(fraction.rstrip("0")) > most:
        raise InvalidInput(f"{name} must have at most {most} decimals in {currency}, got {checks.shown(given)}.")
