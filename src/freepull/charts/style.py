"""One look for all charts: readable in print and by the colour-blind (Okabe and Ito's colours, hatches, markers)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DECADE = 10.0
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""


def plain(text: object) -> str:
    """Return a name as it is to be written: no mathematics in it, and none left out of legends."""
    escaped = str(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def lengths(values: pl.Series, ends: pl.Series) -> list[float]:
    """Return the lengths of error bars, 0 where a single run has none."""
    return [0.0 if math.isnan(length) else abs(length) for length in (ends - values).to_list()]


def spans_decade(values: Sequence[float]) -> bool:
    """Say whether an axis with these values is logarithmic."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return low > 0 and high / low >= DECADE


def axes(ax: Axes | None) -> Axes:
    """Return the given axes, or new ones, without the lines that carry nothing."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(4.5, 3.2), layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax
