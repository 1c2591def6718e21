"""When an agent leaves for good: never, some day, after so many acts, or in anger. Nobody is told that it has left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.numerics import mix, uniform
from freepull.randomness import ARM, STEP
from freepull.registry import part

__all__ = ["AfterActs", "AnyOf", "AtRandom", "InAnger", "Leaving", "Stays"]

NEVER = 1 << 62
_STEP, _COINS, _MEMBERS = np.uint64(STEP), np.uint64(ARM), np.uint64(2 * ARM % (1 << 64))
"""An agent's key for leaving has three stacks: whether it is one of a share, its coins, the keys of `AnyOf`."""


@jit
def is_one(share: float, key: Any) -> bool:
    """Whether the agent with this key is one of the share of agents who leave so."""
    return bool(uniform(mix(key + _STEP)) < share)


@jit
def last_step(share: float, after: Any, horizon: int, key: Any) -> Any:
    """The last step before the agent leaves at random; far beyond the horizon if it does not."""
    if after >= horizon or not is_one(share, key):
        return NEVER
    return after + min(int(uniform(mix(key + _COINS + _STEP)) * float(horizon - after)), horizon - after - 1)


@jit
def gives_up(probability: float, acts: int, key: Any) -> bool:
    """Whether the coin for this act says that an angry agent leaves."""
    return bool(uniform(mix(key + _COINS + _STEP * np.uint64(acts))) < probability)


@jit
def member_key(key: Any, i: int) -> Any:
    """The key from which the i-th of several reasons to leave draws, counted from 0."""
    return mix(key + _MEMBERS + _STEP * np.uint64(i + 1))


@runtime_checkable
class Leaving(Protocol):
    """The contract for every way of leaving, built in or a user's own, which may keep either method from here.

    It is the same object for all agents that share it: who differs from whom follows from the key, which is the agent's
    own in this run (see `freepull.randomness`).
    """

    def until(self, key: int, horizon: int) -> int:
        """Return the last step in which the agent may act, whatever happens; by default none is the last."""
        return NEVER

    def leaves(self, key: int, acts: int, reward: float) -> bool:
        """Say whether the agent leaves after its act number ``acts`` = 1, 2, …, which gave this reward."""
        return False


@part("leaving", "stays", kernel=0)
@dataclass(frozen=True)
class Stays(Leaving):
    """Never leave."""


@part("leaving", "at-random", kernel=1)
@dataclass(frozen=True)
class AtRandom(Leaving):
    """A share of the agents leaves, each at a step of its own, drawn uniformly from after+1…T: gone from that step on.

    >>> some = AtRandom(share=1.0, after=50)
    >>> all(50 <= some.until(key=key, horizon=60) < 60 for key in range(100))
    True
    """

    share: float
    after: int = 0

    def __post_init__(self) -> None:
        validation.keep_real(self, "share", 0.0, 1.0)
        validation.keep_whole(self, "after", 0)

    def until(self, key: int, horizon: int) -> int:
        """The step before the one that was drawn."""
        return int(last_step(float(self.share), min(self.after, NEVER), horizon, np.uint64(key)))


@part("leaving", "after-acts", kernel=2)
@dataclass(frozen=True)
class AfterActs(Leaving):
    """Leave after so many acts.

    >>> AfterActs(3).leaves(key=1, acts=2, reward=1.0), AfterActs(3).leaves(key=1, acts=3, reward=1.0)
    (False, True)
    """

    acts: int

    def __post_init__(self) -> None:
        validation.keep_whole(self, "acts", 1)

    def leaves(self, key: int, acts: int, reward: float) -> bool:
        """After the last one."""
        return acts >= self.acts


@part("leaving", "in-anger", kernel=3)
@dataclass(frozen=True)
class InAnger(Leaving):
    """A share of the agents is angry: a poor reward may make them leave, so who stays depends on what they got.

    Parameters
    ----------
    share
        The share of agents who are angry.
    after
        So many first acts are forgiven.
    reward
        What is poor: a reward of at most this.
    probability
        With which an angry agent leaves after a poor reward.

    >>> furious = InAnger(share=1.0, after=5, probability=1.0)
    >>> [furious.leaves(key=1, acts=acts, reward=reward) for acts, reward in [(5, 0.0), (6, 1.0), (6, 0.0)]]
    [False, False, True]
    """

    share: float
    after: int = 5
    reward: float = 0.0
    probability: float = 0.1

    def __post_init__(self) -> None:
        validation.keep_real(self, "share reward probability", 0.0, 1.0)
        validation.keep_whole(self, "after", 0)

    def leaves(self, key: int, acts: int, reward: float) -> bool:
        """If the agent is angry, the reward poor and the coin against staying."""
        word = np.uint64(key)
        return (
            acts > self.after
            and reward <= self.reward
            and is_one(float(self.share), word)
            and gives_up(float(self.probability), acts, word)
        )


@part("leaving", "any-of", nested=("leaving",), kernel=4)
@dataclass(frozen=True)
class AnyOf(Leaving):
    """Several reasons to leave, each with draws of its own: the first that applies ends it.

    >>> AnyOf([AtRandom(0.1, after=50), InAnger(0.05)]).leaving[1].probability
    0.1
    """

    leaving: Sequence[Leaving]

    def __post_init__(self) -> None:
        given = tuple(self.leaving) if isinstance(self.leaving, list | tuple) else ()
        if not given or not all(isinstance(one, Leaving) and not isinstance(one, AnyOf | type) for one in given):
            raise InvalidInput(
                "leaving must be a list of one or more ways to leave, none of them AnyOf, got "
                f"{validation.shown(self.leaving)}."
            )
        object.__setattr__(self, "leaving", given)

    def until(self, key: int, horizon: int) -> int:
        """The earliest of all."""
        return min(one.until(own, horizon) for one, own in self._each(key))

    def leaves(self, key: int, acts: int, reward: float) -> bool:
        """If one of them says so."""
        return any(one.leaves(own, acts, reward) for one, own in self._each(key))

    def _each(self, key: int) -> list[tuple[Leaving, int]]:
        return [(one, int(member_key(np.uint64(key), i))) for i, one in enumerate(self.leaving)]
