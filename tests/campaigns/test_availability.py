"""Arms that somebody cannot have, for a while or for good: never offered, and nothing else is different."""

from __future__ import annotations

import random
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.events import Kind
from support.staging import EACH, Clock, create, kinds, reopen, same_after_reopening

FROM_THE_START: dict[str, Any] = {"observe": fp.observe.Steps(0), "protocol": fp.protocols.NeverBan()}
COMPARING = fp.Principal(fp.rules.Comparisons(0.05), offers="each", **FROM_THE_START)
PATIENT = fp.Principal(fp.rules.Certified(0.05), offers="each", **FROM_THE_START)
ONE = fp.Principal(fp.rules.Certified(0.05), offers="one", **FROM_THE_START)


def opened(campaign: fp.Campaign) -> int:
    found = campaign.status().comparisons
    assert found is not None
    return found


def pull(campaign: fp.Campaign, agent: str, arm: str) -> None:
    campaign.ask(agent)
    campaign.tell(agent, arm, float(arm == "A"))


def test_an_open_offer_for_it_is_taken_back_and_no_other_is_made_until_its_time_is_over(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=EACH)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.unavailable("ann", offer.arm, lasts="2 hours", by="ops")
    assert campaign.ask("ann") is None
    assert campaign.status().unavailable == 1
    assert campaign.offers()[0].recalled
    campaign = same_after_reopening(campaign, url, clock)
    assert campaign.tell("ann", offer.arm, 0.5).outcome == "paid"  # it was on its way
    for agent in ("bob", "cy"):
        campaign.tell(agent, "B", 0.5)
    wanted = campaign.ask("ann")
    assert wanted is None or wanted.arm != offer.arm
    clock.pass_hours(2)
    assert campaign.status().unavailable == 0
    found = [(it.action, it.who, it.detail) for it in campaign.audit()][-2:]
    assert found[0][:2] == ("unavailable", "ops")
    assert found[0][2] | {"until": ""} == {"agent": "ann", "arm": offer.arm, "until": ""}
    assert found[1] == ("available", "", {"agent": "ann", "arm": offer.arm})
    same_after_reopening(campaign, url, clock)


def test_it_can_be_said_before_the_start_and_taken_back(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH, started=False)
    campaign.unavailable("ann", "A")
    campaign.unavailable("bob", "A")
    campaign.available("bob", "A")
    campaign.start()
    first = [campaign.ask(agent) for agent in ("ann", "bob")]
    assert first[0] is None
    assert first[1] is not None
    assert first[1].arm == "A"
    campaign.available("ann", "A")
    campaign.available("ann", "A")
    assert kinds(campaign).count(Kind.AVAILABLE) == 1
    same_after_reopening(campaign, sqlite, clock)


def test_saying_it_again_changes_nothing_or_until_when(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    campaign.unavailable("ann", "A")
    campaign.unavailable("ann", "A")
    assert kinds(campaign) == [Kind.UNAVAILABLE]
    campaign.unavailable("ann", "A", lasts="1 hour")
    campaign.unavailable("ann", "A", lasts="3 hours")
    campaign = reopen(campaign, sqlite, clock)
    clock.pass_hours(2)
    assert campaign.status().unavailable == 1  # what was said last counts
    clock.pass_hours(1)
    assert campaign.status().unavailable == 0
    with pytest.raises(errors.InvalidInput, match="lasts must be a duration"):
        campaign.unavailable("ann", "A", lasts="soon")
    campaign.stop()
    with pytest.raises(errors.WrongMoment, match="makes no offers any more"):
        campaign.unavailable("ann", "A")


@pytest.mark.filterwarnings("ignore:in free mode, offers")
def test_where_there_is_one_offer_it_goes_to_who_can_have_the_arm(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=ONE, started=False)
    campaign.unavailable("ann", "A")
    campaign.unavailable("bob", "A")
    campaign.start()
    assert [campaign.ask(agent) for agent in ("ann", "bob")] == [None, None]
    offer = campaign.ask("cy")
    assert offer is not None
    assert offer.arm == "A"


def test_a_comparison_is_not_opened_for_who_could_not_complete_it(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING, late_joiners="count")
    campaign.unavailable("ann", "C")
    pull(campaign, "ann", "A")
    assert opened(campaign) == 0
    pull(campaign, "bob", "A")
    assert opened(campaign) == 1
    assert "1 agent could not at all times" in campaign.verdict().rests_on.target
    campaign.add_agents(["dan"])
    campaign = same_after_reopening(campaign, sqlite, clock)
    pull(campaign, "ann", "B")
    assert opened(campaign) == 1
    campaign.available("ann", "C")
    pull(campaign, "ann", "A")
    pull(campaign, "dan", "A")
    assert opened(campaign) == 3
    same_after_reopening(campaign, sqlite, clock)


def test_what_a_comparison_lacks_is_paid_for_where_it_can_be_had(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    for arm in "ABCAAA":
        pull(campaign, "ann", arm)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.unavailable("ann", offer.arm)
    campaign.tell("ann", "A", 1.0)
    other = campaign.ask("ann")
    assert other is not None
    assert other.arm not in ("A", offer.arm)
    campaign.unavailable("ann", other.arm)
    campaign.tell("ann", "A", 1.0)
    assert campaign.ask("ann") is None


@pytest.mark.filterwarnings("ignore:in free mode, offers")
@pytest.mark.parametrize("principal", [PATIENT, ONE, COMPARING], ids=["each", "one", "comparing"])
def test_no_offer_is_ever_for_an_arm_that_is_unavailable(sqlite: str, clock: Clock, principal: fp.Principal) -> None:
    campaign, draw, away = create(sqlite, clock, principal=principal), random.Random(7), set[tuple[str, str]]()
    made = 0
    for _ in range(100):
        agent, arm = draw.choice(["ann", "bob", "cy"]), draw.choice("ABC")
        if draw.random() < 0.1:
            (campaign.available if (agent, arm) in away else campaign.unavailable)(agent, arm)
            away ^= {(agent, arm)}
        offer = campaign.ask(agent)
        assert offer is None or (agent, offer.arm) not in away
        made += offer is not None
        chosen = offer.arm if offer is not None and draw.random() < 0.5 else "A"
        campaign.tell(agent, chosen, float(draw.random() < 0.5))
    assert made > 5
    same_after_reopening(campaign, sqlite, clock)


def test_a_new_arm_is_refused_with_the_reason(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    with pytest.raises(errors.UnknownArm, match="got 'Ypsilon'; no arm can join later, because nothing was compared"):
        campaign.tell("ann", "Ypsilon", 0.5)
