"""Segments: the events of one commit as one block of bytes that cannot change unnoticed.

A header, the records, and what some of them have to add (MessagePack). The checksum covers all of it, and the checksum
of the segment before, so that a block that is damaged, missing, moved or exchanged is found when the log is read.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import msgspec
import numpy as np

from freepull.errors import Corrupt, NewerVersion
from freepull.live.events import RECORD, Records

MAGIC = b"fpsg"
VERSION = 1
HEADER = struct.Struct("<4sHHQQIII")
"""magic, version, 0, number, number of its first event, events, bytes of additions, checksum of the segment before."""
CHECKSUM = struct.Struct("<I")
ORIGIN = 0
"""What stands for the checksum before the first segment."""


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
    if len(data) < HEADER.size + CHECKSUM.size or data[:4] != MAGIC:
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
