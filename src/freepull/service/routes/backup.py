"""A copy of the whole store, taken while its campaigns go on."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from litestar import Response, get
from litestar.background_tasks import BackgroundTask
from litestar.response import File

from freepull.service.guards import needs
from freepull.service.problems import Refused
from freepull.service.routes.common import ADMIN, BEARER, READ_OR_NOT_NOW, Asked, house_of
from freepull.service.routes.files import FILE

NAME = "backup.db"


@get(
    f"/exports/{NAME}",
    before_request=needs(*ADMIN),
    responses=READ_OR_NOT_NOW | {200: FILE},
    security=BEARER,
    tags=["files"],
)
async def backup(request: Asked) -> Response[Any]:
    """Download a copy of the SQLite file: all campaigns, names, and the key that signs agents' tokens."""
    house = house_of(request)
    if not house.url.startswith("sqlite"):
        raise Refused(409, "the database has backups of its own.", "Use its tools, for example pg_dump.")
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory)
    path = Path(folder.name) / NAME
    try:
        await asyncio.to_thread(house.access.store.backup, path)
    except BaseException:
        folder.cleanup()
        raise
    return File(path, filename=NAME, media_type="application/octet-stream", background=BackgroundTask(folder.cleanup))


HANDLERS = [backup]
