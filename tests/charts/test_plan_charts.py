"""Charts of plans show the numbers of the plan and draw on the axes they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import freepull as fp
from freepull import charts
from freepull.errors import InvalidInput

BANDS = {"agents": charts.spend_by_agents, "horizon": charts.spend_by_horizon, "observing": charts.spend_by_observing}


@pytest.fixture(scope="module")
def plan() -> fp.Plan:
    return fp.plan(arms=2, agents=20, horizon=40, gap=0.15, runs=40)


@pytest.mark.parametrize(("name", "draw"), list(BANDS.items()))
def test_bands_show_means_ranges_and_the_plan(
    plan: fp.Plan, name: str, draw: Callable[[fp.Plan, Axes], Axes], tmp_path: Path
) -> None:
    figure = Figure()
    ax = figure.subplots()
    assert draw(plan, ax) is ax
    points = plan.curves[name].points
    lines: dict[object, Any] = {line.get_label(): line for line in ax.lines}
    dots: Any = ax.containers[0].lines[0]  # type: ignore[attr-defined]
    assert list(dots.get_xdata()) == [point.x for point in points]
    assert list(dots.get_ydata()) == [point.forecast.mean for point in points]
    line = lines["mean, smoothed"].get_ydata()
    errors = [max(point.forecast.margin / 1.96, 1e-9) for point in points]
    away = [(y - point.forecast.mean) / error for y, point, error in zip(line, points, errors, strict=True)]
    assert sum(it**2 for it in away) <= len(points) + 1e-6  # as far as the errors allow, and no farther
    assert any(away)
    assert list(lines["the plan"].get_ydata()) == [plan.forecast.mean]  # type: ignore[union-attr]
    shown = {text.get_text() for text in ax.texts}
    assert f"{100 * plan.forecast.chance[0]:.0f} %" in shown  # type: ignore[union-attr]
    corners: list[Any] = [path.vertices for path in ax.collections[0].get_paths()]
    top = max(corner[1] for path in corners for corner in path)
    reach = max(point.forecast.end(0.95)[1] for point in points)
    assert abs(top - max(point.forecast.range(0.9)[1] for point in points)) <= len(points) ** 0.5 * reach
    figure.savefig(tmp_path / "band.png")
    assert (tmp_path / "band.png").stat().st_size > 5_000


def test_a_zigzag_within_the_errors_is_no_zigzag_on_the_chart() -> None:
    x = np.arange(9.0)
    y = 10 - x + np.array([0.8, -0.8] * 4 + [0.8])
    line = charts.smoothed(x, y, np.full(9, 0.9))
    assert (np.diff(line) < 0).all()
    assert (np.diff(charts.smoothed(x, y, np.full(9, 0.01))) > -1e-9).any()  # small errors allow none of that
    assert (charts.smoothed(x, np.full(9, 0.0), np.full(9, 1.0)) == 0).all()


def test_the_chance_rises_with_the_budget_up_to_the_certified_share(plan: fp.Plan) -> None:
    ax = charts.chance_by_budget(plan)
    drawn: Any = ax.lines[0].get_data()
    x, y = drawn
    assert list(y) == sorted(y)
    assert y[-1] == pytest.approx(100 * plan.forecast.chance[0])  # type: ignore[union-attr]
    for budget, height in list(zip(x, y, strict=True))[1:-1]:
        assert height <= 100 * plan.chance(budget) + 1e-9


def test_plans_without_simulation_have_no_charts() -> None:
    quick = fp.plan(arms=2, agents=20, horizon=40, gap=0.15, quick=True)
    with pytest.raises(InvalidInput, match=r"^plan must be a simulated one"):
        charts.chance_by_budget(quick)
    with pytest.raises(InvalidInput, match=r"^plan must have been made with curves"):
        charts.spend_by_agents(quick)


@pytest.mark.slow
def test_a_plan_that_never_decides_and_one_that_is_free_can_be_drawn() -> None:
    never = fp.plan(arms=2, agents=2, horizon=10, gap=0.01, runs=40)
    free = fp.plan(arms=2, agents=300, horizon=40, gap=0.4, error=0.0, runs=40)
    for plan in (never, free):
        for draw in (*BANDS.values(), charts.chance_by_budget):
            draw(plan)
