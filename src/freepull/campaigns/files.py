"""Campaigns as files: exports, imports and copies."""

from __future__ import annotations

from contextlib import closing
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from freepull import validation
from freepull.campaigns import status as tables
from freepull.campaigns.core import Core
from freepull.campaigns.directory import Register
from freepull.campaigns.journal.events import ENDINGS, OBSERVED, OUTCOME, TABLES, Kind
from freepull.campaigns.journal.recovery import owned, owner, segments
from freepull.campaigns.stores import Store, connect
from freepull.commands import ReadStatus, TellMany
from freepull.errors import CampaignExists, Corrupt, FreepullError, InvalidInput
from freepull.messages import Observation
from freepull.principal.record import UNITS

WHAT = ("observations", "ledger")
FORMS = (".parquet", ".csv")
TIME = pl.Datetime("us", "UTC")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""


def export(store: Store, register: Register, path: str | Path, what: str) -> int:
    """Write a file; return how many rows it has."""
    target = Path(path)
    validation.one_of("what", what, WHAT)
    if target.suffix not in FORMS or not target.parent.is_dir():
        raise InvalidInput(f"path must end in .parquet or .csv, in a folder that exists, got {str(path)!r}.")
    frame = observations(store, register) if what == "observations" else ledger(store, register)
    frame = frame.with_columns(rehearsal=pl.lit(rehearsed(store, register)))
    if target.suffix == ".parquet":
        frame.write_parquet(target)
    else:
        frame.with_columns(pl.col(pl.String).map_elements(harmless, pl.String)).write_csv(target)
    return frame.height


def rehearsed(store: Store, register: Register) -> bool:
    """Say whether simulated agents have played a campaign."""
    return any("rehearsal" in entry.detail for entry in tables.audit(store, register) if entry.action == "noted")


def observations(store: Store, register: Register) -> pl.DataFrame:
    """Return every pull in the order of the log; ``counted`` is false for late joiners."""
    parts = []
    for segment in segments(store, register.campaign):
        places = np.flatnonzero(segment.records["kind"] == Kind.TOLD)
        if len(places):
            parts.append((segment.first + places, segment.records[places]))
    places = np.concatenate([part[0] for part in parts] or [np.zeros(0, np.int64)])
    told = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, segment.records.dtype)
    agents = {int(agent): register.shown(int(agent)) for agent in np.unique(told["agent"])}
    outcomes = pl.Series([None if ending is None else ending for ending in ENDINGS], dtype=pl.String)
    return pl.DataFrame(
        {
            "sequence": places,
            "at": pl.Series(told["at"].astype(np.int64)).cast(TIME),
            "agent": pl.Series(told["agent"].astype(np.int64)).replace_strict(agents, return_dtype=pl.String),
            "arm": pl.Series(register.arms, dtype=pl.String).gather(told["arm"].astype(np.int64)),
            "reward": told["value"] / UNITS,
            "outcome": outcomes.gather((told["flags"] & OUTCOME).astype(np.int64)),
            "offer": pl.Series(told["offer"].astype(np.int64)).replace(0, None),
            "counted": (told["flags"] & OBSERVED) == 0,
        }
    )


def ledger(store: Store, register: Register) -> pl.DataFrame:
    """Return what was paid; amounts are in minor units, as the ledger has them, and in words."""
    rows = [
        (it.entry, it.offer, it.agent, it.arm, it.amount.minor, it.amount.currency, str(it.amount), it.at)
        for it in tables.ledger(store, register)
    ]
    schema: dict[str, Any] = {
        "entry": pl.Int64,
        "offer": pl.Int64,
        "agent": pl.String,
        "arm": pl.String,
        "minor_units": pl.Int64,
        "currency": pl.String,
        "amount": pl.String,
        "at": TIME,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def harmless(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("plain")
    ("'=1+1", 'plain')
    """
    return "'" + text if text[:1] in FORMULAS else text


def read(path: str | Path) -> tuple[list[Observation], list[str]]:
    """Read observations: columns agent, arm, reward, and event if pulls have ids of their own.

    Cells of a CSV are texts, whatever else its columns hold: 007 is not 7, and an event is an id, never a number.
    Without that column also return, for every row, what the file is known by up to it.
    """
    source = Path(path)
    if source.suffix not in FORMS or not source.is_file():
        raise InvalidInput(f"path must be a .parquet or .csv file that exists, got {str(path)!r}.")
    try:
        if source.suffix == ".parquet":
            frame = pl.read_parquet(source, glob=False)
        else:
            frame = pl.read_csv(source, infer_schema=False, glob=False)
    except Exception as error:
        why = str(error).strip().partition("\n")[0].rstrip(".")[:200]
        raise InvalidInput(f"{source.name} cannot be read as {source.suffix}: {why}.") from None
    missing = [name for name in ("agent", "arm", "reward") if name not in frame.columns]
    if missing:
        raise InvalidInput(f"path must have the columns agent, arm and reward, but {source.name} has no {missing[0]}.")
    if "rehearsal" in frame.columns and frame["rehearsal"].cast(pl.String).str.to_lowercase().eq("true").any():
        raise InvalidInput(f"path must have real pulls, but {source.name} is of a rehearsal; tell none of it.")
    if source.suffix == ".csv":
        numbers = frame["reward"].str.strip_chars().cast(pl.Float64, strict=False).to_list()
        rewards = [text if number is None else number for text, number in zip(frame["reward"], numbers, strict=True)]
    else:
        rewards = frame["reward"].to_list()
    own = "event" in frame.columns
    rows, marks, so_far = list[Observation](), list[str](), blake2b(digest_size=12)
    cells = frame.select("agent", "arm", *["event"] * own).iter_rows()
    for (agent, arm, *event), reward in zip(cells, rewards, strict=True):
        who, what = (_name(cell, source.suffix == ".csv") for cell in (agent, arm))
        rows.append(Observation(who, what, reward, event[0] if own else None))
        if not own:
            so_far.update(repr((who, what, reward)).encode())
            marks.append(so_far.hexdigest())
    return rows, marks


def _name(cell: Any, escaped: bool) -> Any:
    """Return a name as it was before `harmless`; names do not begin with an apostrophe of their own."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    return cell[1:] if escaped and isinstance(cell, str) and cell[:1] == "'" and cell[1:2] in FORMULAS else cell


def tell_file(core: Core, path: str | Path, by: str) -> int:
    """Tell the observations of a file all at once, or none of them; return how many were new.

    Rows without ids of their own get one from the whole file, so that the same file counts once, whatever its name.
    """
    rows, marks = read(path)
    if marks:
        earlier = [rows[0]._replace(event=_id(mark, 0)) for mark in marks[:-1]]
        if core.known(core.register.batch(earlier)):
            raise InvalidInput(
                f"{Path(path).name} begins with all rows of a file that was imported before; import the new ones, "
                "or give every row an id of its own in a column event."
            )
        rows = [row._replace(event=_id(marks[-1], i)) for i, row in enumerate(rows)]
    before = core.status(ReadStatus()).result().events
    try:
        told = core.tell_many(TellMany(rows, by)).result()
    except FreepullError as error:
        if error.place is not None:
            error.args = (f"row {error.place + 1} of {Path(path).name} is wrong: {error}",)
        raise
    return sum(reply.event is not None and reply.event >= before for reply in told)


def _id(file: str, row: int) -> str:
    return f"import:{file}:{row}"


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
