"""How often agents act: rates, silent ones, and clocks of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.agents.activity import Activity, EveryStep, Lognormal, Rate
from freepull.errors import AgentError, InvalidInput
from freepull.randomness import ACTIVITY, key
from support.drive import assert_average, assert_mean, assert_sentence, experiment, watched

PASSIVE = fp.Principal(fp.rules.Passive())
COINS = fp.Game([[0.3, 0.6]] * 50)


def test_everybody_acts_in_every_step_unless_told_otherwise() -> None:
    plain = watched(experiment(COINS, PASSIVE, 20))
    assert len(plain) == 50 * 20
    assert watched(experiment(COINS, PASSIVE, 20, activity=EveryStep(), leaving=fp.leaving.Stays())) == plain


@pytest.mark.parametrize("rate", [0.05, 0.7, 3.0])
def test_an_agent_acts_with_the_probability_of_its_rate(rate: float) -> None:
    steps, chance = 400, 1 - math.exp(-rate)
    pulls = watched(experiment(COINS, PASSIVE, steps, activity=Rate(rate)))
    acted = np.zeros((50, steps))
    for pull in pulls:
        acted[pull.agent, pull.t - 1] += 1
    assert acted.max() == 1
    assert_average(acted.ravel(), chance, chance * (1 - chance))


def test_rates_are_log_normal_and_drawn_once_a_run() -> None:
    crowd, agents = Lognormal(median=0.05, sigma=0.8), 20_000
    keys = [key(3, 0, m, ACTIVITY) for m in range(agents)]
    rates = np.array([-math.log1p(-crowd.chance(own, 1)) for own in keys])
    logs = np.log(rates / 0.05)
    assert_mean(logs, 0.0, 0.8**2)
    assert_mean(logs**2, 0.8**2, 2 * 0.8**4)
    assert_average((rates < 0.05).astype(float), 0.5, 0.25)
    assert [crowd.chance(own, 77) for own in keys[:20]] == [crowd.chance(own, 1) for own in keys[:20]]
    assert crowd.chance(key(3, 1, 0, ACTIVITY), 1) != crowd.chance(keys[0], 1)


def test_the_silent_never_come() -> None:
    crowd, agents = Lognormal(median=5.0, sigma=0.1, silent=0.3), 5_000
    silent = np.array([crowd.chance(key(1, 0, m, ACTIVITY), 1) == 0.0 for m in range(agents)])
    assert_average(silent.astype(float), 0.3, 0.21)
    pulls = watched(experiment(COINS, PASSIVE, 100, activity=crowd))
    there = {pull.agent for pull in pulls}
    assert there == {m for m in range(50) if crowd.chance(key(0, 0, m, ACTIVITY), 1) > 0}


class Clock:
    """Notes the steps that it is asked at."""

    asked: list[int]

    def __init__(self) -> None:
        self.asked = []

    def pick(self, t: int) -> int:
        self.asked.append(t)
        assert self.asked == list(range(1, t + 1))
        return t % 2

    def learn(self, arm: int, reward: float) -> None:
        """Nothing."""


def test_agents_go_by_their_own_clocks() -> None:
    pulls = watched(experiment(COINS, PASSIVE, 100, agents=Clock(), activity=Rate(0.2)))
    for m in range(50):
        assert [pull.arm for pull in pulls if pull.agent == m] == [
            n % 2 for n in range(1, 1 + sum(p.agent == m for p in pulls))
        ]


class Weekdays:
    """A user's own: nobody acts on two days of seven."""

    def chance(self, key: int, t: int) -> float:
        return float(t % 7 < 5)


def test_an_activity_of_ones_own_runs_on_the_readable_engine() -> None:
    assert isinstance(Weekdays(), Activity)
    pulls = watched(experiment(COINS, PASSIVE, 28, activity=Weekdays()))
    assert {pull.t for pull in pulls} == {t for t in range(1, 29) if t % 7 < 5}
    with pytest.warns(fp.errors.ReadableEngine, match="Weekdays is an activity of your own"):
        result = fp.simulate(COINS, principal=PASSIVE, horizon=28, runs=1, activity=Weekdays())
    assert result.frame["acts"].to_list() == [len(pulls)]


class Sure:
    def chance(self, key: int, t: int) -> float:
        return 1.5


def test_a_chance_above_one_is_refused() -> None:
    with pytest.raises(AgentError) as problem:
        watched(experiment(COINS, PASSIVE, 5, activity=Sure()))
    assert "must return a number in [0, 1], got 1.5 for agent 0" in assert_sentence(problem)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rate(-0.1), "rate must be a number of at least 0, got -0.1"),
        (lambda: Lognormal(0.0, 1.0), "median must be a number above 0"),
        (lambda: Lognormal(0.1, -1.0), "sigma must be a number of at least 0"),
        (lambda: Lognormal(0.1, 1.0, silent=1.2), "silent must be a number in [0, 1]"),
        (lambda: experiment(COINS, PASSIVE, 9, activity="rate"), "activity must be objects with a method"),
        (lambda: experiment(COINS, PASSIVE, 9, activity=[Rate(1.0)]), "activity must be one object for all or a"),
        (lambda: experiment(COINS, PASSIVE, 9, activity=Rate), "activity must be objects, or classes without"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_in_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(words)
