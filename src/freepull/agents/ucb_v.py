"""UCB-V: optimism that shrinks where rewards vary little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.agents.base import Indexed
from freepull.registry import part


@part("agents", "ucb-v")
@dataclass
class UCBV(Indexed):
    """Pick the largest upper bound by the sample variance (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    zeta
        How much it explores: ζ·log t takes the place of log t; the theory needs more than 1.
    c
        Weight of the term for rare rewards; 1 by default.

    References
    ----------
    Audibert, Munos and Szepesvári, *Exploration-exploitation tradeoff using variance estimates in multi-armed bandits*,
    Theoretical Computer Science 2009.

    >>> agent = UCBV()
    >>> agent.start(arms=2)
    >>> for _ in range(40):
    ...     agent.learn(0, 0.5); agent.learn(1, 0.4)
    >>> agent.pick(81)
    0
    """

    zeta: float = 1.2
    c: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "zeta", 0.0, open_low=True)
        validation.keep_real(self, "c", 0.0)

    @staticmethod
    def index(squares: float, mean: float, root: float, t: int, params: Any) -> float:
        """S/N + √(2·V·ζ·log t/N) + 3·c·ζ·log t/N, V being the sample variance, and 1/N the square of 1/√N."""
        variance = max(squares * (root * root) - mean * mean, 0.0)
        spread = params.zeta * math.log(float(t)) * (root * root)
        return float(mean + math.sqrt(2.0 * variance * spread) + 3.0 * params.c * spread)
