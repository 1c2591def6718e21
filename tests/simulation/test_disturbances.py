"""Worlds in which an assumption is wrong: what they do to rewards and reports (docs/mechanics.md, worlds)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.simulation import readable
from freepull.simulation.compiled.coding import unsupported
from freepull.simulation.experiment import Experiment, check
from freepull.studies import read
from support.paths import compare
from support.program import inside

D = fp.disturbances
MEANS = [[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3], [0.5, 0.5, 0.9]]
WORLDS: dict[str, tuple[D.Disturbance, ...]] = {
    "drift": (D.Drift(0.3), D.Drift(-0.5, arm=1)),
    "shocks": (D.Shocks(0.2, period=3), D.Shocks(0.1)),
    "paid": (D.PaidBias(-0.4),),
    "late": (D.Reports(late=0.5, steps=3),),
    "all": (D.Shocks(0.1), D.PaidBias(0.2), D.Reports(late=0.3, steps=7, missing=0.2), D.Drift(-0.2)),
}
RULES = [
    fp.rules.Paper(0.3, "finite_time"), fp.rules.Paper(0.05, "simplified", 0.02), fp.rules.Certified(0.4),
    fp.rules.Comparisons(0.9, cap=4), fp.rules.Comparisons(0.9, late=True), fp.rules.Population(0.5),
]  # fmt: skip


def experiment(world: Any, rule: fp.rules.Rule | None = None, game: Any = None, **more: Any) -> Experiment:
    offers = more.pop("offers", "each")
    principal = fp.Principal(rule or fp.rules.Passive(), fp.observe.Share(0.3), offers=offers)
    settings: dict[str, Any] = {
        "agents": fp.agents.AlphaUCB(), "answers": fp.answers.Always(), "horizon": 90, "runs": [0, 5], "seed": 3,
        "until": "horizon", "trace": [20, 90],
    }  # fmt: skip
    return check(game or fp.Game(MEANS), principal=principal, disturbances=world, **settings | more)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("number", range(len(RULES)))
def test_engines_take_the_same_path_through_a_disturbed_world(world: str, number: int) -> None:
    more: dict[str, Any] = {"offers": ["one", "each"][number % 2], "seed": number}
    rate = fp.activity.Rate([0.7, 3.0][(number + len(world)) % 2])
    more |= {"activity": rate, "leaving": fp.leaving.AtRandom(0.4, after=30)}
    if number % 2:
        more["until"] = "decided"
    compare(experiment(WORLDS[world], RULES[number], **more))


@pytest.mark.slow
def test_engines_agree_where_rewards_are_no_coins() -> None:
    game = fp.Game(MEANS, rewards=fp.rewards.Beta(3))
    for world in (WORLDS["all"], WORLDS["drift"]):
        compare(experiment(world, fp.rules.Certified(0.4), game))


Pull = tuple[int, int, int, float, bool]


def pulls(world: Any, game: fp.Game, horizon: int, rule: Any = None, **more: Any) -> list[Pull]:
    seen: list[Pull] = []
    e = experiment(world, rule, game, horizon=horizon, trace=None, agents=fp.agents.RoundRobin(), **more)
    readable.play(e, 0, watch=lambda *pull: seen.append(pull))
    return seen


def far(values: Any, mean: float) -> float:
    """Return how many standard errors (of rewards within 1 of each other, at most ½ a pull) the values are off."""
    return abs(float(np.mean(values)) - mean) / (0.5 / math.sqrt(len(values)))


def test_a_drift_moves_its_own_arm_evenly() -> None:
    seen = pulls(D.Drift(0.4, arm=1), fp.Game([[0.3, 0.3]] * 20), 400)
    for half, moved in ((range(1, 201), 0.1), (range(201, 401), 0.3)):
        assert far([x for t, _, k, x, _ in seen if k == 1 and t in half], 0.3 + moved) < 4.5
        assert far([x for t, _, k, x, _ in seen if k == 0 and t in half], 0.3) < 4.5


def test_a_shock_is_the_same_for_all_in_a_period_and_another_in_the_next() -> None:
    seen = pulls(D.Shocks(0.3, period=2), fp.Game([[0.5, 0.5]] * 200), 60)
    by_period = [np.mean([x for t, _, _, x, _ in seen if (t - 1) // 2 == i]) for i in range(30)]
    assert all(abs(abs(mean - 0.5) - 0.3) < 5 * 0.4 / math.sqrt(400) for mean in by_period)
    assert 3 <= sum(mean > 0.5 for mean in by_period) <= 27  # of 30 fair coins, outside with probability 2·10⁻⁶


def test_other_rewards_than_coins_are_moved_themselves_and_stay_within_0_and_1() -> None:
    game = fp.Game(rewards=fp.rewards.Categorical([0.25, 0.75], [[[1.0, 0.0], [0.0, 1.0]]]))
    seen = pulls(D.Drift(0.5), game, 10)
    assert [x for _, _, k, x, _ in seen if k == 0] == pytest.approx([0.25 + 0.05 * t for t in (1, 3, 5, 7, 9)])
    assert [x for _, _, k, x, _ in seen if k == 1][-1] == 1.0


def test_a_paid_pull_is_worth_more_and_others_are_not() -> None:
    seen = pulls(D.PaidBias(0.4), fp.Game([[0.3, 0.3]] * 10), 300, fp.rules.Certified(0.01), offers="one")
    for paid, mean in ((True, 0.7), (False, 0.3)):
        values = [x for _, _, _, x, was in seen if was == paid]
        assert len(values) > 150
        assert far(values, mean) < 4.5


def test_reports_that_never_come_are_never_told_but_for_offers() -> None:
    game, told = fp.Game([[0.5, 0.5]] * 5), []
    for missing in (1.0, 0.25):
        e = experiment(D.Reports(missing=missing), fp.rules.Certified(0.01), game, horizon=200)
        outcome = readable.play(e, 0)
        assert outcome.pulls.sum() == 5 * 200, "what agents pull does not depend on who is told"
        silent = replace(e, principal=fp.Principal(fp.rules.Passive()))
        told.append(sum(point.mean for point in readable.play(silent, 0).trace))
        assert outcome.paid.sum() > 0
    assert told[0] == 0.0 < told[1]


def test_late_reports_come_in_the_end() -> None:
    late = readable.play(experiment(D.Reports(late=1.0, steps=30), horizon=60, trace=[30, 31, 60]), 0).trace
    plain = readable.play(experiment((), horizon=60, trace=[1, 30]), 0).trace
    assert [point.mean for point in late[:3]] == [0.0] * 3, "nothing is told before step 31"
    assert [point.mean for point in late[3:6]] == [point.mean for point in plain[:3]], "then the first step is"
    assert [point.mean for point in late[6:]] == [point.mean for point in plain[3:]]


def test_a_world_without_a_shift_is_the_undisturbed_one() -> None:
    plain = fp.simulate(fp.Game(MEANS), principal=fp.Principal(), horizon=300, runs=4, engine="readable")
    for nothing in (D.Drift(0.0), D.Shocks(0.0), D.PaidBias(0.0), D.Reports()):
        same = fp.simulate(
            fp.Game(MEANS), principal=fp.Principal(), horizon=300, runs=4, engine="readable", disturbances=nothing
        )
        assert same.frame.equals(plain.frame)
    assert "disturbances" not in plain.provenance["parameters"]


@dataclass(frozen=True)
class Evening(D.Disturbance):
    def shift(self, arm: int, t: int, horizon: int, paid: bool, key: int) -> float:
        return -1.0 if t > horizon // 2 else 0.0


def test_a_disturbance_of_ones_own_runs_on_the_readable_engine() -> None:
    assert "of your own" in str(unsupported(experiment(Evening())))
    assert {x for t, _, _, x, _ in pulls(Evening(), fp.Game([[1.0, 1.0]]), 10) if t > 5} == {0.0}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("drift", "disturbances must be such as"),
        (D.Drift(0.1, arm=3), "must name arms from 0 to 2"),
        ([D.Reports(), D.Reports()], "must have Reports once"),
    ],
)
def test_wrong_worlds_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        experiment(given)
    with pytest.raises(InvalidInput, match="late \\+ missing must be at most 1"):
        D.Reports(late=0.7, missing=0.7)


def test_studies_and_commands_take_disturbances(tmp_path: Any) -> None:
    (tmp_path / "study.toml").write_text(
        'game = "toy"\nhorizon = 50\nruns = 2\ndisturbances = ["drift:0.1", "reports:late=0.5,steps=2"]\n'
        '[principals.a]\nrule = "passive"\n[sweep]\n"disturbances.0.by" = [0.0, 0.2]\n'
    )
    cells = read(tmp_path / "study.toml").cells
    assert [cell.parameters["disturbances"][0]["by"] for cell in cells] == [0.0, 0.2]
    assert cells[0].key != cells[1].key
    told = ["simulate", "--rule", "passive", "--horizon", "40", "--runs", "2", "--json"]
    found = json.loads(inside(*told, "--disturbances", "shocks:0.1,period=5", "--disturbances", "paid-bias:0.1").stdout)
    assert found["provenance"]["parameters"]["disturbances"] == [
        {"part": "Shocks", "by": 0.1, "period": 5}, {"part": "PaidBias", "by": 0.1},
    ]  # fmt: skip
