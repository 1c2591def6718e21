"""What is answered, where it is not one of `freepull.messages` as it is."""

from __future__ import annotations

import msgspec

from freepull.errors import FreepullError
from freepull.messages import CampaignOffer, Outcome, Scope, Told
from freepull.money import Money
from freepull.service.problems import Problem, problem


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

    offer: CampaignOffer | None
    """A bonus on one arm, until a time."""


class Mine(msgspec.Struct):
    """What a token is good for."""

    id: str
    """By which it is listed and revoked."""
    scope: Scope
    """admin, read or gateway."""
    campaign: str
    """The only campaign it is for; empty: all."""
