"""Agents who are optimistic: α-UCB, the paper's, and KL-UCB."""

from __future__ import annotations

import math
from dataclasses import dataclass

from freepull import validation
from freepull.agents.base import Learner, first_largest
from freepull.numerics import exploration, kl_budget, kl_index
from freepull.registry import part


@part("agents", "alpha-ucb", kernel=0)
@dataclass
class AlphaUCB(Learner):
    """Pick the arm with the largest upper confidence bound (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    alpha
        How much it explores; the paper uses 2, its theorem needs at least 3/2.

    References
    ----------
    Bubeck and Cesa-Bianchi, *Regret analysis of stochastic and nonstochastic multi-armed bandit problems*, 2012;
    Auer, Cesa-Bianchi and Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002 (α = 2).

    >>> agent = AlphaUCB(alpha=2.0)
    >>> agent.start(arms=2)
    >>> for t, reward in [(1, 1.0), (2, 0.0)]:
    ...     agent.learn(agent.pick(t), reward)
    >>> agent.pulls, agent.pick(3)
    ([1, 1], 0)
    """

    alpha: float = 2.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "alpha", 0.0, open_low=True)

    def pick(self, t: int) -> int:
        """S/N + s_t·(1/√N), each operation rounded on its own."""
        unpulled = self.unpulled()
        if unpulled is not None:
            return unpulled
        s = exploration(self.alpha, t)
        return first_largest([S / N + s * (1.0 / math.sqrt(N)) for S, N in zip(self.sums, self.pulls, strict=True)])


@part("agents", "kl-ucb", kernel=1)
@dataclass
class KLUCB(Learner):
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

    def pick(self, t: int) -> int:
        """The arm with the largest index."""
        unpulled = self.unpulled()
        if unpulled is not None:
            return unpulled
        budget = kl_budget(self.c, t)
        return first_largest([kl_index(S / N, float(N), budget) for S, N in zip(self.sums, self.pulls, strict=True)])
