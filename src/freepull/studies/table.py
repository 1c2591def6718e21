"""A study as a table and as a chart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from freepull import charts, validation
from freepull.errors import StudyError
from freepull.simulation import Result
from freepull.simulation.experiment import ranges
from freepull.simulation.results import SCHEMA, join
from freepull.studies.store import Store
from freepull.studies.study import Cell

QUANTITIES = ("paid", "bonus", "decided", "certified", "correct", "decided_at")


def result(store: Store, cell: Cell) -> Result:
    """Return all finished runs of a cell as one result, as `simulate` would have returned it."""
    shards = store.shards[cell.name]
    if not shards:
        nothing = np.zeros(cell.shape, np.int64)
        return Result(pl.DataFrame(schema=SCHEMA), nothing, nothing, {"finished": 0, "interrupted": cell.runs > 0})
    found = join(shards)
    told = found.provenance
    told |= {
        "parameters": told["parameters"] | {"runs": ranges(tuple(found.frame["run"].to_list()))},
        "study": told["study"] | {"parameters": cell.parameters},
        "interrupted": found.frame.height < cell.runs,
    }
    return replace(found, provenance=told)


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
    return pl.concat(parts, how="diagonal_relaxed")


def _row(store: Store, cell: Cell) -> dict[str, Any]:
    row = {"cell": cell.name, "principal": cell.principal, **_coordinates(store, cell)}
    row |= {"runs": store.finished(cell), "wanted": cell.runs}
    for name, mean, low, high, _ in result(store, cell).summary().iter_rows():
        if name in QUANTITIES:
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return row


def _coordinates(store: Store, cell: Cell) -> dict[str, Any]:
    return {axis: cell.coordinates.get(axis) for axis in store.study.axes}


def chart(store: Store, x: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the cost against ``x``, the first swept key by default, one line for each principal and other swept value.

    Without a sweep, draw a bar for each principal.
    """
    axes = store.study.axes
    if x is not None:
        validation.one_of("x", x, axes)
    if not any(store.shards.values()):
        raise StudyError(f"{store.folder} has no finished runs to draw yet; run the study first.")
    if not axes:
        ax = charts.spend({cell.name: result(store, cell) for cell in store.study.cells}, ax=ax)
    else:
        x = x or axes[0]
        rows = summary(store)
        others = [pl.format(f", {axis}={{}}", pl.col(axis)).fill_null("") for axis in axes if axis != x]
        ax = charts.against(rows.with_columns(line=pl.concat_str("principal", *others)), x, series="line", ax=ax)
    ax.set_title(charts.plain(store.study.title), fontsize=10)
    return ax
