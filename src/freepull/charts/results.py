"""Charts of simulations: bars of what principals pay and name, and lines against time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from freepull.charts.looks import COLOURS, HATCHES, MARKERS, axes, lengths, plain
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
    ax = _bars(results, "spent", axes(ax))
    top = max((_summary(result, "spent")[2] for result in results.values()), default=0.0) or 1.0
    for i, result in enumerate(results.values()):
        decided, height = 100 * _summary(result, "decided")[0], _summary(result, "spent")[2]
        ax.text(i, height + 0.03 * top, f"decides\n{decided:.0f} %", ha="center", va="bottom", fontsize=8)
    ax.set_ylim(0, 1.3 * top)
    ax.set_ylabel("spent, C(T), in units of reward")
    return ax


def _bars(results: Mapping[str, Result], quantity: str, ax: Axes, scale: float = 1.0) -> Axes:
    for i, result in enumerate(results.values()):
        mean, low, high = (scale * x for x in _summary(result, quantity))
        ax.bar(i, mean, width=0.6, color=COLOURS[i % 8], hatch=HATCHES[i % 8], edgecolor="white")
        ax.errorbar(i, mean, [[mean - low], [high - mean]], color="black", capsize=4, linewidth=1.2)
    ax.set_xticks(range(len(results)), [plain(name) for name in results])
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


def regret(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """The agents' regret against steps, all together: the mean of runs, with 95 % intervals, one line per result.

    The results must have traces of the same steps, from runs that were played to the horizon.
    """
    ax = axes(ax)
    for i, (name, result) in enumerate(results.items()):
        if result.trace is None or result.trace.is_empty():
            raise InvalidInput(f"results must have traces, as in simulate(…, trace=100), got none for {name!r}.")
        by_run = result.trace.group_by("run", "step").agg(pl.col("regret").sum())
        rows = by_run.group_by("step").agg(pl.col("regret").mean(), error=pl.col("regret").std() / pl.len().sqrt(),
                                           runs=pl.len()).sort("step")  # fmt: skip
        if rows["runs"].n_unique() > 1:
            raise InvalidInput(f"results must be played to the horizon, until='horizon', got others for {name!r}.")
        half = 1.96 * rows["error"].fill_null(0.0)
        look: dict[str, Any] = {
            "color": COLOURS[i % 8],
            "marker": MARKERS[i % 8],
            "markevery": max(1, rows.height // 8),
        }
        ax.plot(rows["step"], rows["regret"], label=plain(name), linewidth=1.4, markersize=4, **look)
        ax.fill_between(rows["step"], rows["regret"] - half, rows["regret"] + half, color=COLOURS[i % 8], alpha=0.2)
    ax.set(xlabel="step t", ylabel="regret of all agents")
    ax.legend(frameon=False, fontsize=8)
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
