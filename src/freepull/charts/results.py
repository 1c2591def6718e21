"""Charts of simulations: bars of what principals pay and name, lines against time, and what was swept.

Any quantity is drawn against any parameter, with several principals as lines, or as paired differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from freepull import validation
from freepull.charts.looks import COLOURS, HATCHES, MARKERS, axes, lengths, plain, spans_decade
from freepull.errors import InvalidInput
from freepull.simulation import Comparison, Result


def accuracy(results: Mapping[str, Result] | Comparison, ax: Axes | None = None) -> Axes:
    """How often each principal names the best arm, with Wilson's 95 % intervals (the paper's Fig. 2(a))."""
    ax = _bars(_by_name(results), "correct", axes(ax), scale=100.0)
    ax.set_ylim(0, 118)
    ax.set_yticks(range(0, 101, 25))
    ax.set_ylabel("runs with the right arm, %")
    return ax


def spend(results: Mapping[str, Result] | Comparison, ax: Axes | None = None) -> Axes:
    """What each principal pays, C(T), with 95 % intervals; the share of runs it decides stands above the bar."""
    results = _by_name(results)
    ax = _bars(results, "spent", axes(ax))
    top = max((_summary(result, "spent")[2] for result in results.values()), default=0.0) or 1.0
    for i, result in enumerate(results.values()):
        decided, height = 100 * _summary(result, "decided")[0], _summary(result, "spent")[2]
        ax.text(i, height + 0.03 * top, f"decides\n{decided:.0f} %", ha="center", va="bottom", fontsize=8)
    ax.set_ylim(0, 1.3 * top)
    ax.set_ylabel("spent, C(T), in units of reward")
    return ax


def _by_name(found: Mapping[str, Result] | Comparison) -> Mapping[str, Result]:
    """Return results by name, also of what `fp.compare` found."""
    return found.results if isinstance(found, Comparison) else found


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


def regret(results: Mapping[str, Result] | Comparison, ax: Axes | None = None) -> Axes:
    """The agents' regret against steps, all together: the mean of runs, with 95 % intervals, one line per result.

    The results must have traces of the same steps, from runs that were played to the horizon.
    """
    ax = axes(ax)
    for i, (name, result) in enumerate(_by_name(results).items()):
        if result.trace is None or result.trace.is_empty():
            raise InvalidInput(f"results must have traces, as in simulate(…, trace=100), got none for {name!r}.")
        by_run = result.trace.group_by("run", "step", maintain_order=True).agg(pl.col("regret").sum())
        error = pl.col("regret").std() / pl.len().sqrt()
        told = by_run.group_by("step", maintain_order=True).agg(pl.col("regret").mean(), error=error, runs=pl.len())
        rows = told.sort("step")
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


QUANTITIES = {
    "spent": "spent, C(T), in units of reward", "paid": "bonuses paid, C(T)", "offered": "offers",
    "refused": "refusals", "banned": "agents banned", "free_pulls": "free pulls", "acts": "acts",
    "reward": "reward of all agents", "regret": "regret of all agents", "decided_at": "step of the decision",
    "decided": "runs decided, %", "certified": "runs certified, %", "correct": "runs with the right arm, %",
    "error": "runs with a wrong arm, %",
}  # fmt: skip
"""What can be drawn, and how an axis names it."""
SHARES = ("decided", "certified", "correct", "error")
"""Which of them are drawn in %."""
PARAMETERS = {
    "delta": "δ", "horizon": "horizon T, steps", "agents": "agents M", "arms": "arms K", "gap": "gap Δ_min",
    "minimum_gap": "gap Δ_min", "observe": "observing phase κ", "sd": "σ of agents’ means", "epsilon": "ε",
    "budget": "budget, units of reward", "protocol": "protocol", "bonus": "bonus, units of reward",
}  # fmt: skip
"""How an axis names what is swept; anything else is called what it is called."""
APART = 0.008
"""Share of the axis between the error bars of two series."""
LINE = 0.04
"""Share of the axis that a line of text takes."""


def gathered(found: Mapping[Any, Comparison | Mapping[str, Result]], x: str) -> pl.DataFrame:
    """Return one row for each value of what was swept and each principal, as `sweep` takes them.

    ``found`` has what `fp.compare` found, or results by name, for each value; ``x`` is what the column of the values is
    called. Rows have all quantities of `Result.summary` with their 95 % intervals.
    """
    rows = []
    for value, one in found.items():
        for name, result in _by_name(one).items():
            row: dict[str, Any] = {x: value, "principal": name}
            for quantity, centre, low, high, _ in result.summary().iter_rows():
                row |= {quantity: centre, f"{quantity}_low": low, f"{quantity}_high": high}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def sweep(
    rows: pl.DataFrame,
    x: str,
    quantity: str = "spent",
    series: str = "principal",
    ax: Axes | None = None,
    *,
    xlabel: str | None = None,
    ylabel: str | None = None,
    logx: bool | None = None,
    logy: bool = False,
    labels: bool = False,
    legend: bool = True,
) -> Axes:
    """Draw one quantity against what was swept, a line for each principal or other series, with 95 % intervals.

    Parameters
    ----------
    rows
        A frame with the columns x, series, the quantity, and its ends, which end in _low and _high: from
        `freepull.studies.summary`, or from comparisons by `gathered`. A series without a value of x is a level line. A
        column lower_bound, if there is one, is drawn dotted.
    x, series
        The column of what was swept, numbers or words, and that of the lines.
    quantity
        Such as spent, paid, regret, decided, correct or error; error is what correct lacks. Shares are drawn in %.
    xlabel, ylabel
        What the axes are called, "" for nothing; by default what is drawn, in words.
    logx, logy
        Logarithmic axes; that of x is one by default if its values span a decade.
    labels
        Write the share of runs decided above every point; `against` does.
    legend
        Name the lines.
    """
    needed = "correct" if quantity == "error" and "error" not in rows.columns else quantity
    for name in (x, series, needed):
        validation.one_of("column", name, rows.columns)
    rows = _drawable(rows, quantity)
    if rows.is_empty():
        raise InvalidInput(f"rows must have at least one value of {quantity} to draw, got none.")
    if logy and float(rows[quantity].to_numpy().min()) <= 0:
        raise InvalidInput(f"logy must be left out here, because {quantity} is not above 0 everywhere.")
    ax, scale = axes(ax), 100.0 if quantity in SHARES else 1.0
    place = _scale(rows[x].drop_nulls().unique(maintain_order=True).to_list(), ax, logx)
    names = rows[series].unique(maintain_order=True).to_list()
    shares: dict[Any, list[_Share]] = {}
    for i, name in enumerate(names):
        own = rows.filter(pl.col(series) == name)
        look: dict[str, Any] = {"color": COLOURS[i % 8], "label": plain(name), "linewidth": 1.4}
        if own[x].null_count():
            ax.axhline(scale * own[quantity][0], linestyle="--", **look)
            continue
        beside = APART * (i - (len(names) - 1) / 2)
        at = pl.Series([place(value, beside) for value in own[x]], dtype=pl.Float64)
        placed = own.with_columns(at=at).sort("at")
        spread = [[scale * length for length in lengths(placed[quantity], placed[f"{quantity}_{end}"])]
                  for end in ("low", "high")]  # fmt: skip
        look |= {"marker": MARKERS[i % 8], "markersize": 5, "capsize": 3}
        ax.errorbar(placed["at"], scale * placed[quantity], spread, **look)
        for value, centre, most, decided in _labelled(own, x, quantity) if labels else ():
            top = scale * (centre if math.isnan(most) else most)
            shares.setdefault(value, []).append(_Share(top, f"{100 * decided:.0f} %", COLOURS[i % 8]))
    if "lower_bound" in rows.columns:
        line = rows.filter(pl.col("lower_bound").is_not_null()).unique(x).sort(x)
        limit = [place(value, 0.0) for value in line[x]], line["lower_bound"]
        ax.plot(*limit, color="black", linestyle=":", label="lower bound")
    ax.set_xlabel(_named(x, PARAMETERS) if xlabel is None else xlabel)
    ax.set_ylabel(_named(quantity, QUANTITIES) if ylabel is None else ylabel)
    if logy:
        ax.set_yscale("log")
    else:
        _fit(ax, place, shares, percent=scale > 1.0)
    if legend:
        ax.legend(frameon=False, fontsize=8)
    return ax


def against(rows: pl.DataFrame, x: str, series: str = "principal", ax: Axes | None = None, cost: str = "spent") -> Axes:
    """What was spent against the column ``x``, one line per series, with 95 % intervals; above each the share decided.

    ``rows`` needs the columns spent, spent_low, spent_high and decided, as `freepull.studies.summary` gives them; with
    ``cost="paid"``, those of the number of bonuses. A series without a value of ``x`` is a level line. A column
    lower_bound, if there is one, is drawn dotted. It is `sweep` with labels.
    """
    what = "bonuses paid, C(T)" if cost == "paid" else "spent, in units of reward"
    return sweep(rows, x, cost, series, ax, ylabel=f"{what}; % of runs decided", labels=True)


def differences(
    found: Comparison, quantity: str = "spent", against: str | None = None, ax: Axes | None = None, *,
    xlabel: str | None = None,
) -> Axes:  # fmt: skip
    """How much more of something each principal has than one of them, in pairs, with 95 % intervals: bars from 0."""
    rows = found.differences(against)
    validation.one_of("quantity", quantity, rows["quantity"].unique(maintain_order=True).to_list())
    rows, ax = rows.filter(quantity=quantity), axes(ax)
    scale = 100.0 if quantity in SHARES else 1.0
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    names = rows["principal"].to_list()
    for i, (centre, low, high) in enumerate(rows.select("difference", "low", "high").iter_rows()):
        ends = [[0.0 if math.isnan(end) else scale * abs(end - centre)] for end in (low, high)]
        ax.barh(i, scale * centre, 0.6, color=COLOURS[i % 8], edgecolor="white")
        ax.errorbar(scale * centre, i, xerr=ends, fmt="none", color="black", capsize=3, linewidth=1)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(names)), [plain(name) for name in names])
    ax.invert_yaxis()
    other = found.against if against is None else against
    words = f"more than {plain(other)}: {_named(quantity, QUANTITIES)}"
    ax.set_xlabel(words if xlabel is None else xlabel)
    return ax


def _named(name: str, names: Mapping[str, str]) -> str:
    return names.get(name.rpartition(".")[2], plain(name))


def _drawable(rows: pl.DataFrame, quantity: str) -> pl.DataFrame:
    """Return the rows that have a value of the quantity, with its ends; error is what correct lacks."""
    if quantity == "error" and "error" not in rows.columns:
        ends = {"error": "correct", "error_low": "correct_high", "error_high": "correct_low"}
        rows = rows.with_columns([(1.0 - pl.col(other)).alias(name) for name, other in ends.items()])
    centre = pl.col(quantity).cast(pl.Float64)
    ends = {end: f"{quantity}_{end}" for end in ("low", "high")}
    known = [
        (pl.col(name).cast(pl.Float64).fill_null(math.nan) if name in rows.columns else pl.lit(math.nan)).alias(name)
        for name in ends.values()
    ]
    return rows.with_columns(centre, *known).filter(centre.is_not_null() & centre.is_not_nan())


def _labelled(own: pl.DataFrame, x: str, quantity: str) -> list[tuple[Any, ...]]:
    validation.one_of("column", "decided", own.columns)
    return own.select(x, centre=quantity, top=f"{quantity}_high", share="decided").rows()


class _Share(NamedTuple):
    """The share of runs decided, to be written above a point in the colour of its series."""

    above: float
    text: str
    colour: str


def _fit(ax: Axes, place: Callable[[Any, float], float], shares: dict[Any, list[_Share]], percent: bool) -> None:
    """Let the axis begin at 0, with room for what is written above points."""
    bottom, top = ax.get_ylim()
    top *= 1.18 if shares else 1.0
    for value, told in shares.items():
        _stack(place(value, 0.0), told, top, ax)
    low = bottom if bottom < -0.06 * top else -0.02 * top
    ax.set_ylim(low, 104.0 if percent and not shares else max(top, ax.get_ylim()[1]))


def _stack(at: float, shares: list[_Share], top: float, ax: Axes) -> None:
    """Write the shares at one place from the lowest to the highest, none over another."""
    free = -math.inf
    halo = [withStroke(linewidth=2.5, foreground="white")]
    for share in sorted(shares):
        y = max(share.above + 0.01 * top, free)
        ax.text(at, y, share.text, ha="center", va="bottom", fontsize=7, color=share.colour, path_effects=halo)
        free = y + LINE * top


def _scale(values: Sequence[Any], ax: Axes, wanted: bool | None) -> Callable[[Any, float], float]:
    """Set up the axis, and return where a value lies, some share of the axis beside it.

    Numbers lie where they are, on a logarithmic axis if that is wanted, or if they span a decade; words stand side by
    side.
    """
    if not all(isinstance(value, int | float) for value in values):
        ax.set_xticks(range(len(values)), [plain(value) for value in values])
        return lambda value, beside: values.index(value) + beside * len(values)
    low, high = min(values, default=0.0), max(values, default=1.0)
    wide = spans_decade(values) if wanted is None else wanted
    if wide and low <= 0:
        raise InvalidInput(f"logx must be left out here, because a value is not above 0, got {low:g}.")
    if wide:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks(values, [f"{value:,g}" for value in values])
    if wide:
        return lambda value, beside: float(value * (high / low) ** beside)
    return lambda value, beside: float(value + (high - low) * beside)
