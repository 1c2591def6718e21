"""Money: how many bonuses a budget pays for, and what some bonuses cost, decided on decimal numbers as written."""

from __future__ import annotations

from decimal import Decimal


def affordable(budget: float | None, bonus: float) -> int | None:
    """Return ⌊budget/bonus⌋: 0.3 buys three bonuses of 0.1."""
    if budget is None:
        return None
    return int(Decimal(str(float(budget))) / Decimal(str(float(bonus))))


def cost(paid: int, bonus: float) -> float:
    """Return paid × bonus: three bonuses of 0.1 cost 0.3."""
    return float(paid * Decimal(str(float(bonus))))
