"""The arrays that limit.c plays on, after the first pull of every arm."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases import Case

TOY = np.array([[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]])


def address(array: NDArray[Any]) -> ctypes.c_void_p:
    """Where the array's numbers lie."""
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


def thresholds(means: NDArray[np.float64]) -> NDArray[np.uint64]:
    """What a 64-bit word must stay below for a coin with this mean to show heads."""
    return np.minimum(means * 2.0**64, 2.0**64 - 2.0**11).astype(np.uint64)


def keys(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """One random word a lane."""
    return rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)


class Small:
    """K = 3, [arm][lane]: the lanes are agents, or the runs of one agent."""

    def __init__(self, case: Case, agent: int = 0) -> None:
        lanes = case.runs * (case.agents if case.phase == "observing" else 1)
        rng = np.random.default_rng(agent)
        means = np.repeat(TOY[agent][:, None], lanes, axis=1)
        heads = (rng.random(means.shape) < means).astype(float)
        self.arrays: list[NDArray[Any]] = [
            heads, np.ones_like(heads), heads.copy(), np.ones(means.shape, np.int64), thresholds(means),
            keys(rng, lanes),
        ]  # fmt: skip

    @classmethod
    def together(cls, parts: Sequence[Small]) -> Small:
        """[agent][arm][lane]."""
        made = cls.__new__(cls)
        made.arrays = [np.stack(arrays) for arrays in zip(*(part.arrays for part in parts), strict=True)]
        return made

    @property
    def addresses(self) -> list[ctypes.c_void_p]:
        """Means, roots, sums, pulls, thresholds, keys."""
        return [address(array) for array in self.arrays]


class Large:
    """Any K, [vector][arm][8]: the paper's random family, counts packed (sums in the upper half)."""

    def __init__(self, lanes: int, arms: int, seed: int = 0) -> None:
        self.vectors = lanes // 8
        rng = np.random.default_rng(seed)
        centres = 0.4 + 0.005 * np.arange(arms)
        means = rng.normal(centres[:, None], 0.1, (self.vectors, arms, 8)).clip(0.0, 1.0)
        heads = (rng.random(means.shape) < means).astype(float)
        counts = heads.astype(np.uint64) * np.uint64(1 << 32) + np.uint64(1)
        self.arrays: list[NDArray[Any]] = [heads, np.ones_like(heads), counts, thresholds(means), keys(rng, lanes)]

    @property
    def addresses(self) -> list[ctypes.c_void_p]:
        """Means, roots, counts, thresholds, keys."""
        return [address(array) for array in self.arrays]
