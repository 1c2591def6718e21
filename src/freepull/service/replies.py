"""What is answered, where it is not one of `freepull.live.replies` as it is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from freepull.errors import FreepullError
from freepull.live import Money, Offer, Told
from freepull.live.replies import Outcome, Phase, Standing, one_of
from freepull.service.access import SCOPES
from freepull.service.problems import Problem, problem

Scope = Annotated[str, one_of(*SCOPES)]


class CampaignRow(msgspec.Struct):
    """A campaign, and who has it."""

    name: str
    """Its name."""
    owner: str
    """The address of the process that owns it; empty: nobody."""
    here: bool
    """Whether that is this process."""
    status: Standing | None
    """enrolling, running, paused or stopped; null if it is not here."""
    decided: bool | None
    """Whether its rule has decided; null if it is not here."""


class ToldReply(msgspec.Struct):
    """The reply to a pull; the same again if it is told again."""

    event: int | None = None
    """The pull's place in the log; null if the number is an old one, whose reply is not kept."""
    outcome: Outcome | None = None
    """What became of the open offer: paid, refused, cancelled (it had been taken back), or null if there was none."""
    offer: int | None = None
    """The offer that this pull ended."""
    paid: Money | None = None
    """What was paid for this pull."""
    error: Problem | None = None
    """Why this one of a batch was not told."""


def told_reply(told: Told | FreepullError) -> ToldReply:
    """Return a reply to one pull."""
    return ToldReply(error=problem(told)) if isinstance(told, FreepullError) else ToldReply(*told)


class BatchReply(msgspec.Struct):
    """A reply for every pull, in their order."""

    results: list[ToldReply]
    """One for each, also for those that were refused."""


class OfferReply(msgspec.Struct):
    """The offer, or null if there is none now."""

    offer: Offer | None
    """A bonus on one arm, until a time."""


class Me(msgspec.Struct):
    """What an agent may know."""

    agent: str
    """Its name, or "#" and its number."""
    campaign: str
    """The campaign's name."""
    status: Standing
    """enrolling, running, paused or stopped."""
    phase: Phase | None
    """observing, incentivizing, decided or over; null before the start."""
    arms: list[str]
    """What can be pulled."""
    pulls: list[int]
    """The agent's own, by arm."""
    offer: Offer | None
    """The open offer, if there is one."""
    banned: bool
    """Whether it gets no offers because it refused some."""
    next_number: int
    """The number of the next event, for agents who number them."""


class Enrolled(msgspec.Struct):
    """The numbers of new agents."""

    numbers: list[int]
    """In the order in which they were sent."""


class AgentToken(msgspec.Struct):
    """An agent's token."""

    agent: str
    """Its name, or "#" and its number."""
    token: str
    """The secret; it cannot be shown again."""


class AgentTokens(msgspec.Struct):
    """Tokens, shown once."""

    tokens: list[AgentToken]
    """In the order in which agents were sent."""


class MadeToken(msgspec.Struct):
    """A token, shown once."""

    id: str
    """By which it is listed and revoked."""
    token: str
    """The secret; it cannot be shown again."""
    scope: Scope
    """admin, read or gateway."""
    campaign: str
    """The only campaign it is for; empty: all."""
    expires: datetime | None
    """When it ends; null: never."""


class Snapshot(msgspec.Struct):
    """A snapshot that was stored."""

    events: int
    """After how many events of the log it was taken."""


class Mine(msgspec.Struct):
    """What a token is good for."""

    id: str
    """By which it is listed and revoked."""
    scope: Scope
    """admin, read or gateway."""
    campaign: str
    """The only campaign it is for; empty: all."""


class Imported(msgspec.Struct):
    """What was told from a file."""

    observations: int
    """How many of its rows were new."""


class AgentRow(msgspec.Struct):
    """One agent, as it stands."""

    number: int
    """Agents are counted from 0."""
    name: str
    """Its name, or "#" and its number."""
    pulls: list[int]
    """By arm; empty for late joiners, and before the start."""
    state: Annotated[str, one_of("active", "banned", "parked", "left", "late")]
    """active; banned after a refusal; parked after three offers that expired; left; or late: only observed."""
    offer: int | None
    """Its open offer."""
