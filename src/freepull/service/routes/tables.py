"""What admins and readers look at: arms, agents, offers, ledger, bans, audit, verdict; and files."""

from __future__ import annotations

import asyncio
import re
import tempfile
from asyncio import wrap_future
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

from litestar import Response, get, post
from litestar.background_tasks import BackgroundTask
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from litestar.response import File

from freepull.live import tables
from freepull.live.desk import Desk
from freepull.live.replies import Arm, AuditEntry, BanRow, LedgerEntry, OfferRow, Verdict
from freepull.service.guards import needs
from freepull.service.house import Open
from freepull.service.problems import Refused
from freepull.service.replies import AgentRow, Imported
from freepull.service.routes.common import (
    ADMIN,
    BEARER,
    PAGE,
    READ,
    READER,
    WRITE,
    After,
    Asked,
    InPath,
    Limit,
    Only,
    by,
    find,
)

Row = TypeVar("Row")
LOOK: dict[str, Any] = {"guards": [needs(*READER)], "responses": READ, "security": BEARER, "tags": ["tables"]}
KINDS = {"text/csv": ".csv", "application/vnd.apache.parquet": ".parquet"}
FILE = ResponseSpec(bytes, generate_examples=False, media_type="application/octet-stream", description="The file")
FileName = Annotated[
    str,
    QueryParameter(
        pattern=r"^[A-Za-z0-9_-]{1,100}$",
        description="The same name and row are the same event, so sending a file again tells only what is new.",
    ),
]


async def _page(rows: Iterable[Row], limit: int) -> list[Row]:
    return await asyncio.to_thread(lambda: list(islice(rows, limit)))


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

    return await wrap_future(core.do(look))


@get("/campaigns/{campaign:str}/offers", **LOOK)
async def offers(
    request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE, open_only: Only = False
) -> list[OfferRow]:
    """Offers in their order; all, or the open ones alone."""
    found = await find(request, campaign)
    rows: Iterable[OfferRow] = tables.offers(*_of(found), after)
    if open_only:
        core = found.campaign.blocking.core

        def first(desk: Desk, at: int) -> int:
            return min((it.offer for it in desk.state.offers.open.values()), default=1 << 62)

        behind = max(after, await wrap_future(core.do(first)) - 1)
        rows = (row for row in tables.offers(*_of(found), behind) if row.ending is None)
    return await _page(rows, limit)


@get("/campaigns/{campaign:str}/ledger", **LOOK)
async def ledger(request: Asked, campaign: InPath, after: After = 0, limit: Limit = PAGE) -> list[LedgerEntry]:
    """What was paid."""
    return await _page(tables.ledger(*_of(await find(request, campaign)), after), limit)


@get("/campaigns/{campaign:str}/bans", **LOOK)
async def bans(request: Asked, campaign: InPath, limit: Limit = PAGE) -> list[BanRow]:
    """Who was banned, and for which offer."""
    return await _page(tables.bans(*_of(await find(request, campaign))), limit)


@get("/campaigns/{campaign:str}/audit", **LOOK)
async def audit(request: Asked, campaign: InPath, after: After = -1, limit: Limit = PAGE) -> list[AuditEntry]:
    """Who did what when, and what was concluded."""
    return await _page(tables.audit(*_of(await find(request, campaign)), after), limit)


@get("/campaigns/{campaign:str}/verdict", **{**LOOK, "responses": WRITE})
async def verdict(request: Asked, campaign: InPath) -> Verdict:
    """Which arm, whether that is decided and certified, and what it rests on."""
    return await (await find(request, campaign)).campaign.verdict()


@post(
    "/campaigns/{campaign:str}/imports",
    status_code=200,
    guards=[needs(*ADMIN)],
    responses=WRITE,
    security=BEARER,
    tags=["files"],
)
async def import_file(request: Asked, campaign: InPath, name: FileName = "import") -> Imported:
    """Tell the observations of a CSV or Parquet file with the columns agent, arm, reward and perhaps event."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise Refused(415, f"the body must be {' or '.join(KINDS)}.", "Set the header Content-Type.")
    if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) is None:
        raise Refused(422, "name must be 1 to 100 letters, digits, - or _.", "Give the file another name.")
    found, body = await find(request, campaign), await request.body()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (name + KINDS[kind])
        await asyncio.to_thread(path.write_bytes, body)
        return Imported(await found.campaign.import_observations(path, by(request)))


@get(
    "/campaigns/{campaign:str}/exports/{file:str}",
    guards=[needs(*READER)],
    responses=READ | {200: FILE},
    security=BEARER,
    tags=["files"],
)
async def export_file(request: Asked, campaign: InPath, file: InPath) -> Response[Any]:
    """Download observations.parquet, observations.csv, ledger.parquet or ledger.csv."""
    what, _, kind = file.partition(".")
    if what not in ("observations", "ledger") or kind not in ("parquet", "csv"):
        raise Refused(404, "exports are observations and ledger, .parquet and .csv.", "Ask for one of these.")
    found = await find(request, campaign)
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory)
    path = Path(folder.name) / file
    try:
        await found.campaign.export(path, what)
    except BaseException:
        folder.cleanup()
        raise
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/vnd.apache.parquet"
    return File(path, filename=file, media_type=media, background=BackgroundTask(folder.cleanup))


HANDLERS = [arms, agents, offers, ledger, bans, audit, verdict, import_file, export_file]
