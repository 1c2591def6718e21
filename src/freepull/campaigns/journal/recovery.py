"""Reading a journal back: who may own it, recovery at opening, and verification of all of it."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import msgspec
import numpy as np

from freepull.campaigns.journal.events import (
    CHECKSUM,
    DERIVED,
    KEYS,
    ORIGIN,
    OUTSIDE,
    RECORD,
    Kind,
    Log,
    Row,
    Rows,
    Segment,
    unpack,
)
from freepull.campaigns.journal.snapshots import pieces, read
from freepull.campaigns.settings import Settings
from freepull.campaigns.state import State
from freepull.campaigns.stores import Lease, ServedStore, Store, Where, connect
from freepull.errors import CampaignBusy, Corrupt, FreepullError, StoreError
from freepull.money import Money

Opened = TypeVar("Opened")
UNREADABLE = (EOFError, struct.error, msgspec.MsgspecError)
PAUSE = 0.005
"""Seconds that may be spent on a store before it is left to others."""
ID, KEPT = np.dtype("V16"), struct.Struct("<qq16s24s")
_TOKEN = uuid.uuid4().hex[:8]
_ADDRESS = socket.gethostname()
_HERE: set[tuple[str, str]] = set()
_GUARD = threading.Lock()


def _forked() -> None:
    """Nothing is open in a process that was just forked off."""
    global _GUARD
    _GUARD = threading.Lock()
    _HERE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def known_as(address: str) -> None:
    """Be known to stores by an address, so that whoever finds a campaign taken learns where to ask."""
    global _ADDRESS
    _ADDRESS = address


def owner() -> str:
    """Return how this process is known to stores: where it is, and something that no other process has."""
    return f"{_ADDRESS} {_TOKEN}:{os.getpid()}"


class Here:
    """Sees to it that a campaign is open once in this process, and that a store is closed if it cannot be opened."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.entry, self.kept = store, (store.url, name), False

    def __enter__(self) -> Here:
        with _GUARD:
            if self.entry in _HERE:
                self.store.close()
                raise CampaignBusy(
                    f"campaign {self.entry[1]!r} is open in this process already; use that one, or close it."
                )
            _HERE.add(self.entry)
        return self

    def keep(self, opened: Opened) -> Opened:
        """Leave the campaign open."""
        self.kept = True
        return opened

    def __exit__(self, *_: object) -> None:
        if not self.kept:
            forget(*self.entry)
            self.store.close()


def forget(url: str, name: str) -> None:
    """Take note that a campaign is open here no longer."""
    with _GUARD:
        _HERE.discard((url, name))


@contextmanager
def owned(url: Where, name: str, wait: float = 0.0) -> Iterator[tuple[Store, Lease]]:
    """Own a campaign for a while without running it."""
    store = connect(url)
    with Here(store, name):
        lease = claim(store, name, wait)
        try:
            with kept(store, lease) as lost:
                yield store, lease
            if lost:
                raise lost[0]
        finally:
            with suppress(FreepullError):
                store.release(lease)


def check_free(store: ServedStore, name: str) -> None:
    """Raise if there is no such campaign or another process has it; this costs less than trying to claim it."""
    found = store.holders(name)
    if not found:
        raise store.unknown(name)
    if found[0].held and found[0].owner != owner():
        raise CampaignBusy(f"campaign {name!r} is held by {found[0].owner}.", found[0].owner, found[0].left)


def claim(store: Store, name: str, wait: float) -> Lease:
    """Take a campaign over; wait this many seconds for another owner to let go."""
    limit = time.monotonic() + wait
    while True:
        try:
            return store.claim(name, owner())
        except CampaignBusy:
            if time.monotonic() >= limit:
                raise
        time.sleep(0.05)


@contextmanager
def kept(store: Store, lease: Lease) -> Iterator[list[FreepullError]]:
    """Renew a lease while a campaign is read, which may take longer than it lasts; yield why that failed, if it did.

    What another process has written meanwhile is no damage, and without the store nobody knows whether there is one.
    """
    over, lost = threading.Event(), list[FreepullError]()

    def renew() -> None:
        while not lost and not over.wait(lease.seconds / 3):
            try:
                store.renew(lease)
            except FreepullError as error:
                lost.append(error)

    renewing = threading.Thread(target=renew, name=f"freepull lease {lease.name}", daemon=True)
    if lease.seconds == float("inf"):  # a lock guards it
        yield lost
        return
    renewing.start()
    try:
        yield lost
    except Corrupt as error:
        if not lost:
            store.renew(lease)
            raise
        raise lost[0] from error
    finally:
        over.set()
        renewing.join()


