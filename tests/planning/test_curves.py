"""The search for a number of agents, and which variants are simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.planning import search as curves
from freepull.planning.beliefs import Guess, People
from freepull.planning.forecast import Forecast
from freepull.planning.question import Case
from freepull.planning.search import Panels, Point, Work, curve

CASE = Case(
    beliefs=Guess(2, 100, (0.2,)),
    agents=100,
    arms=2,
    principal=fp.Principal(fp.rules.Certified(0.05), offers="each"),
    horizon=40,
    people=People((fp.agents.AlphaUCB(),), (fp.answers.Always(),)),
    seed=0,
    workers=None,
)


def made(chance: float) -> Forecast:
    certified = np.arange(1_000) < 1_000 * chance
    return Forecast(np.zeros(1_000), certified, np.ones(1_000))


class Told(Panels):
    """Panels whose chances are told, not simulated."""

    def __init__(self, chance: Callable[[int], float], known: Callable[[int], bool] = lambda n: True) -> None:
        super().__init__(CASE, made(chance(100)), Work(1.0, None), 1.0)
        self.chance, self.known = chance, known

    def at(self, agents: int) -> Forecast | None:
        if not self.known(agents):
            return None
        return self.found.setdefault(agents, made(self.chance(agents)))


def certified(found: Forecast) -> float:
    return found.chance[0]


@pytest.mark.parametrize("threshold", [1, 3, 40, 99, 100, 101, 700, 30_000])
@pytest.mark.parametrize("guess", [1.0, 500.0, float("inf")])
def test_the_search_comes_close_from_both_sides(threshold: int, guess: float) -> None:
    panels = Told(lambda n: 0.96 if n >= threshold else 0.5)
    found = panels.smallest(certified, guess)
    assert found is not None
    assert threshold <= found <= max(1.25 * threshold, threshold + 1)
    assert len(panels.found) < 25


def test_what_is_out_of_reach_is_not_found() -> None:
    assert Told(lambda n: 0.5).smallest(certified, 300.0) is None
    assert Told(lambda n: 0.96 if n >= 700 else 0.5, lambda n: n <= 400).smallest(certified, 300.0) is None


def test_where_nothing_is_believed_of_fewer_agents_the_plan_itself_is_the_answer() -> None:
    assert Told(lambda n: 0.99, lambda n: n >= 100).smallest(certified, 5.0) == 100


def test_variants_change_one_thing() -> None:
    for make, name in ((curves.horizons, "horizon"), (curves.observing, "principal"), (curves.deltas, "principal")):
        for _, case in make(CASE):
            assert replace(case, **{name: getattr(CASE, name)}) == CASE
    assert [x for x, _ in curves.horizons(CASE)] == [10, 20, 80, 160]
    assert next(curves.observing(CASE))[1].principal.observe == fp.observe.Share(0.1)
    assert [case.principal.rule for _, case in curves.deltas(CASE)][-1] == fp.rules.Certified(0.001)
    assert [case.principal.rule for _, case in curves.epsilons(CASE, 0.2)][1] == fp.rules.Certified(0.05, epsilon=0.1)


def test_a_curve_has_the_plan_among_its_points_in_order() -> None:
    own = Point(0.05, made(1.0), planned=True)
    found = curve("delta", curves.deltas(CASE), own, Work(60.0, 20), 1.0)
    assert [point.x for point in found.points] == [0.001, 0.01, 0.05, 0.1]
    assert [point.planned for point in found.points] == [False, False, True, False]
    assert found.points[2].forecast is own.forecast
    assert (found.before(), found.after()) == (found.points[1], found.points[3])
    assert {point.forecast.runs for point in found.points} == {20, 1_000}
    assert found.complete


def test_without_time_variants_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(1e-6, None)
    work.ready.add(fp.rules.Certified)
    work.cost = 1.0
    monkeypatch.setattr(Case, "forecast", lambda *_: pytest.fail("nothing may be simulated"))
    found = curve("delta", curves.deltas(CASE), Point(0.05, made(1.0), True), work, 1.0)
    assert len(found.points) == 1
    assert not found.complete


def test_runs_are_done_until_the_range_is_tight_or_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[range] = []

    def forecast(_: Case, runs: Any) -> Forecast:
        asked.append(runs)
        return Forecast(np.full(len(runs), 7.0), np.ones(len(runs), bool), np.ones(len(runs)))

    monkeypatch.setattr(Case, "forecast", forecast)
    assert Work(60.0, None).trial(CASE, 1.0).runs == 80
    assert asked[1:] == [range(40), range(40, 80)]
    assert Work(60.0, 77).trial(CASE, 1.0).runs == 77
    assert Work(1e-9, None).trial(CASE, 1.0).runs == 40
    assert Work(60.0, None).point(CASE, 60.0).runs == 256  # type: ignore[union-attr]
    assert Work(60.0, 50).point(CASE, 0.0).runs == 50  # type: ignore[union-attr]
    assert Work(60.0, 50).point(replace(CASE, agents=20_000), 0.0).runs == 37  # type: ignore[union-attr]
    assert Work(60.0, 50).point(replace(CASE, agents=30_000), 0.0) is None
