"""What a store keeps beside the log: tables that people ask for, all of them written in the log's own transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]
"""Rows to be written, by table."""
ManyRows = Mapping[str, Iterable[Row]]
"""The same, where they need not all be in memory."""

TABLES: dict[str, tuple[str, ...]] = {
    "segments": ("number", "first", "count", "data"),
    "offers": ("offer", "agent", "arm", "step", "at", "deadline", "recalled", "ending", "ended"),
    "ledger": ("entry", "offer", "agent", "arm", "amount", "currency", "at"),
    "bans": ("entry", "agent", "offer", "step", "until", "at", "lifted"),
    "audit": ("event", "at", "who", "action", "detail"),
    "names": ("agent", "name"),
    "event_ids": ("id", "event", "record", "at"),
    "snapshots": ("event", "part", "parts", "data"),
}
"""The columns of every table; each also names its campaign."""
KEYS: dict[str, int] = dict.fromkeys(TABLES, 1) | {"snapshots": 2}
"""So many first columns are a table's key."""
CHANGING = ("offers", "bans", "snapshots")
"""Tables whose rows may be written again: when an offer or a ban ends, or when a snapshot was interrupted."""
DERIVED = ("offers", "ledger", "bans", "audit")
"""Tables that follow from the log alone."""


def put(rows: Rows | None, table: str, *row: Any) -> None:
    """Add a row, where rows are wanted."""
    if rows is not None:
        rows.setdefault(table, []).append(row)
