"""The record: pulls and reward sums per agent and arm, O(KM) whatever the horizon, and exact sums over agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import zeros
from freepull.principal.work import STREAMS, Work, finish, pieces
from freepull.rewards import UNITS as UNITS

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]
ONE = 1 << 40
"""The number 1 in the fixed-point sums over agents."""
BATCH = 1 << 20
"""So many pulls at once cannot make a change of these sums overflow."""
_FINER = ONE // UNITS
_INVERSES, _MEANS, _FIRST = range(3)


def units(reward: float) -> int:
    """Round a reward half-even to a multiple of 2⁻³⁰."""
    return round(reward * UNITS)


def many_units(rewards: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round rewards as `units` does."""
    return np.rint(rewards * UNITS).astype(np.int64)


class Record:
    """N_km and S_km, and per arm Σ_m ⌊2⁴⁰/N_km⌋ and Σ_m ⌊2⁴⁰·S_km/N_km⌋ as integers.

    Integers make the sums independent of the order in which pulls came in: buying equalises counts, so ties between
    arms are common, and with floats they would be broken at random. An unpulled stream adds 0 to both sums.

    A stream (agent, arm) is the number agent·K + arm where many are entered at once. It takes 12 bytes.
    """

    def __init__(self, agents: int, arms: int) -> None:
        self.agents, self.arms = agents, arms
        self.pulls: Words = zeros((agents, arms), np.uint32)
        self.sums: NDArray[np.int64] = zeros((agents, arms), np.int64)
        self.inverse_sums = [0] * arms
        self.mean_sums = [0] * arms
        self.unpulled = [agents] * arms
        """How many agents have never pulled the arm."""
        self.changes: NDArray[np.int64] = np.zeros((arms, 3), np.int64)
        """What compiled functions have to add to the three lists, see `note`."""

    def add(self, agent: int, arm: int, reward: int) -> None:
        """Count one pull, its reward in units of 2⁻³⁰."""
        enter(self.pulls, self.sums, self.changes, agent, arm, reward)
        self.note(arm, arm + 1)

    def add_many(self, streams: Words, rewards: Words) -> None:
        """Count pulls in their order."""
        for first, last in pieces(len(streams), BATCH):
            enter_many(self.pulls, self.sums, self.changes, streams[first:last], rewards[first:last])
            self.note(0, self.arms)

    def note(self, first: int, last: int) -> None:
        """Add the changes of a range of arms to the sums."""
        for k, change in enumerate(self.changes[first:last].tolist(), first):
            self.inverse_sums[k] += change[_INVERSES]
            self.mean_sums[k] += change[_MEANS]
            self.unpulled[k] -= change[_FIRST]
        self.changes[first:last] = 0

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        lists = {"inverse_sums": self.inverse_sums, "mean_sums": self.mean_sums, "unpulled": self.unpulled}
        return lists | {"pulls": self.pulls, "sums": self.sums}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        np.copyto(self.pulls, parts["pulls"])
        np.copyto(self.sums, parts["sums"])
        self.inverse_sums, self.mean_sums = parts["inverse_sums"], parts["mean_sums"]
        self.unpulled = parts["unpulled"]

    def global_mean(self, arm: int) -> float:
        """μ̂_k (docs/statistics.md, algorithm), with μ̂_km = 0 where N_km = 0."""
        return self.mean_sums[arm] / ONE / self.agents

    def sample_mean(self, agent: int, arm: int) -> float:
        """μ̂_km."""
        n = int(self.pulls[agent, arm])
        return int(self.sums[agent, arm]) / UNITS / n if n else 0.0

    def weighted_mean(self, arm: int, weights: Floats) -> float:
        """Σ_m p_m·μ̂_km, added up agent by agent."""
        return float(finish(self.weighted_means(weights))[arm])

    def weighted_means(self, weights: Floats) -> Work[Floats]:
        """Σ_m p_m·μ̂_km of every arm, added up agent by agent."""
        totals = np.zeros(self.arms)
        for first, last in pieces(self.agents, STREAMS // self.arms):
            add_weighted(totals, self.pulls, self.sums, weights, first, last)
            yield
        return totals


@jit
def enter(pulls: Any, sums: Any, changes: Any, m: int, k: int, reward: Any) -> None:
    """Count one pull, and note what that changes in the sums over agents."""
    n, s = np.int64(pulls[m, k]), sums[m, k]
    if n > 0:
        changes[k, _INVERSES] -= ONE // n
        changes[k, _MEANS] -= _mean(s, n)
    else:
        changes[k, _FIRST] += 1
    n, s = n + 1, s + np.int64(reward)
    changes[k, _INVERSES] += ONE // n
    changes[k, _MEANS] += _mean(s, n)
    pulls[m, k], sums[m, k] = n, s


@jit
def _mean(s: Any, n: Any) -> Any:
    """⌊2⁴⁰·S/N⌋ for a sum in units of 2⁻³⁰, in steps that cannot overflow."""
    whole = s // n
    return whole * _FINER + (s - whole * n) * _FINER // n


@jit
def enter_many(pulls: Any, sums: Any, changes: Any, streams: Any, rewards: Any) -> None:
    """Count pulls in their order."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        enter(pulls, sums, changes, streams[i] // K, streams[i] % K, rewards[i])


@jit
def add_weighted(totals: Any, pulls: Any, sums: Any, weights: Any, first: int, last: int) -> None:
    """Add p_m·μ̂_km of some agents to every arm's total."""
    for m in range(first, last):
        for k in range(totals.shape[0]):
            mean = 0.0
            if pulls[m, k] > 0:
                mean = float(sums[m, k]) * 2.0**-30 / float(pulls[m, k])
            totals[k] += weights[m] * mean
