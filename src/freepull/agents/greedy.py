"""Agents that do not think ahead: in turn, always the best so far, and mostly the best so far."""

from __future__ import annotations

from dataclasses import dataclass

from freepull import validation
from freepull.agents.base import Learner, TriesAllFirst, first_largest
from freepull.randomness import CHOICE_ARM, CHOICE_COIN, uniform, word
from freepull.registry import part


@part("agents", "round-robin", kernel=5)
@dataclass
class RoundRobin(Learner):
    """Pick arm (t − 1) mod K. Paid pulls do not shift the turn.

    >>> agent = RoundRobin()
    >>> agent.start(arms=3)
    >>> [agent.pick(t) for t in range(1, 5)]
    [0, 1, 2, 0]
    """

    def pick(self, t: int) -> int:
        """The arm whose turn it is."""
        return (t - 1) % len(self.pulls)


@part("agents", "greedy", kernel=4)
@dataclass
class Greedy(TriesAllFirst):
    """Always pick the best sample mean, an unpulled arm first. It never explores on purpose.

    References
    ----------
    Frazier, Kempe, Kleinberg and Kleinberg, *Incentivizing exploration*, EC 2014.

    >>> agent = Greedy()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    def choose(self, t: int) -> int:
        """The arm with the largest sample mean."""
        return first_largest([S / N for S, N in zip(self.sums, self.pulls, strict=True)])


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
