"""Cost against a swept parameter (the paper's Fig. 2(c) and 2(d))."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from freepull.charts.style import COLOURS, MARKERS, axes, lengths, plain, spans_decade

APART = 0.008
"""Share of the axis between the error bars of two series."""

LINE = 0.04
"""Share of the axis that a line of text takes."""


def against(rows: pl.DataFrame, x: str, series: str = "principal", ax: Axes | None = None) -> Axes:
    """Bonuses paid against the column ``x``, one line a series, with 95 % intervals; above each the share decided.

    ``rows`` needs the columns bonus, bonus_low, bonus_high and decided, as `freepull.studies.summary` gives them. A
    series without a value of ``x`` is a level line. A column lower_bound, if there is one, is drawn dotted.
    """
    ax = axes(ax)
    rows = rows.filter(pl.col("bonus").is_not_nan())
    place = _scale(rows[x].drop_nulls().unique(maintain_order=True).to_list(), ax)
    names = rows[series].unique(maintain_order=True).to_list()
    shares: dict[Any, list[_Share]] = {}
    for i, name in enumerate(names):
        own = rows.filter(pl.col(series) == name)
        look: dict[str, Any] = {"color": COLOURS[i % 8], "label": plain(name), "linewidth": 1.4}
        if own[x].null_count():
            ax.axhline(own["bonus"][0], linestyle="--", **look)
        else:
            beside = APART * (i - (len(names) - 1) / 2)
            at = pl.Series([place(value, beside) for value in own[x]], dtype=pl.Float64)
            _line(own.with_columns(at=at).sort("at"), {**look, "marker": MARKERS[i % 8]}, ax)
            for value, bonus, high, decided in own.select(x, "bonus", "bonus_high", "decided").iter_rows():
                top = bonus if math.isnan(high) else high
                shares.setdefault(value, []).append(_Share(top, f"{100 * decided:.0f} %", COLOURS[i % 8]))
    if "lower_bound" in rows.columns:
        line = rows.filter(pl.col("lower_bound").is_not_null()).unique(x).sort(x)
        limit = [place(value, 0.0) for value in line[x]], line["lower_bound"]
        ax.plot(*limit, color="black", linestyle=":", label="lower bound")
    ax.set_xlabel(x)
    ax.set_ylabel("bonuses paid, C(T); % of runs decided")
    top = 1.18 * ax.get_ylim()[1]
    for value, told in shares.items():
        _stack(place(value, 0.0), told, top, ax)
    ax.set_ylim(-0.02 * top, max(top, ax.get_ylim()[1]))
    ax.legend(frameon=False, fontsize=8)
    return ax


class _Share(NamedTuple):
    """The share of runs decided, to be written above a point in the colour of its series."""

    above: float
    text: str
    colour: str


def _line(own: pl.DataFrame, look: dict[str, Any], ax: Axes) -> None:
    spread = [lengths(own["bonus"], own[f"bonus_{end}"]) for end in ("low", "high")]
    ax.errorbar(own["at"], own["bonus"], spread, markersize=5, capsize=3, **look)


def _stack(at: float, shares: list[_Share], top: float, ax: Axes) -> None:
    """Write the shares at one place from the lowest to the highest, none over another."""
    free = -math.inf
    halo = [withStroke(linewidth=2.5, foreground="white")]
    for share in sorted(shares):
        y = max(share.above + 0.01 * top, free)
        ax.text(at, y, share.text, ha="center", va="bottom", fontsize=7, color=share.colour, path_effects=halo)
        free = y + LINE * top


def _scale(values: Sequence[Any], ax: Axes) -> Callable[[Any, float], float]:
    """Set up the axis, and return where a value lies, some share of the axis beside it.

    Numbers lie where they are, on a logarithmic axis if they span a decade; words stand side by side.
    """
    if not all(isinstance(value, int | float) for value in values):
        ax.set_xticks(range(len(values)), [plain(value) for value in values])
        return lambda value, beside: values.index(value) + beside * len(values)
    low, high = min(values, default=0.0), max(values, default=1.0)
    wide = spans_decade(values)
    if wide:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks(values, [f"{value:g}" for value in values])
    if wide:
        return lambda value, beside: float(value * (high / low) ** beside)
    return lambda value, beside: float(value + (high - low) * beside)
