"""The game: global means, gaps, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from support.drive import assert_sentence

MEANS = [[0.1, 0.5, 0.9], [0.3, 0.7, 0.2]]


def test_global_means_are_averages_over_agents() -> None:
    assert fp.Game(MEANS).global_means == pytest.approx([0.2, 0.6, 0.55], abs=1e-15)


def test_gaps_are_to_the_best_arm_and_the_best_has_the_smallest() -> None:
    game = fp.Game(MEANS)
    assert game.best == 1
    assert game.gaps == pytest.approx([0.4, 0.05, 0.05], abs=1e-15)
    assert game.minimum_gap == pytest.approx(0.05, abs=1e-15)


def test_local_best_arms_and_gaps() -> None:
    game = fp.Game(MEANS)
    assert game.local_best.tolist() == [2, 1]
    assert game.local_gaps == pytest.approx(np.array([[0.8, 0.4, 0.4], [0.4, 0.4, 0.5]]), abs=1e-15)


def test_weights_are_normalised_and_weigh_the_global_means() -> None:
    game = fp.Game(MEANS, weights=[3, 1])
    assert game.weighted
    assert game.weights.tolist() == [0.75, 0.25]
    assert game.global_means == pytest.approx([0.15, 0.55, 0.725], abs=1e-15)
    assert game.best == 2
    assert game.gaps == pytest.approx([0.575, 0.175, 0.175], abs=1e-15)


def test_equal_weights_are_no_weights() -> None:
    game = fp.Game(MEANS, weights=[2.0, 2.0])
    assert not game.weighted
    assert game.global_means.tolist() == fp.Game(MEANS).global_means.tolist()


def test_of_several_best_arms_the_lowest_is_named_and_all_are_best() -> None:
    game = fp.Game([[0.2, 0.9, 0.1], [0.2, 0.1, 0.9]])
    assert game.best == 1
    assert [game.is_best(k) for k in range(3)] == [False, True, True]
    assert game.minimum_gap == 0.0


def test_arms_that_tie_on_paper_have_no_gap() -> None:
    game = fp.Game([[0.1, 0.15], [0.2, 0.15]])
    assert game.best == 0
    assert game.is_best(1)
    assert game.minimum_gap == 0.0


def test_coins_have_the_variance_of_coins() -> None:
    assert fp.Game([[0.1, 0.5]]).variances == pytest.approx(np.array([[0.09, 0.25]]))


def test_means_are_copied_and_cannot_be_changed() -> None:
    table = np.array(MEANS)
    game = fp.Game(table)
    table[0, 0] = 0.9
    assert game.means[0, 0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        game.means[0, 0] = 0.9


def test_one_agent_and_two_arms_are_enough() -> None:
    game = fp.Game([[0.0, 1.0]])
    assert (game.agents, game.arms) == (1, 2)


def test_repr_and_description_say_what_it_is() -> None:
    assert repr(fp.instances.toy()) == "Game(2 agents × 3 arms, gap 0.02)"
    assert repr(fp.Game(MEANS, rewards=fp.rewards.Beta(5))).endswith(", Beta rewards)")
    told = fp.Game(MEANS, weights=[3, 1]).describe()
    assert told["means"] == MEANS
    assert told["weights"] == [0.75, 0.25]
    assert (told["agents"], told["arms"]) == (2, 3)


@pytest.mark.parametrize(
    ("means", "said"),
    [
        (None, "means must be a table"),
        ([0.1, 0.2], "1 dimension"),
        ([[0.1], [0.2]], "2 arms"),
        (np.zeros((0, 3)), "at least 1 agent"),
        ([[0.1, float("nan")]], "got nan for agent 0 and arm 1"),
        ([[0.1, 0.2], [1.1, 0.2]], "got 1.1 for agent 1 and arm 0"),
        ([[0.1, -0.2]], "got -0.2 for agent 0 and arm 1"),
        ([[0.1, float("inf")]], "means must lie in"),
        ([[0.1, 0.2], [0.3]], "rows of equal length"),
        ("abc", "means must be numbers"),
    ],
)
def test_bad_means_are_refused_with_a_sentence(means: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Game(means)
    assert said in assert_sentence(problem)


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 2.0, 3.0], [0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0], "ab", np.ones((2, 2))]
)
def test_bad_weights_are_refused_with_a_sentence(weights: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Game(MEANS, weights=weights)
    assert assert_sentence(problem).startswith("weights must be ")


def test_a_law_that_fixes_the_means_allows_no_others() -> None:
    law = fp.rewards.Empirical([[[0.0, 1.0], [1.0]]])
    assert fp.Game(rewards=law).means.tolist() == [[0.5, 1.0]]
    with pytest.raises(InvalidInput) as problem:
        fp.Game([[0.5, 1.0]], rewards=law)
    assert "left out with Empirical" in assert_sentence(problem)


def test_a_law_must_be_an_object() -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Game(MEANS, rewards=fp.rewards.Beta)  # type: ignore[arg-type]
    assert "the class Beta" in assert_sentence(problem)
