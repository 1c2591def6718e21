"""What admins and readers look at (tables, the verdict, how it came about, the stream), and whole files in and out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.background_tasks import BackgroundTask
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from litestar.response import File, Stream

from freepull.campaigns import files as exports
from freepull.campaigns.view import CampaignView, Point, Pulls, Screen
from freepull.errors import InvalidInput
from freepull.messages import (
    AgentRow,
    Arm,
    AuditEntry,
    BanRow,
    CampaignVerdict,
    Imported,
    LedgerEntry,
    OfferRow,
    Status,
)
from freepull.server.problems import Refused, described
from freepull.server.routes import (
    ADMIN,
    BEARER,
    KINDS,
    PAGE,
    READ,
    READ_OR_NOT_NOW,
    READER,
    WRITE,
    After,
    Asked,
    InPath,
    Last,
    Limit,
    Only,
    Resumable,
    Screens,
    Settlement,
    Upload,
    by,
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


FILE = ResponseSpec(bytes, generate_examples=False, media_type="application/octet-stream", description="The file")
FileName = Annotated[
    str,
    QueryParameter(
        pattern=r"^[^/\\\x00-\x1f]{1,60}$",
        description="How messages call the file, such as day1.csv; the same file is told once, whatever its name.",
    ),
]


@post(
    "/campaigns/{campaign:str}/imports",
    status_code=200,
    before_request=needs(*ADMIN),
    responses=WRITE,
    security=BEARER,
    tags=["files"],
    operation_class=Upload,
)
async def import_file(request: Asked, campaign: InPath, name: FileName = "import") -> Imported:
    """Tell the observations of a CSV or Parquet file with the columns agent, arm, reward and perhaps event."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise Refused(415, f"the body must be {' or '.join(KINDS)}.", "Set the header Content-Type.")
    found, body = await find(request, campaign), await request.body()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (name.removesuffix(KINDS[kind]) + KINDS[kind])
        await asyncio.to_thread(path.write_bytes, body)
        return Imported(await found.campaign.import_observations(path, by(request)))


@get(
    "/campaigns/{campaign:str}/exports/{file:str}",
    before_request=needs(*READER),
    responses=READ | {200: FILE},
    security=BEARER,
    tags=["files"],
)
async def export_file(request: Asked, campaign: InPath, file: InPath) -> Response[Any]:
    """Download observations.parquet, observations.csv, ledger.parquet or ledger.csv."""
    what, _, kind = file.partition(".")
    if what not in exports.WHAT or f".{kind}" not in exports.FORMS:
        raise Refused(404, "exports are observations and ledger, .parquet and .csv.", "Ask for one of these.")
    found = await find(request, campaign)
    media = "text/csv" if kind == "csv" else "application/vnd.apache.parquet"
    return await _download(file, media, lambda path: found.campaign.export(path, what))


@get(
    "/exports/backup.db",
    before_request=needs(*ADMIN),
    responses=READ_OR_NOT_NOW | {200: FILE},
    security=BEARER,
    tags=["files"],
)
async def backup(request: Asked) -> Response[Any]:
    """Download a copy of the SQLite file: all campaigns, names, and the key that signs agents' tokens."""
    copy = hosting_of(request).tokens.store.backup
    try:
        return await _download("backup.db", "application/octet-stream", lambda path: asyncio.to_thread(copy, path))
    except InvalidInput:
        raise Refused(409, "the database has backups of its own.", "Use its tools, for example pg_dump.") from None


async def _download(name: str, media: str, write: Callable[[Path], Awaitable[Any]]) -> Response[Any]:
    """Answer with a file that is made for this, and removed afterwards."""
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory)
    try:
        await write(Path(folder.name) / name)
    except BaseException:
        folder.cleanup()
        raise
    background = BackgroundTask(folder.cleanup)
    return File(Path(folder.name) / name, filename=name, media_type=media, background=background)


HANDLERS = [
    arms, agents, offers, ledger, bans, audit, verdict, stream, history, pulls, import_file, export_file, backup,
]  # fmt: skip
