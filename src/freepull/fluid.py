"""The fluid α-UCB agent: how often it will have pulled each arm, without simulating it (docs/statistics.md, fluid)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput

HALVINGS = 60


def natural_pulls(means: Any, t: float, alpha: float = 2.0) -> NDArray[np.float64]:
    """Return N_km(t) = α·log t/(c_m − μ_km)² for M×K means, with c_m such that Σ_k N_km = t.

    A law of large numbers for α-UCB, not a bound: within a few per cent where counts are in the hundreds.

    >>> natural_pulls([[0.89, 0.47, 0.01]], t=50_000).round().tolist()
    [[49862.0, 111.0, 27.0]]
    """
    mu = checks.numbers("means", means)
    if mu.ndim != 2 or not ((mu >= 0) & (mu <= 1)).all():
        raise InvalidInput(f"means must be a table of agents × arms in [0, 1], got {checks.shown(means)}.")
    checks.real("t", t, 1.0, open_low=True)
    checks.real("alpha", alpha, 0.0, open_low=True)
    bonus = alpha * math.log(t)
    best = mu.max(axis=1, keepdims=True)
    low, high = best + math.sqrt(bonus / t), best + math.sqrt(bonus * mu.shape[1] / t)
    for _ in range(HALVINGS):
        c = 0.5 * (low + high)
        too_many = (bonus / (c - mu) ** 2).sum(axis=1, keepdims=True) > t
        low, high = np.where(too_many, c, low), np.where(too_many, high, c)
    return np.asarray(bonus / (high - mu) ** 2)
