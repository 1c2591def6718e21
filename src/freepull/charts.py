"""Charts of simulations and plans, one per function; each takes ``ax=`` and returns the axes.

They have one look, readable in print and by the colour-blind: Okabe and Ito's colours, hatches, markers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from freepull.errors import InvalidInput
from freepull.planning import Plan
from freepull.planning.search import CHANCE, Curve, Point
from freepull.simulation import Result

Floats = NDArray[np.float64]

__all__ = [
    "accuracy",
    "against",
    "chance_by_budget",
    "floors",
    "grouped",
    "payments",
    "plain",
    "regret",
    "spend",
    "spend_by_agents",
    "spend_by_horizon",
    "spend_by_observing",
]


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


APART = 0.008
"""Share of the axis between the error bars of two series."""

LINE = 0.04
"""Share of the axis that a line of text takes."""


def against(rows: pl.DataFrame, x: str, series: str = "principal", ax: Axes | None = None, cost: str = "spent") -> Axes:
    """What was spent against the column ``x``, one line per series, with 95 % intervals; above each the share decided.

    ``rows`` needs the columns spent, spent_low, spent_high and decided, as `freepull.studies.summary` gives them; with
    ``cost="paid"``, those of the number of bonuses. A series without a value of ``x`` is a level line. A column
    lower_bound, if there is one, is drawn dotted.
    """
    ax = axes(ax)
    low, high = f"{cost}_low", f"{cost}_high"
    rows = rows.filter(pl.col(cost).is_not_nan())
    place = _scale(rows[x].drop_nulls().unique(maintain_order=True).to_list(), ax)
    names = rows[series].unique(maintain_order=True).to_list()
    shares: dict[Any, list[_Share]] = {}
    for i, name in enumerate(names):
        own = rows.filter(pl.col(series) == name)
        look: dict[str, Any] = {"color": COLOURS[i % 8], "label": plain(name), "linewidth": 1.4}
        if own[x].null_count():
            ax.axhline(own[cost][0], linestyle="--", **look)
        else:
            beside = APART * (i - (len(names) - 1) / 2)
            at = pl.Series([place(value, beside) for value in own[x]], dtype=pl.Float64)
            placed = own.with_columns(at=at).sort("at")
            spread = [lengths(placed[cost], placed[end]) for end in (low, high)]
            look |= {"marker": MARKERS[i % 8], "markersize": 5, "capsize": 3}
            ax.errorbar(placed["at"], placed[cost], spread, **look)
            for value, bonus, most, decided in own.select(x, cost, high, "decided").iter_rows():
                top = bonus if math.isnan(most) else most
                shares.setdefault(value, []).append(_Share(top, f"{100 * decided:.0f} %", COLOURS[i % 8]))
    if "lower_bound" in rows.columns:
        line = rows.filter(pl.col("lower_bound").is_not_null()).unique(x).sort(x)
        limit = [place(value, 0.0) for value in line[x]], line["lower_bound"]
        ax.plot(*limit, color="black", linestyle=":", label="lower bound")
    ax.set_xlabel(x)
    what = "bonuses paid, C(T)" if cost == "paid" else "spent, in units of reward"
    ax.set_ylabel(f"{what}; % of runs decided")
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


NAMED_APART = 0.11
"""The share of the axis that must lie between two points for both to be named."""


def spend_by_agents(plan: Plan, ax: Axes | None = None) -> Axes:
    """Bonuses paid against the number of agents, with the ranges of single trials."""
    return _band(plan, "agents", "agents", axes(ax))


def spend_by_horizon(plan: Plan, ax: Axes | None = None) -> Axes:
    """Bonuses paid against the horizon, with the ranges of single trials."""
    return _band(plan, "horizon", "horizon T, steps", axes(ax))


def spend_by_observing(plan: Plan, ax: Axes | None = None) -> Axes:
    """Bonuses paid against κ, as a share of the horizon, with the ranges of single trials."""
    return _band(plan, "observing", "observing phase κ, share of the horizon", axes(ax))


def chance_by_budget(plan: Plan, ax: Axes | None = None) -> Axes:
    """How likely a certified answer is for at most this many bonuses."""
    if plan.forecast is None:
        raise InvalidInput("plan must be a simulated one, got a plan by formulas; leave quick out.")
    ax, found = axes(ax), plan.forecast
    costs = np.sort(found.paid[found.certified])
    heights = 100 * np.arange(1, len(costs) + 1) / found.runs
    top = max(float(found.paid.max()), 1.0)
    last = heights[-1] if len(heights) else 0.0
    ax.step([0.0, *costs, 1.05 * top], [0.0, *heights, last], where="post", color=COLOURS[0])
    ax.axhline(100 * CHANCE, color="0.4", linewidth=1, linestyle="--")
    budget = found.budget(CHANCE)
    if budget is not None:
        ax.plot([budget], [100 * CHANCE], "o", color=COLOURS[5])
        ax.annotate(f"{budget:,.0f} bonuses", (budget, 100 * CHANCE), (6, -12), textcoords="offset points", fontsize=8)
    ax.set_xlim(-0.02 * top, 1.05 * top)
    ax.set_ylim(0, 104)
    ax.set_xlabel("budget, bonuses")
    ax.set_ylabel("certified within it, %")
    return ax


def _band(plan: Plan, quantity: str, label: str, ax: Axes) -> Axes:
    points = _curve(plan, quantity).points
    x = np.array([point.x for point in points])
    wide = spans_decade(x.tolist())
    place = np.log(x) if wide else x
    means = np.array([point.forecast.mean for point in points])
    margins = np.array([point.forecast.margin for point in points])
    line = edge = smoothed(place, means, margins / 1.96)
    for share, shade in ((0.9, 0.18), (0.5, 0.35)):
        low, high = (
            smoothed(place, *np.array([point.forecast.end(p) for point in points]).T)
            for p in ((1 - share) / 2, (1 + share) / 2)
        )
        low, high = np.minimum(low, line), np.maximum(high, line)
        edge = high if share == 0.9 else edge
        ax.fill_between(x, low, high, color=COLOURS[0], alpha=shade, linewidth=0, label=f"{100 * share:g} % of trials")
    ax.plot(x, line, "-", color=COLOURS[0], label="mean, smoothed")
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3.5, "capsize": 2, "linewidth": 1}
    ax.errorbar(x, means, np.nan_to_num(margins), color=COLOURS[0], **look)
    named, top = _apart(points, wide), float(edge.max()) or 1.0
    for point in named:
        weight = "bold" if point.planned else "normal"
        at = (point.x, float(edge[points.index(point)]) + 0.02 * top)
        ax.annotate(f"{100 * point.forecast.chance[0]:.0f} %", at, ha="center", fontsize=8, fontweight=weight)
    for point in points:
        if point.planned:
            ax.plot(point.x, point.forecast.mean, "o", color=COLOURS[5], markersize=8, zorder=3, label="the plan")
    if wide:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks([point.x for point in named], [f"{point.x:,g}" for point in named], fontsize=8)
    ax.set_ylim(0, 1.32 * top)
    ax.set_xlabel(label)
    ax.set_ylabel("bonuses paid (%: certified)")
    ax.legend(frameon=False, fontsize=8, loc="upper right")
    return ax


def smoothed(x: Floats, y: Floats, error: Floats) -> Floats:
    """The smoothest curve near points: as far from them as their standard errors allow, and not below 0.

    It minimises Σ ((y − ŷ)/error)² + λ·Σ (second divided differences of ŷ)², with the largest λ for which the first
    sum is at most the number of points (Whittaker's graduation, with the discrepancy principle).

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> smoothed(x, np.array([1.0, 2.4, 2.6, 4.0]), np.full(4, 0.5)).round(2).tolist()
    [1.12, 2.04, 2.96, 3.88]
    >>> smoothed(x, np.array([1.0, 9.0, 2.0, 4.0]), np.full(4, 0.0)).tolist()
    [1.0, 9.0, 2.0, 4.0]
    """
    known = np.nan_to_num(error)
    floor = 1e-6 * max(float(np.abs(y).max()), 1e-12)
    weights = 1.0 / np.maximum(known, floor) ** 2
    if len(x) < 3 or known.max() <= floor:
        return y
    at = (x - x[0]) / (x[-1] - x[0])
    bends = np.zeros((len(x) - 2, len(x)))
    for i in range(len(x) - 2):
        first, second = at[i + 1] - at[i], at[i + 2] - at[i + 1]
        bends[i, i : i + 3] = 1 / first, -1 / first - 1 / second, 1 / second
    found = y
    for scale in np.logspace(-8, 8, 65):
        stiff = scale * float(weights.mean()) * bends.T @ bends
        tried = np.linalg.solve(np.diag(weights) + stiff, weights * y)
        if float((weights * (y - tried) ** 2).sum()) > len(x):
            break
        found = tried
    return np.maximum(found, 0.0)


def _apart(points: Sequence[Point], wide: bool) -> list[Point]:
    """Return the points that can be named without their names touching; the plan itself always is."""
    place = np.array([np.log(point.x) if wide else point.x for point in points])
    near = NAMED_APART * (place.max() - place.min())
    chosen: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (not points[i].planned, i)):
        if all(abs(place[i] - place[j]) >= near for j in chosen):
            chosen.append(i)
    return [points[i] for i in sorted(chosen)]


def _curve(plan: Plan, quantity: str) -> Curve:
    if quantity not in plan.curves:
        raise InvalidInput(f"plan must have been made with curves, got one without {quantity}.")
    return plan.curves[quantity]
