"""θ, the paper's confidence level inside CB_k, Eq. (2) (docs/statistics.md, bounds)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache


def equation(arms: int, agents: int, horizon: int, delta: float) -> float:
    """Eq. (2) of the paper (docs/statistics.md, equation). Proven wherever it is at least `finite_time`."""
    L = math.log(arms * horizon / delta)
    return L + 4 * agents * math.log(L)


def simplified(arms: int, agents: int, horizon: int, delta: float, scale: float) -> float:
    """The appendix's bound (docs/statistics.md, simplified); the authors' code has scale = 0.1. **Heuristic.**"""
    return scale * math.log(arms * horizon / delta)


@lru_cache
def finite_time(arms: int, agents: int, horizon: int, delta: float) -> float:
    """θ*/2, **proven for every T** (docs/statistics.md, finite_time).

    On each interval where ⌈θ·log T⌉ = c, log B falls, and it jumps up from one interval to the next. So we go down from
    a θ that is surely enough to the first interval on which B exceeds δ/(KT), and find where.
    """
    M, log_T = agents, math.log(horizon)
    target = math.log(delta / (arms * horizon))

    def excess(theta: float, c: float) -> float:
        return (M + 1) + M * math.log((theta - 1) * c / M) - theta - target

    enough = 2.0 * (M + 1)
    while excess(enough, enough * log_T + 1) > 0:
        enough *= 2
    enough = _last_positive(lambda theta: excess(theta, theta * log_T + 1), 2.0 * (M + 1), enough)
    c = math.ceil(enough * log_T)
    while c > 1 and excess(max(M + 1, (c - 1) / log_T), c) <= 0:
        c -= 1
    low = max(M + 1.0, (c - 1) / log_T)  # there it fails: surely at c = 1, where the left side is above 0
    return _last_positive(lambda theta: excess(theta, c), low, c / log_T) / 2


def _last_positive(falling: Callable[[float], float], low: float, high: float) -> float:
    """Halve [low, high] down to the point where a falling function stops being positive; the upper end is returned."""
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
