"""Reading a campaign back: its log from the first event on, or from a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from freepull.errors import Corrupt
from freepull.live.events import Kind
from freepull.live.log import Log
from freepull.live.rows import Rows
from freepull.live.segments import ORIGIN, Segment, unpack
from freepull.live.settings import Settings
from freepull.live.snapshots import read
from freepull.live.state import State
from freepull.live.stores import Store


def segments(store: Store, name: str, number: int = 0, first: int = 0, before: int = ORIGIN) -> Iterator[Segment]:
    """Read the log from a segment on; every segment is checked, and that none is missing."""
    for has_number, has_first, count, data in store.read(name, "segments", (number - 1,)):
        if has_number != number:
            raise Corrupt(f"segment {number} of the log of campaign {name!r} is missing; restore it from a backup.")
        segment = unpack(data, number, first, before)
        if (has_first, count) != (first, len(segment.records)):
            raise Corrupt(
                f"segment {number} of the log of campaign {name!r} is filed wrongly; restore it from a backup."
            )
        yield segment
        number, first, before = number + 1, first + count, segment.checksum


def settings_of(store: Store, name: str) -> Settings:
    """Read a campaign's settings from its first event."""
    for segment in segments(store, name):
        if segment.records["kind"][0] == Kind.CREATED:
            return Settings.decode({k: v for k, v in segment.more[0].items() if k != "by"})
        break
    raise Corrupt(f"the log of campaign {name!r} does not begin with its creation; restore it from a backup.")


def recover(store: Store, name: str, *, rows: Rows | None = None, snapshot: int | None = None) -> tuple[State, Log]:
    """Rebuild a campaign from its whole log, or from a snapshot and the rest of the log."""
    settings = settings_of(store, name)
    kept = None if snapshot is None else read(store, name, snapshot, settings)
    state, log = kept or (State(settings, rows), Log())
    state.history = lambda: (segment.records for segment in segments(store, name))
    for segment in segments(store, name, log.number, log.first, log.checksum):
        state.apply_many(segment.records, segment.more)
        log = Log(segment.number + 1, segment.first + len(segment.records), segment.checksum)
    return state, log


def check_ledger(store: Store, name: str, state: State) -> None:
    """Refuse a ledger that does not have what the log says."""
    entries, amount = store.totals(name)
    if (entries, amount) != (state.offers.endings["paid"], state.offers.spent):
        raise Corrupt(
            f"the ledger of campaign {name!r} has {entries} entries over {amount} minor units, but its log paid "
            f"{state.offers.endings['paid']} over {state.offers.spent}; restore it from a backup."
        )
