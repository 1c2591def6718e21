"""The findings as pictures: how often a best arm falls, what freezers break, and what a verdict costs."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from freepull.charts.looks import COLOURS, HATCHES, axes

from .elimination import OTHERS, Row
from .judging import LEVELS, Rate
from .results import Results
from .settings import AFTER, AUTHORS, BEFORE

FALLS, FREEZERS, COSTS = (f"images/verification-{name}.png" for name in ("falls", "freezers", "costs"))
LOWEST = 1e-4
"""Where a rate of 0 is drawn."""


def draw(found: Results, docs: Path) -> None:
    """Draw all three."""
    (docs / "images").mkdir(parents=True, exist_ok=True)
    _falls(found.rows).savefig(docs / FALLS)
    _freezers(found.freezing).savefig(docs / FREEZERS)
    _costs(found).savefig(docs / COSTS)


def _falls(rows: list[Row]) -> Figure:
    """One row a case, a panel for the certified rule, and one for the others."""
    figure = Figure(figsize=(10.5, 0.24 * len(rows) + 1.8), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2, sharey=True)
    for d, (level, colour) in enumerate(zip(LEVELS, COLOURS, strict=False)):
        _limits(left, [row.rates()[d] for row in rows], 0.22 * (d - 1), colour, f"δ′ = {level:g}")
        left.axvline(level, color=colour, linewidth=1.2, linestyle="--")
    left.set_title("Certified: rate and upper limit", fontsize=10)
    for i, (name, colour) in enumerate(zip(OTHERS, (*COLOURS[3:6], COLOURS[7], COLOURS[0]), strict=True)):
        at = [(j, max(row.others[name].share, LOWEST)) for j, row in enumerate(rows) if row.others]
        right.plot(
            [x for _, x in at], [j + 0.14 * (i - 2) for j, _ in at], "osv^D"[i], color=colour, label=name, markersize=4
        )
    right.axvline(0.05, color=COLOURS[1], linewidth=1.2, linestyle="--")
    right.set_title("others, δ = .05 (equal weights)", fontsize=10)
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xlim(0.7 * LOWEST, 1.4)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        _plain(ax)
    left.legend(frameon=True, fontsize=7, loc="lower right", framealpha=0.9)
    right.legend(frameon=True, fontsize=7, loc="lower left", bbox_to_anchor=(0.08, 0.0))
    figure.supxlabel("share of runs in which the given best arm falls; 0 is drawn at the left edge", fontsize=9)
    left.set_yticks(range(len(rows)), [_short(row.case.name) for row in rows], fontsize=6.5)
    return figure


def _limits(ax: Axes, rates: list[Rate], shift: float, colour: str, label: str) -> None:
    for i, rate in enumerate(rates):
        ax.plot([max(rate.share, LOWEST), rate.high], [i + shift] * 2, color=colour, linewidth=1.6)
        ax.plot([rate.high], [i + shift], "|", color=colour, markersize=6)
    shares, rows = [max(r.share, LOWEST) for r in rates], [i + shift for i in range(len(rates))]
    ax.plot(shares, rows, "o", color=colour, markersize=3, label=label)


def _short(name: str) -> str:
    return name.replace(" on one agent", "").replace("coins ", "")


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", color="0.93", linewidth=0.7)
    ax.set_axisbelow(True)


def _freezers(rows: list[Row]) -> Figure:
    """Bars: every rule against freezers."""
    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=130)
    ax = axes(figure.subplots())
    names = ["Certified", *OTHERS]
    width = 0.85 / len(names)
    for i, name in enumerate(names):
        rates = [_of(row, name) for row in rows]
        at = [j + (i - (len(names) - 1) / 2) * width for j in range(len(rows))]
        shares = [max(100 * rate.share, 0.01) for rate in rates]
        ax.bar(at, shares, 0.95 * width, label=name, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white")
    ax.axhline(5, color="black", linewidth=1, linestyle="--")
    ax.text(len(rows) - 0.45, 5.6, "δ", fontsize=9)
    ax.set_yscale("log")
    ax.set_ylim(0.01, 150)
    ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0", "0.1 %", "1 %", "10 %", "100 %"])
    ax.set_xticks(range(len(rows)), [f"{row.case.agents}×{row.case.arms}" for row in rows])
    ax.set_xlabel("agents × arms, all of them freezers")
    ax.set_ylabel("runs in which the best arm falls")
    figure.legend(loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    return figure


def _of(row: Row, name: str) -> Rate:
    return row.rates()[1] if name == "Certified" else row.others[name]


def _costs(found: Results) -> Figure:
    """Bars: what each rule pays in each setting, on a logarithmic axis, with the lower bound as a line."""
    names = [BEFORE, AFTER, AUTHORS]
    shown = [name for name in found.limits if any(c.mean >= 1 for c in found.costs if c.setting == name)]
    figure = Figure(figsize=(11, 4.4), layout="constrained", dpi=130)
    ax, width = axes(figure.subplots()), 0.8 / len(names)
    for i, rule in enumerate(names):
        costs = [found.cost(setting, rule) for setting in shown]
        at = [j + (i - (len(names) - 1) / 2) * width for j in range(len(shown))]
        means = [cost.mean if cost else 0.0 for cost in costs]
        ax.bar(at, means, 0.94 * width, label=rule, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white")
        reach = [1.96 * cost.error if cost else 0.0 for cost in costs]
        ax.errorbar(at, means, reach, fmt="none", color="black", linewidth=1, capsize=2)
    for j, name in enumerate(shown):
        bound = found.limits[name]
        if bound > 0:
            ax.plot(
                [j - 0.45, j + 0.45],
                [bound, bound],
                color="black",
                linewidth=2,
                label="lower bound" if j == 0 else None,
            )
    ax.set_yscale("log")
    ax.set_ylim(bottom=1)
    ax.set_xticks(range(len(shown)), [_setting(name) for name in shown], fontsize=7)
    ax.set_ylabel("bonuses paid, mean (95 %)")
    figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    return figure


def _setting(name: str) -> str:
    return name.replace(", ", "\n")
