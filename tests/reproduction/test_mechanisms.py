"""The section on mechanisms of others: its bounds by hand, its figures beside them, and its sentences."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

import freepull as fp
from freepull.reproduction import Request, mechanisms
from freepull.reproduction.reproduce import mechanism_checks


@pytest.fixture(scope="module")
def request_() -> Request:
    return Request(Path(), runs=20, seed=1, settings=("certified",), progress=False)


@pytest.fixture(scope="module")
def searched(request_: Request) -> pl.DataFrame:
    return mechanisms.found_prices(request_)


@pytest.fixture(scope="module")
def paid(request_: Request) -> pl.DataFrame:
    return mechanisms.compensated(request_)


def test_all_figures_agree_with_an_independent_program(paid: pl.DataFrame, searched: pl.DataFrame) -> None:
    compared = list(mechanism_checks(pl.concat([paid, searched], how="diagonal")))
    assert len(compared) == 15
    assert [check for check in compared if not check.agrees] == []


def test_a_player_who_is_paid_a_little_more_is_seen(paid: pl.DataFrame, searched: pl.DataFrame) -> None:
    more = paid.with_columns(pl.col("spent") * 1.3)
    compared = list(mechanism_checks(pl.concat([more, searched], how="diagonal")))
    assert sum(not check.agrees for check in compared if "spent" in check.what) >= 7
    assert all(check.agrees for check in compared if "regret" in check.what)


def test_the_least_compensation_of_two_coins_is_theirs() -> None:
    """KL(.1 ‖ .9) = .1·log(1/9) + .9·log 9 = .8·log 9, so Δ/KL = 1/log 9."""
    assert mechanisms.least_compensation(fp.Game([[0.9, 0.1]])) == pytest.approx(1 / math.log(9))
    assert mechanisms.least_compensation(fp.Game([mechanisms.NINE])) == pytest.approx(7.5165, abs=1e-4)


def test_what_the_principal_loses_is_that_of_the_paper() -> None:
    """The authors' notebook has θ + s − max s = (−.05, .24, .62, −.31, .25)."""
    assert mechanisms.principal_gaps() == pytest.approx([0.67, 0.38, 0.0, 0.93, 0.37])


def test_compensation_stays_above_the_bound_for_ucb_and_grows_like_a_logarithm(paid: pl.DataFrame) -> None:
    rows = paid.filter(policy="UCB").sort("horizon")
    bound = mechanisms.least_compensation(fp.Game([mechanisms.NINE]))
    assert all(one["spent_low"] > bound * math.log(one["horizon"]) for one in rows.iter_rows(named=True))
    first, second = (rows["spent"][i + 1] - rows["spent"][i] for i in (0, 1))
    error = math.hypot(*(rows["spent_error"][i] for i in range(3)))
    assert abs(first - second) < 6 * error


def test_the_search_costs_no_more_than_its_steps_and_stays_below_the_bound(searched: pl.DataFrame) -> None:
    for T in mechanisms.HORIZONS:
        own = {one["policy"]: one for one in searched.filter(horizon=T).iter_rows(named=True)}
        more = own["prices searched"]["regret"] - own["prices known"]["regret"]
        error = math.hypot(*(one["regret_error"] for one in own.values()))
        steps = 5 * math.ceil(math.log2(T))
        assert -4 * error < more < steps * mechanisms.principal_gaps().max() + 4 * error
        assert all(one["regret_high"] < mechanisms.most_lost(T) for one in own.values())
        assert own["prices searched"]["regret"] > 50


def test_the_section_tells_what_was_measured() -> None:
    found = mechanisms.mechanisms(Request(Path(), runs=2, seed=1, settings=("certified",), progress=False))
    assert len(found.figure.axes) == 2
    told = {one.claim: one for one in found.findings}
    assert {claim.rpartition(": ")[2] for claim in told if claim.startswith("The toy game")} == {
        "certified", "compensation, UCB", "compensation, ε-greedy", "compensation, Thompson", "prices searched",
    }  # fmt: skip
    prices = next(one for claim, one in told.items() if claim.endswith("prices searched"))
    assert "right 100 %, decided 0 %" in prices.measured["measured"]
    assert "is paid for to the end" in prices.truth
