"""Bayes-UCB: the upper quantile of what the agent believes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.agents.base import Indexed
from freepull.numerics import beta_upper
from freepull.registry import part


@part("agents", "bayes-ucb")
@dataclass
class BayesUCB(Indexed):
    """Pick the largest upper quantile of Beta(1 + S, 1 + N − S); S may be fractional. An unpulled arm comes first.

    Parameters
    ----------
    c
        Weight of the log log term in the level, which is 1 − 1/(t·(log t)^c), where the paper has the logarithm of the
        horizon; 0 works best in practice, the theory asks for 5.

    References
    ----------
    Kaufmann, Cappé and Garivier, *On Bayesian upper confidence bounds for bandit problems*, AISTATS 2012.

    >>> agent = BayesUCB()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    c: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "c", 0.0)

    @staticmethod
    def index(pulls: float, total: float, t: int, params: Any) -> float:
        """The q that the belief exceeds with probability 1/(t·(log t)^c); log t counts as 1 at least."""
        log_t = math.log(float(t))
        tail = -log_t - params.c * math.log(max(log_t, 1.0))
        return float(beta_upper(1.0 + total, 1.0 + (pulls - total), tail))
