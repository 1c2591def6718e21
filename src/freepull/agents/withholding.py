"""A learner who leaves one arm alone for a while: what a strategist does who wants to be paid for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.agents.base import Indexed
from freepull.registry import part


@part("agents", "withholding")
@dataclass
class Withholding(Indexed):
    """α-UCB, but for one arm that it does not pull of its own accord up to some step, once it has tried it.

    Lemma 1 of the paper is silent on this: what an agent does not pull by itself, the principal pays for.

    Parameters
    ----------
    arm
        The arm; −1 for none.
    until
        The last step, by its own clock, in which it withholds it.
    alpha
        How much it explores otherwise; little is a way of withholding too.

    >>> agent = Withholding(arm=1, until=10)
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3), agent.pick(11)
    (0, 1)
    """

    arm: int = -1
    until: int = 0
    alpha: float = 2.0

    def __post_init__(self) -> None:
        validation.keep_whole(self, "arm", -1)
        validation.keep_whole(self, "until", 0)
        validation.keep_real(self, "alpha", 0.0, open_low=True)

    @staticmethod
    def index(mean: float, root: float, arm: int, t: int, params: Any) -> float:
        """S/N + √(α·log t)·(1/√N), and −∞ for the arm that is withheld."""
        if float(arm) == params.arm and float(t) <= params.until:
            return -math.inf
        return float(mean + math.sqrt(params.alpha * math.log(float(t))) * root)
