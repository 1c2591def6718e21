"""The budget: how many bonuses it buys, and who gets them when it is short."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.offers import affordable
from support.drive import assert_sentence, paper, step


@pytest.mark.parametrize(
    ("budget", "bonus", "count"),
    [
        (None, 1.0, None),
        (0.3, 0.1, 3),
        (0.7, 0.1, 7),
        (1.0, 0.3, 3),
        (0.29, 0.3, 0),
        (0, 1.0, 0),
        (2.999, 1, 2),
        (6, 2, 3),
    ],
)
def test_a_budget_buys_as_many_bonuses_as_on_paper(budget: float | None, bonus: float, count: int | None) -> None:
    assert affordable(budget, bonus) == count


def trial_of(agents: int, **more: Any) -> fp.Trial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a bonus below 1
        principal = fp.Principal(paper(1000.0), observe=fp.observe.Steps(0), **more)
    return principal.start(arms=2, agents=agents, horizon=100)


def take_all(trial: fp.Trial, steps: int) -> list[int]:
    """Let every agent take every offer; return how many offers each step had."""
    counts = []
    for _ in range(steps):
        offers = [trial.ask(m) for m in range(trial.setting.agents)]
        for m, offer in enumerate(offers):
            trial.tell(m, 0 if offer is None else offer.arm, 0.5)
        trial.end_step()
        counts.append(sum(offer is not None for offer in offers))
    return counts


@pytest.mark.parametrize(("budget", "bonus", "count"), [(2.5, 1.0, 2), (0.3, 0.1, 3), (0.0, 1.0, 0), (4.0, 2.0, 2)])
def test_offers_stop_when_the_budget_is_spent(budget: float, bonus: float, count: int) -> None:
    trial = trial_of(1, budget=budget, bonus=bonus)
    assert take_all(trial, 6) == [1] * count + [0] * (6 - count)
    assert trial.paid_total == count
    assert trial.spent == pytest.approx(count * bonus)


def test_without_a_budget_offers_go_on() -> None:
    assert take_all(trial_of(1), 6) == [1] * 6


def test_open_offers_are_reserved() -> None:
    trial = trial_of(3, budget=2.0, offers="each")
    assert [trial.ask(m) is not None for m in range(3)] == [True, True, False]
    assert trial.wanted(2) is None


def test_short_of_money_the_neediest_come_first() -> None:
    trial = trial_of(3, budget=100.0, offers="each")
    for arm in (0, 1, 1, 0):  # pulls become 2 2 / 3 1 / 1 3
        trial.tell(0, arm, 0.5)
    for m, arms in ((1, (0, 0, 0, 1)), (2, (0, 1, 1, 1))):
        for arm in arms:
            trial.tell(m, arm, 0.5)
    trial.end_step()
    assert [trial.wanted(m) for m in range(3)] == [0, 1, 0]
    short = trial_of(3, budget=1.0, offers="each")
    short.record = short.rule.record = trial.record
    short.end_step()
    assert [short.wanted(m) for m in range(3)] == [None, None, 0]  # one pull each: the lower arm comes first
    two = trial_of(3, budget=2.0, offers="each")
    two.record = two.rule.record = trial.record
    two.end_step()
    assert [two.wanted(m) for m in range(3)] == [None, 1, 0]


def test_what_was_paid_before_counts_when_money_is_short() -> None:
    trial = trial_of(2, budget=3.0, offers="each")
    assert step(trial, (0, 0.5), (0, 0.5)) == [0, 0]
    trial.tell(0, 1, 0.5)  # a pull of its own, so that agent 1 is the needier
    trial.end_step()
    assert [trial.wanted(m) for m in range(2)] == [None, 1]


def test_a_refused_offer_gives_its_reservation_back() -> None:
    trial = trial_of(2, budget=1.0, protocol=fp.protocols.NeverBan())
    assert step(trial, (1, 0.5), (1, 0.5)) == [0, None]
    assert trial.spent == 0.0
    assert step(trial, (0, 0.5), (0, 0.5)) == [0, None]
    assert trial.spent == 1.0
    assert step(trial, (0, 0.5), (0, 0.5)) == [None, None]


def test_the_last_bonus_is_offered_exactly_once() -> None:
    trial = trial_of(2, budget=3.0, offers="each")
    assert take_all(trial, 4) == [2, 1, 0, 0]


@pytest.mark.parametrize("budget", [0.3, 0.7, 1.1])
def test_what_is_spent_never_exceeds_the_budget(budget: float) -> None:
    trial = trial_of(1, budget=budget, bonus=0.1)
    take_all(trial, 20)
    assert trial.spent <= budget


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf"), "10"])
def test_a_bad_budget_is_refused_with_a_sentence(budget: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Principal(paper(), budget=budget)
    assert assert_sentence(problem).startswith("budget must be a number of at least 0")
