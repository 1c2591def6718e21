"""How many pulls of every arm a certificate is likely to need: an estimate (docs/statistics.md, need)."""

from __future__ import annotations

from typing import Any

from freepull.numerics import jit

MARGIN = 1.05


@jit
def fill_needed(needed: Any, means: Any, active: Any, spreads: Any, beta: float, smallest: float) -> None:
    """n_j = 1.05·2β·(s_* + s_j)/Δ̂_j² pulls an agent, s_k = Σ_m p_m²·σ²_km, Δ̂ at least ``smallest``; n_* is the largest.

    0 for arms that are not active.
    """
    leader, most = -1, 0.0
    for k in range(means.shape[0]):
        if active[k] and (leader < 0 or means[k] > means[leader]):
            leader = k
    for j in range(means.shape[0]):
        needed[j] = 0.0
        if active[j] and j != leader:
            gap = max(means[leader] - means[j], smallest)
            needed[j] = MARGIN * 2.0 * beta * (spreads[leader] + spreads[j]) / (gap * gap)
            most = max(most, needed[j])
    needed[leader] = most
