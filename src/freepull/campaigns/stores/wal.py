"""SQLite's write-ahead log, looked at before SQLite recovers from it: what was answered must not be cut off.

SQLite ends recovery at the first frame that is not right and says nothing, as if the power had gone off there. But a
commit is synced before the next one begins, so only the last one can be torn: a frame that is wrong although a later
commit stands behind it was damaged. How far commits were answered is also noted beside the file, without a sync: what
is noted was synced before, so a log that ends earlier was damaged or cut off. After a crash of the process the note is
exact; after a power cut it may be old, and damage to the very last commit cannot be told from a torn one then.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from freepull.errors import Corrupt

HEADER = struct.Struct(">IIIIIIII")
"""magic, version, size of a page, checkpoints, two salts, two checksums."""
FRAME = struct.Struct(">IIIIII")
"""Page, pages of the file after a commit or 0, two salts, two checksums."""
MAGIC = 0x377F0682
NOTE = struct.Struct("<4sIIQ")
"""magic, two salts, frames that were answered; then a checksum."""
NOTED = b"fpan"
WORD = 1 << 32
LEAST_PAGE = 512
AT_ONCE = 512
"""Frames that are read at a time."""
Pair = tuple[int, int]


class File:
    """A file beside the database, on the disk that SQLite uses."""

    def __init__(self, path: str, vfs: str | None, write: bool = False) -> None:
        access = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
        flags = [access | apsw.SQLITE_OPEN_MAIN_JOURNAL, 0]
        self._file: Any = apsw.VFSFile(vfs or "", path, flags)
        self.read, self.write, self.size = self._file.xRead, self._file.xWrite, self._file.xFileSize
        self.close = self._file.xClose

    @property
    def padding(self) -> int:
        """How many copies of its last frame may end a commit, of which the last is not synced: none on usual disks."""
        if self._file.xDeviceCharacteristics() & apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE:
            return 0
        return 1 + int(self._file.xSectorSize()) // LEAST_PAGE

    def empty(self) -> None:
        """Remove what it says, for good."""
        self._file.xTruncate(0)
        self._file.xSync(apsw.SQLITE_SYNC_NORMAL)


class Found(NamedTuple):
    """What a write-ahead log holds."""

    salts: Pair
    frames: int
    """Up to the last commit that SQLite recovers."""
    cut: int | None
    """The frame that ends recovery although a commit behind it was followed by another, if there is one."""


def examine(path: str, vfs: str | None) -> Found | None:
    """Read a write-ahead log, None if there is nothing in it; raise `Corrupt` if its beginning is damaged."""
    try:
        file = File(path, vfs)
    except apsw.CantOpenError:
        return None
    try:
        if file.size() < HEADER.size:
            return None
        return _frames(file, path)
    finally:
        file.close()


def _frames(file: File, path: str) -> Found | None:
    head = file.read(HEADER.size, 0)
    magic, _, page, _, *salts, first, second = HEADER.unpack(head)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != MAGIC or _sums(np.frombuffer(head, f"{order}u4", 6)[None], [(0, 0)]) != [(first, second)]:
        if not any(file.read(file.size(), 0)):  # it was made, and nothing of it written
            return None
        raise Corrupt(f"the beginning of {path} is damaged, so what it holds is lost; restore it from a backup.")
    scan = _Scan((salts[0], salts[1]), (first, second), bool(file.padding))
    size = FRAME.size + page
    total = (file.size() - HEADER.size) // size
    for begin in range(0, total, AT_ONCE):
        count = min(AT_ONCE, total - begin)
        data = file.read(count * size, HEADER.size + begin * size)
        scan.add(np.frombuffer(data, np.uint8, count * size).reshape(count, size), order)
    return Found(scan.salts, scan.committed, scan.cut)


class _Scan:
    """Goes through the frames as SQLite does, and on behind the first one that is wrong."""

    def __init__(self, salts: Pair, sums: Pair, padded: bool) -> None:
        self.salts, self.sums, self.padded = salts, sums, padded
        """The sums are those that the frame before says it has."""
        self.number = self.committed = 0
        self.wrong: int | None = None
        self.cut: int | None = None
        self._last: tuple[int, int, bytes] | None = None
        """The commit right before, if it stands behind a frame that is wrong: page, size, and what is in it."""

    def add(self, frames: NDArray[np.uint8], order: str) -> None:
        """Take some more frames."""
        heads = [FRAME.unpack_from(frame) for frame in frames]
        before = [self.sums, *((head[4], head[5]) for head in heads[:-1])]
        words = np.concatenate([frames[:, :8], frames[:, FRAME.size :]], axis=1).copy().view(f"{order}u4")
        for head, sums, frame in zip(heads, _sums(words, before), frames, strict=True):
            self._one(head, sums, frame)
        self.sums = heads[-1][4], heads[-1][5]

    def _one(self, head: tuple[int, ...], sums: Pair, frame: NDArray[np.uint8]) -> None:
        page, size, *rest = head
        self.number += 1
        ours, follows = (rest[0], rest[1]) == self.salts, (rest[2], rest[3]) == sums
        if self.wrong is None and not (ours and follows):
            self.wrong = self.number
        if self.wrong is None:
            self.committed = self.number if size else self.committed
            return
        this = (page, size, frame[FRAME.size :].tobytes())
        if ours and follows and self._last not in (None, this) and self.cut is None:  # SQLite may pad with copies
            self.cut = self.wrong
        unsynced = self.padded and self.number == self.wrong  # it may be the last of these copies
        self._last = this if ours and size and not unsynced else None


def _sums(words: NDArray[Any], before: list[Pair]) -> list[Pair]:
    """Return SQLite's checksum of every row, each begun with the sums before it."""
    weights, (a, b, c, d) = _weights(words.shape[1])
    own = (words.astype(np.uint32) @ weights).tolist()
    return [
        ((a * x + b * y + s) % WORD, (c * x + d * y + t) % WORD) for (x, y), (s, t) in zip(before, own, strict=True)
    ]


