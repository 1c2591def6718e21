"""Checks of assumptions beside the trial of a campaign: fed by the log, and able to end a certificate."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

import freepull as fp
from freepull.campaigns import state
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.settings import Settings
from support.staging import EACH, Clock, create, picture, reopen

COMPARING = fp.Principal(
    fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), protocol=fp.protocols.NeverBan(), offers="each"
)
PEOPLE = 40


def crowd(url: Any, clock: Clock, **more: Any) -> fp.Campaign:
    """A campaign with enough people for a check to see something."""
    return create(url, clock, principal=COMPARING, agents=PEOPLE, arms=["A", "B"], **more)


def act(campaign: fp.Campaign, steps: int, seed: int, *, shocks: bool = False, gap: float = 0.0) -> None:
    """Let everybody ask and act once a step; a shock makes all rewards of a step good, or all of them bad."""
    chance = random.Random(seed)
    for _ in range(steps):
        good = chance.random() < 0.5
        offers = campaign.core.do(lambda decider, at: [decider.ask(m, at) for m in range(PEOPLE)]).result()
        arms = [chance.randrange(2) if offer is None else offer.arm for offer in offers]
        luck = [good if shocks else chance.random() < 0.5 for _ in arms]
        campaign.tell_many([(m, arm, 0.2 + 0.4 * luck[m] + gap * (arm == 0)) for m, arm in enumerate(arms)])


def alarmed(checks: list[fp.Check]) -> list[str]:
    return [check.name for check in checks if check.alarmed]


def same_again(campaign: fp.Campaign, url: str, clock: Clock) -> fp.Campaign:
    """Read it back, with and without a snapshot: every bit is the same."""
    before, status, verdict = picture(campaign), campaign.status(), campaign.verdict()
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert (campaign.status(), campaign.verdict()) == (status, verdict)
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert (campaign.status(), campaign.verdict()) == (status, verdict)
    campaign.close()
    verify(url, campaign.name)
    return fp.Campaign.open(url, campaign.name, clock=clock)


def test_checks_run_by_default_where_the_rule_hears_asks(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock, started=False)
    assert campaign.settings.checks == fp.Checks()
    assert campaign.status().checks == []
    campaign.start()
    assert [check.name for check in campaign.status().checks] == ["common shock", "drift", "reporting"]
    act(campaign, 3, 1)
    status = campaign.status()
    assert status.checks == campaign.verdict().checks
    assert [status.checks[0].counted, status.checks[-1].counted] == [2 * PEOPLE, 3 * PEOPLE]
    assert "100.0% of them in the step of their ask" in status.checks[-1].why
    assert "0 came without an ask since the agent's last report, and 0 are awaited" in status.checks[-1].why
    assert alarmed(status.checks) == []
    assert Settings.decode(campaign.settings.encode()) == campaign.settings


def test_an_alarm_before_the_decision_means_that_nothing_is_certified(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock)
    act(campaign, 20, 1, shocks=True)
    assert "common shock" in alarmed(campaign.status().checks)
    assert "not certified, because it was found that events hit many" in campaign.verdict().why
    act(campaign, 60, 2, gap=0.4)
    status, verdict = campaign.status(), campaign.verdict()
    assert (status.decided, status.certified, verdict.certified, verdict.survives) == (True, False, False, None)
    assert verdict.why.count("events hit many agents at once") == 1
    found = [entry for entry in campaign.audit() if "alarms" in entry.detail]
    assert found[0].action == "step_ended"
    assert sum("common shock" in entry.detail["alarms"] for entry in found) == 1
    same_again(campaign, sqlite, clock).close()


def test_an_alarm_after_the_decision_takes_the_certificate_away(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock)
    act(campaign, 40, 1, gap=0.4)
    before, told = campaign.status(), campaign.verdict()
    assert (before.certified, told.certified, alarmed(told.checks)) == (True, True, [])
    act(campaign, 20, 2, shocks=True)
    status, verdict = campaign.status(), campaign.verdict()
    assert "common shock" in alarmed(verdict.checks)
    assert (status.decided, status.certified, verdict.certified) == (True, False, False)
    assert "not certified, because it was found that events hit many" in verdict.why
    assert verdict.why.startswith(told.why)
    assert verdict.step == told.step
    same_again(campaign, sqlite, clock).close()


def test_asks_and_pulls_of_a_step_that_is_closed_in_slices_are_seen_in_their_place(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "SMALL", 0)
    monkeypatch.setattr(state, "SLICE", 0.0)
    campaign = crowd(sqlite, clock)
    act(campaign, 10, 3, shocks=True)
    while campaign.core.do(lambda decider, at: decider.busy).result():
        pass
    same_again(campaign, sqlite, clock).close()


def test_late_joiners_who_count_are_checked_too(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock, late_joiners="count")
    act(campaign, 3, 1)
    counted = [check.counted for check in campaign.status().checks]
    campaign.add_agents(["dan"])
    assert [check.counted for check in campaign.status().checks] == counted
    campaign.ask("dan")
    campaign.tell("dan", "A", 1.0)
    assert campaign.status().checks[-1].counted == counted[-1] + 1
    same_again(campaign, sqlite, clock).close()


def test_off_means_none(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock, checks=False)
    act(campaign, 5, 1, shocks=True)
    assert campaign.settings.checks is None
    assert "checks" not in campaign.settings.encode()
    assert campaign.status().checks == campaign.verdict().checks == []
    same_again(campaign, sqlite, clock).close()


def test_own_settings_are_kept(sqlite: str, clock: Clock) -> None:
    campaign = crowd(sqlite, clock, checks=fp.Checks(level=0.001, period=2))
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.settings.checks == fp.Checks(level=0.001, period=2)
    assert campaign.status().checks[0].level == 0.001


def test_campaigns_from_before_there_were_checks_have_none(sqlite: str, clock: Clock) -> None:
    plain = crowd(sqlite, clock).settings.encode()
    del plain["checks"]
    assert Settings.decode(plain).checks is None
    assert "checks" not in replace(Settings.decode(plain)).encode()


@pytest.mark.parametrize(
    ("principal", "checks", "sentence"),
    [
        (EACH, True, "checks must be left out with rules.Certified, .* rules.Comparisons has them"),
        (EACH, fp.Checks(), "checks must be left out with rules.Certified"),
        (COMPARING, fp.Checks(payment=0.1), "payment=0 in a campaign"),
        (COMPARING, "yes", "checks must be True, False, None or freepull.Checks"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    sqlite: str, clock: Clock, principal: fp.Principal, checks: Any, sentence: str
) -> None:
    with pytest.raises(fp.errors.InvalidInput, match=sentence):
        create(sqlite, clock, principal=principal, checks=checks)


def test_rules_that_hear_no_asks_have_no_checks(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH)
    assert campaign.settings.checks is None
    assert campaign.status().checks == []
