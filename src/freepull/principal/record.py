"""The record: pulls and reward sums per agent and arm, O(KM) whatever the horizon, and exact sums over agents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freepull.rewards import UNITS as UNITS

ONE = 1 << 40
"""The number 1 in the fixed-point sums over agents."""


def units(reward: float) -> int:
    """Round a reward half-even to a multiple of 2⁻³⁰."""
    return round(reward * UNITS)


class Record:
    """N_km and S_km, and per arm Σ_m ⌊2⁴⁰/N_km⌋ and Σ_m ⌊2⁴⁰·S_km/N_km⌋ as integers.

    Integers make the sums independent of the order in which pulls came in: buying equalises counts, so ties between
    arms are common, and with floats they would be broken at random. An unpulled stream adds 0 to both sums.
    """

    def __init__(self, agents: int, arms: int) -> None:
        self.agents, self.arms = agents, arms
        self.pulls: NDArray[np.int64] = np.zeros((agents, arms), np.int64)
        self.sums: NDArray[np.int64] = np.zeros((agents, arms), np.int64)
        self.inverse_sums = [0] * arms
        self.mean_sums = [0] * arms
        self.unpulled = [agents] * arms
        """How many agents have never pulled the arm."""

    def add(self, agent: int, arm: int, reward: int) -> None:
        """Count one pull, its reward in units of 2⁻³⁰."""
        n, s = int(self.pulls[agent, arm]), int(self.sums[agent, arm])
        if n:
            self.inverse_sums[arm] -= ONE // n
            self.mean_sums[arm] -= (s * (ONE // UNITS)) // n
        else:
            self.unpulled[arm] -= 1
        n, s = n + 1, s + reward
        self.inverse_sums[arm] += ONE // n
        self.mean_sums[arm] += (s * (ONE // UNITS)) // n
        self.pulls[agent, arm], self.sums[agent, arm] = n, s

    def global_mean(self, arm: int) -> float:
        """μ̂_k = (1/M)·Σ_m μ̂_km, with μ̂_km = 0 where N_km = 0."""
        return self.mean_sums[arm] / ONE / self.agents

    def sample_mean(self, agent: int, arm: int) -> float:
        """μ̂_km."""
        n = int(self.pulls[agent, arm])
        return int(self.sums[agent, arm]) / UNITS / n if n else 0.0

    def weighted_mean(self, arm: int, weights: NDArray[np.float64]) -> float:
        """Σ_m p_m·μ̂_km, added up agent by agent."""
        total = 0.0
        for agent in range(self.agents):
            total += float(weights[agent]) * self.sample_mean(agent, arm)
        return total