def segments(store: Store, name: str, number: int = 0, first: int = 0, before: int = ORIGIN) -> Iterator[Segment]:
    """Read the log from a segment on; every segment is checked, and that none is missing up to where it ends now."""
    noted = store.head(name)
    for has_number, has_first, count, data in store.read(name, "segments", (number - 1,)):
        if has_number != number:
            raise _missing(name, number)
        segment = unpack(data, number, first, before)
        if (has_first, count) != (first, len(segment.records)):
            raise Corrupt(
                f"segment {number} of the log of campaign {name!r} is filed wrongly; restore it from a backup."
            )
        yield segment
        number, first, before = number + 1, first + count, segment.checksum
    if noted is not None and number <= noted[0]:
        raise _missing(name, number)


def _missing(name: str, number: int) -> Corrupt:
    return Corrupt(f"segment {number} of the log of campaign {name!r} is missing; restore it from a backup.")


@contextmanager
def readable(name: str) -> Iterator[None]:
    """See to it that what no checksum has found is `Corrupt` as well, if it cannot be read."""
    try:
        yield
    except FreepullError:
        raise
    except (MemoryError, OSError, RuntimeError) as error:  # checksums have found what could make it ask for too much
        why = str(error) or "there is too little memory"
        raise StoreError(f"campaign {name!r} could not be read ({why}); give this process what it lacks.") from error
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, *UNREADABLE) as error:
        raise Corrupt(
            f"what is stored of campaign {name!r} cannot be read ({type(error).__name__}: {error}); restore a backup."
        ) from error


def settings_of(store: Store, name: str) -> Settings:
    """Read a campaign's settings from its first event."""
    for segment in segments(store, name):
        if segment.records["kind"][0] == Kind.CREATED:
            settings = Settings.decode({k: v for k, v in segment.more[0].items() if k != "by"})
            if settings.name != name:
                raise Corrupt(f"what is stored as campaign {name!r} is the log of {settings.name!r}; restore a backup.")
            return settings
        break
    raise Corrupt(f"the log of campaign {name!r} does not begin with its creation; restore it from a backup.")


def identity_of(store: Store, name: str) -> str:
    """Return what tells a campaign from every other one, also from one of its name elsewhere: a hash of its beginning.

    It stays the same in backups and copies.
    """
    data = next(iter(store.read(name, "segments")))[3]
    return blake2b(data, digest_size=8).hexdigest()


def recover(store: Store, name: str, *, rows: Rows | None = None, snapshot: int | None = None) -> tuple[State, Log]:
    """Rebuild a campaign from its whole log, or from a snapshot and the rest of the log."""
    settings = settings_of(store, name)
    kept = None if snapshot is None else read(store, name, snapshot, settings)
    if kept is not None and snapshot is not None:
        _check_joint(store, name, snapshot, kept[1])
    state, log = kept or (State(settings, rows), Log())
    state.history = lambda: (segment.records for segment in segments(store, name))
    for segment in segments(store, name, log.number, log.first, log.checksum):
        state.apply_many(segment.records, segment.more)
        log = Log(segment.number + 1, segment.first + len(segment.records), segment.checksum)
    ends, noted = (log.number - 1, log.checksum), store.head(name)
    if noted is not None and noted != ends:
        raise Corrupt(
            f"the log of campaign {name!r} ends with segment {ends[0]}, but what was noted of its end is of segment "
            f"{noted[0]} or of another one; restore a backup."
        )
    return state, log


def _check_joint(store: Store, name: str, event: int, log: Log) -> None:
    """See that a snapshot goes on from a segment of this very log."""
    found = next(iter(store.read(name, "segments", (log.number - 2,))), (None,))
    if found[0] != log.number - 1 or found[1] + found[2] != log.first or found[3][-4:] != CHECKSUM.pack(log.checksum):
        raise Corrupt(
            f"the snapshot of campaign {name!r} after event {event} does not belong to its log; open the campaign "
            "without snapshots to replay its log instead."
        )


def check_log(store: Store, name: str, events: int, going: Callable[[], bool] | None = None) -> None:
    """See that the log is whole up to an event; leave the store to others in between if that goes on beside them."""
    begun = time.perf_counter()
    for segment in segments(store, name):
        if segment.first >= events or (going is not None and not going()):
            return
        spent = time.perf_counter() - begun
        if going is not None and spent > PAUSE:
            time.sleep(spent)
        begun = time.perf_counter()


def names_of(store: Store, name: str, enrolled: int) -> Iterator[tuple[int, str]]:
    """Return the names of agents."""
    for agent, called in store.read(name, "names"):
        if not 0 <= agent < enrolled or not isinstance(called, str):
            raise Corrupt(f"row {agent} of names of campaign {name!r} is of nobody who enrolled; restore a backup.")
        yield agent, called


