"""Segments: many events packed into one entry of the log."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from freepull.campaigns.journal.events import RECORD, Event, Records, Row
from freepull.errors import Corrupt, NewerVersion

MAGIC = b"fpsg"
VERSION = 1
HEADER = struct.Struct("<4sHHQQIII")
"""magic, version, 0, number, number of its first event, events, bytes of additions, checksum of the segment before."""
CHECKSUM = struct.Struct("<I")
ORIGIN = 0
"""What stands for the checksum before the first segment."""
OUTSIDE = -1
"""Where among its additions a segment keeps what is known of rows outside the log, such as the event ids it told."""


def ids_of(rows: Iterable[Row]) -> int:
    """Return the checksum of event ids, given as rows in the order of their events."""
    return zlib.crc32(b"".join([row[0] for row in rows]))


class Segment(NamedTuple):
    """One commit, read back."""

    number: int
    first: int
    records: Records
    more: dict[int, dict[str, Any]]
    """Additions, by position in ``records``."""
    checksum: int


def pack(number: int, first: int, records: Records, more: dict[int, dict[str, Any]], before: int) -> tuple[bytes, int]:
    """Return the block, and its checksum for the next one."""
    added = msgspec.msgpack.encode(more) if more else b""
    body = HEADER.pack(MAGIC, VERSION, 0, number, first, len(records), len(added), before) + records.tobytes() + added
    checksum = zlib.crc32(body)
    return body + CHECKSUM.pack(checksum), checksum


def unpack(data: bytes, number: int, first: int, before: int) -> Segment:
    """Read a block, which must be the given one; say which it is if anything is wrong with it."""
    where = f"segment {number} of the log (events from {first} on)"
    remedy = "restore the campaign from a backup"
    if not isinstance(data, bytes) or len(data) < HEADER.size + CHECKSUM.size or data[:4] != MAGIC:
        raise Corrupt(f"{where} is not a segment; {remedy}.")
    (checksum,) = CHECKSUM.unpack_from(data, len(data) - CHECKSUM.size)
    if zlib.crc32(data[: -CHECKSUM.size]) != checksum:
        raise Corrupt(f"{where} is damaged: its checksum does not fit; {remedy}.")
    _, version, _, has_number, has_first, count, added, has_before = HEADER.unpack_from(data)
    if version > VERSION:
        raise NewerVersion(f"{where} has format {version}, this freepull knows {VERSION}; install a newer freepull.")
    if (has_number, has_first, has_before) != (number, first, before):
        raise Corrupt(f"{where} is not the one that followed the segment before it; {remedy}.")
    if len(data) != HEADER.size + count * RECORD.itemsize + added + CHECKSUM.size:
        raise Corrupt(f"{where} does not have the length that it says; {remedy}.")
    records = np.frombuffer(data, RECORD, count, HEADER.size)
    tail = data[len(data) - CHECKSUM.size - added : len(data) - CHECKSUM.size]
    more = msgspec.msgpack.decode(tail, type=dict[int, dict[str, Any]]) if added else {}
    return Segment(number, first, records, more, checksum)


class Log:
    """Gathers events, and seals them into the next segment."""

    def __init__(self, number: int = 0, first: int = 0, checksum: int = ORIGIN) -> None:
        self.number, self.first, self.checksum = number, first, checksum
        """The next segment: its number, the number of its first event, and the checksum of the one before."""
        self._parts: list[Records] = []
        self._singles: list[tuple[int, ...]] = []
        self._more: dict[int, dict[str, Any]] = {}
        self.gathered = 0
        """Events that are not sealed yet."""

    def add(self, event: Event) -> None:
        """Gather one event."""
        if event.more:
            self._more[self.gathered] = event.more
        self._singles.append(event.record())
        self.gathered += 1

    def extend(self, records: Records) -> None:
        """Gather pulls."""
        self._flush()
        self._parts.append(records)
        self.gathered += len(records)

    def records(self) -> Records:
        """Return the events that are not sealed yet."""
        self._flush()
        return np.concatenate([*self._parts, np.zeros(0, RECORD)])

    def seal(self, ids: Sequence[Row] = ()) -> Row:
        """Return the segment as a row of its table, and begin the next one; with the event ids that it told."""
        records = self.records()
        if ids:
            self._more[OUTSIDE] = {"ids": ids_of(ids)}
        data, checksum = pack(self.number, self.first, records, self._more, self.checksum)
        row = (self.number, self.first, len(records), data)
        self.number, self.first, self.checksum = self.number + 1, self.first + len(records), checksum
        self._parts, self._more, self.gathered = [], {}, 0
        return row

    def _flush(self) -> None:
        if self._singles:
            self._parts.append(np.array(self._singles, RECORD))
            self._singles = []
