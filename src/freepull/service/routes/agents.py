"""What agents and gateways do: ask for an offer, tell pulls."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get, post
from litestar.params import Body as In

from freepull.live.desk import Desk
from freepull.live.waking import awaited
from freepull.messages import Me
from freepull.service import quick
from freepull.service.bodies import Batch, Pull
from freepull.service.decoding import Strict
from freepull.service.guards import needs, visitor_of
from freepull.service.problems import described
from freepull.service.replies import BatchReply, OfferReply, ToldReply
from freepull.service.routes.common import ACT, BEARER, READ, WRITE, Asked, InPath, find, house_of

OWN: dict[str, Any] = {"before_request": needs("agent"), "responses": ACT, "security": BEARER, "return_dto": None}


@post("/campaigns/{campaign:str}/me/offer", status_code=200, tags=["agents"], **OWN)
async def offer(request: Asked, campaign: InPath) -> OfferReply:
    """Is there an offer for me? Asking again returns the same one while it is open."""
    return await quick.offer(house_of(request), visitor_of(request), campaign)


@post("/campaigns/{campaign:str}/me/observations", status_code=200, dto=Strict[Pull], tags=["agents"], **OWN)
async def observe(request: Asked, campaign: InPath, data: Annotated[Pull, In()]) -> ToldReply:
    """Tell one pull of mine; with an event it is safe to repeat."""
    return await quick.observe(house_of(request), request.app.state.metrics, visitor_of(request), campaign, data)


@get("/campaigns/{campaign:str}/me", tags=["agents"], **{**OWN, "responses": READ | described(429)})
async def me(request: Asked, campaign: InPath) -> Me:
    """What I may know: the campaign's status, my pulls, my open offer."""
    found = await find(request, campaign)
    core, number = found.campaign.blocking.core, visitor_of(request).agent
    assert number is not None

    def look(desk: Desk, at: int) -> Me:
        state, trial = desk.state, desk.state.started
        counted = trial is not None and number < state.panel
        standing = state.offers.open.get(number)
        return Me(
            agent=core.register.shown(number),
            campaign=core.name,
            status=state.status,
            phase=None if trial is None else trial.phase,
            arms=core.register.arms,
            pulls=trial.record.pulls[number].tolist() if trial is not None and counted else [],
            offer=None if standing is None or standing.recalled or state.rehearsals else core.offer(standing),
            banned=trial is not None and counted and bool(trial.bans.until[number] > trial.steps),
            next_number=state.people.last_number(number) + 1,
        )

    return await awaited(core.do(look))


@post(
    "/campaigns/{campaign:str}/observations:batch",
    status_code=200,
    dto=Strict[Batch],
    return_dto=None,
    before_request=needs(*quick.TELLERS),
    responses=WRITE,
    security=BEARER,
    tags=["gateway"],
)
async def batch(request: Asked, campaign: InPath, data: Annotated[Batch, In()]) -> BatchReply:
    """Tell pulls of many agents, in one commit; each has a result of its own."""
    return await quick.tell_many(house_of(request), request.app.state.metrics, visitor_of(request), campaign, data)


HANDLERS = [offer, observe, me, batch]
