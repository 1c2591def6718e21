"""The obvious compiled program: agent by agent, arm by arm, a division and a square root for each, in a Numba loop.

Its chance is the same as ours: the reward of the n-th pull of an arm is a mix of the agent's key, the arm and n.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numba
import numpy as np

from freepull import randomness

from .cases import Case

_ARM, _STEP = np.uint64(randomness.ARM), np.uint64(randomness.STEP)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def observe(means: Any, sums: Any, pulls: Any, thresholds: Any, keys: Any, first: int, last: int) -> None:
    """Play the steps first…last of α-UCB with α = 2; every arm was pulled before."""
    agents, arms = sums.shape
    for agent in range(agents):
        for t in range(first, last + 1):
            budget = 2.0 * math.log(t)
            best, arm = -math.inf, 0
            for k in range(arms):
                index = means[agent, k] + math.sqrt(budget / float(pulls[agent, k]))
                if index > best:
                    best, arm = index, k
            pulls[agent, arm] += 1
            word = keys[agent] + _ARM * np.uint64(arm) + _STEP * np.uint64(pulls[agent, arm])
            word = (word ^ (word >> _30)) * _M1
            word = (word ^ (word >> _27)) * _M2
            if word ^ (word >> _31) < thresholds[agent, arm]:
                sums[agent, arm] += 1.0
            means[agent, arm] = sums[agent, arm] / float(pulls[agent, arm])


def measure(case: Case) -> float:
    """Return ns per agent-step."""
    rng = np.random.default_rng(0)
    means = case.game.means
    sums = (rng.random(means.shape) < means).astype(float)
    pulls = np.ones(means.shape, np.int64)
    thresholds = np.minimum(means * 2.0**64, 2.0**64 - 2.0**11).astype(np.uint64)
    keys = rng.integers(0, 2**64 - 1, len(means), dtype=np.uint64)
    began = time.thread_time()
    observe(sums.copy(), sums, pulls, thresholds, keys, case.first, case.last)
    steps = case.agents * (case.last - case.first + 1)
    return (time.thread_time() - began) / steps * 1e9
