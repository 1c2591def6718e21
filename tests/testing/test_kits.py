"""The kits for agents and rules: every built-in part passes, and whatever breaks a promise is caught."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import freepull as fp
from freepull import registry
from freepull.principal.rules.base import Want
from freepull.principal.rules.certified.state import CertifiedState
from freepull.testing import AGENT_CHECKS, RULE_CHECKS, check_agent, check_rule

RULES: list[fp.rules.Rule] = [
    fp.rules.Certified(0.3),
    fp.rules.Certified(0.3, epsilon=0.1),
    fp.rules.Comparisons(0.3),
    fp.rules.Population(0.3, pulls=4),
    fp.rules.Paper(0.3, "simplified", 0.05),
    fp.rules.Passive(),
]


@pytest.mark.parametrize("name", [it.name for it in registry.parts("agents")])
def test_every_built_in_agent_passes(name: str) -> None:
    check_agent(getattr(fp.agents, name)())


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_built_in_rule_passes(rule: fp.rules.Rule) -> None:
    check_rule(rule)


class Plain:
    """A good agent of one's own, without any help."""

    def start(self, arms: int, key: int) -> None:
        self.arms, self.key, self.sums = arms, key, [0.0] * arms

    def pick(self, t: int) -> int:
        return t % self.arms if t < 3 * self.arms else self.sums.index(max(self.sums))

    def learn(self, arm: int, reward: float) -> None:
        self.sums[arm] += reward


class Stateless:
    def learn(self, arm: int, reward: float) -> None:
        return


class PicksTooFar(Plain):
    def pick(self, t: int) -> int:
        return self.arms


class SharesItsMemory(Plain):
    seen: ClassVar[list[int]] = []

    def learn(self, arm: int, reward: float) -> None:
        self.seen.append(arm)

    def pick(self, t: int) -> int:
        return len(self.seen) // 7 % self.arms


class CannotBePickled(Plain):
    def start(self, arms: int, key: int) -> None:
        super().start(arms, key)
        self.choose = lambda: 0


class RollsDice(Plain):
    def pick(self, t: int) -> int:
        return random.SystemRandom().randrange(self.arms)


class RemembersThePast(Plain):
    sums: list[float]

    def start(self, arms: int, key: int) -> None:
        self.arms, self.sums = arms, [x + 1.0 for x in getattr(self, "sums", [0.0] * arms)]

    def pick(self, t: int) -> int:
        return int(sum(self.sums) * 1000) % self.arms


def test_an_agent_of_ones_own_passes() -> None:
    check_agent(Plain())


@pytest.mark.parametrize(
    ("agent", "promise"),
    [
        (Stateless(), "it_has_pick_and_learn"),
        (PicksTooFar(), "its_picks_are_arms"),
        (SharesItsMemory(), "a_copy_goes_its_own_way"),
        (CannotBePickled(), "a_pickle_goes_on_where_it_was"),
        (RollsDice(), "the_same_key_gives_the_same_picks"),
        (RemembersThePast(), "starting_again_forgets_everything"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_an_agent_that_breaks_a_promise_is_caught(agent: Any, promise: str) -> None:
    with pytest.raises((AssertionError, AttributeError, IndexError)):
        AGENT_CHECKS[promise](agent)
    with pytest.raises(AssertionError, match="the agent does not keep a promise: "):
        check_agent(agent)


class Broken(CertifiedState):
    """A state that a broken rule starts."""

    steps = 0


class WantsEverybody(Broken):
    def wants(self, payable: Any) -> list[Want]:
        return [Want(m, 0, 1) for m in range(self.setting.agents)]


class ArmsReturn(Broken):
    def evaluate(self, incentivizing: bool) -> None:
        self.active = [True] * self.setting.arms

    def evaluation(self, incentivizing: bool) -> Any:
        self.steps += 1
        self.active = [self.steps % 2 == 0 or k > 0 for k in range(self.setting.arms)]
        yield


class CountsTells(Broken):
    def observe(self, agent: int, arm: int, reward: int) -> None:
        self.last = agent
        super().observe(agent, arm, reward)

    def evaluation(self, incentivizing: bool) -> Any:
        yield
        self.active = [k <= (self.last < 2) for k in range(self.setting.arms)]


class CountsSlices(Broken):
    slices = 0

    def evaluation(self, incentivizing: bool) -> Any:
        yield
        self.slices += 1
        yield

    def bounds(self) -> list[float]:
        return [float(self.slices + random.SystemRandom().random())] * self.setting.arms


class ForgetsWhenSaved(Broken):
    def restore(self, parts: dict[str, Any]) -> None:
        return


@dataclass(frozen=True)
class Of(fp.rules.Certified):
    kind: type[CertifiedState] = CertifiedState

    def start(self, setting: Any, record: Any) -> CertifiedState:
        return self.kind(self, setting, record)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (WantsEverybody, "it_wants_what_can_be_paid_for"),
        (ArmsReturn, "what_is_out_stays_out"),
        (CountsTells, "the_order_of_tells_within_a_step_changes_nothing"),
        (CountsSlices, "slices_change_nothing"),
        (ForgetsWhenSaved, "a_saved_trial_goes_on"),
    ],
)
def test_a_rule_that_breaks_a_promise_is_caught(kind: type[CertifiedState], promise: str) -> None:
    with pytest.raises(AssertionError):
        RULE_CHECKS[promise](Of(0.3, kind=kind))
    with pytest.raises(AssertionError, match="the rule does not keep a promise: "):
        check_rule(Of(0.3, kind=kind))


def test_both_engines_are_compared_however_little_there_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def watched(*args: Any, **settings: Any) -> fp.Result:
        found = fp.simulate(*args, **settings)
        played.append(found.provenance["engine"])
        return found

    monkeypatch.setattr("freepull.simulation.facade._is_little", lambda _: True)
    monkeypatch.setattr("freepull.testing.parts.simulate", watched)
    check_agent(fp.agents.Greedy())
    assert played == ["readable", "compiled"]
