"""The summary of a result: Wilson's and Student's intervals, and no run averaged away."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull.simulation.results import SCHEMA

TYPES: dict[Any, Any] = dict(SCHEMA)
SIMULATED = fp.simulate(
    fp.instances.toy(), principal=fp.Principal(fp.rules.Paper(0.1)), horizon=30, runs=4, engine="readable"
)


def with_frame(**columns: list[Any]) -> fp.Result:
    """Return a result whose frame has these columns and zeros elsewhere."""
    n = len(next(iter(columns.values())))
    blank = {name: [None if name == "decided_at" else 0] * n for name in SCHEMA}
    frame = pl.DataFrame(blank | columns).cast(TYPES)
    nothing = np.zeros((1, 2), np.int64)
    return fp.Result(frame=frame, paid_sum=nothing, paid_squares=nothing, provenance={})


def row(result: fp.Result, quantity: str) -> tuple[float, float, float, int]:
    found = result.summary().filter(pl.col("quantity") == quantity).row(0)
    return found[1:]


def test_rates_have_wilsons_interval() -> None:
    result = with_frame(correct=[True] * 8 + [False] * 2, decided=[False] * 10, certified=[True] * 10)
    assert row(result, "correct") == pytest.approx((0.8, 0.4901624715, 0.9433178485, 10))
    assert row(result, "decided") == pytest.approx((0.0, 0.0, 0.2775327999, 10), abs=1e-9)
    assert row(result, "certified") == pytest.approx((1.0, 0.7224672001, 1.0, 10), abs=1e-9)


def test_means_have_students_interval() -> None:
    # mean 2, sd 1, n 3: 2 ± 4.302652730·1/√3
    result = with_frame(paid=[1, 2, 3], reward=[0.5, 0.5, 0.5])
    assert row(result, "paid") == pytest.approx((2.0, 2 - 2.4841377118, 2 + 2.4841377118, 3))
    assert row(result, "reward") == pytest.approx((0.5, 0.5, 0.5, 3))


def test_undecided_runs_count_everywhere_but_in_the_time_of_decision() -> None:
    result = with_frame(decided=[True, True, False, False], decided_at=[10, 20, None, None], paid=[1, 2, 50, 50])
    assert row(result, "decided")[0] == 0.5
    assert row(result, "decided")[3] == 4
    assert row(result, "paid")[0] == 25.75
    assert row(result, "paid")[3] == 4
    mean, low, high, runs = row(result, "decided_at")
    assert (mean, runs) == (15.0, 2)
    assert (low, high) == pytest.approx((15 - 12.7062047362 * 5, 15 + 12.7062047362 * 5))


def test_without_a_decision_there_is_no_time_of_decision() -> None:
    mean, low, high, runs = row(with_frame(paid=[1, 2]), "decided_at")
    assert all(map(math.isnan, (mean, low, high)))
    assert runs == 0


def test_a_single_run_has_means_without_intervals() -> None:
    mean, low, high, runs = row(with_frame(paid=[7]), "paid")
    assert (mean, runs) == (7.0, 1)
    assert math.isnan(low)
    assert math.isnan(high)


def test_the_summary_has_a_row_for_every_quantity() -> None:
    summary = SIMULATED.summary()
    assert summary.columns == ["quantity", "mean", "low", "high", "runs"]
    assert set(summary["quantity"]) == set(SCHEMA) - {"run", "arm"}
    shown = repr(SIMULATED)
    assert "4 runs" in shown
    assert all(f" {quantity} " in shown for quantity in SIMULATED.summary()["quantity"])
