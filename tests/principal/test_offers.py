"""Offers: asked for, wanted, open, settled."""

from __future__ import annotations

import copy
from typing import Any

import freepull as fp
from support.drive import paper, step


def trial_of(
    agents: int = 1, arms: int = 2, *, theta: float = 0.1, kappa: int = 0, horizon: int = 100, **more: Any
) -> fp.Trial:
    rule = paper(theta, arms=arms, horizon=horizon)
    principal = fp.Principal(rule, observe=fp.observe.Steps(kappa), **more)
    return principal.start(arms=arms, agents=agents, horizon=horizon)


def test_asking_again_returns_the_same_offer() -> None:
    trial = trial_of(2)
    offer = trial.ask(0)
    assert offer == fp.Offer(agent=0, arm=0, bonus=1.0)
    assert trial.ask(0) is offer
    assert trial.wanted(0) == 0
    assert trial.offered == 1
    assert trial.ask(1) is None


def test_with_one_offer_open_nobody_else_is_wanted() -> None:
    trial = trial_of(2)
    assert [trial.wanted(m) for m in range(2)] == [0, None]
    trial.ask(0)
    assert trial.wanted(1) is None
    trial.tell(0, 0, 0.5)
    assert [trial.wanted(m) for m in range(2)] == [None, None]  # one offer a step, and it is settled


def test_wanting_changes_nothing() -> None:
    trial = trial_of(3, offers="each", budget=2.0)
    before = copy.deepcopy(trial)
    wanted = [trial.wanted(m) for m in (2, 0, 1, 0)]
    assert wanted == [None, 0, 0, 0]
    assert trial.state() == before.state()
    assert [trial.ask(m) for m in range(3)] == [before.ask(m) for m in range(3)]


def test_offers_stand_on_the_state_of_the_last_step() -> None:
    trial = trial_of(2, theta=1000.0, offers="each")
    trial.tell(0, 0, 0.5)
    assert trial.wanted(0) == 0
    trial.end_step()
    assert trial.wanted(0) == 1


def test_an_offer_is_settled_by_the_agents_next_pull() -> None:
    trial = trial_of(2, offers="each", protocol=fp.protocols.NeverBan())
    trial.ask(0)
    trial.ask(1)
    assert trial.tell(1, 1, 0.5) == "refused"
    assert trial.tell(0, 0, 0.5) == "paid"
    assert trial.tell(0, 0, 0.5) is None
    assert trial.paid.tolist() == [[1, 0], [0, 0]]
    assert trial.record.pulls.tolist() == [[2, 0], [0, 1]]


def test_an_offer_that_is_still_open_counts_until_it_is_settled() -> None:
    trial = trial_of(3, theta=1000.0, offers="each", budget=2.0)
    offer = trial.ask(0)
    trial.end_step()
    assert trial.ask(0) is offer
    assert [trial.wanted(m) for m in range(3)] == [0, 0, None]  # one bonus is reserved, the other goes to agent 1
    assert trial.tell(0, 0, 0.5) == "paid"
    assert trial.wanted(0) is None  # nothing more in this step
    assert (trial.offered, trial.spent) == (1, 1.0)


def test_one_offer_that_is_still_open_is_the_only_one() -> None:
    trial = trial_of(2, theta=1000.0)
    offer = trial.ask(0)
    trial.end_step()
    assert [trial.ask(m) for m in range(2)] == [offer, None]
    trial.tell(0, 1, 0.5)
    assert trial.wanted(1) is None  # offers stand on the state of the last step, when this one was open
    trial.end_step()
    assert [trial.wanted(m) for m in range(2)] == [None, 0]  # refused late, and banned all the same


def test_a_refusal_counts_from_the_next_step_on() -> None:
    trial = trial_of()
    trial.ask(0)
    trial.tell(0, 1, 0.5)
    assert (trial.banned, trial.refused) == (0, 1)
    trial.end_step()
    assert trial.banned == 1


def test_a_bonus_is_paid_but_is_no_reward() -> None:
    trial = trial_of(bonus=2.5)
    step(trial, (0, 0.25))
    assert trial.spent == 2.5
    assert trial.record.sample_mean(0, 0) == 0.25


def test_an_offer_that_nobody_asked_for_lapses_with_its_step() -> None:
    trial = trial_of(2, offers="each")
    assert trial.wanted(0) == 0
    for arm in (0, 1):
        for m in range(2):
            trial.tell(m, arm, 1.0 - arm)
        trial.end_step()
    assert trial.decided_at == 2
    assert [trial.wanted(m) for m in range(2)] == [None, None]
    assert trial.offered == 0
