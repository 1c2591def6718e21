"""The one look of all charts: colours, hatches and markers, axes, and how names and lengths are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from matplotlib import rc_context
from matplotlib.axes import Axes

from freepull.errors import InvalidInput

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ENDINGS = (".pdf", ".png", ".svg")
"""Of pictures that can be written."""
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


def save(ax: Axes, path: str | Path) -> Path:
    """Write the picture that some axes are in, as its ending says: .pdf, .png or .svg.

    Text stays text: fonts are embedded whole, as publishers ask, and the same picture gives the same bytes.
    """
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise InvalidInput(f"path must be a picture that ends in .pdf, .png or .svg, got {str(path)!r}.")
    figure = ax.get_figure(root=True)
    if figure is None:
        raise InvalidInput("ax must be in a figure, got axes that were removed from theirs.")
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(target.suffix, {})
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "freepull"}):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(target, metadata=undated)
        except OSError as error:
            raise InvalidInput(f"path cannot be written to {target}: {error.strerror}; choose another place.") from None
    return target
