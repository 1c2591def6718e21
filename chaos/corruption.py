"""A flipped byte in any segment or snapshot: it is found, the campaign does not start, and the place is named.

And one in SQLite's write-ahead log, as a crash leaves it, or a log that was cut off: nothing that was answered is lost
in silence.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

import freepull as fp
from freepull.campaigns.journal.recovery import verify
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


def cut_off(flips: int = 400, acts: int = 150) -> Finding:
    """Flip a byte in the write-ahead log that a crash has left, or cut it off, with and without the note beside it."""
    with finding(f"a write-ahead log with a flipped byte or cut off × {flips}") as found, _folder() as folder:
        rng, seen = random.Random(8), Counter[str]()
        files, answered = _crashed(folder / "live", rng, acts)
        log, last = files["chaos.db-wal"], _last_commit(files["chaos.db-wal"])
        for turn in range(flips):
            left, cut = dict(files), turn % 4 == 3
            noted = turn % 2 == 0 or cut  # without a note nothing tells where a log ended
            place = rng.randrange(len(log) if noted else last)
            left["chaos.db-wal"] = (
                log[:place] if cut else log[:place] + _flipped(log[place : place + 1], rng) + log[place + 1 :]
            )
            if not noted:
                del left["chaos.db-answered"]
            said = _left(folder / "left", left, answered)
            seen[said] += 1
            found.demand(
                said != "lost", f"byte {place} of {len(log)}, {'noted' if noted else 'not noted'}: answers are lost"
            )
        found.demand(_left(folder / "left", files, answered) == "all there", "without damage something is missing")
        found.figures |= {"answers": answered} | dict(seen)
        return found


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _crashed(folder: Path, rng: random.Random, acts: int) -> tuple[dict[str, bytes], int]:
    """Let a campaign answer; return its files as they are in the middle of that, and how many pulls were answered."""
    folder.mkdir()
    with create(f"sqlite:///{folder}/chaos.db") as campaign:
        for number in range(acts):
            campaign.tell(rng.randrange(AGENTS), rng.randrange(ARMS), rng.random(), f"pull {number}")
        return {file.name: file.read_bytes() for file in folder.iterdir()}, acts


def _last_commit(log: bytes) -> int:
    """Return where the last commit but one ends; behind that, damage looks like a power cut."""
    frame = 24 + int.from_bytes(log[8:12], "big")
    ends = [end for end in range(32 + frame, len(log) + 1, frame) if any(log[end - frame + 4 : end - frame + 8])]
    return ends[-3]


def _left(folder: Path, files: dict[str, bytes], answered: int) -> str:
    """Open what is left; say what became of the answers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    try:
        there = verify(f"sqlite:///{folder}/chaos.db", NAME).observations
    except Corrupt:
        return "found"
    return "all there" if there == answered else "lost"


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
    for snapshots in (True,) if table == "snapshots" else (True, False):  # damage that a snapshot stands behind, too
        try:
            fp.Campaign.open(url, NAME, snapshots=snapshots).close()
        except (Corrupt, NewerVersion) as error:
            place = f"segment {key - 1} of the log" if table == "segments" else "the snapshot of campaign"
            if place in str(error):
                continue
        return False
    return True
