"""Pulls in bulk: all or none, and what one by one would have done."""

from __future__ import annotations

from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from support.drive import assert_sentence


@pytest.mark.parametrize(
    ("agents", "arms", "rewards", "said"),
    [
        ([0, 3], [0, 0], [0.5, 0.5], "agents[1] must be a whole number from 0 to 2, got 3."),
        ([0, -1], [0, 0], [0.5, 0.5], "agents[1] must be a whole number from 0 to 2, got -1."),
        ([0.0], [0], [0.5], "agents must be whole numbers from 0 to 2, got [0.0]."),
        ([True], [0], [0.5], "agents must be whole numbers from 0 to 2, got [True]."),
        ([0, 1], [1, 2], [0.5, 0.5], "arms[1] must be a whole number from 0 to 1, got 2."),
        ([0, 1], [1, 1], [0.5, float("nan")], "rewards[1] must be a number in [0, 1], got nan."),
        ([0, 1], [1, 1], [float("inf"), 0.5], "rewards[0] must be a number in [0, 1], got inf."),
        ([0, 1], [1, 1], [0.5, 1.5], "rewards[1] must be a number in [0, 1], got 1.5."),
        ([0], [1], ["0.5"], "rewards must be numbers in [0, 1], got ['0.5']."),
        ([0], [1], [True], "rewards must be numbers in [0, 1], got [True]."),
        ([0], [1], 0.5, "rewards must be a row of numbers, one for each pull, got 0.5."),
        ([[0]], [1], [0.5], "agents must be a row of numbers, one for each pull, got [[0]]."),
        ([[0], 1], [1], [0.5], "agents must be a row of numbers, one for each pull, got [[0], 1]."),
        (
            [0, 1],
            [1],
            [0.5, 0.5],
            "agents, arms and rewards must be equally many, got 2, 1 and 2; give each pull all three.",
        ),
    ],
)
def test_a_wrong_pull_among_many_is_refused_with_a_sentence_and_nothing_changes(
    agents: Any, arms: Any, rewards: Any, said: str
) -> None:
    trial = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0)).start(arms=2, agents=3)
    trial.ask(0)
    before = trial.state()
    with pytest.raises(InvalidInput) as problem:
        trial.tell_many(agents, arms, rewards)
    assert assert_sentence(problem) == said
    assert trial.state() == before


def test_many_pulls_of_an_agent_who_left_for_good_are_refused() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=3, leavers="independent")
    trial.leave(1)
    before = trial.state()
    with pytest.raises(InvalidInput) as problem:
        trial.tell_many([0, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5])
    assert assert_sentence(problem) == "agent 1 has left, so its pulls no longer count; do not tell them."
    assert trial.state() == before
    assert trial.tell_many([], [], []) == []
    assert trial.state() == before


def test_acting_twice_is_seen_in_one_batch_and_in_two() -> None:
    for batches, regular in [([[0, 1]], True), ([[0, 1, 0]], False), ([[0, 1], [1]], False)]:
        trial = fp.Principal(fp.rules.Passive()).start(arms=2, agents=2, horizon=9)
        for agents in batches:
            trial.tell_many(agents, [0] * len(agents), [0.5] * len(agents))
        assert trial.regular == regular
        trial.end_step()
        trial.tell_many([0, 1], [0, 0], [0.5, 0.5])
        assert trial.regular == regular


def test_rewards_in_bulk_are_rounded_half_even() -> None:
    trial = fp.Principal(fp.rules.Passive()).start(arms=2, agents=1, horizon=9)
    for reward, unit in [(2.0**-31, 0), (1.5 * 2.0**-30, 2), (2.5 * 2.0**-30, 2), (0.1, 107374182), (1, 2**30)]:
        before = int(trial.record.sums[0, 0])
        trial.tell_many([0], [0], [reward])
        assert trial.record.sums[0, 0] - before == unit
