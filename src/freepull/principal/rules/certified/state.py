"""The certified rule at work: samples fill the round or wait for a later one, and full rounds are evaluated."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from freepull.principal.record import UNITS, Record
from freepull.principal.rules.base import STACKS
from freepull.principal.rules.certified.books import Fill, blank, fresh
from freepull.principal.rules.certified.design import design, fill_spreads, prediction
from freepull.principal.rules.certified.evaluation import eliminate, evaluate, evidence
from freepull.principal.rules.need import fill_needed
from freepull.principal.rules.owing import OwingState
from freepull.principal.rules.window import smallest_gap
from freepull.principal.setting import Setting

if TYPE_CHECKING:
    from freepull.principal.rules.certified.rule import Certified

MARGINS = np.concatenate([[0.0], np.round(0.4 * 1.25 ** -np.arange(24.0), 5)[::-1]])
"""The x for which W_k(x) is kept."""


class CertifiedState(OwingState):
    """The books of one trial, and the samples that wait."""

    proven = True
    stepwise = False
    assumptions = STACKS

    def __init__(self, rule: Certified, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        K, M = setting.arms, setting.agents
        self.delta = rule.delta
        self.title = f"the certified rule at δ = {rule.delta:g} (proven)"
        self.constants, prior = rule.constants(setting, MARGINS)
        self.used, self.coming = fresh(K, M, self.constants, prior)
        self.fill = Fill(np.zeros((K, M)), np.zeros((K, M)))
        self.measure = blank(K, self.constants)
        self.have = np.zeros((K, M), np.int64)
        """Samples of the coming round that are there."""
        self.waiting: dict[tuple[int, int], array[int]] = {}
        """Samples beyond the coming round, in units of 2⁻³⁰, unread."""
        self._begin_round()

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Put a sample into the coming round, or let it wait."""
        if self.have[arm, agent] < self.coming.blocks[arm, agent]:
            self._enter(arm, agent, reward)
        elif self.coming.blocks[arm, agent] > 0 and not self.decided:
            self.waiting.setdefault((arm, agent), array("I")).append(reward)

    def _enter(self, arm: int, agent: int, reward: int) -> None:
        x = reward / UNITS
        error = x - prediction(self.used, arm, agent)
        self.have[arm, agent] += 1
        self.fill.sums[arm, agent] += x
        self.fill.errors[arm, agent] += error * error
        if self.have[arm, agent] == self.coming.blocks[arm, agent]:
            self.owing -= 1

    def _begin_round(self) -> None:
        """Design the coming round, and let the samples enter that have waited for it."""
        design(self.used, self.coming, self.constants)
        for book in (self.have, self.fill.sums, self.fill.errors):
            book[...] = 0
        self.owing = int((self.coming.blocks > 0).sum())
        """Streams that have not given all that the coming round needs."""
        for (k, m), rewards in list(self.waiting.items()):
            entering = min(len(rewards), int(self.coming.blocks[k, m]))
            for reward in rewards[:entering]:
                self._enter(k, m, reward)
            self.waiting[k, m] = rewards[entering:]
            if entering == len(rewards) or not self.used.active[k]:
                del self.waiting[k, m]

    def evaluate(self, incentivizing: bool) -> None:
        """Evaluate every round that is full."""
        while self.owing == 0 and not self.decided:
            evaluate(self.used, self.coming, self.fill, self.measure, self.constants)
            eliminate(self.used, self.coming, self.constants)
            self.active = [alive == 1 for alive in self.used.active]
            if self.decided:
                self.waiting.clear()
            else:
                self._begin_round()

    def owed(self, agent: int, arm: int) -> int:
        """Return what a stream still owes to the coming round."""
        return int(self.coming.blocks[arm, agent] - self.have[arm, agent]) if self.active[arm] else 0

    def missing(self) -> list[list[float]]:
        """(n_k − N_km)⁺, n_k from the sample means so far (`fill_needed`) with β = log(1/δ) + 3."""
        K, spreads, needed = self.setting.arms, np.zeros(self.setting.arms), np.zeros(self.setting.arms)
        fill_spreads(self.used, self.constants, spreads)
        means = np.array([self.mean(k) for k in range(K)])
        smallest = smallest_gap(self.setting, self.delta)
        fill_needed(needed, means, self.used.active, spreads, self.constants.confidence + 3.0, smallest)
        return [
            [
                max(needed[k] - int(self.record.pulls[m, k]), 0.0) if self.setting.weights[m] > 0 else 0.0
                for k in range(K)
            ]
            for m in range(self.setting.agents)
        ]

    def evidence(self) -> list[float]:
        """ΣC_k against every arm: an arm goes when it reaches 1/δ, and stays as it was then."""
        return [float(evidence(self.coming, 0, k)) for k in range(self.setting.arms)]

    def worse_by(self) -> list[float]:
        """Return for every arm the largest x for which max_j μ_j − μ_k > x is proven, 0 if none is.

        Each holds at all times with probability 1 − δ; not all of them together.
        """
        proven = self.coming.peaks >= self.constants.threshold
        return [float(MARGINS[proven[:, k]].max(initial=0.0)) for k in range(self.setting.arms)]

    def bounds(self) -> list[float]:
        """Return the evidence against every arm."""
        return self.evidence()
