"""What admins and readers look at: arms, agents, offers, ledger, bans, audit, verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

from litestar import get

from freepull.live import tables
from freepull.live.desk import Desk
from freepull.live.rows import TABLES
from freepull.live.waking import awaited
from freepull.messages import AgentRow, Arm, AuditEntry, BanRow, CampaignVerdict, LedgerEntry, OfferRow
from freepull.service.guards import needs
from freepull.service.house import Open
from freepull.service.routes.common import (
    BEARER,
    PAGE,
    READ,
    READER,
    WRITE,
    After,
    Asked,
    InPath,
    Last,
    Limit,
    Only,
    find,
)

Row = TypeVar("Row")
LOOK: dict[str, Any] = {"before_request": needs(*READER), "responses": READ, "security": BEARER, "tags": ["tables"]}


async def _page(rows: Iterable[Row], limit: int) -> list[Row]:
    return await asyncio.to_thread(lambda: list(islice(rows, limit)))


async def _last(found: Open, table: str, after: int, last: int | None) -> int:
    """Return behind which row the last ones begin, if only those are wanted."""
    if last is None:
        return after
    store, (key, *_) = found.campaign.blocking.core.store, TABLES[table]
    sql = (
        f"SELECT {key} FROM {table} JOIN campaigns USING (campaign) WHERE name = ? "
        f"ORDER BY {key} DESC LIMIT 1 OFFSET {last}"
    )
    rows = await asyncio.to_thread(store.query, sql, (found.campaign.name,))  # type: ignore[attr-defined]
    return max(after, int(rows[0][0])) if rows else after


def _of(found: Open) -> tuple[Any, Any]:
    core = found.campaign.blocking.core
    return core.store, core.register


@get("/campaigns/{campaign:str}/arms", **LOOK)
async def arms(request: Asked, campaign: InPath) -> list[Arm]:
    """Every arm, and what stops the trial."""
    return (await (await find(request, campaign)).campaign.status()).arms


@get("/campaigns/{campaign:str}/agents", **LOOK)
async def agents(request: Asked, campaign: InPath, after: After = -1, limit: Limit = PAGE) -> list[AgentRow]:
    """The agents in the order of their numbers."""
    core = (await find(request, campaign)).campaign.blocking.core

    def look(desk: Desk, at: int) -> list[AgentRow]:
        state, trial, people = desk.state, desk.state.started, desk.state.people
        rows = []
        for m in range(after + 1, min(after + 1 + limit, people.enrolled)):
            counted = trial is not None and m < state.panel
            banned = trial is not None and counted and bool(trial.bans.until[m] > trial.steps)
            kinds = ((m in people.left, "left"), (m in people.parked, "parked"), (banned, "banned"))
            kind = next((word for holds, word in kinds if holds), "active" if m < state.panel else "late")
            pulls = trial.record.pulls[m].tolist() if trial is not None and counted else []
            standing = state.offers.open.get(m)
            rows.append(AgentRow(m, core.register.shown(m), pulls, kind, None if standing is None else standing.offer))
        return rows

    return await awaited(core.do(look))


@get("/campaigns/{campaign:str}/offers", **LOOK)
async def offers(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, open_only: Only = False
) -> list[OfferRow]:
    """Offers in their order; all, or the open ones alone."""
    found = await find(request, campaign)
    if not open_only:
        return await _page(tables.offers(*_of(found), after), limit)
    core = found.campaign.blocking.core

    def look(desk: Desk, at: int) -> list[OfferRow]:
        behind = (it for it in desk.state.offers.open.values() if it.offer > after)
        return [tables.offer_row(core.register, it.row()) for it in islice(behind, limit)]

    return await awaited(core.do(look))


@get("/campaigns/{campaign:str}/ledger", **LOOK)
async def ledger(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, last: Last = None
) -> list[LedgerEntry]:
    """What was paid."""
    found = await find(request, campaign)
    return await _page(tables.ledger(*_of(found), await _last(found, "ledger", after, last)), limit)


@get("/campaigns/{campaign:str}/bans", **LOOK)
async def bans(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, last: Last = None
) -> list[BanRow]:
    """Who was banned, and for which offer; bans are counted from 1."""
    found = await find(request, campaign)
    return await _page(tables.bans(*_of(found), await _last(found, "bans", after, last)), limit)


@get("/campaigns/{campaign:str}/audit", **LOOK)
async def audit(
    request: Asked, campaign: InPath, after: After = -1, limit: Limit = PAGE, last: Last = None
) -> list[AuditEntry]:
    """Who did what when, and what was concluded."""
    found = await find(request, campaign)
    return await _page(tables.audit(*_of(found), await _last(found, "audit", after, last)), limit)


@get("/campaigns/{campaign:str}/verdict", **{**LOOK, "responses": WRITE})
async def verdict(request: Asked, campaign: InPath) -> CampaignVerdict:
    """Which arm, whether that is decided and certified, and what it rests on."""
    return await (await find(request, campaign)).campaign.verdict()


HANDLERS = [arms, agents, offers, ledger, bans, audit, verdict]
