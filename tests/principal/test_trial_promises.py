"""Promises of a trial around offers, withdrawn arms and agents who leave, that a user would notice if broken."""

from __future__ import annotations

import pytest

import freepull as fp
from freepull.errors import InvalidInput

PEOPLE = fp.Principal(fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each")
EACH = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


def test_an_offer_for_a_withdrawn_arm_is_paid_if_taken_and_no_refusal_if_not() -> None:
    for takes in (True, False):
        trial = PEOPLE.start(arms=3, agents=1, withdrawal=True)
        while (offer := trial.ask(0)) is None:
            trial.tell(0, 0, 0.9)
            trial.end_step()
            assert trial.steps < 20
        trial.withdraw(offer.arm)
        told = trial.tell(0, offer.arm if takes else (offer.arm + 1) % 3, 1.0)
        trial.end_step()
        assert told == ("paid" if takes else None)
        assert (trial.spent, trial.refused, trial.banned) == (float(takes), 0, 0)


def test_the_grounds_name_the_arms_that_were_withdrawn() -> None:
    trial = PEOPLE.start(arms=3, agents=2, withdrawal=True)
    trial.withdraw(0)
    assert "not withdrawn (withdrawn: arm 0)" in trial.verdict().rests_on.target
    assert "withdrawn" not in PEOPLE.start(arms=3, agents=2).verdict().rests_on.target


def test_a_delta_that_would_become_too_small_is_refused_before_anything_changes() -> None:
    principal = fp.Principal(fp.rules.Certified(5e-100), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=3, leavers="independent")
    with pytest.raises(InvalidInput, match="delta"):
        trial.leave(0)
    assert trial.panel.left == [False] * 3
    assert trial.panel.number == 1


def test_many_who_left_are_counted_not_listed() -> None:
    trial = fp.Principal(observe=fp.observe.Steps(0)).start(arms=2, agents=40)
    for agent in range(30):
        trial.leave(agent)
    assert "agent 9 and 20 others left" in trial.verdict().rests_on.leavers


def test_personalised_trials_do_not_share_offers() -> None:
    trials = fp.personalised(EACH, [0, 1], 0.9, arms=2, agents=2)
    offer = trials[0].ask(0)
    assert offer is not None
    assert [trial.tell(0, offer.arm, 1.0) for trial in trials.values()] == ["paid", None]
    with pytest.raises(InvalidInput, match="named must be a list"):
        fp.personalised(EACH, 5, 0.9, arms=2, agents=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="weights must be left out"):
        fp.personalised(EACH, [0], 0.9, arms=2, agents=2, weights=[1, 1])
