"""What admins and readers look at: tables, the verdict, how it came about, who pulls what, and the stream."""

from __future__ import annotations

from typing import Any

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from freepull.campaigns.view import CampaignView, Point, Pulls, Screen
from freepull.messages import AgentRow, Arm, AuditEntry, BanRow, CampaignVerdict, LedgerEntry, OfferRow, Status
from freepull.server.openapi import Resumable
from freepull.server.problems import described
from freepull.server.routes.common import (
    BEARER,
    PAGE,
    READ,
    READER,
    After,
    Asked,
    InPath,
    Last,
    Limit,
    Only,
    Screens,
    Settlement,
    find,
    hosting_of,
    needs,
    visitor_of,
)

LOOK: dict[str, Any] = {"before_request": needs(*READER), "responses": READ, "security": BEARER}
TABLE = LOOK | {"tags": ["tables"]}
WATCH = LOOK | {"tags": ["watch"]}
EVENTS = ResponseSpec(
    Status | AuditEntry | Screen,
    generate_examples=False,
    media_type="text/event-stream",
    description="Server-sent events: the data of `status` is a Status, of `audit` an AuditEntry, of `screen` a Screen.",
)
WATCHED = READ | described(429) | {200: EVENTS}


async def _view(request: Asked, campaign: str) -> CampaignView:
    return (await find(request, campaign)).view


@get("/campaigns/{campaign:str}/arms", **TABLE)
async def arms(request: Asked, campaign: InPath) -> list[Arm]:
    """Every arm, and what stops the trial."""
    return (await (await _view(request, campaign)).status()).arms


@get("/campaigns/{campaign:str}/agents", **TABLE)
async def agents(request: Asked, campaign: InPath, after: After = -1, limit: Limit = PAGE) -> list[AgentRow]:
    """The agents in the order of their numbers."""
    return await (await _view(request, campaign)).agents(after, limit)


@get("/campaigns/{campaign:str}/offers", **TABLE)
async def offers(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, open_only: Only = False
) -> list[OfferRow]:
    """Offers in their order; all, or the open ones alone."""
    view = await _view(request, campaign)
    return await (view.open_offers if open_only else view.offers)(after, limit)


@get("/campaigns/{campaign:str}/ledger", **TABLE | {"before_request": needs(*READER, "payer")})
async def ledger(
    request: Asked,
    campaign: InPath,
    after: After = 0,
    limit: Limit = PAGE,
    last: Last = None,
    settlement: Settlement = "",
) -> list[LedgerEntry]:
    """What was paid, and what became of it outside: all entries, or those in one state of settlement."""
    return await (await _view(request, campaign)).ledger(after, limit, last, settlement)


@get("/campaigns/{campaign:str}/bans", **TABLE)
async def bans(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, last: Last = None
) -> list[BanRow]:
    """Who was banned, and for which offer; bans are counted from 1."""
    return await (await _view(request, campaign)).bans(after, limit, last)


@get("/campaigns/{campaign:str}/audit", **TABLE)
async def audit(
    request: Asked, campaign: InPath, after: After = -1, limit: Limit = PAGE, last: Last = None
) -> list[AuditEntry]:
    """Who did what when, and what was concluded."""
    return await (await _view(request, campaign)).audit(after, limit, last)


@get("/campaigns/{campaign:str}/verdict", **{**TABLE, "responses": READ | described(409, 422)})
async def verdict(request: Asked, campaign: InPath) -> CampaignVerdict:
    """Which arm, whether that is decided and certified, and what it rests on."""
    return await (await _view(request, campaign)).verdict()


@get("/campaigns/{campaign:str}/history", **WATCH)
async def history(request: Asked, campaign: InPath) -> list[Point]:
    """How means, bounds, spend and active arms came about, in a few hundred points at most."""
    return await (await _view(request, campaign)).history.points()


@get("/campaigns/{campaign:str}/pulls", **WATCH)
async def pulls(request: Asked, campaign: InPath) -> Pulls:
    """Pulls per agent: quantiles, and a sample of at most 500 agents."""
    return await (await _view(request, campaign)).pulls()


@get("/campaigns/{campaign:str}/stream", **WATCH | {"responses": WATCHED}, operation_class=Resumable)
async def stream(request: Asked, campaign: InPath, after: After = -1, screen: Screens = False) -> Stream:
    """Server-sent events: `status` as things stand, `audit` for what was done; ids are places in the log.

    The header Last-Event-ID, or ``after``, goes on where a stream broke off. With ``screen`` there are no such events
    but `screen`, all that the dashboard shows, when it has changed, once a second at most.
    """
    found = await find(request, campaign)
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 19:
        after = int(last)
    whose = visitor_of(request).id
    found.streams.check(whose)
    hosting, token = hosting_of(request), request.scope["state"]["authorization"]
    body = found.streams.stream(after, screen, hosting.closing, lambda: hosting.tokens.holds(token), whose)
    return Stream(body, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


HANDLERS = [arms, agents, offers, ledger, bans, audit, verdict, stream, history, pulls]
