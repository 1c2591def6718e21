"""Campaigns as files: exports, imports, copies, and backups that are restored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull import validation
from freepull.campaigns import parquet
from freepull.campaigns import status as tables
from freepull.campaigns.core import Core
from freepull.campaigns.directory import Batch, Register, identity
from freepull.campaigns.journal.events import ENDINGS, OBSERVED, OUTCOME, PULLS, RECORD, TABLES, Kind, Records
from freepull.campaigns.journal.recovery import Report, owned, owner, segments, settings_of, verify
from freepull.campaigns.stores import Store, connect
from freepull.campaigns.telling import first_of
from freepull.commands import ReadStatus
from freepull.errors import CampaignExists, Corrupt, FreepullError, InvalidInput, StoreError
from freepull.messages import Observation
from freepull.principal.record import UNITS
from freepull.validation import FORMULAS, harmless

WHAT = ("observations", "ledger")
FORMS = (".parquet", ".csv")
TIME = pl.Datetime("us", "UTC")
NEEDED, READ = ("agent", "arm", "reward"), ("agent", "arm", "reward", "event", "rehearsal")
"""The columns that a file must have that is imported, and those that are read of it."""
MOST_ROWS, PIECE = 500_000, 20_000
"""Rows of such a file, all of which are told at once; and how many of them are looked at together."""
MOST_BYTES = 128 << 20
"""What its columns may unpack to: 268 bytes a row."""
LONGEST_HEADER = 1 << 16
LONGEST_CELL = 1000
"""Characters; names and ids are shorter."""
PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
"""How files begin that Polars would unpack: gzip, Zstandard, zlib."""


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
    """Return every pull in the order of the log; ``counted`` is false for late joiners.

    A pull whose outcome is to come, or is missing, has no reward.
    """
    sequence, told = _events(store, register, PULLS)
    rewards = np.where(told["kind"] == Kind.ACTED, np.nan, told["value"] / UNITS)
    _, later = _events(store, register, (Kind.CAME, Kind.NEVER_CAME))
    instead = settings_of(store, register.campaign).without_outcome
    came, acts = later["kind"] == Kind.CAME, np.searchsorted(sequence, later["offer"])
    rewards[acts] = np.where(came, later["value"] / UNITS, np.nan if instead is None else instead)
    if register.scale is not None:
        places = math.floor(-math.log10(register.scale.width / UNITS))  # as many as are stored
        rewards = np.round(register.scale.low + register.scale.width * rewards, places)
    told["flags"][acts] |= np.where(came, later["flags"] & OUTCOME, 0).astype(np.uint8)
    agents = {int(agent): register.shown(int(agent)) for agent in np.unique(told["agent"])}
    outcomes = pl.Series([None if ending is None else ending for ending in ENDINGS], dtype=pl.String)
    return pl.DataFrame(
        {
            "sequence": sequence,
            "at": pl.Series(told["at"].astype(np.int64)).cast(TIME),
            "agent": pl.Series(told["agent"].astype(np.int64)).replace_strict(agents, return_dtype=pl.String),
            "arm": pl.Series(register.arms, dtype=pl.String).gather(told["arm"].astype(np.int64)),
            "reward": pl.Series(rewards).fill_nan(None),
            "outcome": outcomes.gather((told["flags"] & OUTCOME).astype(np.int64)),
            "offer": pl.Series(told["offer"].astype(np.int64)).replace(0, None),
            "counted": (told["flags"] & OBSERVED) == 0,
        }
    )


def _events(store: Store, register: Register, kinds: tuple[Kind, ...]) -> tuple[NDArray[np.int64], Records]:
    """Return the events of some kinds, and their places in the log."""
    parts = [(np.zeros(0, np.int64), np.zeros(0, RECORD))]
    for segment in segments(store, register.campaign):
        places = np.flatnonzero(np.isin(segment.records["kind"], kinds))
        if len(places):
            parts.append((segment.first + places, segment.records[places]))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def ledger(store: Store, register: Register) -> pl.DataFrame:
    """Return what was paid, and what became of it; amounts are in minor units, as the ledger has them, and in words."""
    rows = [
        (
            *(it.entry, it.offer, it.agent, it.arm, it.amount.minor, it.amount.currency, str(it.amount), it.at),
            *(it.key, it.settlement, it.payer, it.note),
        )
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
        "key": pl.String,
        "settlement": pl.String,
        "payer": pl.String,
        "note": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def read(path: str | Path) -> pl.DataFrame:
    """Read observations: columns agent, arm, reward, and event if pulls have ids of their own.

    Cells of a CSV are texts, whatever else its columns hold: 007 is not 7, and an event is an id, never a number.
    A small file may unpack to a large one, so rows and bytes are counted, and columns looked at, before it is read.
    """
    source = Path(path)
    if source.suffix not in FORMS or not source.is_file():
        raise InvalidInput(f"path must be a .parquet or .csv file that exists, got {str(path)!r}.")
    try:
        with source.open("rb") as file:
            (_weigh if source.suffix == ".parquet" else _look)(source, file)
        lazy = (
            pl.scan_parquet(source, glob=False)
            if source.suffix == ".parquet"
            else pl.scan_csv(source, infer_schema=False, glob=False)
        )
        schema, height = lazy.collect_schema(), int(lazy.select(pl.len()).collect().item())
        wanted = _columns(source, schema, height)
        frame = lazy.select(wanted).collect()
    except (FreepullError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # the latter is a BaseException
        why = str(error).strip().partition("\n")[0].rstrip(".")[:200] or type(error).__name__
        raise InvalidInput(f"{source.name} cannot be read as {source.suffix}: {why}.") from None
    if "rehearsal" in wanted and frame["rehearsal"].cast(pl.String).str.to_lowercase().eq("true").any():
        raise InvalidInput(f"path must have real pulls, but {source.name} is of a rehearsal; tell none of it.")
    for column in frame.select(pl.col(pl.String)):
        longest = column.str.len_bytes().arg_max()
        if longest is not None and len(column[longest]) > LONGEST_CELL:
            raise InvalidInput(
                f"row {longest + 1} of {source.name} is wrong: its {column.name} must have at most {LONGEST_CELL:,} "
                f"characters, got {len(column[longest]):,}."
            )
    return frame


def _look(source: Path, file: BinaryIO) -> None:
    """Refuse a CSV that Polars would unpack, or whose first line has no end."""
    first = file.read(LONGEST_HEADER)
    if first.startswith(PACKED):
        raise InvalidInput(f"{source.name} is compressed; unpack it, and import what is in it.")
    line, end, _ = first.partition(b"\n")
    if (not end and len(first) == LONGEST_HEADER) or line.count(b'"') % 2:
        raise InvalidInput(
            f"the first line of {source.name} must name its columns in at most {LONGEST_HEADER:,} bytes; import the "
            "columns agent, arm, reward and perhaps event alone."
        )


def _weigh(source: Path, file: BinaryIO) -> None:
    """Refuse a Parquet file that would unpack to too much."""
    try:
        told = parquet.footer(file)
        _count(source, told.rows)
        size = parquet.unpacked(file, told, READ, MOST_BYTES)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("a part of it is missing") from None
    if size > MOST_BYTES:
        raise InvalidInput(
            f"path must unpack to at most {MOST_BYTES >> 20} MB, because all of it is told at once, but {source.name} "
            f"says that it unpacks to {size >> 20:,} MB or more; import it in parts."
        )


def _count(source: Path, height: int) -> None:
    """Refuse too many rows."""
    if height > MOST_ROWS:
        raise InvalidInput(
            f"path must have at most {MOST_ROWS:,} rows, because all of them are told at once, but {source.name} has "
            f"{height:,}; import it in parts."
        )


def _columns(source: Path, schema: pl.Schema, height: int) -> list[str]:
    """Return the columns that are needed; refuse a file that has not got them, or has too many rows."""
    missing = [name for name in NEEDED if name not in schema]
    if missing:
        raise InvalidInput(f"path must have the columns agent, arm and reward, but {source.name} has no {missing[0]}.")
    _count(source, height)
    wanted = [name for name in READ if name in schema]
    for name in wanted:
        if schema[name].is_nested() or schema[name] in (pl.Binary, pl.Object):
            raise InvalidInput(f"the column {name} of {source.name} must hold texts or numbers, got {schema[name]}.")
    return wanted


def _rows(frame: pl.DataFrame, is_csv: bool) -> Iterator[Observation]:
    """Return the observations of some rows."""
    rewards = frame["reward"].to_list()
    if is_csv:
        numbers = frame["reward"].str.strip_chars().cast(pl.Float64, strict=False).to_list()
        rewards = [text if number is None else number for text, number in zip(rewards, numbers, strict=True)]
    own = "event" in frame.columns
    cells = frame.select("agent", "arm", *["event"] * own).iter_rows()
    for (agent, arm, *event), reward in zip(cells, rewards, strict=True):
        yield Observation(_name(agent, is_csv), _name(arm, is_csv), reward, event[0] if own else None)


def _name(cell: Any, escaped: bool) -> Any:
    """Return a name as it was before `harmless`; names do not begin with an apostrophe of their own."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    return cell[1:] if escaped and isinstance(cell, str) and cell[:1] == "'" and cell[1:2] in FORMULAS else cell


