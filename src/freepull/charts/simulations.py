"""Charts of simulations: bonuses as bars, what is paid over time, lower bounds, and sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from freepull.charts.style import COLOURS, HATCHES, MARKERS, axes, lengths, plain, spans_decade
from freepull.errors import InvalidInput
from freepull.simulation import Result


def accuracy(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """How often each principal names the best arm, with Wilson's 95 % intervals (the paper's Fig. 2(a))."""
    ax = _bars(results, "correct", axes(ax), scale=100.0)
    ax.set_ylim(0, 118)
    ax.set_yticks(range(0, 101, 25))
    ax.set_ylabel("runs with the right arm, %")
    return ax


def spend(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """What each principal pays, C(T), with 95 % intervals; the share of runs it decides stands above the bar."""
    ax = _bars(results, "bonus", axes(ax))
    top = max((_summary(result, "bonus")[2] for result in results.values()), default=0.0) or 1.0
    for i, result in enumerate(results.values()):
        decided, height = 100 * _summary(result, "decided")[0], _summary(result, "bonus")[2]
        ax.text(i, height + 0.03 * top, f"decides\n{decided:.0f} %", ha="center", va="bottom", fontsize=8)
    ax.set_ylim(0, 1.3 * top)
    ax.set_ylabel("bonuses paid, C(T)")
    return ax


def _bars(results: Mapping[str, Result], quantity: str, ax: Axes, scale: float = 1.0) -> Axes:
    for i, result in enumerate(results.values()):
        mean, low, high = (scale * x for x in _summary(result, quantity))
        ax.bar(i, mean, width=0.6, color=COLOURS[i % 8], hatch=HATCHES[i % 8], edgecolor="white")
        ax.errorbar(i, mean, [[mean - low], [high - mean]], color="black", capsize=4, linewidth=1.2)
    ax.set_xticks(range(len(results)), list(results))
    return ax


def _summary(result: Result, quantity: str) -> tuple[float, float, float]:
    row = result.summary().row(by_predicate=pl.col("quantity") == quantity, named=True)
    mean, low, high = row["mean"], row["low"], row["high"]
    return mean, low if low == low else mean, high if high == high else mean


def grouped(
    rows: pl.DataFrame, category: str, group: str, value: str, note: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a value for every category and group, with 95 % intervals from the columns that end in _low and _high.

    ``note`` names a column of shares that is written beside each bar, in %.
    """
    if rows.is_empty():
        raise InvalidInput("rows must have at least one row to draw, got none.")
    ax = axes(ax)
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    categories = rows[category].unique(maintain_order=True).to_list()
    groups = rows[group].unique(maintain_order=True).to_list()
    height = 0.8 / len(groups)
    for i, name in enumerate(groups):
        own = rows.filter(pl.col(group) == name)
        at = [categories.index(one) + (i - (len(groups) - 1) / 2) * height for one in own[category]]
        ax.barh(
            at,
            own[value],
            0.9 * height,
            label=plain(name),
            color=COLOURS[i % 8],
            hatch=HATCHES[i % 8],
            edgecolor="white",
        )
        low, high = (lengths(own[value], own[f"{value}_{end}"]) for end in ("low", "high"))
        ax.errorbar(own[value], at, xerr=[low, high], fmt="none", color="black", capsize=2, linewidth=1)
        if note is not None:
            for y, x, half, rate in zip(at, own[value], high, own[note], strict=True):
                ax.annotate(f"{100 * rate:.0f} %", (x + half, y), (4, 0), textcoords="offset points",
                            va="center", fontsize=7)  # fmt: skip
    ax.set_yticks(range(len(categories)), [plain(one) for one in categories])
    ax.invert_yaxis()
    if note is not None:
        ax.margins(x=0.12)
    if len(groups) > 1:
        columns = 2 if len(groups) > 3 else 3
        ax.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns)
    return ax


def payments(result: Result, ax: Axes | None = None, first: int = 0) -> Axes:
    """Mean bonuses per agent and arm, with 95 % error bars; the first of each has the number ``first``."""
    ax = axes(ax)
    agents, arms = result.paid.shape
    width = 0.8 / arms
    for k in range(arms):
        where = np.arange(agents) + (k - (arms - 1) / 2) * width
        bars = ax.bar(
            where, result.paid[:, k], 0.92 * width, label=f"arm {first + k}", color=COLOURS[k % 8], edgecolor="white"
        )
        for bar in bars:
            bar.set_hatch(HATCHES[k % 8])
        half = 1.96 * np.nan_to_num(result.paid_error[:, k])
        ax.errorbar(where, result.paid[:, k], half, fmt="none", color="black", capsize=2, linewidth=1)
    ax.set_xticks(range(agents), [f"agent {first + m}" for m in range(agents)])
    ax.set_ylabel("bonuses paid, mean of runs")
    ax.set_ylim(0, 1.35 * (result.paid.max() or 1.0))
    ax.legend(frameon=False, fontsize=8, ncols=min(arms, 4), loc="upper center")
    return ax


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


APART = 0.008
"""Share of the axis between the error bars of two series."""

LINE = 0.04
"""Share of the axis that a line of text takes."""


def against(rows: pl.DataFrame, x: str, series: str = "principal", ax: Axes | None = None) -> Axes:
    """Bonuses paid against the column ``x``, one line per series, with 95 % intervals; above each the share decided.

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
