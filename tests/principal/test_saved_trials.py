"""The saved state of a trial: whoever restores it goes on bit for bit."""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull import registry
from freepull.errors import InvalidInput
from freepull.principal.rules.base import RuleState, Want
from freepull.principal.saving import MAGIC
from support.drive import assert_sentence
from support.examples import examples
from support.random_trials import happen, live, trials

FIRST_RULES = ["0x1.5771fb160b20cp+6", "0x1.8322532c71a0dp+4", "0x1.891e009200581p-3"]


@examples(60)
@given(made=trials(), seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_a_restored_trial_goes_on_as_if_nothing_had_happened(
    made: tuple[fp.Principal, dict[str, Any]], seed: int, share: float
) -> None:
    trial, log, answers = live(*made, seed)
    again, cut = made[0].start(**made[1]), round(share * len(log))
    for event in log[:cut]:
        happen(again, event)
    while again.closing:
        happen(again, log[cut])
        cut += 1
    state = again.state()
    restored = made[0].restore(state)
    assert restored.state() == state
    assert made[0].restore(memoryview(bytearray(state))).state() == state
    assert [happen(restored, event) for event in log[cut:]] == answers[cut:]
    assert restored.state() == trial.state()
    assert restored.rule.bounds() == trial.rule.bounds()
    assert str(restored.verdict().rests_on) == str(trial.verdict().rests_on)


def test_a_trial_that_was_saved_under_the_first_rules_goes_on_under_them() -> None:
    """The file and the evidence are from freepull before its ψ became sharper; see `Setting.rules`."""
    state = gzip.decompress((Path(__file__).parent / "data" / "rules-1.state.gz").read_bytes())
    principal = fp.Principal(fp.rules.Certified(1e-9), observe=fp.observe.Steps(0), offers="each")
    for _ in range(2):  # saved again, it still knows
        trial = principal.restore(state)
        state = trial.state()
    again = principal.start(arms=3, agents=2, horizon=200, rules=1)
    for seed, told in ((1, [again]), (2, [again, trial])):
        rng = random.Random(seed)
        for i in range(60):
            agent, arm = rng.randrange(2), rng.randrange(3)
            reward = round(rng.random() * (0.1, 0.3, 0.9)[arm] * 1024) / 1024
            for one in told:
                one.tell(agent, arm, reward)
                if i % 5 == 4:
                    one.end_step()
    assert [bound.hex() for bound in trial.rule.bounds()] == FIRST_RULES
    assert again.state() == trial.state()


def test_the_state_is_saved_between_steps_only_and_read_by_its_own_principal() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=3)
    state = trial.state()
    assert b"".join(bytes(piece) for piece in trial.state_pieces()) == state
    trial.end_step(at_once=False)
    with pytest.raises(InvalidInput) as problem:
        trial.state()
    assert assert_sentence(problem).startswith("a step is being closed")
    for other, wrong, said in [
        (fp.Principal(fp.rules.Certified(0.04), observe=fp.observe.Steps(0)), state, "state must be of a trial of"),
        (principal, b"", "state must be what Trial.state returned in this version"),
        (principal, b"freepull trial 2" + state[16:], "state must be what Trial.state returned in this version"),
        (
            principal,
            state.replace(b'"setting.rules": 2', b'"setting.rules": 3'),
            "state must be of a trial under rules of",
        ),
        (principal, state[:-1], "state must be what Trial.state returned, whole"),
        (principal, state + b"0", "state must be what Trial.state returned, whole"),
        (principal, state[:17] + b"\xff" * 8 + state[25:], "state must be what Trial.state returned, whole"),
    ]:
        with pytest.raises(InvalidInput) as problem:
            other.restore(wrong)
        assert assert_sentence(problem).startswith(said)


def test_who_rests_and_a_budget_that_was_changed_are_part_of_the_state() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each", budget=9.0)
    trial = principal.start(arms=2, agents=3)
    trial.afford(1)
    trial.resting = {0}
    trial.end_step()
    again = principal.restore(trial.state())
    for one in (trial, again):
        assert (one.resting, one.offers.affordable) == ({0}, 1)
        assert one.ask(1) is not None
        assert one.ask(2) is None
        one.end_step()
        one.cancel(1)
        one.end_step()
        assert [one.wanted(m) for m in range(3)] == [None, 0, None]


