"""Whole files: observations that are told from one; observations, the ledger, or all of the store to take away."""

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
from litestar.response import File

from freepull.campaigns import files as exports
from freepull.errors import InvalidInput
from freepull.messages import Imported
from freepull.server.openapi import KINDS, Upload
from freepull.server.problems import Refused
from freepull.server.routes.common import (
    ADMIN,
    BEARER,
    READ,
    READ_OR_NOT_NOW,
    READER,
    WRITE,
    Asked,
    InPath,
    by,
    find,
    hosting_of,
    needs,
)

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


HANDLERS = [import_file, export_file, backup]
