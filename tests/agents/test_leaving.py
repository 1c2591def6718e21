"""When agents leave: at random, after acts, in anger, for the first of several reasons."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import freepull as fp
from freepull.agents.leaving import NEVER, AfterActs, AnyOf, AtRandom, InAnger, Leaving, Stays
from freepull.errors import InvalidInput
from freepull.randomness import LEAVING, key
from support.drive import Pull, assert_average, assert_mean, assert_sentence, experiment, watched

PASSIVE = fp.Principal(fp.rules.Passive())
AGENTS, STEPS = 2_000, 60
COINS = fp.Game([[0.3, 0.6]] * 60)
KEYS = [key(5, 0, m, LEAVING) for m in range(AGENTS)]


def last_acts(pulls: list[Pull], agents: int) -> list[int]:
    return [max((pull.t for pull in pulls if pull.agent == m), default=0) for m in range(agents)]


def test_a_share_leaves_at_a_uniform_step() -> None:
    last = np.array([AtRandom(0.4, after=10).until(own, STEPS) for own in KEYS])
    left = last < NEVER
    assert_average(left.astype(float), 0.4, 0.24)
    assert set(last[left]) == set(range(10, STEPS))  # gone from a step of 11…60 on
    assert_mean(last[left].astype(float), (10 + STEPS - 1) / 2, (50**2 - 1) / 12)


def test_who_left_at_random_is_not_heard_of_again() -> None:
    way = AtRandom(0.5, after=3)
    pulls = watched(experiment(COINS, PASSIVE, 20, leaving=way))
    assert last_acts(pulls, 60) == [min(way.until(key(0, 0, m, LEAVING), 20), 20) for m in range(60)]


def test_nobody_leaves_at_random_where_there_is_no_step_left() -> None:
    assert {AtRandom(1.0, after=after).until(own, 60) for after in (60, 61, 10**30) for own in KEYS[:50]} == {NEVER}


def test_an_agent_leaves_after_its_last_act() -> None:
    pulls = watched(experiment(COINS, PASSIVE, 50, leaving=AfterActs(7), activity=fp.activity.Rate(0.5)))
    assert {m: sum(pull.agent == m for pull in pulls) for m in range(60)} == dict.fromkeys(range(60), 7)


def test_the_angry_leave_only_after_a_poor_reward_that_is_not_forgiven() -> None:
    way = InAnger(share=0.5, after=5, reward=0.0, probability=0.4)
    pulls = watched(experiment(COINS, PASSIVE, 200, leaving=way))
    by_agent = [[pull.reward for pull in pulls if pull.agent == m] for m in range(60)]
    gone = [rewards for rewards in by_agent if len(rewards) < 200]
    assert all(len(rewards) > 5 and rewards[-1] == 0.0 for rewards in gone)
    assert_average(np.array([len(rewards) < 200 for rewards in by_agent], float), 0.5, 0.25)
    poor = sum(reward == 0.0 for rewards in gone for reward in rewards[5:])
    assert abs(len(gone) / poor - 0.4) < 6 * (0.4 * 0.6 / poor) ** 0.5


def test_a_poor_reward_is_one_of_at_most_so_much() -> None:
    furious = InAnger(1.0, after=0, reward=0.25, probability=1.0)
    assert [furious.leaves(1, 1, reward) for reward in (0.0, 0.25, 0.25 + 2**-30)] == [True, True, False]


def test_the_first_of_several_reasons_ends_it_and_each_draws_for_itself() -> None:
    both = AnyOf([AtRandom(0.5), AtRandom(0.5, after=30)])
    last = np.array([both.until(own, STEPS) for own in KEYS])
    assert_average((last == NEVER).astype(float), 0.25, 0.25 * 0.75)
    assert AnyOf([AfterActs(9), AfterActs(3)]).leaves(KEYS[0], 3, 1.0)
    assert not AnyOf([AfterActs(9), Stays()]).leaves(KEYS[0], 3, 1.0)


class WhenPleased(Leaving):
    """A user's own: two rewards of 1 are enough."""

    def leaves(self, key: int, acts: int, reward: float) -> bool:
        return acts > 1 and reward == 1.0


@pytest.mark.parametrize("way", [WhenPleased(), AnyOf([Stays(), WhenPleased()])])
def test_a_way_to_leave_of_ones_own_runs_on_the_readable_engine(way: Leaving) -> None:
    pulls = watched(experiment(COINS, PASSIVE, 50, leaving=way))
    for m in range(60):
        rewards = [pull.reward for pull in pulls if pull.agent == m]
        assert 1.0 not in rewards[1:-1]
    result = fp.simulate(COINS, principal=PASSIVE, horizon=50, runs=1, leaving=way, engine="readable")
    assert result.frame["acts"].to_list() == [len(pulls)]
    with pytest.raises(InvalidInput, match="because WhenPleased is a way to leave of your own"):
        fp.simulate(COINS, principal=PASSIVE, horizon=50, runs=1, leaving=way, engine="compiled")


def test_two_tempers_in_one_agent_are_not_compiled() -> None:
    way = AnyOf([InAnger(0.5), InAnger(0.5, after=20)])
    with pytest.raises(InvalidInput, match="because AnyOf with more than one InAnger is not compiled"):
        fp.simulate(COINS, principal=PASSIVE, horizon=50, runs=1, leaving=way, engine="compiled")


def test_nobody_who_is_silent_is_asked_or_told_of() -> None:
    principal = fp.Principal(fp.rules.Certified(0.1), fp.observe.Steps(0), offers="each")
    trial = experiment(COINS, principal, 40, leaving=AfterActs(1), activity=fp.activity.Rate(0.1))
    pulls = watched(trial)
    assert len(pulls) == len({pull.agent for pull in pulls})
    result = fp.simulate(
        COINS, principal=principal, horizon=40, runs=1, leaving=AfterActs(1), activity=fp.activity.Rate(0.1)
    )
    assert result.frame["offered"].to_list() == [len(pulls)]  # everybody who came was wanted, and came once


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AtRandom(1.5), "share must be a number in [0, 1], got 1.5"),
        (lambda: AtRandom(0.5, after=-1), "after must be a whole number of at least 0"),
        (lambda: AfterActs(0), "acts must be a whole number of at least 1"),
        (lambda: InAnger(0.5, probability=2.0), "probability must be a number in [0, 1]"),
        (lambda: AnyOf([]), "leaving must be a list of one or more ways to leave, none of them AnyOf, got []"),
        (lambda: AnyOf(cast(Any, Stays())), "leaving must be a list of one or more ways to leave"),
        (lambda: AnyOf([AnyOf([Stays()])]), "leaving must be a list of one or more ways to leave, none of them AnyOf"),
        (lambda: AnyOf(cast(Any, "stays")), "leaving must be a list of one or more ways to leave"),
        (lambda: experiment(COINS, PASSIVE, 9, leaving=3), "leaving must be objects with methods until(key, horizon)"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_in_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(words)
