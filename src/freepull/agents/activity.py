"""How often an agent acts: in every step, or only now and then. One who does not act in a step is idle in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from freepull import validation
from freepull.numerics import acting_chance, lognormal_rate
from freepull.registry import part

__all__ = ["Activity", "EveryStep", "Lognormal", "Rate"]


@runtime_checkable
class Activity(Protocol):
    """The contract for every activity, built in or a user's own.

    It is the same object for all agents that share it: who differs from whom follows from the key.
    """

    def chance(self, key: int, t: int) -> float:
        """Return the probability that an agent acts in step t = 1, 2, …

        ``key`` is the agent's own in this run, to draw from what is its own (see `freepull.randomness`). The coin that
        decides is tossed by the engine.
        """
        ...


@part("activity", "every-step", kernel=0)
@dataclass(frozen=True)
class EveryStep:
    """Act in every step, as the paper's agents do; nothing is drawn."""

    def chance(self, key: int, t: int) -> float:
        """Surely."""
        return 1.0


@part("activity", "rate", kernel=1)
@dataclass(frozen=True)
class Rate:
    """Act with probability 1 − exp(−rate) in a step: at least one of the arrivals that come at this rate a step.

    >>> round(Rate(0.05).chance(key=1, t=1), 4)
    0.0488
    """

    rate: float

    def __post_init__(self) -> None:
        validation.keep_real(self, "rate", 0.0)

    def chance(self, key: int, t: int) -> float:
        """1 − exp(−rate)."""
        return acting_chance(float(self.rate))


@part("activity", "lognormal", kernel=2)
@dataclass(frozen=True)
class Lognormal:
    """A rate of its own for every agent, drawn once a run: many come rarely, a few very often, some never.

    Parameters
    ----------
    median
        The rate a step that half of those who come at all stay below.
    sigma
        The standard deviation of the logarithm of rates; 0: all come equally often.
    silent
        The share of agents who never come.

    References
    ----------
    Malmgren, Stouffer, Motter and Amaral, *A Poissonian explanation for heavy tails in e-mail communication*, PNAS
    2008: people act in bursts, and at rates that differ by orders of magnitude.

    >>> crowd = Lognormal(median=0.05, sigma=0.8, silent=0.04)
    >>> len({crowd.chance(key=key, t=1) for key in range(5)}), crowd.chance(key=1, t=1) == crowd.chance(key=1, t=9)
    (5, True)
    """

    median: float
    sigma: float
    silent: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "median", 0.0, open_low=True)
        validation.keep_real(self, "sigma", 0.0)
        validation.keep_real(self, "silent", 0.0, 1.0)

    def chance(self, key: int, t: int) -> float:
        """1 − exp(−rate), the same in every step."""
        return _lognormal(float(self.median), float(self.sigma), float(self.silent), key)


@lru_cache(maxsize=1 << 16)
def _lognormal(median: float, sigma: float, silent: float, key: int) -> float:
    return acting_chance(lognormal_rate(median, sigma, silent, np.uint64(key)))