def check_tables(store: Store, name: str, state: State) -> None:
    """Refuse a ledger that does not have what the log says, and offers and bans that do not end where it does."""
    moved = len(state.settlements.states)
    for table, last in (("offers", state.offers.made), ("settlements", moved), ("bans", state.people.bans)):
        found = store.before_last(name, table, 0)
        if found != ((last,) if last else ()):
            has = found[0] if found else "none"
            raise Corrupt(
                f"the last row of {table} of campaign {name!r} is {has}, but its log made {last}; restore a backup."
            )
    entries, amount = store.totals(name)
    if (entries, amount) != (state.offers.endings["paid"], state.offers.spent):
        raise Corrupt(
            f"the ledger of campaign {name!r} has {entries} entries over {amount} minor units, but its log paid "
            f"{state.offers.endings['paid']} over {state.offers.spent}; restore it from a backup."
        )


@dataclass(frozen=True)
class Report:
    """What was found right."""

    name: str
    segments: int
    events: int
    observations: int
    offers: int
    entries: int
    """Of the ledger."""
    spent: Money
    event_ids: int
    snapshots: int


def verify(url: Where, name: str, wait: float = 0.0) -> Report:
    """Replay a campaign's log and compare it with its tables; raise `Corrupt` and say what is wrong, if anything is."""
    with owned(url, name, wait) as (store, _), readable(name):
        rows: Rows = {}
        state, log = recover(store, name, rows=rows)
        check_tables(store, name, state)
        for table in DERIVED:
            _compare(store, name, table, list(rows.get(table, ())))
        ids = _check_ids(store, name, state)
        kept = _check_snapshots(store, name, state, log)
        deque(names_of(store, name, state.people.enrolled), 0)
        for target, event, *_ in store.read(name, "webhooks"):
            if not 0 <= event <= state.events:
                raise Corrupt(f"row {target} of webhooks of campaign {name!r} is behind its log; restore a backup.")
        store.check()
        return Report(
            name=name,
            segments=log.number,
            events=state.events,
            observations=state.observations,
            offers=state.offers.made,
            entries=state.offers.endings["paid"],
            spent=Money(state.offers.spent, state.offers.price.currency),
            event_ids=ids,
            snapshots=kept,
        )


def _compare(store: Store, name: str, table: str, told: list[Row]) -> None:
    """Compare a table with the rows that the log gives, of which the last one of each key counts."""
    expected = {row[: KEYS[table]]: row for row in told}
    found = 0
    for row in store.read(name, table):
        if expected.get(row[: KEYS[table]]) != row:
            raise Corrupt(f"row {row[0]} of {table} of campaign {name!r} is not what the log says; restore a backup.")
        found += 1
    if found != len(expected):
        raise Corrupt(
            f"table {table} of campaign {name!r} has {found} rows, but the log makes {len(expected)}; restore a backup."
        )


def _check_snapshots(store: Store, name: str, state: State, log: Log) -> int:
    """See that every snapshot and the log after it lead to where the whole log leads."""
    whole = [event for event, there, parts in store.snapshots(name) if there == parts]
    for event in whole:
        if pieces_of(*recover(store, name, snapshot=event)) != pieces_of(state, log):
            raise Corrupt(
                f"the snapshot of campaign {name!r} after event {event} leads elsewhere than its log; open the "
                "campaign without snapshots to replay its log instead."
            )
    return len(whole)


def pieces_of(state: State, log: Log) -> bytes:
    """Return everything that is in memory as bytes, equal only if every bit is; a step must not be being closed."""
    if state.ending is not None:
        state.trial.work()
    return b"".join(pieces(state, log))


def _check_ids(store: Store, name: str, state: State) -> int:
    """See that every event id stands for the event that it names, and that none is missing that must be remembered."""
    rows, kept = store.read(name, "event_ids"), list[bytes]()
    for key, event, record, at in rows:
        if len(key) != ID.itemsize or len(record) != RECORD.itemsize:
            raise Corrupt(f"the id of event {event} of campaign {name!r} is damaged; restore a backup.")
        kept.append(KEPT.pack(event, at, key, record))
    found = np.frombuffer(b"".join(kept), [("event", "<i8"), ("at", "<i8"), ("id", ID), ("record", RECORD)])
    found = found[np.argsort(found["event"], kind="stable")]
    if len(found) and found["event"][-1] >= state.events:
        raise Corrupt(
            f"the event ids of campaign {name!r} name event {found['event'][-1]}, but its log ends before event "
            f"{state.events}; its end is missing, so restore a backup."
        )
    for segment in segments(store, name):
        begin, end = np.searchsorted(found["event"], [segment.first, segment.first + len(segment.records)])
        rows_of = found[begin:end]
        right = np.array_equal(segment.records[rows_of["event"] - segment.first], rows_of["record"])
        right = right and np.array_equal(rows_of["record"]["at"], rows_of["at"])
        told = segment.more.get(OUTSIDE, {}).get("ids")
        if told is not None and int(segment.records["at"][0]) >= state.at - state.settings.remembers:
            right = right and zlib.crc32(rows_of["id"].tobytes()) == told
        if not right:
            last = segment.first + len(segment.records) - 1
            raise Corrupt(
                f"the event ids of campaign {name!r} do not fit events {segment.first} to {last} of its log; restore a "
                "backup."
            )
    return len(found)
