"""The findings as a picture: what an agent-step costs, program by program, on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from freepull.charts import COLOURS

from .findings import Findings, Timed, ns

OURS, OTHERS, BY_HAND = COLOURS[:3]
HATCH = {"observing": "", "incentivizing": "///"}


def draw(found: Findings, path: Path) -> None:
    """Draw two panels, for 3 arms and for 30."""
    figure = Figure(figsize=(11, 5.4), layout="constrained", dpi=150)
    for arms, ax in zip((3, 30), figure.subplots(1, 2), strict=True):
        _panel(sorted((t for t in found.timed if t.arms == arms), key=lambda t: -t.sample.median), ax)
        ax.set_title(f"K = {arms} arms")
    legend = [
        Patch(facecolor=OURS, label="freepull, compiled"),
        Patch(facecolor=BY_HAND, label="C, written by hand"),
        Patch(facecolor=OTHERS, label="others"),
        Patch(facecolor="white", edgecolor="black", hatch=HATCH["incentivizing"], label="hatched: incentivizing"),
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _panel(timed: list[Timed], ax: Axes) -> None:
    for i, one in enumerate(timed):
        middle, (low, high) = one.sample.median, one.sample.quartiles
        colour = OURS if one.ours else BY_HAND if one.what.startswith("C,") else OTHERS
        ax.barh(i, middle, color=colour, hatch=HATCH[one.phase], edgecolor="white")
        reach = [[max(0.0, middle - low)], [max(0.0, high - middle)]]
        ax.errorbar(middle, i, xerr=reach, color="black", capsize=3, linewidth=1.2)
        ax.text(max(middle, high) * 1.25, i, ns(middle), va="center", fontsize=8)
    ax.set_yticks(range(len(timed)), [f"{one.what}, {one.phase}" for one in timed], fontsize=8)
    ax.set_xscale("log")
    if timed:
        ax.set_xlim(0.1, 40 * max(one.sample.quartiles[1] for one in timed))
    ax.set_xlabel("ns per agent-step (median; whiskers: quartiles)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
