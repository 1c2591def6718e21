"""What agents and gateways do: ask for an offer, tell pulls. Most of it is hot, see `hot`."""

from __future__ import annotations

from litestar import get

from freepull.errors import FreepullError
from freepull.messages import Me
from freepull.server.hot import CAMPAIGN, Visit, hot
from freepull.server.problems import described
from freepull.server.routes.common import ACT, BEARER, READ, WRITE, Asked, InPath, find, needs, visitor_of
from freepull.server.schemas import Batch, BatchReply, OfferReply, Pull, ToldReply, told_reply


@hot("me/offer", "agent", responses=ACT, tags=["agents"])
async def offer(visit: Visit) -> OfferReply:
    """Is there an offer for me? Asking again returns the same one while it is open."""
    found = await visit.hosting.find(visit.campaign)
    return OfferReply(await found.campaign.ask(visit.visitor.own_number))


@hot("me/observations", "agent", responses=ACT, tags=["agents"])
async def observe(visit: Visit, data: Pull) -> ToldReply:
    """Tell one pull of mine; with an event it is safe to repeat."""
    found = await visit.hosting.find(visit.campaign)
    told = await found.campaign.tell(visit.visitor.own_number, data.arm, data.reward, data.event)
    visit.metrics.observations(1)
    return told_reply(told)


@hot("observations:batch", "admin", "gateway", responses=WRITE, tags=["gateway"])
async def batch(visit: Visit, data: Batch) -> BatchReply:
    """Tell pulls of many agents, in one commit; each has a result of its own."""
    found = await visit.hosting.find(visit.campaign)
    rows = [(it.agent, it.arm, it.reward, it.event) for it in data.observations]
    told = await found.campaign.tell_each(rows, by=f"token {visit.visitor.id}")
    visit.metrics.observations(sum(not isinstance(it, FreepullError) for it in told))
    return BatchReply([told_reply(it) for it in told])


@get(
    CAMPAIGN + "me",
    before_request=needs("agent"),
    responses=READ | described(429),
    security=BEARER,
    return_dto=None,
    tags=["agents"],
)
async def me(request: Asked, campaign: InPath) -> Me:
    """What I may know: the campaign's status, my pulls, my open offer."""
    return await (await find(request, campaign)).view.me(visitor_of(request).own_number)


HOT = [offer, observe, batch]
HANDLERS = [*(it.handler() for it in HOT), me]
