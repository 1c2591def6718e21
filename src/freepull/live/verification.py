"""Verifying a campaign: its whole log is replayed, and everything beside it must be what follows from the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freepull.errors import Corrupt
from freepull.live.events import RECORD
from freepull.live.log import Log
from freepull.live.ownership import owned
from freepull.live.recovery import check_ledger, recover, segments
from freepull.live.rows import DERIVED, KEYS, Row, Rows
from freepull.live.snapshots import pieces
from freepull.live.state import State
from freepull.live.stores import Store
from freepull.money import Money


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


def verify(url: str | Store, name: str, wait: float = 0.0) -> Report:
    """Replay a campaign's log and compare it with its tables; raise `Corrupt` and say what is wrong, if anything is."""
    with owned(url, name, wait) as (store, _):
        rows: Rows = {}
        state, log = recover(store, name, rows=rows)
        check_ledger(store, name, state)
        for table in DERIVED:
            _compare(store, name, table, list(rows.get(table, ())))
        kept = _check_snapshots(store, name, state, log)
        return Report(
            name=name,
            segments=log.number,
            events=state.events,
            observations=state.observations,
            offers=state.offers.made,
            entries=state.offers.endings["paid"],
            spent=Money(state.offers.spent, state.offers.price.currency),
            event_ids=_check_ids(store, name, state.events),
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


def _check_ids(store: Store, name: str, total: int) -> int:
    """See that every event id that is remembered stands for the event that it names."""
    rows = [(event, record) for _, event, record, _ in store.read(name, "event_ids")]
    events = np.array([event for event, _ in rows], np.int64)
    records = np.frombuffer(b"".join(record for _, record in rows), RECORD)
    order = np.argsort(events, kind="stable")
    events, records = events[order], records[order]
    if len(events) and events[-1] >= total:
        raise Corrupt(
            f"the event ids of campaign {name!r} name event {events[-1]}, but its log ends before event {total}; its "
            "end is missing, so restore a backup."
        )
    for segment in segments(store, name):
        first, last = np.searchsorted(events, [segment.first, segment.first + len(segment.records)])
        if not np.array_equal(segment.records[events[first:last] - segment.first], records[first:last]):
            last_event = segment.first + len(segment.records) - 1
            raise Corrupt(
                f"the event ids of campaign {name!r} do not fit events {segment.first} to {last_event} of its log; "
                "restore a backup."
            )
    return len(events)
