"""How an agent answers an offer: take it, or refuse and pick for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from freepull import validation
from freepull.registry import part

__all__ = ["Always", "Answer", "HoldOut", "IfWorthIt", "Never", "Situation", "WithProbability"]


@dataclass(frozen=True)
class Situation:
    """All that an agent may look at when an offer is on the table."""

    t: int
    arm: int
    bonus: float
    nth: int
    """Which of the agent's offers this is, counted from 1."""
    pulls: Sequence[int]
    sums: Sequence[float]
    coin: float
    """A number in [0, 1) drawn for this agent and step."""


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
        means = [S / N if N else 0.5 for S, N in zip(offer.sums, offer.pulls, strict=True)]
        return offer.bonus >= max(means) - means[offer.arm]
