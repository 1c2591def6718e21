"""KL-UCB: optimism measured in Kullback-Leibler divergence."""

from __future__ import annotations

from dataclasses import dataclass

from freepull import validation
from freepull.agents.base import TriesAllFirst, first_largest
from freepull.numerics import kl_budget, kl_index
from freepull.registry import part


@part("agents", "kl-ucb", kernel=1)
@dataclass
class KLUCB(TriesAllFirst):
    """Pick the arm with the largest upper bound by divergence (docs/mechanics.md, agents), an unpulled arm first.

    kl is that of two coins, which is valid for any reward in [0, 1].

    Parameters
    ----------
    c
        Weight of the log log term (0 for t < 3); 0 works best in practice, the theory asks for 3.

    References
    ----------
    Garivier and Cappé, *The KL-UCB algorithm for bounded stochastic bandits and beyond*, COLT 2011.

    >>> agent = KLUCB()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 1.0); agent.learn(1, 0.0)
    >>> agent.pick(3)
    0
    """

    c: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "c", 0.0)

    def choose(self, t: int) -> int:
        """The arm with the largest index."""
        budget = kl_budget(self.c, t)
        return first_largest([kl_index(S / N, float(N), budget) for S, N in zip(self.sums, self.pulls, strict=True)])
