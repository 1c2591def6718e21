"""MOSS: optimism only for arms that had less than their share of pulls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.agents.base import Indexed
from freepull.registry import part

ANYTIME = 1.175
"""(1 + α)/2 with α = 1.35, which Degenne and Perchet use where the horizon is not known."""


@part("agents", "moss")
@dataclass
class MOSS(Indexed):
    """Pick the largest minimax upper bound (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    horizon
        How many pulls the agent will make; 0, if it does not know: then its clock t takes the place.

    References
    ----------
    Audibert and Bubeck, *Minimax policies for adversarial and stochastic bandits*, COLT 2009;
    Degenne and Perchet, *Anytime optimal algorithms in stochastic multi-armed bandits*, ICML 2016 (without a horizon).

    >>> agent = MOSS()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    horizon: int = 0

    def __post_init__(self) -> None:
        validation.keep_whole(self, "horizon", 0)

    @staticmethod
    def index(pulls: float, mean: float, root: float, t: int, arms: int, params: Any) -> float:
        """S/N + √(log⁺(T/(K·N)))·(1/√N); without T, S/N + √(1.175·log⁺(t/(K·N)))·(1/√N)."""
        time, weight = (params.horizon, 1.0) if params.horizon > 0.0 else (float(t), ANYTIME)
        return mean + math.sqrt(weight * max(math.log(time / (float(arms) * pulls)), 0.0)) * root
