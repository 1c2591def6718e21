"""What a campaign answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from freepull.live.money import Money
from freepull.principal import Grounds


class Observation(NamedTuple):
    """One pull, as an agent tells it."""

    agent: str | int
    arm: str | int
    reward: float
    event: str | int | None = None
    """An id that makes telling safe to repeat, or the agent's own number of the event: 1, 2, 3 …"""


@dataclass(frozen=True)
class Offer:
    """A bonus on one arm, to one agent, until a time."""

    id: int
    agent: str
    arm: str
    bonus: Money
    expires: datetime


class Told(NamedTuple):
    """The reply to a pull; the same again if it is told again."""

    event: int | None
    """The pull's place in the log; None if the number is an old one, whose reply is not kept."""
    outcome: str | None = None
    """What became of the agent's open offer: paid, refused, cancelled (it had been taken back), or None."""
    offer: int | None = None
    paid: Money | None = None


@dataclass(frozen=True)
class Verdict:
    """The arm, whether it is decided and certified, why, and what that rests on."""

    arm: str | None
    """None before anybody has pulled any."""
    decided: bool
    certified: bool
    why: str
    step: int | None
    """The step whose end decided it."""
    spent: Money
    rests_on: Grounds

    def __str__(self) -> str:
        standing = "certified" if self.certified else "decided, not certified" if self.decided else "undecided"
        when = f" at step {self.step}" if self.step is not None else ""
        return f"{self.arm or 'no arm'} ({standing}{when}, {self.spent} spent): {self.why}"


@dataclass(frozen=True)
class Arm:
    """One arm, as it stands."""

    name: str
    active: bool
    mean: float | None
    """The global sample mean, over those who have pulled it; None while nobody has."""
    bound: float | None
    """What stops the trial: evidence that goes up to the threshold, or the paper's confidence bound."""
    pulls: int
    paid: int


@dataclass(frozen=True)
class Status:
    """How a campaign stands."""

    name: str
    status: str
    """enrolling, running, paused or stopped."""
    why: str
    """Why it was stopped."""
    phase: str | None
    """observing, incentivizing, decided or over; None before the start."""
    mode: str
    step: int
    in_step: int
    """Pulls since the last step ended; a step in free mode is as many as there are agents."""
    horizon: int | None
    kappa: int | None
    agents: int
    late_joiners: int
    observations: int
    observed_only: int
    arms: list[Arm] = field(repr=False)
    threshold: float | None
    """An arm goes when its bound reaches this; None where the rule has no such number."""
    leader: str | None
    decided: bool
    certified: bool
    offered: int
    open_offers: int
    paid: int
    refused: int
    expired: int
    cancelled: int
    banned: int
    absent: int
    awaited: list[str]
    """Agents without whom the rule cannot go on, or the round cannot close; at most ten of them."""
    spent: Money
    reserved: Money
    budget: Money | None
    events: int
    at: datetime


@dataclass(frozen=True)
class LedgerEntry:
    """One payment."""

    entry: int
    offer: int
    agent: str
    arm: str
    amount: Money
    at: datetime


@dataclass(frozen=True)
class OfferRow:
    """One offer, ended or not."""

    offer: int
    agent: str
    arm: str
    step: int
    at: datetime
    expires: datetime
    recalled: bool
    ending: str | None
    ended: datetime | None


@dataclass(frozen=True)
class BanRow:
    """One ban."""

    agent: str
    offer: int
    """The offer that was refused."""
    step: int
    until: int | None
    """The last step of the ban; None if it is for ever."""
    at: datetime
    lifted: datetime | None


@dataclass(frozen=True)
class AuditEntry:
    """Something that somebody did, or that the campaign concluded."""

    event: int
    at: datetime
    who: str
    action: str
    detail: dict[str, Any]
