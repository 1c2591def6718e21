"""`fp.plan`: what comes out says where it comes from, wishes that cannot come true get a sentence, bad input too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.planning import formulas, words
from freepull.planning import search as simulated
from freepull.planning.forecast import Forecast
from freepull.planning.question import Case
from freepull.planning.words import SAME_LOG

SMALL: dict[str, Any] = {"arms": 2, "agents": 20, "horizon": 40, "gap": 0.2}


@pytest.fixture(scope="module")
def small() -> fp.Plan:
    return fp.plan(**SMALL, runs=60, price="0.50 EUR")


def log() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    agent, arm = np.divmod(rng.integers(0, 20, 400), 2)
    reward = (rng.random(400) < np.array([0.7, 0.4])[arm]).astype(int)
    return pl.DataFrame({"agent": agent, "arm": arm, "reward": reward})


def test_every_figure_says_where_it_comes_from(small: fp.Plan) -> None:
    rows = small.rows()
    assert {row.source.partition(",")[0] for row in rows} == {"formula", "simulation"}
    assert rows[0] == ("expected spend", rows[0].value, "simulation, 60 runs")
    told = " ".join(row.what for row in rows)
    for word in (
        "50 % range", "90 % range", "95 % range", "certified for nothing", "certified by step 40", "decided at",
        "budget, 95 % chance", "agents, 95 % chance", "agents, free in 95 %", "if watching to 0.75·T", "if δ = 0.01",
        "if best up to ε = 0.1", "lower bound", "fixed A/B test",
    ):  # fmt: skip
        assert word in told
    for row in rows:
        assert row.what in str(small)
        assert row.source in str(small)


def test_the_figures_are_those_of_the_runs(small: fp.Plan) -> None:
    found = small.forecast
    assert found is not None
    assert small.chance(0) == found.free
    assert small.chance(10**9) == found.chance[0]
    assert small.agents_needed is not None
    assert small.agents_free is not None
    assert small.agents_free >= small.agents_needed
    panels = {point.x: point.forecast for point in small.curves["agents"].points}
    assert panels[small.agents_needed].chance[0] >= 0.95 > min(panel.chance[0] for panel in panels.values())
    assert panels[small.agents_free].free >= 0.95
    plan = {name: [point.planned for point in curve.points] for name, curve in small.curves.items()}
    assert list(plan) == ["agents", "horizon", "observing", "delta", "epsilon"]
    assert all(any(planned) for planned in plan.values())
    spends = [point.forecast.mean for point in small.curves["observing"].points]
    assert spends == sorted(spends, reverse=True)


def test_the_same_seed_and_runs_give_the_same_figures(small: fp.Plan) -> None:
    again, other = fp.plan(**SMALL, runs=60, price="0.50 EUR"), fp.plan(**SMALL, runs=60, curves=False, seed=1)
    told, same = small.to_dict(), again.to_dict()
    for plan in (told, same):
        plan.pop("provenance")
    assert told == same
    assert other.to_dict()["forecast"] != told["forecast"]
    assert other.curves == {}


def test_a_plan_is_plain_data_too(small: fp.Plan) -> None:
    told = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert told["question"]["agents"] == 20
    assert told["forecast"]["runs"] == 60
    assert told["first"]["source"] == "formula, heuristic"
    assert told["question"]["price"] == "0.50 EUR"
    assert len(told["curves"]["delta"]["points"]) == 4
    assert told["forecast"]["ranges"]["0.9"] == list(small.forecast.range(0.9))  # type: ignore[union-attr]


def test_the_price_is_paid_for_every_bonus(small: fp.Plan) -> None:
    assert small.money(1_200) == "1,200 (600.00 EUR)"
    assert "EUR" in small.sentences[0]
    for wrong in ("EUR", "0 EUR", "-1 EUR", "1,5 EUR", 3, ""):
        with pytest.raises(InvalidInput, match=r"^price must be"):
            fp.plan(**SMALL, quick=True, price=wrong)  # type: ignore[arg-type]


def test_the_first_answer_comes_first_and_may_be_all() -> None:
    heard: list[fp.Plan] = []
    whole = fp.plan(**SMALL, runs=40, curves=False, on_first=heard.append)
    quick = fp.plan(**SMALL, quick=True)
    assert [plan.forecast for plan in (*heard, quick)] == [None, None]
    assert heard[0].first == quick.first == whole.first
    assert {row.source for row in quick.rows()} == {"formula", "formula, heuristic"}
    with pytest.raises(InvalidInput, match=r"^chance needs a simulated plan"):
        quick.chance(3)


def test_near_zero_only_the_simulation_is_shown() -> None:
    free = fp.plan(arms=2, agents=500, horizon=60, gap=0.2, quick=True)
    assert free.first.spend is None
    assert free.first.doubt == "most of it is free"
    assert "know little" in free.sentences[0]
    dear = fp.plan(arms=2, agents=2, horizon=20_000, gap=0.03, spread=0.3, error=0.0, quick=True)
    assert dear.first.doubt == ""
    assert dear.first.spend == pytest.approx(float(dear.rows()[0].value.split()[0].replace(",", "")), rel=0.01)


@pytest.mark.slow
def test_impossible_wishes_get_a_sentence_with_a_number_that_works() -> None:
    wish: dict[str, Any] = {"arms": 2, "horizon": 30, "gap": 0.1, "error": 0.1}
    plan = fp.plan(**wish, agents=3, runs=100)
    assert plan.sentences[1].startswith("With 3 agents acting 30 times, a gap of 0.1 cannot be certified at δ = 0.05")
    assert plan.agents_needed is not None
    assert plan.sentences[1].endswith(f"; about {words.rounded(plan.agents_needed):,} agents could, in 95 %.")
    better = fp.plan(**wish, agents=int(1.2 * plan.agents_needed), runs=400, curves=False, seed=5)
    assert better.forecast is not None
    assert better.forecast.chance[2] > 0.95
    short = fp.plan(**wish, agents=3, runs=100, curves=False)
    assert short.sentences[1].endswith(
        f"by the formulas about {words.rounded(short.first.agents_needed):,} agents could, perhaps."
    )
    quick = fp.plan(**wish, agents=3, quick=True)
    assert "can hardly be certified" in quick.sentences[0]
    assert quick.first.doubt == "time or money do not suffice"


def test_guesses_that_may_be_wrong_make_the_range_wider() -> None:
    widths = []
    for error in (0.0, 0.4):
        found = fp.plan(arms=2, agents=5, horizon=400, gap=0.15, error=error, runs=400, curves=False).forecast
        assert found is not None
        low, high = found.range(0.9)
        widths.append(high - low)
    assert widths[1] > 1.3 * widths[0]


def test_arms_means_say_the_same_as_gaps() -> None:
    by_means = fp.plan(agents=20, horizon=40, means=[0.3, 0.5, 0.45], runs=40, curves=False)
    by_gaps = fp.plan(arms=3, agents=20, horizon=40, gap=[0.5 - 0.45, 0.5 - 0.3], level=0.5, runs=40, curves=False)
    assert by_means.to_dict()["forecast"] == by_gaps.to_dict()["forecast"]


def test_a_game_that_is_known_has_only_luck_left() -> None:
    principal = fp.Principal(fp.rules.Certified(0.1), offers="each")
    plan = fp.plan(fp.instances.toy(), principal=principal, horizon=500, runs=40)
    result = fp.simulate(fp.instances.toy(), principal=principal, horizon=500, runs=40)
    assert plan.forecast is not None
    assert plan.forecast.paid.tolist() == result.frame["paid"].to_list()
    assert {point.x % 2 for point in plan.curves["agents"].points} == {0}
    drawn = fp.plan(lambda rng: fp.Game(rng.random((3, 2))), horizon=50, runs=40)
    assert "agents" not in drawn.curves
    assert drawn.agents_needed is None


def test_a_log_is_planned_from_with_a_warning_never_to_import_it() -> None:
    own, others = (
        fp.plan(log=log(), horizon=30, runs=40, curves=False),
        fp.plan(log=log(), agents=50, horizon=30, quick=True),
    )
    assert own.question["agents"] == 10
    assert own.question["log"]["pulls"] == 400
    assert others.question["agents"] == 50
    for plan in (own, others):
        assert SAME_LOG in plan.sentences
        assert "log" in plan.question["beliefs"]
    assert SAME_LOG not in fp.plan(**SMALL, quick=True).sentences


def test_a_log_on_a_scale_says_what_differences_are_on_it() -> None:
    stars = log().with_columns(pl.col("reward") * 4 + 1)
    plan, plain = fp.plan(log=stars, scale="1..5", horizon=30, quick=True), fp.plan(log=log(), horizon=30, quick=True)
    said = "Rewards are on the scale 1..5, and differences are shares of it: 0.1 of it is 0.4."
    assert said in plan.sentences
    assert not [it for it in plain.sentences if "on the scale" in it]


def test_other_learners_are_simulated_and_the_formulas_say_that_they_do_not_know_them() -> None:
    plan = fp.plan(**SMALL, quick=True, strategy=[fp.agents.Thompson(), fp.agents.AlphaUCB(2.0)])
    assert any("α-UCB" in sentence for sentence in plan.sentences)
    assert plan.question["strategy"] == ["Thompson()", "AlphaUCB(alpha=2.0)"]
    greedy, curious = (
        fp.plan(**SMALL, runs=100, curves=False, strategy=strategy).forecast
        for strategy in (fp.agents.Greedy(), fp.agents.RoundRobin())
    )
    assert greedy is not None
    assert curious is not None
    assert greedy.mean > curious.mean


def test_control_c_keeps_what_was_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Case.forecast, []

    def stopped(case: Case, runs: Any) -> Any:
        calls.append(runs)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(case, runs)

    monkeypatch.setattr(Case, "forecast", stopped)
    plan = fp.plan(**SMALL, runs=40)
    assert plan.provenance["interrupted"]
    assert plan.forecast is not None
    assert "interrupted" in plan.sentences[-1]
    assert simulated.ORDER[0] not in plan.curves
    calls.clear()
    half = fp.plan(**SMALL)
    assert half.provenance["interrupted"]
    assert half.forecast is not None
    assert half.forecast.runs == 80  # one run to load the kernels, then batches of 40 and 40
    assert half.curves == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gap": None}, ["one of gap, means, log and game", "none of them"]),
        ({"means": [0.5, 0.4]}, ["one of gap, means, log and game", "gap and means"]),
        ({"gap": None, "game": fp.instances.toy(), "spread": 0.1}, ["spread must be left out with a game"]),
        ({"gap": None, "game": fp.instances.toy(), "agents": 3, "arms": None}, ["agents must be 2", "got 3"]),
        ({"gap": None, "game": 7}, ["game must be a freepull.Game"]),
        ({"gap": None, "log": "nowhere.csv"}, ["nowhere.csv"]),
        ({"gap": None, "log": log(), "agents": 10**9}, ["agents × arms must be at most 10,000,000"]),
        ({"gap": None, "means": [0.5, 0.5]}, ["means must have one best arm"]),
        ({"gap": None, "means": [0.5]}, ["means must be at least 2"]),
        ({"gap": None, "means": [0.5, 0.4, 0.3]}, ["arms must be 3", "got 2"]),
        ({"gap": None, "means": [0.5, 0.4], "level": 0.5}, ["level must be left out"]),
        ({"gap": 0.7}, ["gap must lie in (0, 0.49]", "got 0.7"]),
        ({"gap": "wide"}, ["gap must be a finite number", "wide"]),
        ({"agents": None}, ["agents must be", "got None"]),
        ({"arms": None}, ["arms must be", "got None"]),
        ({"arms": 1}, ["arms must be", "got 1"]),
        ({"horizon": 1}, ["horizon must be at least 2", "got 1"]),
        ({"delta": 1.5}, ["delta", "1.5"]),
        ({"delta": 0.1, "principal": fp.Principal()}, ["delta must be left out with a principal"]),
        (
            {"principal": fp.Principal(fp.rules.Passive())},
            ["rule must be rules.Certified or rules.Comparisons", "Passive"],
        ),
        ({"principal": "me"}, ["principal must be"]),
        ({"runs": 5}, ["runs must be", "at least 40"]),
        ({"seconds": 0}, ["seconds must be"]),
        ({"seed": -1}, ["seed must be"]),
        ({"workers": 0}, ["workers must be"]),
        ({"strategy": []}, ["strategy must be"]),
    ],
)
def test_bad_input_gets_one_sentence(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        fp.plan(**{**SMALL, **change})
    for word in words:
        assert word in str(caught.value)


def test_strangers_as_strategies_get_a_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"^agents must be objects with methods pick"):
        fp.plan(**SMALL, strategy="ucb")  # type: ignore[arg-type]


def test_a_log_with_bad_rows_is_planned_from_all_the_same(tmp_path: Path) -> None:
    log().with_columns(reward=pl.when(pl.int_range(pl.len()) == 5).then(7).otherwise("reward")).write_csv(
        tmp_path / "past.csv"
    )
    with pytest.warns(fp.errors.UnusableRows, match=r"line 7 \(reward 7 is outside"):
        plan = fp.plan(log=tmp_path / "past.csv", horizon=30, quick=True)
    assert plan.question["log"]["unusable"] == [{"where": 7, "why": "reward 7 is outside [0, 1]"}]
    assert plan.question["log"]["file"].endswith("past.csv")


def test_a_budget_caps_the_first_answer_and_refusals_are_warned_of() -> None:
    dear: dict[str, Any] = {"arms": 2, "agents": 2, "horizon": 20_000, "gap": 0.03, "spread": 0.3, "error": 0.0}
    spend = fp.plan(**dear, quick=True).first.spend
    assert spend is not None
    rich, poor = (
        fp.plan(**dear, quick=True, principal=fp.Principal(offers="each", budget=budget)).first
        for budget in (2 * spend, 0.5 * spend)
    )
    assert rich.spend == spend
    assert (poor.spend, poor.doubt) == (None, "time or money do not suffice")
    ban = fp.Principal(offers="each")
    shy = fp.plan(**SMALL, runs=40, curves=False, answers=fp.answers.Never(), principal=ban)
    assert any("never-ban" in sentence for sentence in shy.sentences)
    assert any(
        "take every offer" in sentence
        for sentence in fp.plan(**dear, quick=True, answers=fp.answers.Never(), principal=ban).sentences
    )


def test_many_agents_are_sketched_by_a_few() -> None:
    few, many = (
        fp.plan(arms=3, agents=agents, horizon=200, gap=0.002, error=0.0, quick=True) for agents in (5_000, 50_000)
    )
    assert many.first.needed == pytest.approx([pulls / 10 for pulls in few.first.needed])
    assert few.first.agents_needed == pytest.approx(many.first.agents_needed, rel=0.01)
    assert few.first.fixed_test == pytest.approx(many.first.fixed_test, rel=0.01)


def test_the_lower_bound_counts_the_free_pulls_of_the_whole_horizon_and_has_no_epsilon() -> None:
    setting: dict[str, Any] = {"horizon": 100_000}
    toy = fp.instances.toy()
    bounds = [
        fp.plan(toy, **setting, quick=True, principal=fp.Principal(observe=fp.observe.Share(rho))).first.lower_bound
        for rho in (0.1, 0.9)
    ]
    assert 3_000 < bounds[0] == bounds[1] < 7_107  # the bound with the free pulls of half of it, at δ = 0.01
    loose = fp.plan(toy, **setting, quick=True, principal=fp.Principal(fp.rules.Certified(0.05, epsilon=0.04)))
    assert not any("lower bound" in row.what for row in loose.rows())
    strict = fp.plan(toy, **setting, quick=True, principal=fp.Principal(fp.rules.Certified(0.05)))
    assert loose.first.fixed_test == pytest.approx(strict.first.fixed_test / 9, rel=0.02)


def test_variants_are_compared_on_the_runs_that_both_have() -> None:
    paid = np.arange(100.0)
    plan = Forecast(paid, np.ones(100, bool), np.ones(100))
    variant = Forecast(paid[:40] + 3.0, np.ones(40, bool), np.ones(40))
    assert variant.against(plan) == (3.0, 0.0)
    assert plan.margin == pytest.approx(1.96 * paid.std(ddof=1) / 10)
    with pytest.raises(InvalidInput, match=r"^share must"):
        plan.range(1.5)


@pytest.mark.slow
def test_where_the_search_has_been_the_formulas_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    wish: dict[str, Any] = {"arms": 20, "agents": 4, "horizon": 20, "gap": 0.01, "runs": 40}
    further = fp.plan(**wish)
    assert further.agents_needed is None
    assert max(point.x for point in further.curves["agents"].points) < further.first.agents_needed
    assert further.sentences[1].endswith("by the formulas about 7,200 agents could, perhaps.")
    monkeypatch.setattr(formulas, "agents_for_certainty", lambda _: 100.0)
    nearer = fp.plan(**wish)
    most = max(point.x for point in nearer.curves["agents"].points)
    assert most > nearer.first.agents_needed == 100
    assert nearer.sentences[1].endswith(f", and not by {most:,.0f} agents either.")
