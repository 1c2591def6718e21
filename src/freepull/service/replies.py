"""What is answered, where it is not one of `freepull.live.replies` as it is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from freepull.errors import FreepullError
from freepull.live import Money, Offer, Told
from freepull.service.problems import Problem, problem


class CampaignRow(msgspec.Struct):
    """A campaign, and who has it."""

    name: str
    owner: str
    """The address of the process that owns it; empty: nobody."""
    here: bool
    status: str | None
    """None if it is not here."""
    decided: bool | None


class ToldReply(msgspec.Struct):
    """The reply to a pull; the same again if it is told again."""

    event: int | None = None
    """The pull's place in the log; null if the number is an old one, whose reply is not kept."""
    outcome: str | None = None
    """What became of the open offer: paid, refused, cancelled, or null if there was none."""
    offer: int | None = None
    paid: Money | None = None
    error: Problem | None = None
    """Why this one of a batch was not told."""


def told_reply(told: Told | FreepullError) -> ToldReply:
    """Return a reply to one pull."""
    return ToldReply(error=problem(told)) if isinstance(told, FreepullError) else ToldReply(*told)


class BatchReply(msgspec.Struct):
    """A reply for every pull, in their order."""

    results: list[ToldReply]


class OfferReply(msgspec.Struct):
    """The offer, or null if there is none now."""

    offer: Offer | None


class Me(msgspec.Struct):
    """What an agent may know."""

    agent: str
    campaign: str
    status: str
    phase: str | None
    arms: list[str]
    pulls: list[int]
    """The agent's own, by arm."""
    offer: Offer | None
    banned: bool
    next_number: int
    """The number of the next event, for agents who number them."""


class Enrolled(msgspec.Struct):
    """The numbers of new agents."""

    numbers: list[int]


class AgentToken(msgspec.Struct):
    """An agent's token."""

    agent: str
    token: str


class AgentTokens(msgspec.Struct):
    """Tokens, shown once."""

    tokens: list[AgentToken]


class MadeToken(msgspec.Struct):
    """A token, shown once."""

    id: str
    token: str
    scope: str
    campaign: str
    expires: datetime | None


class Snapshot(msgspec.Struct):
    """After how many events of the log it was taken."""

    events: int


class Mine(msgspec.Struct):
    """What a token is good for."""

    id: str
    scope: str
    """admin, read or gateway."""
    campaign: str
    """The only campaign it is for; empty: all."""


class Imported(msgspec.Struct):
    """How many rows of a file were new."""

    observations: int


class AgentRow(msgspec.Struct):
    """One agent, as it stands."""

    number: int
    name: str
    pulls: list[int]
    """By arm; empty for late joiners, and before the start."""
    state: str
    """active, banned, parked, left, or late."""
    offer: int | None
