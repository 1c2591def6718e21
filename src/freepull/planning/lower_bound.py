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
GOLDEN = (math.sqrt(5) - 1) / 2


def lower_bound(game: Game, free_pulls: Any, delta: float) -> Array:
    """Return the M×K pulls to buy, beyond the free ones, at the least total that can tell the best arm at error δ.

    Infinite where two arms tie for best.
    """
    checks.real("delta", delta, 0.0, 0.5, open_low=True, open_high=True)
    free = checks.numbers("free_pulls", free_pulls)
    if free.shape != game.means.shape or not (free >= 0).all():
        raise InvalidInput(
            f"free_pulls must be {game.agents} × {game.arms} numbers of at least 0, got {checks.shown(free)}."
        )
    rivals = [k for k in range(game.arms) if k != game.best]
    information = (1 - 2 * delta) * math.log((1 - delta) / delta)  # kl(δ, 1−δ)
    room = {k: float(game.gaps[k]) ** 2 / (2 * information) for k in rivals}
    tightest = min(room.values())
    if tightest == 0.0:
        return np.full(free.shape, np.inf)
    tanks = _Tanks(game.weights[:, None] * np.sqrt(game.variances), free)

    def bought(share: float) -> Array:
        """What to buy if the best arm's variance takes this share of the tightest room."""
        taken = share * tightest
        return tanks.filled(np.array([room[k] - taken if k in room else taken for k in range(game.arms)]))

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if bought(left).sum() <= bought(right).sum():
            high = right
        else:
            low = left
    return bought(0.5 * (low + high))


class _Tanks:
    """Water-filling, arm by arm: the fewest pulls to add, everybody up to N = spread·ν (Neyman)."""

    def __init__(self, spread: Array, free: Array) -> None:
        self.spread, self.free = spread, free
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(spread > 0, free / spread, np.inf)
            noise = np.where(spread > 0, spread**2 / free, 0.0)
        order = np.argsort(level, axis=0)
        level, noise = np.take_along_axis(level, order, 0), np.take_along_axis(noise, order, 0)
        self.raised = np.cumsum(np.take_along_axis(spread, order, 0), axis=0)
        """Σ spread over the agents with the lowest levels, and the noise of all others beside."""
        self.rest = np.concatenate([noise[::-1].cumsum(axis=0)[::-1][1:], np.zeros((1, noise.shape[1]))])
        with np.errstate(divide="ignore", invalid="ignore"):
            self.reached = np.nan_to_num(self.raised / level, nan=0.0, posinf=np.inf) + self.rest

    def filled(self, variance: Array) -> Array:
        """Return n such that Σ_m spread²/(free + n) ≤ variance in every arm."""
        count = (self.reached > variance).sum(axis=0)
        last, arms = np.maximum(count - 1, 0), np.arange(len(variance))
        nu = np.where(count > 0, self.raised[last, arms] / (variance - self.rest[last, arms]), 0.0)
        return np.asarray(np.maximum(self.spread * nu - self.free, 0.0))
