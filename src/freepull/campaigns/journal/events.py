"""Events: what happened, in rows that are audited and decoded in one place and packed into segments; and the tables.

Every row outside the log has a *seal*, a checksum of what it says, its table and its campaign: a row that is damaged,
or belongs elsewhere, is `Corrupt` when it is read. Segments and parts of snapshots have checksums inside; event ids are
too many for seals of their own, and the segment that told them has one for all. Rows from before there were seals have
none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from freepull.errors import Corrupt, NewerVersion

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]
"""Rows to be written, by table."""
ManyRows = Mapping[str, Iterable[Row]]
"""The same, where they need not all be in memory."""

TABLES: dict[str, tuple[str, ...]] = {
    "segments": ("number", "first", "count", "data"),
    "offers": ("offer", "agent", "arm", "step", "at", "deadline", "recalled", "ending", "ended", "amount"),
    "ledger": ("entry", "offer", "agent", "arm", "amount", "currency", "at"),
    "settlements": ("entry", "state", "at", "payer", "note", "tries"),
    "bans": ("entry", "agent", "offer", "step", "until", "at", "lifted"),
    "audit": ("event", "at", "who", "action", "detail"),
    "names": ("agent", "name"),
    "event_ids": ("id", "event", "record", "at"),
    "snapshots": ("event", "part", "parts", "data"),
    "webhooks": ("target", "event", "segment", "paid", "stuck"),
}
"""The columns of every table; each also names its campaign."""
KEYS: dict[str, int] = dict.fromkeys(TABLES, 1) | {"snapshots": 2}
"""This many first columns are a table's key."""
CHANGING = ("offers", "settlements", "bans", "snapshots", "webhooks")
"""Tables whose rows may be written again: when an offer or a ban ends, a payment or a webhook has got further, or when
a snapshot was interrupted."""
DERIVED = ("offers", "ledger", "settlements", "bans", "audit")
"""Tables that follow from the log alone."""

SEALED = ("offers", "ledger", "settlements", "bans", "audit", "names", "webhooks")
"""Tables of campaigns whose rows have a seal."""
COLUMNS = {table: (*columns, "seal") if table in SEALED else columns for table, columns in TABLES.items()}
"""The columns of every table, as they are stored."""
_PACKED = msgspec.msgpack.Encoder().encode


@lru_cache(10_000)
def _kind(table: str, campaign: str) -> int:
    return zlib.crc32(f"{table}\0{campaign}".encode(errors="surrogatepass"))


def seal(table: str, campaign: str, row: Row) -> int:
    """Return the checksum of a row."""
    return zlib.crc32(_PACKED(row), _kind(table, campaign))


def check_seal(table: str, campaign: str, row: Row, found: Any, old: bool = False) -> None:
    """Refuse a row whose checksum is another one; an old row may have none."""
    try:
        right = (old and found is None) or seal(table, campaign, row) == found
    except (TypeError, ValueError, OverflowError):  # what is there was never written by us
        right = False
    if not right:
        where = f" of campaign {campaign!r}" if campaign else ""
        key = row[0].hex() if isinstance(row[0], bytes) else row[0]
        raise Corrupt(f"row {key} of {table}{where} is damaged: its checksum does not fit; restore a backup.")


def sealed(table: str, campaign: str, rows: Iterable[Row]) -> Iterable[Row]:
    """Return rows with their checksums, where they have any."""
    if table not in SEALED:
        return rows
    kind, packed, crc = _kind(table, campaign), _PACKED, zlib.crc32
    return ((*row, crc(packed(row), kind)) for row in rows)


def put(rows: Rows | None, table: str, *row: Any) -> None:
    """Add a row, where rows are wanted."""
    if rows is not None:
        rows.setdefault(table, []).append(row)


Records = NDArray[np.void]
RECORD = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("arm", "<u2"),
        ("agent", "<u4"),
        ("value", "<u4"),
        ("offer", "<u4"),
        ("at", "<i8"),
    ]
)
"""One event. ``value`` is a reward in units of 2⁻³⁰, a number of agents or a step; ``at`` the writer's time."""


