"""α-UCB: its index, step by step."""

from __future__ import annotations

import math
from typing import Any

import pytest

from freepull.agents import AlphaUCB
from freepull.errors import InvalidInput
from support.drive import assert_sentence


def agent_with(pulls: list[int], sums: list[float], alpha: float = 2.0) -> AlphaUCB:
    agent = AlphaUCB(alpha)
    agent.start(len(pulls))
    agent.pulls, agent.sums = pulls, sums
    return agent


def test_the_index_is_the_mean_plus_root_alpha_log_t_over_n() -> None:
    # arm 0: 0.9 + √(2·log 12 / 10) = 1.605; arm 1: 0 + √(2·log 12 / 2) = 1.576
    assert agent_with([10, 2], [9.0, 0.0]).pick(12) == 0
    # arm 0: 0.9 + √(2·log 14 / 10) = 1.627; arm 1: 0 + √(2·log 14 / 2) = 1.625
    assert agent_with([10, 2], [9.0, 0.0]).pick(14) == 0
    # one step later the root has grown past it: 1.6359 against 1.6456
    assert agent_with([10, 2], [9.0, 0.0]).pick(15) == 1


def test_the_step_it_is_given_counts_not_the_step_before() -> None:
    first = next(t for t in range(3, 100) if agent_with([10, 2], [9.0, 0.0]).pick(t) == 1)
    # 0.9 = √(2·log t)·(1/√2 − 1/√10), solved for t
    assert first == math.ceil(math.exp((0.9 / (2**-0.5 - 10**-0.5)) ** 2 / 2))


@pytest.mark.parametrize(("alpha", "arm"), [(0.01, 0), (100.0, 1)])
def test_a_larger_alpha_explores_more(alpha: float, arm: int) -> None:
    assert agent_with([10, 2], [9.0, 0.0], alpha).pick(12) == arm


def test_at_step_1_there_is_no_width() -> None:
    assert agent_with([1, 100], [0.0, 1.0]).pick(1) == 1


def test_it_plays_by_hand() -> None:
    agent = AlphaUCB(2.0)
    agent.start(2)
    picked = []
    for t, reward in enumerate([1.0, 0.0, 1.0, 0.0, 0.0], start=1):
        picked.append(agent.pick(t))
        agent.learn(picked[-1], reward)
    # t=3: 1 + 1.48 against 0 + 1.48; t=4: 1 + √(2·log 4/2) = 2.18 against √(2·log 4) = 1.67;
    # t=5: 2/3 + √(2·log 5/3) = 1.70 against √(2·log 5) = 1.79
    assert picked == [0, 1, 0, 0, 1]
    assert agent.pulls == [3, 2]
    assert agent.sums == [2.0, 0.0]


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf"), "2", None])
def test_alpha_must_be_positive(alpha: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        AlphaUCB(alpha)
    assert assert_sentence(problem).startswith("alpha must be a number above 0")
