"""Agents and answers of a user's own: ten lines are enough, and mistakes are told in a sentence."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import freepull as fp
from freepull.agents.answers import Situation
from freepull.errors import AgentError, InvalidInput
from freepull.randomness import uniform, word
from support.drive import assert_sentence, paper

GAME = fp.Game([[0.2, 0.8, 0.5], [0.7, 0.1, 0.5]])
PRINCIPAL = fp.Principal(paper(1000.0, arms=3), observe=fp.observe.Steps(10))


class Stubborn:
    """The whole of a user's agent: it repeats an arm while that pays."""

    def __init__(self) -> None:
        self.arm = 0

    def pick(self, t: int) -> int:
        return self.arm

    def learn(self, arm: int, reward: float) -> None:
        self.arm = arm if reward > 0.5 else (arm + 1) % 3


class Keyed:
    """An agent that wants to know the number of arms, and draws from a key of its own."""

    def start(self, arms: int, key: int) -> None:
        self.arms, self.key = arms, key

    def pick(self, t: int) -> int:
        return int(uniform(word(self.key, 0, t)) * self.arms)

    def learn(self, arm: int, reward: float) -> None:
        pass


class Returns(Stubborn):
    """An agent that picks whatever it was made with."""

    def __init__(self, value: Any) -> None:
        self.arm = value

    def learn(self, arm: int, reward: float) -> None:
        pass


class Alternating:
    """An answer with a state: it takes every other offer."""

    def __init__(self) -> None:
        self.asked = 0

    def takes(self, offer: Situation) -> bool:
        self.asked += 1
        return self.asked % 2 == 0


def simulate(**more: Any) -> fp.Result:
    told: dict[str, Any] = {"principal": PRINCIPAL, "horizon": 40, "runs": 3, "seed": 1, "keep": "agents"}
    return fp.simulate(GAME, **(told | {"engine": "readable"} | more))


def test_an_agent_of_ten_lines_runs() -> None:
    result = simulate(agents=Stubborn())
    assert result.frame["free_pulls"].to_list() == [50, 50, 50]
    assert result.frame["paid"].to_list() == [30, 30, 30]
    assert result.provenance["engine"] == "readable"


def test_the_readable_engine_is_chosen_for_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fp.errors.ReadableEngine)  # said once for all
        result = simulate(agents=Stubborn(), engine="auto")
    assert result.provenance["engine"] == "readable"
    assert_frame_equal(result.frame, simulate(agents=Stubborn()).frame)


def test_an_agent_given_as_a_class_is_made() -> None:
    assert_frame_equal(simulate(agents=Stubborn).frame, simulate(agents=Stubborn()).frame)


def test_an_agent_that_asks_for_it_gets_the_arms_and_a_key() -> None:
    result = simulate(agents=Keyed(), principal=fp.Principal(fp.rules.Passive()), horizon=300)
    assert result.agents is not None
    rows = result.agents["pulls"].to_list()
    assert all(60 <= n <= 140 for row in rows for n in row)  # 100 on average, sd 8
    assert len({tuple(row) for row in rows}) == len(rows)  # every agent and run has a key of its own


def test_agents_of_all_kinds_play_together() -> None:
    result = simulate(agents=[Stubborn(), fp.agents.AlphaUCB()], answers=[fp.answers.Always(), Alternating()])
    assert result.frame.height == 3
    assert result.provenance["parameters"]["agents"] == [
        {"part": f"{__name__}:Stubborn"},
        {"part": "AlphaUCB", "alpha": 2.0},
    ]


def test_the_object_given_is_never_changed() -> None:
    agent, learner = Stubborn(), fp.agents.AlphaUCB()
    simulate(agents=[agent, learner])
    assert agent.arm == 0
    assert learner.pulls == []


def test_every_run_starts_with_a_fresh_agent() -> None:
    together = simulate(agents=Stubborn()).frame
    alone = simulate(agents=Stubborn(), runs=[2]).frame
    assert_frame_equal(together.filter(together["run"] == 2), alone)


def test_every_run_starts_with_a_fresh_answer() -> None:
    together = simulate(answers=Alternating(), runs=4)
    alone = simulate(answers=Alternating(), runs=[3]).frame
    assert_frame_equal(together.frame.filter(together.frame["run"] == 3), alone)


@pytest.mark.parametrize("value", [3, -1, 1.0, None, True, "1"])
def test_an_arm_that_does_not_exist_is_an_agent_error(value: Any) -> None:
    with pytest.raises(AgentError) as problem:
        simulate(agents=[Stubborn(), Returns(value)])
    message = assert_sentence(problem)
    assert message == f"Returns.pick(1) must return an arm from 0 to 2, got {value!r} from agent 1."


def test_numpy_integers_are_arms() -> None:
    import numpy as np

    result = simulate(agents=Returns(np.int64(2)), principal=fp.Principal(fp.rules.Passive()))
    assert result.agents is not None
    assert result.agents["pulls"][0].to_list() == [0, 0, 40]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"agents": [Stubborn()]}, "agents must be one object for all or a sequence of 2, one per agent, got 1."),
        ({"agents": [Stubborn()] * 3}, "agents must be one object for all or a sequence of 2, one per agent, got 3."),
        ({"answers": []}, "answers must be one object for all or a sequence of 2, one per agent, got 0."),
        ({"agents": "AlphaUCB"}, "agents must be objects with methods pick(t) and learn(arm, reward)"),
        ({"agents": [Stubborn(), object()]}, "agents must be objects with methods pick(t) and learn(arm, reward)"),
        ({"answers": Stubborn()}, "answers must be objects with a method takes(offer)"),
    ],
)
def test_what_is_no_agent_or_answer_is_refused_with_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        simulate(**more)
    assert assert_sentence(problem).startswith(said)
