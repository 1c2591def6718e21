"""Asks are events where the rule hears them: in order with pulls, once until the agent is told of, and replayed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import state
from freepull.campaigns.commands import Decider
from freepull.campaigns.journal.events import Kind
from freepull.campaigns.journal.recovery import verify
from support.staging import EACH, Clock, contents, create, kinds, picture, reopen

COMPARING = fp.Principal(
    fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), protocol=fp.protocols.NeverBan(), offers="each"
)


def test_an_ask_that_changes_something_is_logged_before_the_offer_that_it_leads_to(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARING)
    offer = act_until_offered(campaign)
    seen = kinds(campaign)
    asks = seen.count(Kind.ASKED)
    assert asks > 1
    steps = [it for it in seen if it != Kind.STEP_ENDED]
    assert steps == [*[Kind.ASKED, Kind.TOLD] * (asks - 1), Kind.ASKED, Kind.OFFERED]
    assert campaign.ask("ann") == offer
    assert kinds(campaign) == seen
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.close()
    verify(url, campaign.name)


def act_until_offered(campaign: fp.Campaign) -> fp.CampaignOffer:
    """Let ann try everything, and then what she likes, until she is paid for something else."""
    for arm in "ABC" + "A" * 20:
        offer = campaign.ask("ann")
        if offer is not None:
            return offer
        campaign.tell("ann", arm, float(arm == "A"))
    raise AssertionError("nothing was offered")


def test_asks_that_change_nothing_are_not_logged(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    for _ in range(3):
        campaign.ask("ann")
    assert kinds(campaign) == [Kind.ASKED]
    campaign.pause()
    campaign.ask("ann")
    campaign.ask("bob")  # a pause makes no offers, but pulls count, and so do asks
    campaign.add_agents(["dan"])
    campaign.ask("dan")
    assert kinds(campaign).count(Kind.ASKED) == 2
    campaign.stop()
    campaign.ask("cy")
    assert kinds(campaign).count(Kind.ASKED) == 2


def test_rules_that_hear_no_asks_have_none_in_their_log(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH)
    campaign.ask("ann")
    campaign.tell("ann", "A", 1.0)
    campaign.ask("ann")
    assert Kind.ASKED not in kinds(campaign)


def test_nobody_is_heard_any_more_once_it_is_decided(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING, checks=False)
    decide(campaign)
    events = campaign.status().events
    campaign.ask("ann")
    assert campaign.status().events == events


def test_checks_hear_asks_after_the_decision_and_the_rule_does_not(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    decide(campaign)
    trial = campaign.core.writer.decider.state.trial
    asking, events = trial.asking.copy(), campaign.status().events
    for _ in range(2):
        campaign.ask("ann")
    assert campaign.status().events == events + 1
    assert np.array_equal(trial.asking, asking)
    campaign.tell("ann", "A", 1.0)
    for name in ("ann", "bob"):
        campaign.ask(name)
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()
    verify(sqlite, campaign.name)


def decide(campaign: fp.Campaign, most: int = 2000) -> None:
    """Let everybody ask and act until arm A is the verdict."""
    chance = random.Random(1)
    for _ in range(most):
        for name in ("ann", "bob", "cy"):
            offer = campaign.ask(name)
            arm = chance.choice("ABC") if offer is None else offer.arm
            campaign.tell(name, arm, float(arm == "A"))
        if campaign.status().decided:
            return
    raise AssertionError("nothing was decided")


def test_a_pull_that_was_not_asked_for_fills_no_comparison(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    campaign.tell_many([(name, arm, float(arm == "A")) for name in ("ann", "bob", "cy") for arm in "ABC"] * 100)
    status = campaign.status()
    assert status.observations == 900
    assert not status.decided
    assert status.differences == []
    decide(campaign)
    assert campaign.verdict().certified


@pytest.mark.parametrize("when", ["an ask", "an offer", "a pull"])
def test_a_snapshot_right_after_an_ask_leads_where_the_log_leads(url: str, clock: Clock, when: str) -> None:
    campaign = create(url, clock, principal=COMPARING)
    campaign.ask("bob")
    if when == "an ask":
        campaign.ask("ann")
    else:
        act_until_offered(campaign)
    if when == "a pull":
        campaign.tell("ann", "B", 0.0)
    assert campaign.snapshot() == campaign.status().events
    campaign.tell("bob", "C", 0.5)
    campaign.ask("bob")
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    asked = campaign.status().events
    campaign.ask("bob")  # it has asked already, and was not told of since
    assert campaign.status().events == asked
    campaign.close()
    assert verify(url, campaign.name).snapshots == 1


def test_asks_while_a_step_is_closed_in_slices_are_replayed_in_their_place(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "SMALL", 0)
    monkeypatch.setattr(state, "SLICE", 0.0)
    campaign = create(sqlite, clock, principal=COMPARING)
    chance, heard = random.Random(3), 0

    def act(decider: Decider, at: int) -> None:
        nonlocal heard
        for m in range(3):
            heard += decider.busy and decider.state.trial.hears(m)
            decider.ask(m, at)
            decider.ask(m, at)

    for _ in range(100):
        pulls = [(m, chance.randrange(3), chance.random()) for m in range(3)]
        told = campaign.core.tell_all(pulls, strict=True)
        asked = campaign.core.do(act)  # often in one group with the pulls, while their step is being closed
        told.result(), asked.result()
    assert heard
    assert Kind.STEP_CLOSED in kinds(campaign)
    while campaign.core.do(lambda decider, at: decider.busy).result():
        pass
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()
    verify(sqlite, campaign.name)


def test_a_long_log_is_replayed_in_runs_of_asks_and_pulls(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING, agents=40)
    chance = random.Random(2)
    for _ in range(30):
        for m in range(40):
            if chance.random() < 0.7:
                campaign.core.ask_for(m)
        campaign.tell_many([(chance.randrange(40), chance.randrange(3), chance.random()) for _ in range(50)])
    rows, before = contents(campaign), picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    assert contents(campaign) == rows


def test_a_log_with_an_ask_that_its_rule_does_not_hear_is_refused(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH)
    decider = campaign.core.writer.decider
    records = np.zeros(1, decider.log.records().dtype)
    records["kind"] = Kind.ASKED
    with pytest.raises(errors.ReplayDiffers, match="does not hear asks"):
        decider.state.apply_many(records, {})


def test_imported_pulls_feed_the_record_and_fill_no_comparison(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    for name in ("ann", "bob", "cy"):
        campaign.ask(name)
    file = tmp_path / "pulls.csv"
    file.write_text("agent,arm,reward\n" + "ann,A,1\nann,B,0\n" * 20)
    campaign.import_observations(file)
    book = campaign.core.writer.decider.state.trial.rule.book  # type: ignore[attr-defined]
    assert campaign.status().observations == 40
    assert int(book.lacks[0].sum()) == 2  # the first of them was asked for, the others were not
