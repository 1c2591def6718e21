"""The chart of a study: cost against what was swept."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes

from freepull import charts, checks
from freepull.errors import StudyError
from freepull.studies.store import Store
from freepull.studies.table import result, summary


def chart(store: Store, x: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the cost against ``x``, the first swept key by default, one line for each principal and other swept value.

    Without a sweep, draw a bar for each principal.
    """
    axes = store.study.axes
    if x is not None:
        checks.one_of("x", x, axes)
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
