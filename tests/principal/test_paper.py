"""The paper's rule on given records: bounds, elimination, and whom it wants to pay for what."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.record import UNITS, Record
from freepull.principal.rules.base import Setting
from freepull.principal.rules.paper import Paper, PaperState
from support.drive import assert_sentence, paper


def state(
    pulls: list[list[int]], means: list[list[float]] | None = None, theta: float = 1.0, offers: str = "one"
) -> PaperState:
    """Return the rule's state on a record with these pulls and sample means, at exactly this θ."""
    M, K = len(pulls), len(pulls[0])
    record = Record(M, K)
    for m in range(M):
        for k in range(K):
            for _ in range(pulls[m][k]):
                record.add(m, k, round((means[m][k] if means else 0.0) * UNITS))
    setting = Setting(K, M, 100, np.full(M, 1 / M), False, offers)
    found = Paper(0.5, "simplified").start(setting, record)
    found.theta = theta
    return found


def wanted(rule: PaperState, payable: list[bool] | None = None) -> list[tuple[int, int]]:
    """Return the wants as (agent, arm)."""
    everybody = [True] * rule.setting.agents
    return [(want.agent, want.arm) for want in rule.wants(everybody if payable is None else payable)]


def test_the_bound_is_the_papers() -> None:
    rule = state([[4, 1], [8, 2], [8, 2]], theta=2.0)
    assert rule.bounds()[0] == pytest.approx(math.sqrt((1 / 4 + 1 / 8 + 1 / 8) * 2.0) / 3, rel=1e-12)
    assert rule.bounds()[1] == pytest.approx(math.sqrt((1 + 1 / 2 + 1 / 2) * 2.0) / 3, rel=1e-12)


@pytest.mark.parametrize("name", ["equation", "simplified", "finite_time"])
def test_every_bound_puts_its_own_theta_in(name: str) -> None:
    record = Record(2, 3)
    for m in range(2):
        for k in range(3):
            for _ in range(4):
                record.add(m, k, 0)
    rule = Paper(0.01, name).start(Setting(3, 2, 100_000, np.full(2, 0.5), False, "one"), record)
    theta = {"equation": 39.98375, "simplified": 17.21671, "finite_time": 19.12173}[name]
    assert rule.bounds() == pytest.approx([math.sqrt(theta / 2) / 2] * 3, abs=1e-6)


def test_an_unpulled_stream_makes_the_bound_infinite() -> None:
    assert state([[4, 1], [8, 0]]).bounds()[1] == math.inf


def test_an_arm_stays_while_its_upper_end_reaches_the_highest_lower_end() -> None:
    pulls, means = [[4, 4]], [[1.0, 0.0]]  # CB = √(θ/4)
    for theta, active in [(1.0, [True, True]), (0.999, [True, False])]:  # 0 + ½ ≥ 1 − ½ holds as an equality
        rule = state(pulls, means, theta)
        rule.evaluate(incentivizing=True)
        assert rule.active == active


def test_arms_are_compared_by_averages_over_agents() -> None:
    # global means .5, .5, .3 and CB = ½·√(¼·θ) = ¼·√θ
    pulls, means = [[8, 8, 8], [8, 8, 8]], [[1.0, 0.5, 0.5], [0.0, 0.5, 0.125]]
    rule = state(pulls, means, theta=0.05)  # CB = .0559: .3125 + .0559 < .5 − .0559
    rule.evaluate(incentivizing=True)
    assert rule.active == [True, True, False]


def test_nothing_is_eliminated_while_observing() -> None:
    rule = state([[4, 4]], [[1.0, 0.0]], theta=1e-9)
    rule.evaluate(incentivizing=False)
    assert rule.active == [True, True]
    assert not rule.decided


def test_an_eliminated_arm_neither_returns_nor_eliminates() -> None:
    rule = state([[4, 4, 4]], [[1.0, 0.5, 0.5625]], theta=0.01)  # CB = .05
    rule.active = [False, True, True]
    rule.evaluate(incentivizing=True)  # .55 ≥ .5125 keeps arm 1; arm 0's 1 − .05 would have felled both
    assert rule.active == [False, True, True]


def test_an_arm_with_an_infinite_bound_neither_falls_nor_fells() -> None:
    rule = state([[4, 0, 4]], [[1.0, 0.0, 0.0]], theta=0.01)
    rule.evaluate(incentivizing=True)
    assert rule.active == [True, True, False]