@cache
def _weights(count: int) -> tuple[NDArray[np.uint32], tuple[int, int, int, int]]:
    """Return what each word adds to both sums, and what becomes of the sums before."""
    weights = np.zeros((count, 2), np.uint32)
    a, b, c, d = 1, 0, 0, 1
    for i in range(count - 2, -1, -2):  # a pair of words x, y: s += x + t, then t += y + s
        weights[i] = (a + b) % WORD, (c + d) % WORD
        weights[i + 1] = b, d
        a, b, c, d = (a + b) % WORD, (a + 2 * b) % WORD, (c + d) % WORD, (c + 2 * d) % WORD
    return weights, (a, b, c, d)


class Answered:
    """How far a write-ahead log was synced and answered, noted beside the file."""

    def __init__(self, path: str, vfs: str | None) -> None:
        self._log, self._vfs = f"{path}-wal", vfs
        self._path = f"{path}-answered"
        self._file: File | None = None
        self._salts: Pair | None = None
        self._padding = 0

    def check(self) -> None:
        """Raise `Corrupt` if the log has lost what was answered; to be called before anything is written."""
        found = examine(self._log, self._vfs)
        if found is not None and found.cut is not None:
            raise Corrupt(
                f"{self._log} is damaged in frame {found.cut}, so the commits from there on are cut off; restore it "
                "from a backup."
            )
        noted = self._noted()
        if noted is None or (found is not None and found.salts != noted[:2]):
            return
        frames = 0 if found is None else found.frames
        if frames < noted[2]:
            raise Corrupt(
                f"{self._log} is damaged or cut off after frame {frames}, but {noted[2]} were answered; restore it "
                "from a backup."
            )

    def _noted(self) -> tuple[int, int, int] | None:
        try:
            file = File(self._path, self._vfs)
        except apsw.CantOpenError:
            return None
        size = NOTE.size + 4
        try:
            data = file.read(size, 0) if file.size() >= size else bytes(size)
        finally:
            file.close()
        if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return None
        magic, first, second, frames = NOTE.unpack_from(data)
        return (first, second, frames) if magic == NOTED else None

    def forget(self) -> None:
        """Remove the note, before the log is emptied or begun anew."""
        self._salts = None
        if self._file is None:
            self._file = File(self._path, self._vfs, write=True)
        self._file.empty()

    def note(self, frames: int) -> None:
        """Note a commit that was synced."""
        if self._salts is None:
            log = File(self._log, self._vfs)
            _, _, _, _, *salts, _, _ = HEADER.unpack(log.read(HEADER.size, 0))
            self._salts, self._padding = (salts[0], salts[1]), log.padding
            log.close()
        assert self._file is not None
        body = NOTE.pack(NOTED, *self._salts, max(0, frames - self._padding))
        self._file.write(body + zlib.crc32(body).to_bytes(4, "little"), 0)

    def begun_anew(self) -> None:
        """Take note that the log may begin anew with the next commit."""
        self._salts = None

    def remove(self) -> None:
        """Remove the note and its file."""
        self.forget()
        self.close()
        if self._vfs is None:
            with suppress(OSError):
                Path(self._path).unlink()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
