"""What every built-in agent must do, found by introspection: a new one is tested as soon as it is listed."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from freepull import agents, registry
from freepull.agents.base import Agent, Learner
from freepull.randomness import uniform, word

BUILT_IN = [it.made for it in registry.parts("agents")]
HAVE_NO_TIES = {agents.Thompson, agents.RoundRobin, agents.EXP3}


def play(agent: Any, start: int, stop: int) -> list[int]:
    """Let an agent pick and learn; the reward is a function of the step and the arm."""
    picked = []
    for t in range(start, stop):
        picked.append(agent.pick(t))
        agent.learn(picked[-1], uniform(word(3, picked[-1], t)))
    return picked


def test_there_are_those_of_the_contract() -> None:
    names = {kind.__name__ for kind in BUILT_IN}
    assert names >= {"AlphaUCB", "KLUCB", "Thompson", "EpsilonGreedy", "Greedy", "RoundRobin"}
    assert names >= {"UCBV", "MOSS", "UCB1Tuned", "BayesUCB", "EXP3"}
    assert names < set(agents.__all__)


@pytest.mark.parametrize("kind", BUILT_IN)
class TestEveryAgent:
    def test_it_keeps_the_contract(self, kind: Any) -> None:
        assert isinstance(kind(), Agent)
        assert issubclass(kind, Learner)
        assert list(inspect.signature(kind.start).parameters) == ["self", "arms", "key"]
        assert inspect.getdoc(kind)

    def test_it_prints_as_it_is_written(self, kind: Any) -> None:
        agent = kind()
        changed = {f.name: getattr(agent, f.name) * 2 + 1 for f in dataclasses.fields(agent) if f.init}
        for each in (agent, kind(**changed)):
            assert eval(repr(each), vars(agents)) == each
        assert not changed or kind(**changed) != agent

    def test_what_it_has_learnt_is_no_part_of_what_it_is(self, kind: Any) -> None:
        agent = kind()
        agent.start(3, 5)
        play(agent, 1, 10)
        assert agent == kind()
        assert repr(agent) == repr(kind())

    def test_a_copy_goes_its_own_way(self, kind: Any) -> None:
        agent = kind()
        agent.start(3, 5)
        play(agent, 1, 30)
        twin = copy.deepcopy(agent)
        pulls = list(agent.pulls)
        ahead = play(twin, 30, 60)
        assert agent.pulls == pulls
        assert play(agent, 30, 60) == ahead

    def test_a_pickle_goes_on_where_it_was(self, kind: Any) -> None:
        agent = kind()
        agent.start(3, 5)
        play(agent, 1, 30)
        twin = pickle.loads(pickle.dumps(agent))
        assert play(twin, 30, 60) == play(agent, 30, 60)

    def test_the_same_key_gives_the_same_picks(self, kind: Any) -> None:
        one, two = kind(), kind()
        one.start(4, 99)
        two.start(4, 99)
        assert play(one, 1, 100) == play(two, 1, 100)

    def test_starting_again_forgets_everything(self, kind: Any) -> None:
        agent = kind()
        agent.start(4, 99)
        first = play(agent, 1, 50)
        agent.start(4, 99)
        assert agent.pulls == [0, 0, 0, 0]
        assert play(agent, 1, 50) == first

    def test_picking_changes_nothing(self, kind: Any) -> None:
        agent = kind()
        agent.start(3, 5)
        play(agent, 1, 20)
        before = copy.deepcopy(vars(agent))
        assert agent.pick(20) == agent.pick(20)
        assert vars(agent) == before

    def test_picks_are_arms(self, kind: Any) -> None:
        for arms in (2, 7):
            agent = kind()
            agent.start(arms, 1)
            picked = play(agent, 1, 300)
            assert all(type(arm) is int and 0 <= arm < arms for arm in picked)
            assert set(picked) == set(range(arms))

    def test_it_counts_pulls_and_adds_up_rewards(self, kind: Any) -> None:
        agent = kind()
        agent.start(2, 1)
        agent.learn(1, 0.25)
        agent.learn(1, 0.5)
        assert agent.pulls == [0, 2]
        assert agent.sums == [0.0, 0.75]


@pytest.mark.parametrize("kind", [kind for kind in BUILT_IN if kind not in HAVE_NO_TIES])
class TestAgentsWithAnIndex:
    """All but those that believe or take turns (docs/mechanics.md, agents)."""

    def test_unpulled_arms_come_first_from_the_lowest(self, kind: Any) -> None:
        agent = kind()
        agent.start(4, 1)
        agent.learn(1, 1.0)  # a paid pull
        assert play(agent, 2, 5) == [0, 2, 3]

    def test_of_equal_arms_the_lowest_is_picked(self, kind: Any) -> None:
        agent = kind(c=0.0) if kind is agents.EpsilonGreedy else kind()
        agent.start(4, 1)
        agent.pulls, agent.sums = [5, 5, 5, 5], [1.0, 2.0, 2.0, 2.0]
        assert agent.pick(21) == 1
        agent.pulls, agent.sums = [5, 5, 5, 5], [0.0, 0.0, 0.0, 0.0]
        assert agent.pick(21) == 0
