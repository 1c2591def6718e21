"""Disturbances: worlds in which an assumption of the proofs is wrong, to see what breaks (docs/mechanics.md, worlds).

A disturbance moves the means of rewards, or lets reports come late or never. Both engines call the functions below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.numerics import mix, uniform
from freepull.randomness import ARM, MASK, STEP
from freepull.registry import part

__all__ = ["Disturbance", "Drift", "PaidBias", "Reports", "Shocks"]

_STEP, _63 = np.uint64(STEP), np.uint64(63)
NEVER = -1
"""Of a report: it does not come."""


class Disturbance:
    """The contract for every disturbance, built in or a user's own, who overrides what is disturbed.

    Coins come up with a probability that is moved by the sum of all shifts, other rewards are moved themselves; both
    stay within [0, 1]. What a result says of games, such as ``regret``, is about means that nothing moves.
    """

    def shift(self, arm: int, t: int, horizon: int, paid: bool, key: int) -> float:
        """Return by how much the mean of a pull in step t = 1, 2, … is moved; ``key`` is one for all in a run."""
        return 0.0


@part("disturbances", "drift", kernel=0)
@dataclass(frozen=True)
class Drift(Disturbance):
    """Means move evenly, by so much from the beginning to the end: those of one arm, or of all (−1).

    >>> Drift(0.2, arm=1).shift(arm=1, t=50, horizon=100, paid=False, key=0)
    0.1
    """

    by: float
    arm: int = -1

    def __post_init__(self) -> None:
        validation.keep_real(self, "by", -1.0, 1.0)
        validation.keep_whole(self, "arm", -1)

    def shift(self, arm: int, t: int, horizon: int, paid: bool, key: int) -> float:
        """By·t/T."""
        return float(drifted(float(self.by), self.arm, arm, t, horizon))


@part("disturbances", "shocks", kernel=1)
@dataclass(frozen=True)
class Shocks(Disturbance):
    """In every period of so many steps the means of all agents and arms are moved by this, up or down by one coin."""

    by: float
    period: int = 1

    def __post_init__(self) -> None:
        validation.keep_real(self, "by", 0.0, 1.0)
        validation.keep_whole(self, "period", 1)

    def shift(self, arm: int, t: int, horizon: int, paid: bool, key: int) -> float:
        """± by."""
        return float(shock(float(self.by), self.period, t, np.uint64(key)))


@part("disturbances", "paid-bias", kernel=2)
@dataclass(frozen=True)
class PaidBias(Disturbance):
    """A paid pull is worth so much more, or less, than an unpaid one of the same agent and arm."""

    by: float

    def __post_init__(self) -> None:
        validation.keep_real(self, "by", -1.0, 1.0)

    def shift(self, arm: int, t: int, horizon: int, paid: bool, key: int) -> float:
        """By, if it is paid."""
        return float(self.by) if paid else 0.0


@part("disturbances", "reports", kernel=3)
@dataclass(frozen=True)
class Reports(Disturbance):
    """Some pulls are told late, and some never: the principal does not know of them, their agents do.

    A pull that answers an offer is always told at once, since nobody is paid or banned before it is told.
    """

    late: float = 0.0
    """With this probability a pull is told…"""
    steps: int = 1
    """…so many steps later, after what the agent tells of that step itself…"""
    missing: float = 0.0
    """…and with this one never."""

    def __post_init__(self) -> None:
        validation.keep_real(self, "late missing", 0.0, 1.0)
        validation.keep_whole(self, "steps", 1)
        if self.late + self.missing > 1.0:
            raise InvalidInput(
                f"late + missing must be at most 1, which all reports are, got {self.late + self.missing:g}."
            )

    def delay(self, t: int, key: int) -> int:
        """Return how many steps late the pull of step t is told, 0 for none, −1 for never; ``key`` is the agent's."""
        return int(delay(float(self.late), self.steps, float(self.missing), t, np.uint64(key)))


def own_key(key: int, nth: int) -> int:
    """Return the key of the nth disturbance of a run, so that two of a kind differ."""
    return (key + ARM * nth) & MASK


@jit
def drifted(by: float, only: int, arm: int, t: int, horizon: int) -> float:
    """By how much the mean of an arm has moved at step t."""
    return by * (float(t) / float(horizon)) if only < 0 or only == arm else 0.0


@jit
def shock(by: float, period: int, t: int, key: Any) -> float:
    """By how much all means are moved in the period of step t."""
    up = mix(key + _STEP * np.uint64((t - 1) // period + 1)) >> _63
    return by if up == 0 else -by


@jit
def delay(late: float, steps: int, missing: float, t: int, key: Any) -> int:
    """How many steps late a report comes, −1 for never."""
    coin = uniform(mix(key + _STEP * np.uint64(t)))
    if coin < missing:
        return NEVER
    return steps if coin < missing + late else 0


@jit
def moved_level(level: Any, shift: float) -> Any:
    """The level below which a word's first 53 bits mean 1, moved."""
    return np.int64(min(max(float(level) + np.rint(shift * 2.0**53), 0.0), 2.0**53))


@jit
def moved_units(units: Any, shift: float) -> Any:
    """A reward in units of 2⁻³⁰, moved."""
    return np.int64(min(max(float(units) + np.rint(shift * 2.0**30), 0.0), 2.0**30))
