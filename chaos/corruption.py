"""A flipped byte in any segment or snapshot: it is found, the campaign does not start, and the place is named."""

from __future__ import annotations

import random
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

import freepull as fp
from freepull.errors import Corrupt, NewerVersion

from .outcome import Finding, finding
from .world import AGENTS, ARMS, NAME, create, right


def run(segments: int = 400) -> Finding:
    """Flip one byte in each, one after the other."""
    with finding("a flipped byte in every segment and snapshot") as found, tempfile.TemporaryDirectory() as folder:
        url, rng = f"sqlite:///{Path(folder)}/chaos.db", random.Random(2)
        with create(url) as campaign:
            while len(list(campaign.core.store.read(NAME, "segments"))) < segments - 1:
                pulls = rng.randrange(1, 60)
                campaign.tell_many([(rng.randrange(AGENTS), rng.randrange(ARMS), rng.random()) for _ in range(pulls)])
            campaign.snapshot()
            campaign.tell(0, 0, 0.5)
        path = url.removeprefix("sqlite:///")
        detected = {"segments": 0, "snapshots": 0}
        tried = {"segments": _rows(path, "segments"), "snapshots": _rows(path, "snapshots") * (segments // 4)}
        for table, rows in tried.items():
            for key, data in rows:
                detected[table] += _detects(url, path, table, key, _flipped(data, rng))
                _put(path, table, key, data)
        found.demand(right(url) == "", "the campaign is not right after everything was put back")
        for table, rows in tried.items():
            found.demand(detected[table] == len(rows), f"only {detected[table]} of {len(rows)} {table} were detected")
            found.figures[table] = f"{detected[table]} of {len(rows)} found"
        return found


def _rows(path: str, table: str) -> list[tuple[int, bytes]]:
    with closing(apsw.Connection(path)) as database:
        found: list[Any] = database.execute(f"SELECT rowid, data FROM {table}").fetchall()
    return found


def _put(path: str, table: str, key: int, data: bytes) -> None:
    with closing(apsw.Connection(path)) as database:
        database.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (data, key))


def _flipped(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    broken[rng.randrange(len(broken))] ^= rng.randrange(1, 256)
    return bytes(broken)


def _detects(url: str, path: str, table: str, key: int, data: bytes) -> bool:
    """Say whether opening the campaign fails, with a sentence that names the place."""
    _put(path, table, key, data)
    try:
        fp.Campaign.open(url, NAME, snapshots=table == "snapshots").close()
    except (Corrupt, NewerVersion) as error:
        return (f"segment {key - 1} of the log" if table == "segments" else "the snapshot of campaign") in str(error)
    return False