def tell_file(core: Core, path: str | Path, by: str) -> int:
    """Tell the observations of a file all at once, or none of them; return how many were new.

    Rows without ids of their own get one from the whole file, so that the same file counts once, whatever its name.
    """
    file, frame = Path(path).name, read(path)
    own, so_far, parts = "event" in frame.columns, blake2b(digest_size=12), list[Batch]()
    earlier: list[bytes] = []
    """What the rows that were read are known by, if a file that was imported before had these alone."""
    for begin in range(0, frame.height, PIECE):
        rows = list(_rows(frame.slice(begin, PIECE), Path(path).suffix == ".csv"))
        part = core.register.batch(rows)
        if part.errors:
            raise _in_row(first_of(part.errors), file, begin)
        parts.append(part)
        if own:
            continue
        for row in rows:
            so_far.update(repr((row.agent, row.arm, row.reward)).encode())
            earlier.append(_id(int(parts[0].agents[0]), so_far.hexdigest(), 0))
        ahead = earlier if begin + PIECE < frame.height else earlier[:-1]
        if core.known(ahead):
            raise InvalidInput(
                f"{file} begins with all rows of a file that was imported before; import the new ones, or give every "
                "row an id of its own in a column event."
            )
        earlier.clear()
    del frame
    batch = Batch.joined(parts)
    if not own:
        batch.ids = [_id(agent, so_far.hexdigest(), i) for i, agent in enumerate(batch.agents.tolist())]
    before = core.status(ReadStatus()).result().events
    try:
        told = core.tell_batch(batch, True, by).result()
    except FreepullError as error:
        raise _in_row(error, file) from None
    return sum(reply.event is not None and reply.event >= before for reply in told)