class Kind(IntEnum):
    """What happened. The numbers are in every log, and never change."""

    CREATED = 1  # more: the settings
    ENROLLED = 2  # value agents, the first of them agent; more: their weights, if there are any
    STARTED = 3  # value: the size of the panel
    TOLD = 4  # one pull; offer: the one it ended, if any
    OFFERED = 5  # value: what it pays, in minor units, where offers differ
    EXPIRED = 6  # silence until the deadline
    RECALLED = 7  # an open offer is taken back; a pull on its way is still paid
    CANCELLED = 8  # the end of an offer that was recalled, or whose agent left
    STEP_ENDED = 9  # value: which; more: what it changed, if anything
    PARKED = 10  # an agent let several offers in a row expire
    LEFT = 11
    UNBANNED = 12
    WITHDRAWN = 13  # an arm
    BUDGET = 14  # more: the new one
    PAUSED = 15
    RESUMED = 16
    STOPPED = 17  # more: why
    NOTED = 18  # something for the audit alone
    JOINED = 19  # the panel is wider than before, and everything is looked at anew; value: its size
    STEP_CLOSED = 20  # the end of a step that took a while; value and more as for STEP_ENDED
    ASKED = 21  # an agent asks, before it acts; only where the rule hears asks, and if it has not asked already
    PASSED = 22  # an agent has asked, and made no pull; an open offer stands
    ACCEPTED = 23  # an agent says that it will act on its open offer, which then lasts longer
    DECLINED = 24  # an agent refuses its open offer without a pull
    LAPSED = 25  # the end of an offer that was not accepted in time
    ACTED = 26  # one pull whose outcome is to come; offer: the one it ended, if any, or that waits for the outcome
    CAME = 27  # the outcome of an earlier pull; value: the reward; offer: the event that told the pull
    NEVER_CAME = 28  # the same for one that did not come in time; value: the offer that waited for it, if any
    UNAVAILABLE = 29  # an arm to an agent; more: until when, if not for good
    AVAILABLE = 30  # the same arm again
    SETTLED = 40  # an entry of the ledger, which is in ``offer``, has got into the state ``value``; more: payer, note


OUTCOME = 0b11
"""The bits of ``flags`` that say what a pull did to an open offer."""
NOTHING, PAID, REFUSED, DROPPED = range(4)
ENDINGS = (None, "paid", "refused", "cancelled")
"""An outcome in words; "cancelled" is a pull of another arm when the offer had been recalled."""
NUMBERED = 0b100
"""The agent numbered this event; the number is one more than its last."""
OBSERVED = 0b1000
"""A pull of an agent who joined late: it is kept, and does not count."""
CLIPPED = 0b10000
"""The reward lay outside the scale, and counts as the end of it that is nearer."""
UNFINISHED = 0b1
"""A step has ended, and is still being worked on; STEP_CLOSED says when that was done, and what came of it."""


class Event(NamedTuple):
    """One event that is not a pull, or a single pull, in plain numbers."""

    kind: int
    at: int
    agent: int = 0
    arm: int = 0
    value: int = 0
    offer: int = 0
    flags: int = 0
    more: dict[str, Any] | None = None

    def record(self) -> tuple[int, ...]:
        """Return the fields in the order of `RECORD`."""
        return self.kind, self.flags, self.arm, self.agent, self.value, self.offer, self.at


PULLS = (Kind.TOLD, Kind.ACTED)
"""What is a pull."""
OFTEN = (Kind.TOLD, Kind.ASKED, Kind.PASSED)
"""What is replayed many at once."""


def pulls(agents: Any, arms: Any, values: Any, at: int, kind: Kind = Kind.TOLD) -> Records:
    """Return pulls as records, their outcomes still open; or who made none."""
    records = np.zeros(len(agents), RECORD)
    records["kind"], records["at"] = kind, at
    records["agent"], records["arm"], records["value"] = agents, arms, values
    return records


def event_of(record: Any, more: dict[str, Any] | None) -> Event:
    """Return one record as an event."""
    kind, flags, arm, agent, value, offer, at = record.item()
    return Event(kind, at, agent, arm, value, offer, flags, more)


OF_AGENTS = (Kind.PARKED, Kind.LEFT, Kind.UNBANNED, Kind.UNAVAILABLE, Kind.AVAILABLE)
OF_ARMS = (Kind.WITHDRAWN, Kind.UNAVAILABLE, Kind.AVAILABLE)
ALWAYS = (
    *OF_AGENTS,
    *(Kind.CREATED, Kind.ENROLLED, Kind.STARTED, Kind.WITHDRAWN, Kind.BUDGET),
    *(Kind.PAUSED, Kind.RESUMED, Kind.STOPPED, Kind.NOTED, Kind.JOINED),
)
"""Audited whatever they say; the end of a step is audited only if it changed something."""
STEPS = (Kind.STEP_ENDED, Kind.STEP_CLOSED)


def audit_row(number: int, event: Event) -> Row | None:
    """Return the row for an event, None if it is not audited."""
    kind = Kind(event.kind)
    if kind not in ALWAYS and not (kind in STEPS and event.more):
        return None
    detail = {name: value for name, value in (event.more or {}).items() if name not in ("by", "weights")}
    if kind in OF_AGENTS:
        detail["agent"] = event.agent
    elif kind in (Kind.ENROLLED, Kind.STARTED, Kind.JOINED):
        detail["agents"] = event.value
    elif kind in STEPS:
        detail["step"] = event.value
    if kind in OF_ARMS:
        detail["arm"] = event.arm
    who = str((event.more or {}).get("by", ""))
    return number, event.at, who, kind.name.lower(), msgspec.json.encode(detail).decode()


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
