"""Charts show the numbers of the results, always with error bars, and draw on the axes they are given."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import freepull as fp
from freepull import charts


@pytest.fixture(scope="module")
def results() -> dict[str, fp.Result]:
    rules = {"passive": fp.rules.Passive(), "authors": fp.rules.Paper(0.01, "simplified", 0.1)}
    return {
        name: fp.simulate(fp.instances.toy(), principal=fp.Principal(rule), horizon=2000, runs=10, seed=1)
        for name, rule in rules.items()
    }


def heights(patches: object) -> list[float]:
    return [patch.get_height() for patch in patches if isinstance(patch, Rectangle)]  # type: ignore[attr-defined]


def test_accuracy_shows_rates_in_percent_with_intervals(results: dict[str, fp.Result]) -> None:
    ax = charts.accuracy(results)
    expected = [100 * float(r.frame["correct"].sum()) / 10 for r in results.values()]
    assert heights(ax.patches) == pytest.approx(expected)
    assert len(ax.containers) == 4
    assert [label.get_text() for label in ax.get_xticklabels()] == ["passive", "authors"]


def test_spend_shows_cost_and_the_share_decided(results: dict[str, fp.Result]) -> None:
    ax = charts.spend(results)
    assert heights(ax.patches) == pytest.approx([r.frame["spent"].mean() for r in results.values()])
    assert [text.get_text() for text in ax.texts] == ["decides\n0 %", "decides\n0 %"]


def test_a_name_with_dollars_is_no_formula(results: dict[str, fp.Result]) -> None:
    figure = Figure()
    ax = charts.spend({"$1 or $2_": results["passive"]}, ax=figure.subplots())
    figure.canvas.draw()
    assert [label.get_text() for label in ax.get_xticklabels()] == [r"\$1 or \$2_"]


def test_payments_show_the_matrix_on_given_axes(results: dict[str, fp.Result], tmp_path: Path) -> None:
    figure = Figure()
    ax = figure.subplots()
    assert charts.payments(results["authors"], ax=ax) is ax
    shown = np.array(heights(ax.patches)).reshape(3, 2).T
    assert shown == pytest.approx(results["authors"].paid)
    figure.savefig(tmp_path / "payments.png")
    assert (tmp_path / "payments.png").stat().st_size > 5000


def test_one_run_can_be_drawn() -> None:
    one = fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Paper(0.5)), horizon=50, runs=1)
    charts.accuracy({"one": one})
    charts.spend({"one": one})
    charts.payments(one)


def test_error_bars_reach_to_the_ends_and_a_single_run_has_none() -> None:
    rows = pl.DataFrame({"delta": [0.1, 0.2], "principal": ["a", "a"], "spent": [10.0, 20.0], "decided": [1.0, 1.0],
                         "spent_low": [7.0, math.nan], "spent_high": [14.0, math.nan]})  # fmt: skip
    upright: Any = charts.against(rows, "delta").containers[0]
    assert [segment[:, 1].tolist() for segment in upright.lines[2][0].get_segments()] == [[7.0, 14.0], [20.0, 20.0]]
    lying: Any = charts.grouped(rows, "delta", "principal", "spent").containers[1]
    assert [segment[:, 0].tolist() for segment in lying.lines[2][0].get_segments()] == [[7.0, 14.0], [20.0, 20.0]]
