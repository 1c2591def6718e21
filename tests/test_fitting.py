"""People fitted to a log: what was put in comes out, within errors that the fit itself states."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull.data import read
from freepull.errors import InvalidInput, UnusableRows
from freepull.fitting import CANDIDATES, Habits, fit
from verification.calibration_worlds import timed_log

ACTIVITY = fp.activity.Lognormal(0.08, 0.7, silent=0.1)
LEAVING, ANSWERS = fp.leaving.AtRandom(0.3), fp.answers.Reluctant(0.4, 0.5)
STEPS, PEOPLE = 300, 300
CLOSE = 4.5
"""Standard errors: about one false alarm in 100,000."""


def made(agent: Any = None, seed: int = 1, people: int = PEOPLE, **changed: Any) -> pl.DataFrame:
    game = fp.Game(np.random.default_rng(seed).uniform(0.2, 0.8, (people, 3)))
    parts = {"activity": ACTIVITY, "leaving": LEAVING, "answers": ANSWERS} | changed
    return timed_log(game, STEPS, agent or fp.agents.AlphaUCB(2.0), parts, seed)


@cache
def habits() -> Habits:
    found = fit(read(made()))
    assert found is not None
    return found


def far(found: Habits, name: str, truth: float) -> float:
    """How many standard errors the truth is away, on the scale of the fit."""
    fitted = found.presence if name in found.presence.names else found.refusals
    assert fitted is not None
    i = fitted.names.index(name)
    at = np.log(truth) if name in ("median", "sigma") else np.log(truth / (1 - truth))
    return float(abs(fitted.centre[i] - at) / np.sqrt(fitted.covariance[i, i]))


@pytest.mark.parametrize(
    ("name", "truth"),
    [("median", 0.08), ("sigma", 0.7), ("silent", 0.1), ("leaving", 0.3), ("share", 0.4), ("probability", 0.5)],
)
def test_what_was_put_in_is_within_the_error_that_is_stated(name: str, truth: float) -> None:
    found = habits()
    assert far(found, name, truth) < CLOSE
    fitted = found.presence if name in found.presence.names else found.refusals
    assert fitted is not None
    low, high = fitted.limits(name)
    assert low < fitted.value(name) < high
    assert high / low < 2.5


@pytest.mark.slow
def test_who_is_rare_is_not_taken_for_gone_nor_who_is_gone_for_rare() -> None:
    rare = fit(read(made(activity=fp.activity.Lognormal(0.01, 0.7), leaving=fp.leaving.Stays())))
    gone = fit(read(made(activity=fp.activity.Lognormal(0.2, 0.3), leaving=fp.leaving.AtRandom(0.9))))
    assert rare is not None
    assert gone is not None
    assert far(rare, "median", 0.01) < CLOSE
    assert rare.presence.limits("leaving")[0] < 0.1
    assert far(gone, "median", 0.2) < CLOSE
    assert far(gone, "leaving", 0.9) < CLOSE


def test_those_who_were_never_seen_are_allowed_for_where_nobody_says_who_was_enrolled() -> None:
    rare = made(activity=fp.activity.Lognormal(0.004, 0.7), leaving=fp.leaving.Stays()).drop_nulls("arm")
    found = fit(read(rare))
    assert found is not None
    assert found.came < 0.75 * PEOPLE
    assert far(found, "median", 0.004) < CLOSE
    assert found.presence.limits("median")[1] < 0.008


def test_paid_pulls_are_no_choices() -> None:
    log = made(fp.agents.Greedy(), people=60)
    bought = pl.DataFrame({"step": range(2, 1202), "agent": [i % 60 for i in range(1200)]}).with_columns(
        arm=pl.col("step") % 3, reward=0.0, outcome=pl.lit("paid")
    )
    for outcome, named in (("paid", True), (None, False)):
        rows = bought.with_columns(pl.col("step") % STEPS + 1, outcome=pl.lit(outcome, pl.String))
        found = fit(read(pl.concat([log, rows.select(log.columns)], how="vertical_relaxed")))
        assert found is not None
        greedy = next(it for it in found.strategies if it.agent == fp.agents.Greedy())
        assert (greedy.named > 0.7) == named


@pytest.mark.slow
def test_intervals_hold_about_as_often_as_they_say() -> None:
    logs, inside = 12, []
    for seed in range(logs):
        found = fit(read(made(seed=100 + seed, people=120)))
        assert found is not None
        inside += [
            far(found, name, truth) < 1.96 for name, truth in (("median", 0.08), ("sigma", 0.7), ("silent", 0.1))
        ]
    assert np.mean(inside) > 0.95 - CLOSE * np.sqrt(0.95 * 0.05 / logs)  # as if the three were one


@pytest.mark.parametrize(
    "agent",
    [
        fp.agents.AlphaUCB(1.0),
        fp.agents.EpsilonGreedy(1.0),
        fp.agents.Greedy(),
        fp.agents.Thompson(),
        fp.agents.RoundRobin(),
    ],
    ids=lambda agent: type(agent).__name__,
)
def test_the_strategy_that_made_the_choices_explains_them_best(agent: Any) -> None:
    found = fit(read(made(agent, people=100)))
    assert found is not None
    best, second = found.strategies[:2]
    assert best.agent == agent
    assert best.wins > 0.95
    assert second.behind > 1.96 * second.error
    assert len(found.strategies) == len(CANDIDATES)


def test_choices_at_random_are_told_from_learning() -> None:
    rng = np.random.default_rng(2)
    log = pl.DataFrame({"step": np.arange(4_000) // 20, "agent": np.arange(4_000) % 20}).with_columns(
        arm=rng.integers(0, 3, 4_000), reward=rng.integers(0, 2, 4_000)
    )
    found = fit(read(log))
    assert found is not None
    assert next(it.agent for it in found.strategies) == fp.agents.EpsilonGreedy(1e6)


def test_draws_vary_as_the_fit_says_and_longer_trials_lose_more_people() -> None:
    found, rng = habits(), np.random.default_rng(3)
    drawn = [found.draw(rng, STEPS) for _ in range(400)]
    medians = np.log([one["activity"].median for one in drawn])
    error = np.sqrt(found.presence.covariance[0, 0])
    assert medians.std() == pytest.approx(error, rel=CLOSE / np.sqrt(2 * 400))
    assert medians.mean() == pytest.approx(found.presence.centre[0], abs=CLOSE * error / 20)
    short, long = (found.parts(steps)["leaving"].share for steps in (STEPS // 2, 2 * STEPS))
    assert 1 - long == pytest.approx((1 - short) ** 4)


def test_the_words_say_what_was_fitted_and_what_cannot_be_known() -> None:
    told = habits().words()
    for word in (
        "median 0.0",
        "never come",
        "refuse an offer",
        "AlphaUCB(alpha=2.0)",
        "95 % intervals",
        "log-likelihood",
    ):
        assert word in told
    bare = fit(read(made().filter(pl.col("arm").is_not_null()).drop("outcome")))
    assert bare is not None
    assert "silent" not in bare.presence.names
    assert bare.refusals is None
    assert "the log does not say, so nobody is assumed to" in bare.words()
    assert "tells of no offers" in bare.words()
    assert bare.parts(100)["answers"] == fp.answers.Always()
    assert set(habits().describe()["fitted"]) == {"median", "sigma", "leaving", "silent", "share", "probability"}


@pytest.mark.slow
def test_dates_are_steps_of_a_tenth_of_a_day_unless_told_otherwise() -> None:
    start = pl.datetime(2026, 5, 1, time_zone="UTC")
    dated = made().select(
        pl.exclude("step"), at=(start + pl.duration(minutes=144 * (pl.col("step") - 1))).dt.to_string("iso:strict")
    )
    by_step, by_date, by_day = fit(read(made())), fit(read(dated)), fit(read(dated), day=5)
    assert by_step is not None
    assert by_date is not None
    assert by_day is not None
    assert by_date.presence.centre == pytest.approx(by_step.presence.centre, abs=0.02)
    assert (by_date.steps, by_date.dated, by_step.dated) == (STEPS, 10, None)
    assert by_day.steps == STEPS // 2
    assert by_day.crowded > by_date.crowded == 0.0


def test_without_times_or_with_few_people_nothing_is_fitted() -> None:
    assert fit(read(made().drop("step").filter(pl.col("arm").is_not_null()))) is None
    assert fit(read(made(people=5))) is None
    with pytest.raises(InvalidInput, match=r"^the log must be at least 2 steps long, got 1"):
        fit(read(made().with_columns(step=1)))


def test_rows_without_a_readable_time_are_left_out_and_enrolled_people_are_no_pulls() -> None:
    log = pl.DataFrame(
        {
            "agent": [*"aa" * 5, "b", "c"],
            "arm": [*"xy" * 5, "x", None],
            "reward": [*[1, 0] * 5, 1, None],
            "step": [*map(str, range(1, 11)), "?", None],
        }
    )
    with pytest.warns(UnusableRows, match=r"row 10 \(no step that can be read\)"):
        past = read(log)
    assert past.agents == ("a", "c")
    assert past.pulls.tolist() == [[5, 5], [0, 0]]
    assert past.acts is not None
    assert past.acts.enrolled
    with pytest.raises(InvalidInput, match=r"^the log's column at must hold times"):
        read(log.select(pl.exclude("step"), at=pl.lit("soon")))


def test_the_export_of_a_campaign_can_be_planned_from() -> None:
    export = pl.DataFrame(
        {
            "at": ["2026-05-01T09:30:00.000000+0000", "2026-05-02T09:30:00.000000+0000"] * 2,
            "agent": ["a", "a", "b", "b"],
            "arm": ["x", "y", "x", "x"],
            "reward": [1.0, 0.0, 1.0, 1.0],
            "outcome": [None, "paid", "refused", "cancelled"],
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        past = read(export)
    assert past.acts is not None
    assert past.acts.outcome.tolist() == [0, 1, 2, 0]
    assert np.diff(past.acts.time).tolist() == [1.0, -1.0, 1.0]
