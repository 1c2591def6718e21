"""The window of gaps at which paying matters: above it natural pulls settle it, below it the horizon cannot."""

from __future__ import annotations

import math

from freepull.principal.setting import Setting


def gap_window(arms: int, agents: float, horizon: int, kappa: int, delta: float, offers: str) -> tuple[float, float]:
    """Return (lo, hi) for K arms, M agents and horizon T (docs/statistics.md, window)."""
    beta = math.log(1 / delta) + 2.5
    free = max(1.0, min(2 * math.log(max(kappa, 2)) / 0.16, kappa / (2 * arms)))
    most = free + (horizon - kappa) / (arms * (agents if offers == "one" else 1))
    hi = min(1.5 * math.sqrt(beta / (free * agents)), 0.4)
    return min(math.sqrt(beta / (most * agents)), hi / 2), hi


def smallest_gap(setting: Setting, delta: float) -> float:
    """Return the window's lo for κ = T/2: no estimated gap counts as smaller."""
    T = setting.horizon_for("an estimate of what is missing")
    agents = 1 / float((setting.weights**2).sum())
    return gap_window(setting.arms, agents, T, T // 2, delta, setting.offers)[0]
