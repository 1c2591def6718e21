"""Copying a campaign from one store to another, every bit of it, in one transaction."""

from __future__ import annotations

from contextlib import closing
from itertools import zip_longest

from freepull.errors import CampaignExists, Corrupt
from freepull.live.ownership import owned, owner
from freepull.live.rows import TABLES
from freepull.live.stores import Store, connect


def copy(source: str | Store, target: str | Store, name: str, wait: float = 0.0) -> dict[str, int]:
    """Copy a campaign that nobody has open; return how many rows each table has.

    The copy appears all at once, and is compared row by row with the original.
    """
    with owned(source, name, wait) as (old, _), closing(connect(target, new=True)) as new:
        if name in new.campaigns():
            raise CampaignExists(f"{new.url} has a campaign {name!r} already; copy to another store.")
        lease = new.create(name, owner(), {table: old.read(name, table) for table in TABLES})
        new.release(lease)
        return {table: _compare(old, new, name, table) for table in TABLES}


def _compare(old: Store, new: Store, name: str, table: str) -> int:
    rows = 0
    for ours, theirs in zip_longest(old.read(name, table), new.read(name, table)):
        if ours != theirs:
            raise Corrupt(f"row {rows} of table {table} of campaign {name!r} was not copied well; do not use the copy.")
        rows += 1
    return rows