def told_of(state: bytes, principal: Any) -> bytes:
    """Put something else where a state says whose trial it is."""
    begin = len(MAGIC) + 8
    end = begin + int.from_bytes(state[len(MAGIC) : begin], "little")
    head = json.loads(state[begin:end])
    head["plain"]["principal"] = principal
    text = json.dumps(head).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text + state[end:]


def test_whose_trial_it_is_is_a_matter_of_parts_not_of_how_they_print() -> None:
    design = fp.rules.Design(forecast=fp.rules.Forecast())
    principal = fp.Principal(fp.rules.Certified(0.04, design=design), observe=fp.observe.Steps(0), bonus=2)
    state = principal.start(arms=2, agents=3).state()
    assert told_of(state, registry.encode(principal)) == state
    before = registry.encode(principal)
    del before["rule"]["gap"], before["rule"]["design"]["shrink"], before["budget"]
    written = {"kind": "principal", "rule": before["rule"], "observe": {"kind": "steps", "n": 0}, "bonus": 2.0}
    for told in (
        before,  # of a version that did not have these parameters yet
        written,
        repr(principal),  # version 0.1
        f"Principal(rule={principal.rule!r}, observe=Steps(n=0), bonus=2)",  # and its parameters were fewer
    ):
        assert principal.restore(told_of(state, told)).state() == state
    for told in (
        {**before, "bonus": 1.0},
        {**before, "rule": {**before["rule"], "robust": 0.1}},
        {**before, "observe": {"part": "Share"}},
        {},
        repr(principal).replace("0.04", "0.05"),
        "Principal(rule=<object>)",
        "3",
    ):
        with pytest.raises(InvalidInput) as problem:
            principal.restore(told_of(state, told))
        assert assert_sentence(problem).startswith("state must be of a trial of Principal(rule=Certified(delta=0.04")


def test_a_state_imports_nothing_that_it_names() -> None:
    state = fp.Principal(observe=fp.observe.Steps(0)).start(arms=2, agents=3).state()
    with pytest.raises(InvalidInput, match="state must be of a trial of"):
        fp.Principal().restore(told_of(state, {"part": "antigravity:Principal"}))
    assert "antigravity" not in sys.modules


class Own(fp.rules.Rule):
    """A rule of a user's own, which knows nothing of slices."""

    delta = None

    def start(self, setting: Any, record: Any) -> Any:
        return OwnState(setting, record)


class OwnState(RuleState):
    proven, title = False, "a rule of one's own"

    def __init__(self, setting: Any, record: Any) -> None:
        super().__init__(setting, record)
        self.seen: list[tuple[int, int, int, int]] = []

    def observe(self, agent: int, arm: int, reward: int) -> None:
        self.seen.append((agent, arm, reward, int(self.record.pulls[agent, arm])))

    def evaluate(self, incentivizing: bool) -> None:
        self.active[1] = self.active[1] and len(self.seen) < 60

    def wants(self, payable: Any) -> list[Want]:
        return [Want(m, 0, 1) for m, can in enumerate(payable) if can][::-1]

    def missing(self) -> list[list[float]]:
        return [[1.0] * self.setting.arms] * self.setting.agents

    def bounds(self) -> list[float]:
        return [0.0] * self.setting.arms


def test_a_rule_of_ones_own_needs_none_of_it_but_cannot_be_saved() -> None:
    principal = fp.Principal(Own(), observe=fp.observe.Adaptive(4.0), offers="each", budget=2.0)
    trial = principal.start(arms=2, agents=3, horizon=20)
    trial.tell_many([2, 2, 0], [1, 1, 0], [0.5, 1.0, 0.0])
    assert trial.rule.seen == [(2, 1, 2**29, 1), (2, 1, 2**30, 2), (0, 0, 0, 1)]  # type: ignore[attr-defined]
    while trial.kappa is None:
        trial.end_step(at_once=False)
        trial.tell(1, 1, 0.5)
        assert trial.work()
    assert trial.kappa == 12  # one agent misses two pulls: 20 − t ≤ 4·2
    assert [trial.wanted(m) for m in range(3)] == [None, 0, 0]
    with pytest.raises(InvalidInput) as problem:
        trial.state()
    assert assert_sentence(problem).startswith("OwnState must have the method parts")
