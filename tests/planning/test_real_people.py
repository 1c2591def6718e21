"""Plans for people as they are: panels, activity, leaving and refusals, with the errors of guesses and of fits."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.pages import plan_page
from freepull.planning.beliefs import People, blurred
from freepull.planning.facade import CAMPAIGN
from freepull.planning.words import NO_TIMES, SIMULATED
from verification.calibration_worlds import timed_log

STREET = replace(fp.panels.street(agents=40, arms=2, gap=0.3), horizon=200)
GUESS: dict[str, Any] = {"arms": 2, "agents": 40, "gap": 0.3, "horizon": 200}
ACTIVITY, LEAVING = fp.activity.Lognormal(0.3, 0.5), fp.leaving.AtRandom(0.2)
DRAWS = 4_000
RANDOMISED = "randomised test, no bonuses"


@pytest.fixture(scope="module")
def street() -> fp.Plan:
    return fp.plan(STREET, runs=60, epsilon=0.02)


def log(**changed: Any) -> Any:
    game = fp.Game(np.clip(np.random.default_rng(4).normal([0.7, 0.4], 0.1, (60, 2)), 0, 1))
    parts = {"activity": ACTIVITY, "leaving": LEAVING, "answers": fp.answers.Reluctant(0.3, 0.5)}
    return timed_log(game, 150, fp.agents.Thompson(), parts | changed, 4)


def test_a_panel_is_simulated_as_it_is(street: fp.Plan) -> None:
    principal = replace(CAMPAIGN, rule=fp.rules.Comparisons(0.05, 0.02))
    result = fp.simulate(STREET, principal=principal, runs=60, until="decided")
    assert street.forecast is not None
    assert street.forecast.paid.tolist() == result.frame["paid"].to_list()
    assert street.forecast.certified.tolist() == result.frame["certified"].to_list()
    assert (street.question["agents"], street.question["horizon"]) == (40, 200)
    assert street.question["activity"] == [repr(STREET.activity)]
    assert street.question["leaving"] == [repr(STREET.leaving)]
    shorter = fp.plan(STREET, horizon=100, answers=fp.answers.Always(), runs=40, curves=False)
    assert shorter.question["horizon"] == 100
    assert shorter.question["answers"] == ["Always()"]


def test_no_formula_is_shown_where_it_knows_nothing(street: fp.Plan) -> None:
    assert not street.first.known
    assert {row.source.partition(",")[0] for row in street.rows() if row.what != RANDOMISED} == {"simulation"}
    assert SIMULATED in street.sentences
    told = json.loads(json.dumps(street.to_dict(), allow_nan=False))
    assert told["first"]["spend"] is told["first"]["lower_bound"] is told["first"]["fixed_test"] is None
    assert told["first"]["doubt"].startswith("simulation only")
    here = fp.plan(**{**GUESS, "horizon": 40}, runs=40, curves=False, epsilon=0.02)
    assert [row.what for row in here.rows() if row.source == "formula"] == ["fixed A/B test, power 95 %"]


def test_the_first_answer_comes_after_40_runs_and_the_rest_goes_on_from_there() -> None:
    heard: list[fp.Plan] = []
    whole = fp.plan(STREET, runs=70, curves=False, on_first=heard.append)
    quick, plain = fp.plan(STREET, quick=True), fp.plan(STREET, runs=70, curves=False)
    for plan in (heard[0], quick):
        assert plan.forecast is not None
        assert plan.forecast.runs == 40
        assert plan.rows()[0].source == "simulation, 40 runs"
    assert whole.forecast is not None
    assert plain.forecast is not None
    assert heard[0].forecast is not None
    assert whole.forecast.paid.tolist() == plain.forecast.paid.tolist()
    assert whole.forecast.paid[:40].tolist() == heard[0].forecast.paid.tolist()


def test_the_variants_keep_the_rule_and_the_people(street: fp.Plan) -> None:
    assert list(street.curves) == ["agents", "horizon", "observing", "delta", "epsilon", "cap"]
    assert [point.x for point in street.curves["epsilon"].points] == [0.0, 0.02, 0.05]
    assert [point.x for point in street.curves["cap"].points] == [1.0, 3.0, 10.0, math.inf]
    assert [point.planned for point in street.curves["cap"].points] == [False, False, False, True]
    chances = [point.forecast.chance[0] for point in street.curves["epsilon"].points]
    assert chances == sorted(chances)
    longer = fp.simulate(
        replace(STREET, horizon=400), principal=replace(CAMPAIGN, rule=fp.rules.Comparisons(0.05, 0.02)), runs=60,
        until="decided",
    )  # fmt: skip
    point = next(point for point in street.curves["horizon"].points if point.x == 400)
    assert point.forecast.paid.tolist() == longer.frame["paid"].to_list()


def test_page_and_sentences_do_not_say_that_everybody_acts_in_every_step(street: fp.Plan) -> None:
    page = plan_page(street)
    for word in (
        "40 people, 2 options, 200 steps.",
        "Lognormal",
        "comparisons that it opened",
        "nobody counts more often",
    ):
        assert word in page
    for word in ("steps each", "acts less", "lower bound", "fixed A/B", "Formulas are"):
        assert word not in page
    hard = fp.plan(fp.panels.street(agents=10, arms=2, gap=0.01), horizon=60, runs=40, curves=False, epsilon=0.0)
    assert hard.sentences[1].startswith("With 10 agents in 60 steps, a gap like that of the game cannot be certified")


def test_the_principal_follows_the_people_unless_it_is_given() -> None:
    def rule(**asked: Any) -> str:
        told = fp.plan(**{**GUESS, "agents": 10, "horizon": 20}, quick=True, **asked).question
        return " ".join([told["rule"].partition("(")[0], told["observe"], told["protocol"], told["offers"]])

    campaign = "Comparisons Share(rho=0.1) NeverBan() each"
    assert rule() == "Certified Share(rho=0.5) TakeOrBan() each"
    for asked in (
        {"activity": ACTIVITY}, {"leaving": LEAVING}, {"answers": fp.answers.WithProbability(0.9)}, {"epsilon": 0.02},
    ):  # fmt: skip
        assert rule(**asked) == campaign
    assert rule(activity=ACTIVITY, principal=fp.Principal()).startswith("Certified")
    seen: list[bool] = []

    def principal(ideal: bool) -> fp.Principal:
        seen.append(ideal)
        return fp.Principal()

    for leaving in (None, LEAVING):
        fp.plan(**GUESS, quick=True, leaving=leaving, principal=principal)
    assert seen == [True, False]
    with pytest.raises(InvalidInput, match=r"^epsilon must be left out with a principal"):
        fp.plan(**GUESS, epsilon=0.1, principal=fp.Principal())


def test_numbers_of_people_are_off_as_far_as_guesses_are() -> None:
    rng, error = np.random.default_rng(5), 0.3
    drawn = [blurred(fp.activity.Lognormal(0.05, 0.8, silent=0.2), error, rng) for _ in range(DRAWS)]
    close = 4.5 * error / math.sqrt(DRAWS)
    for logs, centre in (
        (np.log([it.median for it in drawn]), math.log(0.05)),
        (np.log([it.sigma for it in drawn]), math.log(0.8)),
        (np.log([it.silent / (1 - it.silent) for it in drawn]), math.log(0.25)),
    ):
        assert logs.mean() == pytest.approx(centre, abs=close)
        assert logs.std() == pytest.approx(error, abs=close)
    both = blurred(STREET.leaving, error, rng)
    assert both.leaving[0].share != 0.1
    assert both.leaving[0].after == 50
    assert blurred(fp.answers.WithProbability(1.0), error, rng) == fp.answers.WithProbability(1.0)
    assert blurred(Rare(0.3), error, rng) == Rare(0.3)


@dataclass(frozen=True)
class Rare:
    """An activity of one's own: taken as exact."""

    share: float

    def chance(self, key: int, t: int) -> float:
        return self.share


