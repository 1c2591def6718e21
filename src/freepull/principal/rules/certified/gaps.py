"""The candidate gaps ℓ_i that are bet on, and how the first capital is spread over them (docs/certified.md, gaps)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from freepull.principal.rules.window import gap_window
from freepull.principal.setting import Setting

Floats = NDArray[np.float64]
LARGEST, RATIO, FEWEST = 0.4, 1.5, 13
INSIDE, EVEN = 0.8, 0.05
"""The share of the capital within the window, and, with a planned gap, the share that is spread evenly."""


def candidate_gaps(setting: Setting, delta: float, planned: float | None) -> tuple[Floats, Floats]:
    """Return ℓ_i = 0.4·1.5^{−i} and π_i: around a planned gap, else 80 % within the window.

    Without a horizon 80 % lie above 0.003. Weights that differ count as fewer agents, 1/Σp².
    """
    if planned is not None:
        gaps = _gaps(max(FEWEST, _position(planned) + 3))
        near = np.exp(-np.abs(np.log(gaps / planned)) / math.log(RATIO))
        return gaps, (1 - EVEN) * near / near.sum() + EVEN / len(gaps)
    if setting.horizon is None:
        gaps = _gaps(2 * FEWEST)
        return gaps, np.repeat([INSIDE / FEWEST, (1 - INSIDE) / FEWEST], FEWEST)
    kappa = setting.expected_kappa or 0
    agents = 1 / float((setting.weights**2).sum())
    lo, hi = gap_window(setting.arms, agents, setting.horizon, kappa, delta, setting.offers)
    gaps = _gaps(max(FEWEST, _position(lo) + 2))
    inside = (gaps >= lo / 1.2) & (gaps <= hi * 1.2)
    if not inside.any():
        return gaps, np.full(len(gaps), 1 / len(gaps))
    return gaps, INSIDE * inside / inside.sum() + (1 - INSIDE) / len(gaps)


def _gaps(count: int) -> Floats:
    return LARGEST * RATIO ** -np.arange(count, dtype=float)


def _position(gap: float) -> int:
    """Return how many candidates lie above a gap."""
    return max(0, math.ceil(math.log(LARGEST / gap) / math.log(RATIO)))
