"""Files: observations and the ledger as Parquet or CSV, and observations from such files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from freepull import checks
from freepull.errors import InvalidInput
from freepull.live import tables
from freepull.live.batches import Register
from freepull.live.core import Core
from freepull.live.events import ENDINGS, OBSERVED, OUTCOME, Kind
from freepull.live.recovery import segments
from freepull.live.replies import Observation
from freepull.live.stores import Store
from freepull.principal.record import UNITS

WHAT = ("observations", "ledger")
FORMS = (".parquet", ".csv")
TIME = pl.Datetime("us", "UTC")
PIECE = 5_000
"""So many observations are imported at a time."""


def export(store: Store, register: Register, path: str | Path, what: str) -> int:
    """Write a file; return how many rows it has."""
    target = Path(path)
    checks.one_of("what", what, WHAT)
    if target.suffix not in FORMS or not target.parent.is_dir():
        raise InvalidInput(f"path must end in .parquet or .csv, in a folder that exists, got {str(path)!r}.")
    frame = observations(store, register) if what == "observations" else ledger(store, register)
    if target.suffix == ".parquet":
        frame.write_parquet(target)
    else:
        frame.with_columns(pl.col(pl.String).map_elements(harmless, pl.String)).write_csv(target)
    return frame.height


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
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def read(path: str | Path) -> list[Observation]:
    """Read observations: columns agent, arm, reward, and event if pulls have ids of their own.

    Without that column the id is made of the file's name and the row, so that importing a file again, with rows added
    at its end, tells only the new ones.
    """
    source = Path(path)
    if source.suffix not in FORMS or not source.is_file():
        raise InvalidInput(f"path must be a .parquet or .csv file that exists, got {str(path)!r}.")
    try:
        frame = (
            pl.read_parquet(source) if source.suffix == ".parquet" else pl.read_csv(source, infer_schema_length=None)
        )
    except Exception as error:
        raise InvalidInput(f"path cannot be read as {source.suffix}: {' '.join(str(error).split())[:200]}.") from None
    missing = [name for name in ("agent", "arm", "reward") if name not in frame.columns]
    if missing:
        raise InvalidInput(f"path must have the columns agent, arm and reward, but {source.name} has no {missing[0]}.")
    rows = frame.select("agent", "arm", "reward", *(["event"] if "event" in frame.columns else []))
    return [_observation(source.name, i, *row) for i, row in enumerate(rows.iter_rows())]


def _observation(name: str, row: int, agent: Any, arm: Any, reward: Any, event: Any = None) -> Observation:
    who, what = (str(it) if isinstance(it, int) and not isinstance(it, bool) else it for it in (agent, arm))
    return Observation(who, what, reward, f"import:{name}:{row}" if event is None else event)


def tell_file(core: Core, path: str | Path, by: str) -> int:
    """Tell the observations of a file, some at a time; nothing if a row is wrong in itself."""
    rows = read(path)
    wrong = core.register.batch(rows).errors
    if wrong:
        raise InvalidInput(f"row {min(wrong) + 1} of {Path(path).name} is wrong: {wrong[min(wrong)]}")
    for begin in range(0, len(rows), PIECE):
        core.tell(rows[begin : begin + PIECE], strict=True, by=by).result()
    return len(rows)
