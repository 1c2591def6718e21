"""ε-greedy: how often it explores, and what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from freepull.agents import EpsilonGreedy
from freepull.errors import InvalidInput
from freepull.randomness import CHOICE, key
from support.drive import assert_average, assert_sentence

RUNS = 20_000


def picks_at(t: int, c: float, arms: int = 4) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Picks at step t over many runs of an agent whose best arm is 2."""
    found = []
    agent = EpsilonGreedy(c)
    for run in range(RUNS):
        agent.start(arms, key(1, run, 0, CHOICE))
        agent.pulls, agent.sums = [10] * arms, [5.0 if k == 2 else 1.0 for k in range(arms)]
        found.append(agent.pick(t))
    return np.array(found)


@pytest.mark.parametrize(("t", "c", "epsilon"), [(200, 5.0, 0.1), (40, 5.0, 0.5), (100, 1.0, 0.04)])
def test_it_explores_with_probability_c_k_over_t_uniformly_over_all_arms(t: int, c: float, epsilon: float) -> None:
    picks = picks_at(t, c)
    for arm in range(4):
        chance = epsilon / 4 + (1 - epsilon if arm == 2 else 0.0)
        assert_average((picks == arm).astype(float), chance, chance * (1 - chance))


def test_while_epsilon_is_1_it_only_explores() -> None:
    picks = picks_at(20, 5.0)
    for arm in range(4):
        assert_average((picks == arm).astype(float), 0.25, 0.1875)


def test_with_c_0_it_is_greedy() -> None:
    assert (picks_at(1, 0.0)[:500] == 2).all()


def test_c_is_5_by_default() -> None:
    assert EpsilonGreedy() == EpsilonGreedy(5.0)


def test_whether_and_what_it_explores_are_independent() -> None:
    picks = picks_at(40, 5.0)
    others = picks[picks != 2]
    for arm in (0, 1, 3):
        assert_average((others == arm).astype(float), 1 / 3, 2 / 9)


def test_a_pick_depends_on_key_and_step_only() -> None:
    agent = EpsilonGreedy()
    agent.start(3, 77)
    agent.pulls, agent.sums = [2, 2, 2], [0.0, 1.0, 2.0]
    forwards = [agent.pick(t) for t in range(1, 100)]
    assert [agent.pick(t) for t in reversed(range(1, 100))] == forwards[::-1]
    assert set(forwards) == {0, 1, 2}


@pytest.mark.parametrize("c", [-1.0, float("nan"), None])
def test_c_must_be_at_least_0(c: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        EpsilonGreedy(c)
    assert assert_sentence(problem).startswith("c must be a number of at least 0")
