"""The fluid α-UCB agent: how often it will have pulled each arm, without simulating it (docs/statistics.md, fluid)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput

STEPS = 60
"""More than Newton's method ever takes."""


def natural_pulls(means: Any, t: float, alpha: float = 2.0) -> NDArray[np.float64]:
    """Return N_km(t) for M×K means: the pulls that keep all indices of an agent equal, t in all.

    A law of large numbers for α-UCB, not a bound: within a few per cent where counts are in the hundreds.

    >>> natural_pulls([[0.89, 0.47, 0.01]], t=50_000).round().tolist()
    [[49862.0, 111.0, 27.0]]
    """
    mu = validation.numbers("means", means)
    if mu.ndim != 2 or not ((mu >= 0) & (mu <= 1)).all():
        raise InvalidInput(f"means must be a table of agents × arms in [0, 1], got {validation.shown(means)}.")
    validation.real("t", t, 1.0, open_low=True)
    validation.real("alpha", alpha, 0.0, open_low=True)
    bonus, best = alpha * math.log(t), mu.max(axis=1)
    c = best + math.sqrt(bonus / t)
    for _ in range(STEPS):  # as in `highest_index`, for all agents at once
        inverse = 1.0 / (c[:, None] - mu)
        part = bonus * inverse * inverse
        step = 0.5 * (part.sum(axis=1) - t) / (part * inverse).sum(axis=1)
        c += step
        if (step <= 1e-9 * (c - best)).all():
            break
    return np.asarray(bonus / (c[:, None] - mu) ** 2)


@jit
def highest_index(means: Any, bonus: float, t: float) -> float:
    """c with Σ_k bonus/(c − μ_k)² = t, bonus = α·log t: what all indices of one agent stand at.

    The sum is convex and falls with c, so Newton's method from below stays below.
    """
    K = means.shape[0]
    best = means[0]
    for k in range(1, K):
        best = max(best, means[k])
    c = best + math.sqrt(bonus / t)
    for _ in range(STEPS):
        total, slope = 0.0, 0.0
        for k in range(K):
            inverse = 1.0 / (c - means[k])
            part = bonus * inverse * inverse
            total += part
            slope += part * inverse
        step = 0.5 * (total - t) / slope
        c += step
        if step <= 1e-9 * (c - best):
            break
    return float(c)
