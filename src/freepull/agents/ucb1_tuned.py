"""UCB1-tuned: UCB with the variance that was seen, capped by the largest that there can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from freepull.agents.base import Indexed
from freepull.registry import part


@part("agents", "ucb1-tuned")
@dataclass
class UCB1Tuned(Indexed):
    """Pick the largest upper bound with a capped sample variance (docs/mechanics.md, agents), an unpulled arm first.

    It has no proof, and does well in practice.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002, section 4.

    >>> agent = UCB1Tuned()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    @staticmethod
    def index(squares: float, mean: float, root: float, t: int) -> float:
        """S/N + √(log t/N·min(¼, V + √(2·log t/N))), V being the sample variance, and 1/N the square of 1/√N."""
        variance = max(squares * (root * root) - mean * mean, 0.0)
        spread = math.log(float(t)) * (root * root)
        return mean + math.sqrt(spread * min(0.25, variance + math.sqrt(2.0 * spread)))