def _in_row(error: FreepullError, file: str, begin: int = 0) -> FreepullError:
    """Say in which row of a file an error is, where it has a place."""
    if error.place is not None:
        error.args = (f"row {begin + error.place + 1} of {file} is wrong: {error}",)
    return error


def _id(agent: int, file: str, row: int) -> bytes:
    """Return what a row of a file without event ids is remembered by."""
    key, _ = identity(agent, f"import:{file}:{row}")
    assert key is not None
    return key


@dataclass(frozen=True)
class Restored:
    """What a backup has brought back."""

    campaigns: list[Report]
    """Its campaigns, as they were verified before anything was replaced."""
    kept: str | None
    """Where the file is that was there before; None: there was none."""


def restore(url: str, path: str | Path) -> Restored:
    """Put a backup in the place of a SQLite file that nobody has open, once everything in it is verified.

    Killed at any moment, it leaves the old file or the new one. The backup itself stays as it is.
    """
    if not isinstance(url, str) or not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise InvalidInput(
            f"url must be a SQLite file's, such as sqlite:///trial.db, got {validation.shown(url)}; for PostgreSQL "
            "take pg_restore, into a database without the schema freepull, or freepull campaign copy from a file."
        )
    from freepull.campaigns.stores.replacing import Replacing

    with Replacing(Path(url.removeprefix("sqlite:///")), Path(path)) as backup:
        staged = f"sqlite:///{backup.staged}"
        try:
            with closing(connect(staged)) as store:
                reports = [verify(staged, name) for name in store.campaigns()]
        except StoreError as error:
            said = str(error).replace(staged, str(path))
            error.args = (f"{path} cannot be restored, and nothing was replaced, because {said}",)
            raise
        kept = backup.replace()
    return Restored(reports, None if kept is None else str(kept))


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
