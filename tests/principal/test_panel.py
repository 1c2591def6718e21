"""Agents who leave: those who are waited for, those who are dropped, and what the verdict then rests on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal import saving
from freepull.principal.rules.certified.state import CertifiedState
from freepull.principal.trial import GROUPED
from support.drive import assert_sentence

DESIGN = fp.rules.Design(2, 1, growth=0.2, stretch=0.5, held_back=0.5)


def start(
    delta: float = 0.2, agents: int = 4, rule: Any = None, kappa: int = 50, offers: str = "each", **frame: Any
) -> fp.Trial:
    rule = fp.rules.Certified(delta, design=DESIGN) if rule is None else rule
    principal = fp.Principal(rule, observe=fp.observe.Steps(kappa), offers=offers)
    return principal.start(arms=3, agents=agents, **{"horizon": 200} | frame)


def state_of(trial: fp.Trial) -> CertifiedState:
    assert isinstance(trial.rule, CertifiedState)
    return trial.rule


def pull(m: int, k: int, n: int) -> float:
    """The n-th reward of a stream."""
    rng = np.random.default_rng((m, k, n))
    return float(rng.random() < [0.6, 0.5, 0.3][k])


def feed(trial: fp.Trial, pulls: Any) -> None:
    for m, k in pulls:
        trial.tell(m, k, pull(m, k, int(trial.record.pulls[m, k])))


def everything(agents: Any, rounds: int) -> list[tuple[int, int]]:
    return [(m, k) for _ in range(rounds) for m in agents for k in range(3)]


def assert_same(one: fp.Trial, other: fp.Trial) -> None:
    """Both rules have the same books, to rounding of the weights."""
    ours, theirs = state_of(one), state_of(other)
    assert ours.used.pulls.tolist() == theirs.used.pulls.tolist()
    assert ours.coming.blocks.tolist() == theirs.coming.blocks.tolist()
    assert ours.have.tolist() == theirs.have.tolist()
    assert {s: w.tolist() for s, w in ours.waiting.items()} == {s: w.tolist() for s, w in theirs.waiting.items()}
    np.testing.assert_allclose(ours.coming.capital, theirs.coming.capital, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.evidence(), theirs.evidence(), rtol=1e-10)
    assert ours.worse_by() == theirs.worse_by()
    np.testing.assert_allclose(ours.missing(), theirs.missing(), rtol=1e-9)
    assert ours.constants.threshold == pytest.approx(theirs.constants.threshold)
    assert (one.active, one.verdict().arm) == (other.active, other.verdict().arm)


def test_wait_claims_nothing_that_needs_the_absent_until_they_return() -> None:
    trial, always = start(kappa=0), start(kappa=0)
    feed(trial, everything(range(4), 2))
    feed(always, everything(range(4), 2))
    trial.leave(1)
    trial.leave(3)
    assert trial.awaited == []  # they have given what the round needs
    trial.end_step()
    always.end_step()
    assert trial.awaited == [1, 3]
    assert trial.verdict().why.endswith("; awaited: agent 1, agent 3")
    assert [trial.wanted(m) is None for m in range(4)] == [False, True, False, True]
    held = state_of(trial).evidence()
    feed(trial, everything([0, 2], 30))
    trial.end_step()
    assert state_of(trial).evidence() == held
    assert trial.rule.setting.weights.tolist() == [0.25] * 4
    feed(trial, everything([1], 30))
    assert trial.awaited == [3]
    feed(trial, everything([3], 30))
    feed(always, everything(range(4), 30))
    assert trial.awaited == []
    trial.end_step()
    always.end_step()
    assert_same(trial, always)
    assert trial.panel.number == 1
    assert state_of(trial).constants.threshold == pytest.approx(5)
    assert trial.verdict().rests_on.leavers == "wait; nobody left"


def test_banned_agents_are_awaited_too() -> None:
    trial = start(kappa=0, agents=2)
    trial.ask(0)
    trial.tell(0, 2, 0.5)  # offered arm 0
    trial.tell(1, 0, 0.5)
    trial.end_step()
    assert trial.awaited == [0]
    feed(trial, [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)])
    assert trial.awaited == []


@pytest.mark.parametrize("weights", [None, [4.0, 1.0, 2.0, 1.0]])
@pytest.mark.parametrize("leaving", [[[1]], [[1, 3]], [[3], [0]], [[2], [0], [1]]])
def test_independent_starts_again_on_those_who_stayed(weights: Any, leaving: list[list[int]]) -> None:
    trial, chance = start(leavers="independent", weights=weights), np.random.default_rng(3)
    stay = list(range(4))
    told: list[tuple[int, int]] = []
    for gone in [*leaving, []]:
        pulls = everything(stay, 8)
        pulls = [pulls[at] for at in chance.permutation(len(pulls))]
        told += pulls
        feed(trial, pulls[:-5])
        trial.end_step()
        feed(trial, pulls[-5:])
        for m in gone:
            trial.leave(m)
            trial.leave(m)
        stay = [m for m in stay if m not in gone]
        trial.end_step()
        number = 5 - len(stay)
        assert trial.panel.number == number
        p = np.ones(4) if weights is None else np.array(weights)
        p[[m for m in range(4) if m not in stay]] = 0
        fresh = start(0.2 / (number * (number + 1)), weights=p)
        feed(fresh, [(m, k) for m, k in told if m in stay])
        for _ in range(trial.steps):
            fresh.end_step()
        assert_same(trial, fresh)
        assert trial.setting.weights == pytest.approx(p / p.sum())


def test_the_first_panel_is_tested_at_half_delta_and_eliminated_arms_come_back() -> None:
    trial = start(0.5, leavers="independent")
    assert state_of(trial).constants.threshold == 4
    for m in range(4):
        for _ in range(12):
            trial.tell(m, 0, 0.9)
            trial.tell(m, 1, 0.9 if m else 0.88)
            trial.tell(m, 2, 0.1)
    trial.end_step()
    assert trial.active == [0, 1]
    trial.leave(0)
    assert trial.active == [0, 1]  # dropped at the end of the step
    trial.end_step()
    assert state_of(trial).constants.threshold == 12
    assert trial.active == [0, 1]
    trial.leave(1)
    trial.leave(2)
    trial.end_step()
    assert state_of(trial).constants.threshold == pytest.approx(40)
    assert trial.active == [0, 1, 2]  # one agent's samples do not suffice at δ/20
    assert trial.wanted(3) is None
    assert trial.panel.left == [True, True, True, False]


def test_those_who_were_dropped_get_no_offers_and_their_pulls_are_refused() -> None:
    trial = start(kappa=0, leavers="independent")
    assert trial.ask(2) is not None
    trial.leave(2)
    assert trial.ask(2) is None
    assert trial.wanted(3) is not None
    trial.leave(3)
    assert trial.wanted(3) is None
    for _ in range(2):
        before = trial.record.pulls.copy()
        with pytest.raises(InvalidInput) as problem:
            trial.tell(2, 0, 0.5)
        assert assert_sentence(problem) == "agent 2 has left, so its pulls no longer count; do not tell them."
        assert (trial.record.pulls == before).all()
        trial.end_step()
        assert [trial.wanted(m) is None for m in range(4)] == [False, False, True, True]
    assert trial.awaited == [0, 1]  # who stayed, and said nothing


@pytest.mark.parametrize("weights", [None, [0.0, 1.0, 1.0, 0.0]])
def test_the_last_agent_with_a_weight_cannot_leave(weights: Any) -> None:
    trial = start(leavers="independent", weights=weights)
    for m in (0, 3, 1):
        trial.leave(m)
    with pytest.raises(InvalidInput) as problem:
        trial.leave(2)
    assert assert_sentence(problem) == "the last agent with a weight cannot leave; end the trial."
    assert trial.panel.left == [True, True, False, True]
    trial.end_step()
    feed(trial, [(2, 0)])
    assert trial.setting.weights.tolist() == [0, 0, 1, 0]
    assert trial.panel.number == (4 if weights is None else 2)  # who had no weight was no part of any panel


@pytest.mark.parametrize("together", [True, False])
def test_a_panel_has_its_number_from_how_many_were_dropped_however_steps_end(together: bool) -> None:
    trial = start(leavers="independent")
    for m in (0, 2, 1):
        trial.leave(m)
        if not together:
            trial.end_step()
    trial.end_step()
    assert trial.panel.number == 4
    assert state_of(trial).constants.threshold == pytest.approx(20 / 0.2)
    assert trial.doubt is None
    assert trial.principal.restore(trial.state()).panel.number == 4


def test_a_state_from_before_panels_were_numbered_by_people_is_not_certified_until_the_next_panel() -> None:
    trial = start(0.5, agents=6, leavers="independent")
    trial.panel.by_steps = True
    trial.leave(0)
    trial.leave(1)
    trial.end_step()
    assert (trial.panel.number, state_of(trial).constants.threshold) == (2, 12)
    parts = {name: part for name, part in saving.parts_of(trial).items() if name != "panel.dropped"}
    again = trial.principal.restore(b"".join(saving.pack(parts)))
    assert again.panel.number == 2
    assert again.doubt == GROUPED
    for m in range(2, 6):
        for _ in range(60):
            again.tell(m, 0, 0.9)
            again.tell(m, 1, 0.1)
            again.tell(m, 2, 0.1)
    decided = trial.principal.restore(again.state())
    decided.end_step()
    assert (decided.verdict().decided, decided.verdict().certified) == (True, False)
    assert decided.verdict().why.endswith(GROUPED)
    again.leave(2)
    again.end_step()
    assert (again.panel.number, state_of(again).constants.threshold) == (4, 40)
    assert again.verdict().certified


@pytest.mark.parametrize("rule", [None, fp.rules.Population(0.2)])
def test_a_trial_is_succeeded_only_where_both_wait(rule: Any) -> None:
    for old, new in (("independent", "wait"), ("wait", "independent")):
        before = start(rule=rule, leavers=old)
        with pytest.raises(InvalidInput) as problem:
            start(rule=rule, agents=5, leavers=new).take_over(before)
        said = "leavers must be 'wait' where one trial takes over from another, got 'independent'."
        assert assert_sentence(problem) == said
