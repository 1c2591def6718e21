"""Bars with error bars: one for each of several results."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes

from freepull.charts.style import COLOURS, HATCHES, axes
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