def test_the_leader_is_the_lowest_best_of_the_active_arms() -> None:
    rule = state([[4, 4, 4, 4]], [[1.0, 0.25, 0.5, 0.5]])
    assert rule.leader() == 0
    rule.active = [False, True, True, True]
    assert rule.leader() == 2


@pytest.mark.parametrize(
    ("pulls", "want"),
    [
        ([[5, 1], [5, 9]], (0, 1)),  # the widest bound, the fewest pulls
        ([[5, 9], [5, 1]], (1, 1)),
        ([[3, 3], [3, 3]], (0, 0)),  # ties: lowest arm, lowest agent
        ([[4, 3], [2, 3]], (1, 0)),  # 1/4 + 1/2 > 2/3
        ([[6, 3], [2, 3]], (1, 0)),  # 1/6 + 1/2 = 2/3, a tie on paper
        ([[3, 6], [3, 2]], (0, 0)),
        ([[0, 5], [5, 1]], (0, 0)),  # unpulled before everything else
        ([[5, 0], [1, 0]], (0, 1)),
        ([[1, 5, 0], [0, 5, 5]], (1, 0)),  # two unpulled arms: the lowest
    ],
)
def test_one_offer_goes_to_the_widest_arm_and_the_agent_with_fewest_pulls(
    pulls: list[list[int]], want: tuple[int, int]
) -> None:
    assert wanted(state(pulls)) == [want]


def test_bounds_that_tie_on_paper_tie_here() -> None:
    """1/2 + 1/3 + 1/6 = 3·(1/3), though not in floats: the lowest arm is wanted both ways round."""
    assert wanted(state([[2, 3], [3, 3], [6, 3]])) == [(0, 0)]
    assert wanted(state([[3, 2], [3, 3], [3, 6]])) == [(0, 0)]


def test_eliminated_arms_are_not_wanted() -> None:
    rule = state([[0, 5, 3], [0, 5, 4]])
    rule.active = [False, True, True]
    assert wanted(rule) == [(0, 2)]


@pytest.mark.parametrize(
    ("pulls", "payable", "wants"),
    [
        ([[5, 1], [5, 9]], [False, True], [(1, 1)]),  # the argmin is over those who may be paid
        ([[0, 5], [5, 4]], [False, True], [(1, 1)]),  # arm 0 could only be completed by agent 0: skipped
        ([[0, 5], [0, 4], [3, 4]], [False, True, True], [(1, 0)]),  # … but not if another can pull it first
        ([[0, 0], [5, 5]], [False, True], []),  # only such arms remain
        ([[5, 5], [5, 5]], [False, False], []),
    ],
)
def test_only_payable_agents_are_wanted(
    pulls: list[list[int]], payable: list[bool], wants: list[tuple[int, int]]
) -> None:
    assert wanted(state(pulls), payable) == wants


def test_each_agent_is_wanted_for_the_active_arm_it_pulled_least() -> None:
    rule = state([[3, 1, 2], [1, 1, 5], [4, 4, 4]], offers="each")
    # neediest first; of equal needs the lowest arm, then the lowest agent
    assert wanted(rule) == [(1, 0), (0, 1), (2, 0)]
    rule.active = [True, False, True]
    assert wanted(rule) == [(1, 0), (0, 2), (2, 0)]
    assert wanted(rule, [True, False, True]) == [(0, 2), (2, 0)]


def test_each_ignores_what_other_agents_have_not_pulled() -> None:
    assert wanted(state([[0, 5], [2, 4]], offers="each"), [False, True]) == [(1, 0)]


def test_the_title_says_whether_it_is_proven() -> None:
    setting = Setting(3, 2, 100_000, np.full(2, 0.5), False, "one")
    titles = [Paper(0.01, name).start(setting, Record(2, 3)).title for name in ("finite_time", "simplified")]
    assert "(proven)" in titles[0]
    assert "(heuristic)" in titles[1]


@pytest.mark.parametrize(
    ("more", "said"), [({"weights": [1.0, 3.0], "horizon": 50}, "weights must be equal"), ({}, "horizon must be")]
)
def test_weights_and_a_missing_horizon_are_refused_with_a_sentence(more: dict[str, Any], said: str) -> None:
    principal = fp.Principal(paper(), observe=fp.observe.Steps(3))
    with pytest.raises(InvalidInput) as problem:
        principal.start(arms=2, agents=2, **more)
    assert assert_sentence(problem).startswith(said)


def test_equal_weights_are_accepted() -> None:
    trial = fp.Principal(paper()).start(arms=2, agents=2, horizon=10, weights=[2.0, 2.0])
    assert not trial.setting.weighted
