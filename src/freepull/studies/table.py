"""What a study found: one result a cell, and a row a cell with means and 95 % intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from freepull.simulation import Result
from freepull.simulation.collector import SCHEMA
from freepull.simulation.experiment import ranges
from freepull.studies.store import Store
from freepull.studies.study import Cell

QUANTITIES = ("paid", "bonus", "decided", "certified", "correct", "decided_at")


def result(store: Store, cell: Cell) -> Result:
    """Return all finished runs of a cell as one result, as `simulate` would have returned it."""
    shards = store.shards[cell.name]
    frame = pl.concat([pl.DataFrame(schema=SCHEMA), *(shard.frame for shard in shards)]).sort("run")
    paid, squares = np.zeros(cell.shape), np.zeros(cell.shape)
    for shard in shards:
        n = shard.frame.height
        total = np.rint(shard.paid * n)
        paid += total
        squares += total**2 if n == 1 else np.rint(shard.paid_error**2 * n * (n - 1) + total * shard.paid)
    n = frame.height
    mean = paid / max(n, 1)
    variance = (squares - paid * mean) / (n - 1) if n > 1 else np.full(cell.shape, np.nan)
    error = np.sqrt(np.maximum(variance, 0.0) / max(n, 1))
    told = _provenance(shards, cell, tuple(frame["run"].to_list())) if shards else {}
    return Result(frame, mean, error, {**told, "finished": n, "interrupted": n < cell.runs})


def _provenance(shards: list[Result], cell: Cell, runs: tuple[int, ...]) -> dict[str, Any]:
    """Return the provenance of the first shard, with the runs and the seconds of all of them."""
    told = shards[0].provenance
    return told | {
        "parameters": told["parameters"] | {"runs": ranges(runs)},
        "study": told["study"] | {"parameters": cell.parameters},
        "seconds": round(sum(shard.provenance["seconds"] for shard in shards), 3),
    }


def summary(store: Store) -> pl.DataFrame:
    """Return a row a cell: where it lies, how many runs are finished, and means with 95 % intervals."""
    rows = [_row(store, cell) for cell in store.study.cells]
    return pl.DataFrame(rows, infer_schema_length=None)


def frame(store: Store) -> pl.DataFrame:
    """Return a row a run of all cells, with the cell and its coordinates in front."""
    parts = []
    for cell in store.study.cells:
        found = result(store, cell).frame
        where = {"cell": cell.name, "principal": cell.principal, **_coordinates(store, cell)}
        parts.append(found.select([pl.lit(value).alias(name) for name, value in where.items()] + [pl.all()]))
    return pl.concat(parts, how="vertical_relaxed")


def _row(store: Store, cell: Cell) -> dict[str, Any]:
    row = {"cell": cell.name, "principal": cell.principal, **_coordinates(store, cell)}
    row |= {"runs": store.finished(cell), "wanted": cell.runs}
    for name, mean, low, high, _ in result(store, cell).summary().iter_rows():
        if name in QUANTITIES:
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return row


def _coordinates(store: Store, cell: Cell) -> dict[str, Any]:
    return {axis: cell.coordinates.get(axis) for axis in store.study.axes}
