"""Campaigns that freepull wrote under version 1 of the rules: they open, go on, and say what their proof lacks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.state import PARKED, REHEARSAL, RETURNED
from freepull.messages import CampaignVerdict
from freepull.principal.rules.base import RULES
from freepull.principal.trial import GROUPED
from support.staging import OPENED, Clock, picture

WRITTEN = Path(__file__).parent / "data" / "campaigns-0.1.db.gz"
"""Written by freepull as it was when parked agents had left, leavers counted by steps and rehearsals mixed."""
DECIDED = [("parked", PARKED), ("together", GROUPED), ("joined", RETURNED), ("rehearsed", REHEARSAL), ("apart", None)]
RUNNING = ["parked, running", "together, running", "joined, running", "worst case", "waiting"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A copy of the file, which opening changes."""
    (tmp_path / "old.db").write_bytes(gzip.decompress(WRITTEN.read_bytes()))
    return f"sqlite:///{tmp_path}/old.db"


def opened(url: str, name: str, clock: Clock, snapshots: bool = True) -> fp.Campaign:
    clock.now += 10**12
    OPENED.append(fp.Campaign.open(url, name, clock=clock, snapshots=snapshots))
    assert OPENED[-1].settings.rules == 1 < RULES
    return OPENED[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*dict(DECIDED), *RUNNING])
def test_they_open_from_the_log_and_from_a_snapshot_and_are_verified(url: str, clock: Clock, name: str) -> None:
    verify(url, name)
    campaign = opened(url, name, clock)
    before = picture(campaign)
    campaign.snapshot()
    campaign.close()
    assert verify(url, name).snapshots == 1
    for snapshots in (True, False):
        campaign = fp.Campaign.open(url, name, clock=lambda: 0, snapshots=snapshots)
        assert picture(campaign) == before
        campaign.close()


@pytest.mark.parametrize(("name", "doubt"), DECIDED)
def test_what_was_certified_stays_so_only_if_its_proof_holds(
    url: str, clock: Clock, name: str, doubt: str | None
) -> None:
    campaign = opened(url, name, clock)
    concluded = next(entry.detail["decided"] for entry in campaign.audit() if "decided" in entry.detail)
    assert concluded["certified"]  # the audit says what was said then
    verdict, status = campaign.verdict(), campaign.status()
    assert (verdict.arm, verdict.decided) == ("A", True)
    assert verdict.certified == status.certified == (doubt is None)
    assert ("not certified" in verdict.why) == (doubt is not None)
    assert (doubt or "") in verdict.why
    campaign.close()


def decide(campaign: fp.Campaign, agents: str) -> CampaignVerdict:
    while not campaign.status().decided:
        campaign.tell_many(
            [(who, arm, float(arm == "A")) for who in agents.split() for arm in campaign.settings.arms] * 3
        )
        assert campaign.status().step < 1000
    return campaign.verdict()


def test_whoever_was_parked_away_stays_away_and_nobody_else_is(url: str, clock: Clock) -> None:
    campaign = opened(url, "parked, running", clock)
    assert PARKED in campaign.verdict().why
    with pytest.raises(errors.AgentHasLeft):
        campaign.tell("ann", "A", 0.5)
    for _ in range(5):
        assert campaign.ask("bob") is not None
        clock.pass_hours(2)
        campaign.tell_many([("cy", "A", 0.5), ("cy", "B", 0.5)] * 2)
    assert (campaign.status().absent, campaign.status().expired) == (1, 8)
    verdict = decide(campaign, "bob cy")
    assert (verdict.certified, verdict.why.count("not certified")) == (False, 1)
    campaign.close()
    verify(url, campaign.name)


def test_a_panel_that_counts_leavers_by_steps_is_not_certified(url: str, clock: Clock) -> None:
    campaign = opened(url, "together, running", clock)
    campaign.snapshot()
    campaign.close()
    campaign = opened(url, "together, running", clock)
    assert campaign.verdict().why.endswith(GROUPED)
    campaign.leave("cy")
    campaign.tell_many([("dan", "A", 1.0)] * 4)
    assert "panel 3, tested at δ/12" in campaign.verdict().rests_on.leavers
    assert not decide(campaign, "dan").certified
    campaign.close()
    assert verify(url, campaign.name).snapshots == 1


def test_nobody_joins_where_that_would_bring_withdrawn_arms_back(url: str, clock: Clock) -> None:
    campaign = opened(url, "joined, running", clock)
    assert all(arm.active for arm in campaign.status().arms)
    campaign.withdraw("A")
    before = picture(campaign)
    with pytest.raises(errors.WrongMoment, match="they would bring withdrawn arms back; make a new campaign"):
        campaign.add_agents(["dan"])
    assert picture(campaign) == before
    assert RETURNED in campaign.verdict().why
    campaign.close()
    verify(url, campaign.name)


def test_a_rehearsal_among_real_pulls_is_closed_to_both(url: str, clock: Clock) -> None:
    campaign = opened(url, "rehearsed", clock)
    assert campaign.status().rehearsal
    assert campaign.tell("ann", "A", 1.0, "real").event is not None  # a repetition gets its reply again
    with pytest.raises(errors.WrongMoment, match="is a rehearsal"):
        campaign.tell("ann", "A", 1.0, "another")
    campaign.close()


def test_by_the_worst_case_whoever_was_parked_has_left_and_the_proof_holds(url: str, clock: Clock) -> None:
    campaign = opened(url, "worst case", clock)
    with pytest.raises(errors.AgentHasLeft):
        campaign.tell("ann", "A", 0.5)
    assert "not certified" not in campaign.verdict().why
    campaign.close()
