"""Counts against time beside a lower bound (the paper's Lemma 4)."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes

from freepull.charts.style import COLOURS, MARKERS, axes


def floors(rows: pl.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw pulls against steps, both logarithmic: the mean of runs, the smallest and largest, and the bound, dashed.

    ``rows`` needs the columns arm, steps, mean, least, most and bound.
    """
    ax = axes(ax)
    for i, arm in enumerate(rows["arm"].unique(maintain_order=True)):
        own, colour = rows.filter(pl.col("arm") == arm).sort("steps"), COLOURS[i % 8]
        spread = [(own["mean"] - own["least"]).to_list(), (own["most"] - own["mean"]).to_list()]
        ax.errorbar(
            own["steps"], own["mean"], spread, color=colour, marker=MARKERS[i % 8], capsize=3, label=f"arm {arm}"
        )
        ax.plot(own["steps"], own["bound"], color=colour, linestyle="--", label=f"bound, arm {arm}")
    ax.set(xscale="log", yscale="log", xlabel="steps Λ", ylabel="pulls: mean, smallest, largest")
    ax.legend(frameon=False, fontsize=7, ncols=2)
    return ax
