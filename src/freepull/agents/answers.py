"""How an agent answers an offer: take it, or refuse and pick for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from freepull import validation
from freepull.agents.base import check_formulas, formula, parameters
from freepull.registry import part
from freepull.rewards import seen_means

__all__ = [
    "Always", "Answer", "Formula", "HoldOut", "IfWorthIt", "Never", "Reluctant", "Situation", "WithProbability",
    "WorthAtLeast",
]  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """All that an agent may look at when an offer is on the table."""

    t: int
    """The agent's own clock: 1 at its first act. Where everybody acts in every step, that is the step."""
    arm: int
    bonus: float
    nth: int
    """Which of the agent's offers this is, counted from 1."""
    pulls: Sequence[int]
    sums: Sequence[float]
    coin: float
    """A number in [0, 1) drawn for this agent and t."""
    lot: float = 0.0
    """A number in [0, 1) drawn for this agent once a run."""
    loss: float = 0.0
    """What the arm truly costs the agent against its best one, on average: for those who know their own taste."""


@runtime_checkable
class Answer(Protocol):
    """The contract for every answer, built in or a user's own."""

    def takes(self, offer: Situation) -> bool:
        """Say whether the agent takes the offer."""
        ...


@part("answers", "always", kernel=0)
@dataclass(frozen=True)
class Always:
    """Take every offer: optimal under Take-or-Ban (Lemma 1 of the paper)."""

    def takes(self, offer: Situation) -> bool:
        """Say yes."""
        return True


@part("answers", "never", kernel=1)
@dataclass(frozen=True)
class Never:
    """Refuse every offer."""

    def takes(self, offer: Situation) -> bool:
        """Say no."""
        return False


@part("answers", "with-probability", kernel=2)
@dataclass(frozen=True)
class WithProbability:
    """Take an offer with probability p, by a coin of its own (the paper's Fig. 3 has p = 0.8)."""

    p: float = 0.8

    def __post_init__(self) -> None:
        validation.keep_real(self, "p", 0.0, 1.0)

    def takes(self, offer: Situation) -> bool:
        """Say whether the coin falls below p."""
        return offer.coin < self.p


@part("answers", "hold-out", kernel=3)
@dataclass(frozen=True)
class HoldOut:
    """Refuse the first n offers, then take all: an agent that hopes for more."""

    n: int = 1

    def __post_init__(self) -> None:
        validation.keep_whole(self, "n", 0)

    def takes(self, offer: Situation) -> bool:
        """From the (n+1)-th offer on."""
        return offer.nth > self.n


@part("answers", "if-worth-it", kernel=4)
@dataclass(frozen=True)
class IfWorthIt:
    """Take an offer if the bonus makes up for the loss that the agent itself expects: bonus ≥ max_j μ̂_j − μ̂_k.

    An arm it never pulled counts as ½.
    """

    def takes(self, offer: Situation) -> bool:
        """Compare the bonus with the agent's own estimate of the loss."""
        means = seen_means(offer.pulls, offer.sums)
        return offer.bonus >= max(means) - means[offer.arm]


@part("answers", "reluctant", kernel=5)
@dataclass(frozen=True)
class Reluctant:
    """A share of the agents refuses an offer with some probability; the others take every offer.

    >>> offer = Situation(t=1, arm=0, bonus=1.0, nth=1, pulls=(0, 0), sums=(0.0, 0.0), coin=0.1, lot=0.15)
    >>> Reluctant(share=0.2, probability=0.3).takes(offer), Reluctant(share=0.1, probability=0.3).takes(offer)
    (False, True)
    """

    share: float
    probability: float

    def __post_init__(self) -> None:
        validation.keep_real(self, "share", 0.0, 1.0)
        validation.keep_real(self, "probability", 0.0, 1.0)

    def takes(self, offer: Situation) -> bool:
        """Unless the agent is reluctant and its coin says no."""
        return offer.lot >= self.share or offer.coin >= self.probability


@part("answers", "worth-at-least", kernel=6)
@dataclass(frozen=True)
class WorthAtLeast:
    """Take an offer from a reservation price on: ``taste`` times the agent's true gap, and an amount of its own.

    The amount is drawn once a run, evenly from ``low`` to ``high``. With ``taste=0`` it is all that counts.

    >>> offer = Situation(t=1, arm=0, bonus=0.3, nth=1, pulls=(0, 0), sums=(0.0, 0.0), coin=0.1, lot=0.5, loss=0.2)
    >>> WorthAtLeast(0.0, 0.1).takes(offer), WorthAtLeast(0.1, 0.2).takes(offer)
    (True, False)
    """

    low: float = 0.0
    high: float = 0.1
    taste: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "low", 0.0)
        validation.keep_real(self, "high", self.low)
        validation.keep_real(self, "taste", 0.0)

    def takes(self, offer: Situation) -> bool:
        """Compare the bonus with the reservation price."""
        return offer.bonus >= self.taste * offer.loss + (self.low + (self.high - self.low) * offer.lot)


@dataclass(frozen=True)
class Formula:
    """An answer of your own that both engines run: a class with a static method ``accepts``.

    It is a plain function of numbers, or one that Numba has compiled, and takes whichever of these it asks for by name:
    what a `Situation` has, ``t``, ``arm``, ``bonus``, ``nth``, ``pulls`` and ``sums`` (arrays), ``coin``, ``lot`` and
    ``loss``, and ``params``, which has the fields of the dataclass, all as numbers.

    >>> @dataclass(frozen=True)
    ... class Proud(Formula):
    ...     price: float = 0.5
    ...     @staticmethod
    ...     def accepts(bonus, nth, params):
    ...         return bonus >= params.price * nth
    >>> offer = Situation(t=1, arm=0, bonus=1.0, nth=2, pulls=(0, 0), sums=(0.0, 0.0), coin=0.1)
    >>> Proud().takes(offer), Proud(price=0.6).takes(offer)
    (True, False)
    """

    accepts: ClassVar[Callable[..., bool]]

    def __init_subclass__(cls) -> None:
        check_formulas(cls)

    def takes(self, offer: Situation) -> bool:
        """Say what the formula says."""
        accepts = formula(type(self), "accepts")
        seen = np.array(offer.pulls, float), np.array(offer.sums, float)
        told = offer.t, offer.arm, float(offer.bonus), offer.nth, *seen, offer.coin, offer.lot, offer.loss
        return bool(accepts(*told, parameters(self)))
