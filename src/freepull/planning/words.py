"""The numbers of a plan as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from freepull.money import Money


def count(value: float) -> str:
    """Show a number of pulls, agents or bonuses."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if 0.0 < value < 0.05:
        return "< 0.1"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def percent(share: float) -> str:
    """Show a share of runs; 0 % and 100 % only if it was none of them, or all."""
    text = f"{100 * share:.1f}" if 0.0005 <= share < 0.1 or 0.9 < share <= 0.9995 else f"{100 * share:.0f}"
    if 0.0 < share < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if 0.9995 < share < 1.0 else f"{text} %"


def signed(more: float, margin: float) -> str:
    """Show how much more is paid, with its error."""
    sign = "" if more == 0 else "−" if more < 0 else "+"
    return f"{sign}{count(abs(more))}" + (f" ± {count(margin)}" if margin > 0 else "")


def spend(bonuses: float, price: Money | None, unit: str = "") -> str:
    """Show a number of bonuses, with its price."""
    paid = "" if price is None or not math.isfinite(bonuses) else f" ({price.times(bonuses):,})"
    return f"{count(bonuses)}{unit}{paid}"


def between(low: float, high: float, price: Money | None = None) -> str:
    """Show a range of spends; bonuses are whole, so its ends are rounded outwards."""
    return f"{count(math.floor(low))} to {spend(math.ceil(high), price)}"


def people(number: int) -> str:
    """Show a number of agents."""
    return f"{number:,} agent{'' if number == 1 else 's'}"


def rounded(value: float) -> int:
    """Return two significant digits, rounded up: no search is sharper."""
    if value < 10:
        return math.ceil(value)
    digits = int(10 ** (math.floor(math.log10(value)) - 1))
    return math.ceil(value / digits) * digits


def agents(value: float) -> str:
    """Show a number of agents that a formula gave."""
    return f"about {rounded(value):,}" if math.isfinite(value) else "no number"


def pulls(values: Sequence[float]) -> str:
    """Show pulls by arm, best arm first."""
    shown = [count(value) for value in values[:6]]
    return " / ".join(shown) + (" / …" if len(values) > 6 else "")
