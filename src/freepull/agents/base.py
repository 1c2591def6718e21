"""What an agent is: it picks an arm, then learns from the reward. Everything else is its own affair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@runtime_checkable
class Agent(Protocol):
    """The contract for every agent, built in or a user's own.

    The simulator copies the object it was given once for every agent and run, so an agent may keep any state. If it
    has a method ``start(arms, key)``, that is called first, with the number of arms and a 64-bit key of its own from
    which it may draw (see `freepull.randomness`).
    """

    def pick(self, t: int) -> int:
        """Return the arm to pull at step t = 1, 2, …; called only when no offer was taken."""
        ...

    def learn(self, arm: int, reward: float) -> None:
        """Take note of a pull, paid ones included; the bonus is never part of the reward."""
        ...


@dataclass
class Learner:
    """An agent that keeps the pulls N and the reward sums S of its own arms."""

    pulls: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    sums: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    key: int = field(default=0, init=False, repr=False, compare=False)

    def start(self, arms: int, key: int = 0) -> None:
        """Forget everything and prepare for this many arms."""
        self.pulls, self.sums, self.key = [0] * arms, [0.0] * arms, key

    def learn(self, arm: int, reward: float) -> None:
        """Count the pull and add up its reward."""
        self.pulls[arm] += 1
        self.sums[arm] += reward


@dataclass
class TriesAllFirst(Learner):
    """A learner that pulls every arm once, the lowest first, before it chooses."""

    def pick(self, t: int) -> int:
        """An unpulled arm, or the agent's choice."""
        return self.pulls.index(0) if 0 in self.pulls else self.choose(t)

    def choose(self, t: int) -> int:
        """Return the arm to pull at step t, when every arm was pulled."""
        raise NotImplementedError


def first_largest(values: list[float]) -> int:
    """Return the position of the largest value; of several, the lowest."""
    return values.index(max(values))
