"""The budget: how many bonuses it can pay for."""

from __future__ import annotations

from decimal import Decimal


def affordable(budget: float | None, bonus: float) -> int | None:
    """Return ⌊budget/bonus⌋, decided on the decimal numbers as written (0.3 buys three bonuses of 0.1)."""
    if budget is None:
        return None
    return int(Decimal(str(budget)) / Decimal(str(bonus)))
