"""Forecasts: ranges that hold a new trial as often as they say, budgets and chances from runs that can be counted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.planning.beliefs import Guess, Known, People
from freepull.planning.forecast import Forecast
from freepull.planning.question import Case


def of(paid: object, certified: object = None) -> Forecast:
    x = np.array(paid, float)
    known = np.ones(len(x), bool) if certified is None else np.array(certified, bool)
    return Forecast(x, known, np.where(known, x + 1, math.nan))


def test_ranges_are_order_statistics() -> None:
    found = of(range(1, 100))
    assert found.range(0.9) == pytest.approx((5.0, 95.0))
    assert found.range(0.5) == pytest.approx((25.0, 75.0))
    assert found.mean == 50.0
    assert found.source == "simulation, 99 runs"


def test_a_range_holds_a_new_trial_as_often_as_it_says_however_few_runs() -> None:
    rng, tries, inside = np.random.default_rng(1), 5_000, 0
    for row in rng.lognormal(size=(tries, 40)):
        low, high = of(row[:39]).range(0.9)
        inside += low <= row[39] <= high
    assert inside / tries == pytest.approx(0.9, abs=5.5 * math.sqrt(0.09 / tries))


def test_places_are_uniform_even_where_spends_are_lumps() -> None:
    rng, tries = np.random.default_rng(2), 20_000
    rows = rng.poisson(0.7, size=(tries, 20))
    places = [of(row[:19]).position(row[19], float(luck)) for row, luck in zip(rows, rng.random(tries), strict=True)]
    counts = np.histogram(places, bins=10, range=(0, 1))[0]
    assert counts.sum() == tries
    assert np.abs(counts / tries - 0.1).max() < 5.5 * math.sqrt(0.09 / tries)


def test_a_budget_is_the_least_that_gives_the_chance() -> None:
    found = of(range(100), [True] * 97 + [False] * 3)
    budget = found.budget(0.95)
    assert budget == 95.0
    assert found.within(95) == 0.96
    assert found.within(94) == 0.95
    assert found.budget(0.99) is None
    assert found.chance[0] == 0.97
    assert found.chance[1] < 0.97 < found.chance[2]


def test_free_means_certified_for_nothing() -> None:
    found = of([0, 0, 0, 5], [True, False, True, True])
    assert found.free == 0.5
    assert found.decided(0.5) == 1.0
    assert of([3, 4], [False, False]).decided(0.5) is None
    assert of([3, 8, 9, 20]).decided(0.5) == 9.0  # a step at which a trial was decided, not one between two


def test_more_runs_make_a_range_tight() -> None:
    rng = np.random.default_rng(3)
    assert not of(rng.lognormal(5, 1, 60)).tight
    assert of(rng.lognormal(5, 1, 30_000)).tight
    assert of(np.zeros(200)).tight
    assert not of(np.zeros(20)).tight


CASE = Case(
    beliefs=Guess(2, 4, (0.2,), error=0.3),
    agents=4,
    arms=2,
    principal=fp.Principal(fp.rules.Certified(0.1), offers="each"),
    horizon=120,
    people=People((fp.agents.AlphaUCB(), fp.agents.Greedy()) * 2, (fp.answers.Always(),)),
    seed=3,
    workers=None,
)


def test_a_forecast_is_the_simulation_of_games_drawn_from_what_is_believed() -> None:
    found = CASE.forecast(range(20)).joined(CASE.forecast(range(20, 50)))
    same = fp.simulate(
        CASE.beliefs, principal=CASE.principal, horizon=120, runs=50, seed=3, agents=list(CASE.people.strategies)
    )
    assert found.paid.tolist() == same.frame["paid"].to_list()
    assert found.certified.tolist() == same.frame["certified"].to_list()
    at = [None if math.isnan(step) else step for step in found.decided_at]
    assert at == same.frame["decided_at"].to_list()
    assert found.runs == 50
    assert len(set(found.paid.tolist())) > 5


def test_of_several_strategies_every_agent_has_one_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    people = People((fp.agents.AlphaUCB(), fp.agents.Greedy()), (fp.answers.Always(),))
    some = replace(CASE, people=people, agents=200, beliefs=Guess(2, 200, (0.2,)), workers=1)
    seen: list[list[str]] = []
    real = fp.simulate

    def noting(*args: Any, **kwargs: Any) -> Any:
        seen.append([type(agent).__name__ for agent in kwargs["agents"]])
        return real(*args, **kwargs)

    monkeypatch.setattr("freepull.simulation.simulate", noting)
    whole = some.forecast(range(24))
    assert len(seen) == 3
    for kinds in seen:
        assert abs(kinds.count("Greedy") - 100) < 5.5 * math.sqrt(50)
    assert seen[0] != seen[1]
    parts = some.forecast(range(10)).joined(some.forecast(range(10, 24)))
    assert parts.paid.tolist() == whole.paid.tolist()


def test_a_case_can_be_resized_if_something_is_believed_of_others() -> None:
    more = CASE.sized(9)
    assert more is not None
    assert more.forecast(range(3)).runs == 3
    assert replace(CASE, beliefs=Known(fp.instances.toy()), agents=2).sized(3) is None