def test_every_run_draws_its_own_people_and_without_error_all_are_as_told() -> None:
    exact, vague = (
        fp.plan(**GUESS, activity=ACTIVITY, leaving=LEAVING, error=error, runs=60, curves=False) for error in (0.0, 0.4)
    )
    same = fp.plan(**GUESS, activity=ACTIVITY, leaving=LEAVING, error=0.4, runs=60, curves=False, workers=2)
    assert vague.to_dict()["forecast"] == same.to_dict()["forecast"]
    assert exact.to_dict()["forecast"] != vague.to_dict()["forecast"]
    assert "off by about 40 % too" in vague.question["beliefs"]
    assert "too" not in exact.question["beliefs"]
    people = People((fp.agents.AlphaUCB(),), (fp.answers.Always(),), (ACTIVITY,), (LEAVING,), error=0.4)
    first, second = (people.drawn(np.random.default_rng(seed), 100) for seed in (1, 2))
    assert first.activity != second.activity
    assert first.sure
    assert not people.sure
    assert replace(people, error=0.0).sure


def test_fewer_acts_and_more_leavers_make_a_certified_answer_rarer() -> None:
    rates = []
    for asked in ({}, {"leaving": fp.leaving.AtRandom(0.95)}, {"activity": fp.activity.Rate(0.03)}):
        parts: dict[str, Any] = {"activity": fp.activity.Rate(0.3), **asked}
        found = fp.plan(**{**GUESS, "gap": 0.1, "error": 0.0}, **parts, runs=150, curves=False).forecast
        assert found is not None
        rates.append(found.chance[0])
    error = math.sqrt(0.25 / 150)
    assert rates[0] > rates[1] + 3 * error
    assert rates[0] > rates[2] + 3 * error


@pytest.mark.slow
def test_people_are_fitted_to_a_log_with_times_unless_they_are_given() -> None:
    plan = fp.plan(log=log(), horizon=150, runs=40, curves=False)
    assert plan.habits is not None
    assert plan.question["rule"].startswith("Comparisons")
    assert plan.question["strategy"] == ["Thompson()"]
    assert plan.question["log"]["people"]["came"] == plan.habits.came
    assert "rates a step are log-normal" in plan.question["beliefs"]
    assert NO_TIMES not in plan.sentences
    given = fp.plan(
        log=log(), horizon=150, quick=True, strategy=fp.agents.Greedy(), activity=ACTIVITY, leaving=LEAVING,
        answers=fp.answers.Always(),
    )  # fmt: skip
    assert given.habits is None
    assert given.question["strategy"] == ["Greedy()"]
    bare = fp.plan(log=log().drop("step", "outcome").drop_nulls(), horizon=150, quick=True)
    assert NO_TIMES in bare.sentences
    assert bare.question["rule"].startswith("Certified")


def test_what_is_no_activity_gets_a_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"^activity must be objects with a method chance"):
        fp.plan(**GUESS, activity="often", quick=True)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^horizon must be given: for how many steps"):
        fp.plan(**{**GUESS, "horizon": None})
    with pytest.raises(InvalidInput, match=r"^error must be left out with a game"):
        fp.plan(STREET, error=0.1)
