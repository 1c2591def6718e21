"""Protocols: who may still be paid after a refusal.

Lemma 1 of the paper (taking every offer is optimal) needs Take-or-Ban and a bonus of at least the reward range. It
covers taking and refusing only: an agent may still withhold its natural pulls of an arm so as to become the one with
the fewest, and be paid for them. No protocol here prevents that; `pricing.BeyondNatural` leaves little to gain by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from freepull import validation
from freepull.registry import part

__all__ = ["BanAfter", "BanFor", "BanProtocol", "NeverBan", "TakeOrBan"]

FOREVER = 1 << 62


@runtime_checkable
class BanProtocol(Protocol):
    """The contract for every protocol."""

    def banned_until(self, t: int, refusals: int) -> int:
        """Return the last step of the ban that a refusal in step t earns, the agent's ``refusals``-th; t for no ban."""
        ...


@part("protocol", "take-or-ban", kernel=0)
@dataclass(frozen=True)
class TakeOrBan:
    """The paper's protocol: one refusal, and the agent is never paid again."""

    def banned_until(self, t: int, refusals: int) -> int:
        """For ever."""
        return FOREVER


@part("protocol", "ban-for", kernel=1)
@dataclass(frozen=True)
class BanFor:
    """A refusal in step t bans for the steps t+1…t+rounds."""

    rounds: int

    def __post_init__(self) -> None:
        validation.keep_whole(self, "rounds", 1)

    def banned_until(self, t: int, refusals: int) -> int:
        """For a number of steps."""
        return t + self.rounds


@part("protocol", "ban-after", kernel=2)
@dataclass(frozen=True)
class BanAfter:
    """The ``refusals``-th refusal in total bans for ever."""

    refusals: int

    def __post_init__(self) -> None:
        validation.keep_whole(self, "refusals", 1)

    def banned_until(self, t: int, refusals: int) -> int:
        """For ever, once there have been enough."""
        return FOREVER if refusals >= self.refusals else t


@part("protocol", "never-ban", kernel=3)
@dataclass(frozen=True)
class NeverBan:
    """Refusals have no consequence (the paper's Fig. 3)."""

    def banned_until(self, t: int, refusals: int) -> int:
        """Not at all."""
        return t
