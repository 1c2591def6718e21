"""ε-greedy with decaying ε: mostly the best so far, now and then anything."""

from __future__ import annotations

from dataclasses import dataclass

from freepull import validation
from freepull.agents.base import TriesAllFirst, first_largest
from freepull.randomness import CHOICE_ARM, CHOICE_COIN, uniform, word
from freepull.registry import part


@part("agents", "epsilon-greedy", kernel=3)
@dataclass
class EpsilonGreedy(TriesAllFirst):
    """With a probability that falls as c·K/t pick any arm, else the best sample mean (docs/mechanics.md, agents).

    Parameters
    ----------
    c
        How long it explores.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002 (εₙ-greedy).

    >>> agent = EpsilonGreedy(c=0.0)
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    c: float = 5.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "c", 0.0)

    def choose(self, t: int) -> int:
        """Explore or exploit, by a coin keyed by t."""
        arms = len(self.pulls)
        if uniform(word(self.key, CHOICE_COIN, t)) < min(1.0, self.c * arms / t):
            return int(uniform(word(self.key, CHOICE_ARM, t)) * arms)
        return first_largest([S / N for S, N in zip(self.sums, self.pulls, strict=True)])
