"""A trial, step by step: when it looks, what it offers, and what asking and telling change."""

from __future__ import annotations

from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from support.drive import assert_sentence, paper, step


def trial_of(
    agents: int = 1, arms: int = 2, *, theta: float = 0.1, kappa: int = 0, horizon: int = 100, **more: Any
) -> fp.Trial:
    rule = paper(theta, arms=arms, horizon=horizon)
    principal = fp.Principal(rule, observe=fp.observe.Steps(kappa), **more)
    return principal.start(arms=arms, agents=agents, horizon=horizon)


def test_the_paper_looks_first_at_the_end_of_step_kappa_and_can_decide_there_for_nothing() -> None:
    trial = trial_of(kappa=4)
    for pull in ((0, 1.0), (1, 0.0), (0, 1.0)):
        assert step(trial, pull) == [None]
        assert (trial.phase, trial.active) == ("observing", [0, 1])  # .316 < 1 − .316 already
    assert step(trial, (1, 0.0)) == [None]
    assert (trial.phase, trial.active, trial.decided_at) == ("decided", [0], 4)
    assert (trial.spent, trial.offered, trial.paid_total) == (0.0, 0, 0)
    assert trial.verdict().at == 4


def test_offers_begin_at_step_kappa_plus_1() -> None:
    trial = trial_of(kappa=3, theta=1000.0)
    offered = [step(trial, (0, 0.5)) for _ in range(5)]
    assert offered == [[None], [None], [None], [1], [None]]  # refused at step 4, and banned
    assert trial.kappa == 3


def test_kappa_0_offers_at_step_1_and_looks_at_its_end() -> None:
    trial = trial_of()
    assert trial.phase == "incentivizing"
    assert trial.wanted(0) == 0
    assert step(trial, (0, 1.0)) == [0]
    assert step(trial, (1, 0.0)) == [1]
    assert trial.decided_at == 2
    assert trial.spent == 2.0


def test_kappa_at_the_horizon_looks_once_at_the_end() -> None:
    trial = trial_of(kappa=4, horizon=4)
    for t in range(4):
        assert step(trial, (t % 2, 1.0 - t % 2)) == [None]
    assert trial.decided_at == 4


def test_nothing_is_offered_or_eliminated_after_the_horizon() -> None:
    trial = trial_of(horizon=3, theta=1.0)
    for pull in ((0, 1.0), (1, 0.0), (0, 1.0)):
        step(trial, pull)
    assert trial.active == [0, 1]
    for _ in range(40):
        assert step(trial, (1, 0.0)) == [None]
    assert trial.decided_at is None


def test_after_the_decision_there_are_no_offers_and_the_verdict_stays() -> None:
    trial = trial_of(2, kappa=2, offers="each")
    step(trial, (0, 1.0), (0, 1.0))
    step(trial, (1, 0.0), (1, 0.0))
    assert trial.decided_at == 2
    for _ in range(50):
        assert step(trial, (1, 1.0), (1, 1.0)) == [None, None]
    assert (trial.verdict().arm, trial.active, trial.decided_at, trial.offered) == (0, [0], 2, 0)
    assert trial.record.pulls.tolist() == [[1, 51], [1, 51]]


def test_a_game_of_three_agents_by_hand() -> None:
    trial = trial_of(3, theta=1000.0, protocol=fp.protocols.BanFor(1))
    assert step(trial, (0, 1.0), (1, 0.0), (0, 1.0)) == [0, None, None]  # pulls 1 0 / 0 1 / 1 0
    assert step(trial, (0, 1.0), (0, 1.0), (1, 0.0)) == [None, 0, None]  # 2 0 / 1 1 / 1 1
    assert step(trial, (1, 0.0), (1, 0.0), (0, 1.0)) == [1, None, None]  # 2 1 / 1 2 / 2 1
    # Σ1/N: arm 0: ½ + 1 + ½ = 2, arm 1: 1 + ½ + 1 = 2.5; agents 0 and 2 tie on arm 1
    assert step(trial, (0, 1.0), (0, 1.0), (1, 0.0)) == [1, None, None]  # refused: 3 1 / 2 2 / 2 2
    # arm 0: 1/3 + 1, arm 1: 1 + 1; agent 0 has the fewest, but is banned for this step: agent 1
    assert step(trial, (0, 1.0), (1, 0.0), (0, 1.0)) == [None, 1, None]  # 4 1 / 2 3 / 3 2
    assert step(trial, (1, 0.0), (0, 1.0), (0, 1.0)) == [1, None, None]  # the ban is over
    assert (trial.offered, trial.paid_total, trial.refused, trial.banned) == (6, 5, 1, 1)
    assert trial.paid.tolist() == [[1, 2], [1, 1], [0, 0]]
    assert trial.record.pulls.tolist() == [[4, 2], [3, 3], [4, 2]]


def test_offers_to_each_by_hand() -> None:
    trial = trial_of(2, 3, theta=1000.0, offers="each")
    assert step(trial, (0, 0.5), (0, 0.5)) == [0, 0]
    assert step(trial, (1, 0.5), (2, 0.5)) == [1, 1]  # agent 1 refuses, and is banned
    assert step(trial, (2, 0.5), (0, 0.5)) == [2, None]
    assert step(trial, (1, 0.5), (0, 0.5)) == [0, None]  # agent 0 refuses
    assert step(trial, (1, 0.5), (0, 0.5)) == [None, None]
    assert trial.paid.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert (trial.offered, trial.refused, trial.banned) == (6, 2, 2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda trial: trial.ask(2), "agent must be a whole number from 0 to 1, got 2."),
        (lambda trial: trial.wanted(-1), "agent must be a whole number from 0 to 1, got -1."),
        (lambda trial: trial.ask(True), "agent must be"),
        (lambda trial: trial.tell(0, 2, 0.5), "arm must be a whole number from 0 to 1, got 2."),
        (lambda trial: trial.tell(0, 0.0, 0.5), "arm must be"),
        (lambda trial: trial.tell("a", 0, 0.5), "agent must be"),
        (lambda trial: trial.tell(0, 0, 1.5), "reward must be a number in [0, 1], got 1.5."),
        (lambda trial: trial.tell(0, 0, float("nan")), "reward must be"),
        (lambda trial: trial.afford(1.5), "bonuses must be a whole number of at least 0, got 1.5."),
        (lambda trial: trial.afford(-1), "bonuses must be"),
        (lambda trial: trial.afford(True), "bonuses must be"),
        (lambda trial: trial.afford("x"), "bonuses must be"),
        (lambda trial: trial.work("x"), "seconds must be a number of at least 0, got 'x'."),
        (lambda trial: trial.work(-1), "seconds must be"),
        (lambda trial: trial.work(float("nan")), "seconds must be"),
    ],
)
def test_bad_calls_are_refused_with_a_sentence_and_change_nothing(call: Any, said: str) -> None:
    trial = trial_of(2)
    trial.ask(0)
    with pytest.raises(InvalidInput) as problem:
        call(trial)
    assert assert_sentence(problem).startswith(said)
    assert trial.record.pulls.sum() == 0
    assert trial.ask(0) is not None
    trial.tell(0, 0, 0.5)
    trial.end_step()
    assert trial.ask(1) is not None


def test_a_budget_is_a_number_of_bonuses_or_none() -> None:
    trial = trial_of(2, theta=1000.0)
    trial.afford(0)
    assert trial.wanted(0) is None
    trial.afford(None)
    assert trial.wanted(0) == 0
