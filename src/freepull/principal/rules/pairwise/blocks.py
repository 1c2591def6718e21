"""How streams are cut into blocks: levels that are fixed beforehand, sizes from a stream's own earlier samples.

What is chosen here changes the cost, never the validity (docs/certified.md, pairwise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.principal.setting import Setting
from freepull.registry import part

LONG = 30
"""Pulls of an arm by an agent from which a first block of 30 is a small part."""
ENOUGH = 1 << 40
"""Levels are laid out up to here; no stream gets so long."""


@part("blocks", "blocks")
@dataclass(frozen=True)
class Blocks:
    """How streams are cut.

    Parameters
    ----------
    first_block, first_level
        Samples of every stream in the first block, and the levels r_0 that it counts for, at most as many.
    growth
        r_c is this share of all levels before it, at least 1.
    neyman
        A block has samples in proportion to the spread of its stream, √(p̂(1−p̂)) = ``neyman`` counting 1 and nothing
        below 1; None: a sample a level.
    """

    first_block: int = 1
    first_level: int = 1
    growth: float = 0.1
    neyman: float | None = None

    def __post_init__(self) -> None:
        checks.keep_whole(self, "first_block", 1, 1 << 30)
        checks.keep_whole(self, "first_level", 1, 1 << 30)
        checks.keep_real(self, "growth", 0.02, 10.0)
        if self.neyman is not None:
            checks.keep_real(self, "neyman", 0.01, 0.5)
        if self.first_level > self.first_block:
            raise InvalidInput(
                f"first_level must be at most first_block = {self.first_block}, got {checks.shown(self.first_level)}."
            )

    def levels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return r_c and R_c, their sums, for c = 0, 1, …"""
        found, reached = [int(self.first_level)], [int(self.first_level)]
        while reached[-1] < ENOUGH:
            found.append(max(1, math.ceil(self.growth * reached[-1])))
            reached.append(reached[-1] + found[-1])
        return np.array(found, np.int64), np.array(reached, np.int64)


def auto(setting: Setting) -> Blocks:
    """Choose from K and κ: where an agent acts only some dozen times, a first block of 30 is useless."""
    if (setting.expected_kappa or 0) < 10 * LONG * setting.arms:
        return Blocks()
    return Blocks(first_block=30, first_level=6, neyman=0.1)


@jit
def prediction(total: int, pulls: int) -> Any:
    """x̂ = (½ + own sum)/(own n + 1), from a stream's samples so far, their sum in units of 2⁻³⁰."""
    return (0.5 + float(total) * 2.0**-30) / (float(pulls) + 1.0)


@jit
def block_size(level: int, total: int, pulls: int, neyman: float) -> Any:
    """b ≥ r: r·clip(√(p̂(1−p̂))/neyman, 1, ½/neyman), p̂ = (own sum + 1)/(own n + 2); r where neyman is 0."""
    if neyman == 0.0:
        return np.int64(level)
    p = (float(total) * 2.0**-30 + 1.0) / (float(pulls) + 2.0)
    return np.int64(math.ceil(float(level) * min(max(math.sqrt(p * (1.0 - p)) / neyman, 1.0), 0.5 / neyman)))
