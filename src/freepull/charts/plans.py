"""Charts of plans: what a trial costs against what can be chosen, with the ranges of single trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from freepull.charts.looks import COLOURS, axes, spans_decade
from freepull.errors import InvalidInput
from freepull.planning import Plan
from freepull.planning.search import CHANCE, Curve, Point

Floats = NDArray[np.float64]
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
