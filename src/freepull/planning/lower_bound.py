"""The reference lower bound: how little any principal could pay, so that costs are shown as ratios to the limit.

A change of measure between normals with the arms' variances, free pulls frozen as they are given
(docs/statistics.md, lower_bound). It is a yardstick, not a theorem about coins, and it is 0 where free pulls suffice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput
from freepull.game import Game

Array = NDArray[np.float64]
HALVINGS = 60
GOLDEN = (math.sqrt(5) - 1) / 2


def lower_bound(game: Game, free_pulls: Any, delta: float) -> Array:
    """Return the M×K pulls to buy, beyond the free ones, at the least total that can tell the best arm at error δ.

    Minimise Σ n_km such that Δ_j²/(2(V_* + V_j)) ≥ kl(δ, 1−δ) for every rival j, where
    V_k = Σ_m p_m²·σ²_km/(N_km + n_km). Infinite where two arms tie for best.
    """
    checks.real("delta", delta, 0.0, 0.5, open_low=True, open_high=True)
    free = checks.numbers("free_pulls", free_pulls)
    if free.shape != game.means.shape or not (free >= 0).all():
        raise InvalidInput(
            f"free_pulls must be {game.agents} × {game.arms} numbers of at least 0, got {checks.shown(free)}."
        )
    rivals = [k for k in range(game.arms) if k != game.best]
    information = (1 - 2 * delta) * math.log((1 - delta) / delta)
    room = {k: float(game.gaps[k]) ** 2 / (2 * information) for k in rivals}
    tightest = min(room.values())
    if tightest == 0.0:
        return np.full(free.shape, np.inf)
    spread = game.weights[:, None] * np.sqrt(game.variances)

    def bought(share: float) -> Array:
        """What to buy if the best arm's variance takes this share of the tightest room."""
        columns = np.zeros(free.shape)
        columns[:, game.best] = _water(spread[:, game.best], free[:, game.best], share * tightest)
        for k in rivals:
            columns[:, k] = _water(spread[:, k], free[:, k], room[k] - share * tightest)
        return columns

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if bought(left).sum() <= bought(right).sum():
            high = right
        else:
            low = left
    return bought(0.5 * (low + high))


def _water(spread: Array, free: Array, variance: float) -> Array:
    """Return the fewest pulls to add so that Σ spread²/(free + n) ≤ variance: everybody up to N = spread·ν (Neyman)."""

    def reached(nu: float) -> float:
        noisy = spread > 0
        return float((spread[noisy] ** 2 / np.maximum(np.maximum(free[noisy], spread[noisy] * nu), 1e-300)).sum())

    if reached(0.0) <= variance:
        return np.zeros(free.shape)
    low, high = 0.0, spread.sum() / variance
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reached(middle) > variance else (low, middle)
    return np.asarray(np.maximum(spread * high - free, 0.0))
