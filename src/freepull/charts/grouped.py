"""Bars in groups: some categories, each under several principals or protocols."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes

from freepull.charts.style import COLOURS, HATCHES, axes, lengths, plain
from freepull.errors import InvalidInput


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
