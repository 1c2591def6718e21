"""α-UCB: the learner of the paper's theorems and experiments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from freepull import validation
from freepull.agents.base import TriesAllFirst, first_largest
from freepull.numerics import exploration
from freepull.registry import part


@part("agents", "alpha-ucb", kernel=0)
@dataclass
class AlphaUCB(TriesAllFirst):
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

    def choose(self, t: int) -> int:
        """S/N + s_t·(1/√N), each operation rounded on its own."""
        s = exploration(self.alpha, t)
        return first_largest([S / N + s * (1.0 / math.sqrt(N)) for S, N in zip(self.sums, self.pulls, strict=True)])
