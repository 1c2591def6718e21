"""What is played: one phase of the mechanism, at one size, over the same steps by every program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import freepull as fp
from freepull.instances import PAPER_MEANS

PAPER = fp.rules.Paper(delta=0.01)
"""Strict enough that none of the games here is ever decided."""


@dataclass(frozen=True)
class Case:
    """The steps first…last of some runs of M agents and K arms."""

    phase: str
    agents: int
    arms: int
    runs: int
    first: int
    last: int
    horizon: int = 100_000
    rule: fp.rules.Rule = PAPER
    offers: str = "one"

    @property
    def name(self) -> str:
        return f"{self.phase} {self.agents}×{self.arms}"

    @property
    def agent_steps(self) -> int:
        return self.runs * self.agents * (self.last - self.first + 1)

    @property
    def game(self) -> fp.Game:
        """The paper's toy for 2 × 3, one of its random family otherwise."""
        return _game(self.agents, self.arms)

    @property
    def principal(self) -> fp.Principal:
        """A principal, by default the paper's, who only watches, or starts to pay right before the first step."""
        watched = self.horizon if self.phase == "observing" else self.first - 1
        return fp.Principal(self.rule, observe=fp.observe.Steps(watched), offers=self.offers)


@cache
def _game(agents: int, arms: int) -> fp.Game:
    if (agents, arms) == (2, 3):
        return fp.instances.toy()
    known = arms <= len(PAPER_MEANS)
    means = PAPER_MEANS[:arms] if known else np.linspace(PAPER_MEANS[0], PAPER_MEANS[-1], arms).tolist()
    return fp.instances.Family(agents=agents, means=means, sd=0.1)(np.random.default_rng(0))


OBSERVING_SMALL = Case("observing", 2, 3, runs=512, first=4, last=15_000)
OBSERVING_LARGE = Case("observing", 120, 30, runs=8, first=31, last=8_000)
INCENTIVIZING_SMALL = Case("incentivizing", 2, 3, runs=256, first=15_001, last=25_000)
INCENTIVIZING_LARGE = Case("incentivizing", 120, 30, runs=8, first=3_001, last=6_000)
CASES = (OBSERVING_SMALL, INCENTIVIZING_SMALL, OBSERVING_LARGE, INCENTIVIZING_LARGE)
