"""Agents with one mind see all that they may know, and nothing else; simple ones hear of bonuses if they ask."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest

import freepull as fp
from freepull.agents import OnTable, View
from freepull.errors import AgentError, InvalidInput
from freepull.simulation import readable
from freepull.simulation.experiment import check
from freepull.testing import check_agent
from support.drive import assert_sentence, paper

GAME = fp.Game([[0.2, 0.8, 0.5], [0.7, 0.1, 0.5]])
PRINCIPAL = fp.Principal(paper(1000.0, arms=3), observe=fp.observe.Steps(10), protocol=fp.protocols.BanFor(4))
SEEN: list[tuple[View, int, float, float]] = []


@dataclass
class Diary:
    """Takes every second offer, else takes turns, and writes down what it saw and got."""

    refuses: bool = True
    views: list[View] = field(default_factory=list)

    def act(self, view: View) -> int:
        self.views.append(view)
        if view.offer is not None and not (self.refuses and view.offers % 2 == 1):
            return view.offer.arm
        own = view.t % len(view.pulls)
        return own if view.offer is None or view.offer.arm != own else (own + 1) % len(view.pulls)

    def learn(self, arm: int, reward: float, paid: float) -> None:
        SEEN.append((self.views[-1], arm, reward, paid))


@dataclass
class Honest:
    """α-UCB and Always in one mind."""

    def start(self, arms: int, key: int) -> None:
        self.own = fp.agents.AlphaUCB()
        self.own.start(arms, key)

    def act(self, view: View) -> int:
        return self.own.pick(view.t) if view.offer is None else view.offer.arm

    def learn(self, arm: int, reward: float, paid: float) -> None:
        self.own.learn(arm, reward)


def simulate(agents: Any, **more: Any) -> fp.Result:
    told: dict[str, Any] = {"principal": PRINCIPAL, "horizon": 40, "runs": 2, "seed": 1, "keep": "agents"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fp.errors.ReadableEngine)
        return fp.simulate(GAME, agents=agents, **(told | more))


def test_a_mind_that_does_what_a_simple_agent_does_takes_its_path() -> None:
    mind, simple = simulate(Honest()), simulate(fp.agents.AlphaUCB())
    assert mind.frame.equals(simple.frame)
    assert mind.agents is not None
    assert simple.agents is not None
    assert mind.agents.equals(simple.agents)
    assert simulate([Honest(), fp.agents.AlphaUCB()]).frame.equals(simple.frame)


def test_answers_do_not_matter_for_a_mind() -> None:
    assert simulate(Honest(), answers=fp.answers.Never()).frame.equals(simulate(Honest()).frame)


def test_it_sees_offers_phases_bans_and_its_own_record() -> None:
    SEEN.clear()
    e = check(GAME, Diary(), fp.answers.Always(), PRINCIPAL, 40, 1, 1, "horizon", None)
    pulls: dict[int, list[tuple[int, float, bool]]] = {0: [], 1: []}
    outcome = readable.play(e, 0, lambda t, agent, arm, reward, paid: pulls[agent].append((arm, reward, paid)))
    assert len(SEEN) == 80
    assert outcome.refused > 2
    mine = [it for i, it in enumerate(SEEN) if i % 2 == 0]
    banned_until, offers = 0, 0
    for t, (view, arm, reward, paid) in enumerate(mine, start=1):
        before = pulls[0][: t - 1]
        assert (view.t, view.step, view.horizon) == (t, t, 40)
        assert view.phase == ("observing" if t <= 10 else "incentivizing")
        assert view.pulls == tuple(sum(a == k for a, _, _ in before) for k in range(3))
        assert view.sums == pytest.approx([sum(x for a, x, _ in before if a == k) for k in range(3)])
        assert view.paid == tuple(float(sum(p for a, _, p in before if a == k)) for k in range(3))
        assert view.banned_until == banned_until
        assert not (view.banned and view.offer is not None)
        offers += view.offer is not None
        assert view.offers == offers
        assert (arm, reward, paid > 0) == pulls[0][t - 1]
        assert view.offer is None or view.offer == OnTable(view.offer.arm, 1.0)
        if view.offer is not None and arm != view.offer.arm:
            banned_until = t + 4
    assert 0 <= min(view.coin for view, *_ in SEEN) < max(view.coin for view, *_ in SEEN) < 1


@dataclass
class Curious(fp.agents.AlphaUCB):
    """A simple agent that asks what it was paid."""

    def learn(self, arm: int, reward: float, paid: float = 0.0) -> None:
        super().learn(arm, reward)
        SEEN.append((None, arm, reward, paid))  # type: ignore[arg-type]


def test_a_simple_agent_hears_of_bonuses_if_it_asks() -> None:
    SEEN.clear()
    result = simulate(Curious(), runs=1)
    assert len(SEEN) == 80
    assert sum(paid for *_, paid in SEEN) == result.frame["spent"][0] > 0
    assert result.frame.equals(simulate(fp.agents.AlphaUCB(), runs=1).frame)


def test_a_mind_keeps_the_promises_of_an_agent() -> None:
    check_agent(Honest())


def test_an_arm_that_does_not_exist_is_an_agent_error() -> None:
    class Lost(Honest):
        def act(self, view: View) -> int:
            return 7

    with pytest.raises(AgentError) as problem:
        simulate(Lost())
    assert assert_sentence(problem) == "Lost.act(view) at t = 1 must return an arm from 0 to 2, got 7 from agent 0."


def test_what_is_neither_is_refused() -> None:
    class Half:
        def act(self, view: View) -> int:
            return 0

    with pytest.raises(InvalidInput) as problem:
        simulate(Half())
    assert "or act(view) and learn(arm, reward, paid)" in assert_sentence(problem)


def test_what_cannot_be_told_of_a_pull_is_refused_before_the_first_one() -> None:
    class Asks(fp.agents.AlphaUCB):
        def learn(self, arm: int, reward: float, bonus: float) -> None:  # type: ignore[override]
            super().learn(arm, reward)

    with pytest.raises(InvalidInput) as problem:
        simulate([fp.agents.AlphaUCB(), Asks()])
    assert "learn(arm, reward, paid) to hear of bonuses; Asks.learn is wrong: missing" in assert_sentence(problem)


def test_the_readable_engine_runs_it_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from freepull.simulation import facade

    monkeypatch.setattr(facade, "_SAID", set())
    with pytest.warns(fp.errors.ReadableEngine, match="Honest is an agent of your own"):
        fp.simulate(GAME, agents=Honest(), principal=PRINCIPAL, horizon=40, runs=1)
