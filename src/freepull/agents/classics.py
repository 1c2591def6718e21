"""The classics beside upper confidence bounds: round robin, greedy, ε-greedy, Thompson sampling and EXP3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from freepull import validation
from freepull.agents.base import Learner, Remembering, TriesAllFirst, first_largest
from freepull.numerics import beta_draw, decision_key
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


@part("agents", "thompson", kernel=2)
@dataclass
class Thompson(Learner):
    """Draw every arm's mean from Beta(1 + S, 1 + N − S) and pick the largest; S may be fractional.

    Draws are keyed by (seed, run, agent, t, arm, attempt), so they do not depend on what happened before.

    References
    ----------
    Thompson, *On the likelihood that one unknown probability exceeds another*, Biometrika 1933;
    Agrawal and Goyal, *Analysis of Thompson sampling for the multi-armed bandit problem*, COLT 2012.

    >>> agent = Thompson()
    >>> agent.start(arms=2, key=1)
    >>> for _ in range(200):
    ...     agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(401)
    1
    """

    def pick(self, t: int) -> int:
        """The arm with the largest draw."""
        keys = [np.uint64(decision_key(np.uint64(self.key), t, k)) for k in range(len(self.pulls))]
        beliefs = zip(self.sums, self.pulls, keys, strict=True)
        return first_largest([beta_draw(1.0 + S, 1.0 + (N - S), key) for S, N, key in beliefs])


@part("agents", "exp3")
@dataclass
class EXP3(Remembering):
    """Draw an arm with a probability that falls exponentially with its estimated losses (docs/mechanics.md, agents).

    It assumes nothing of the rewards. Of an arm that it drew with probability p, a reward x adds (1 − x)/p to the
    losses. A pull that brought a bonus was not drawn, so it adds nothing; one that was asked for at a price of 0 counts
    as drawn.

    Parameters
    ----------
    eta
        How fast it learns: η_t = eta·√(log K/(t·K)).

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, *The nonstochastic multiarmed bandit problem*, 2002;
    Bubeck and Cesa-Bianchi, *Regret analysis of stochastic and nonstochastic multi-armed bandit problems*, 2012
    (section 3.1, with losses and without a horizon).

    >>> agent = EXP3()
    >>> agent.start(arms=2, key=1)
    >>> for _ in range(400):
    ...     agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(801)
    1
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "eta", 0.0)

    @staticmethod
    def choice(memory: Any, t: int, arms: int, coin: float, params: Any) -> int:
        """The arm at which the probabilities, added up from the lowest arm on, exceed the coin."""
        rate = params.eta * math.sqrt(math.log(float(arms)) / (float(t) * float(arms)))
        least = memory[0]
        for k in range(1, arms):
            least = min(least, memory[k])
        whole = 0.0
        for k in range(arms):
            whole += math.exp(-rate * (memory[k] - least))
        reached = 0.0
        for k in range(arms - 1):
            reached += math.exp(-rate * (memory[k] - least))
            if coin * whole < reached:
                return k
        return arms - 1

    @staticmethod
    def note(memory: Any, arm: int, reward: float, paid: float, t: int, arms: int, params: Any) -> None:
        """Add (1 − x)/p to the losses of an arm that was drawn."""
        if paid > 0.0:
            return
        rate = params.eta * math.sqrt(math.log(float(arms)) / (float(t) * float(arms)))
        whole = 0.0
        for k in range(arms):
            whole += math.exp(-rate * (memory[k] - memory[arm]))
        memory[arm] += (1.0 - reward) * whole
