"""The life of an offer: silence, deadlines, and offers that are taken back while the agent may be acting on them."""

from __future__ import annotations

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import segments
from support.staging import EACH, Clock, contents, create, picture, reopen


def offered(campaign: fp.Campaign, agent: str) -> fp.CampaignOffer:
    offer = campaign.ask(agent)
    assert offer is not None
    return offer


def other(offer: fp.CampaignOffer) -> str:
    return next(arm for arm in "ABC" if arm != offer.arm)


def end_step(campaign: fp.Campaign, *agents: str) -> None:
    """Tell pulls until the step of three is over."""
    step = campaign.status().step
    while campaign.status().step == step:
        campaign.tell(agents[0] if agents else "cy", "A", 0.5)


def test_silence_is_expiry_and_no_refusal_and_starts_a_cool_down(url: str, clock: Clock) -> None:
    campaign = create(url, clock, offer_lasts="2 hours", cool_down="5 hours")
    offer = offered(campaign, "ann")
    clock.pass_hours(1.99)
    assert campaign.ask("ann") == offer
    clock.pass_hours(0.01)
    assert campaign.ask("ann") is None
    status = campaign.status()
    assert (status.expired, status.refused, status.open_offers, status.reserved.minor) == (1, 0, 0, 0)
    end_step(campaign)
    assert campaign.status().banned == 0
    assert campaign.ask("ann") is None
    campaign = reopen(campaign, url, clock)
    clock.pass_hours(5)
    end_step(campaign)
    assert offered(campaign, "ann").id == 2
    campaign.close()


def test_a_budget_that_is_changed_meanwhile_does_not_end_a_cool_down(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="2 hours", cool_down="5 hours")
    offered(campaign, "ann")
    clock.pass_hours(2)
    campaign.budget("100 EUR")
    assert campaign.ask("ann") is None
    assert campaign.ask("bob") is not None
    campaign.close()


def test_time_stands_still_while_a_clock_that_was_set_back_catches_up(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="1 hour")
    expires = offered(campaign, "ann").expires
    clock.pass_hours(-5)
    assert offered(campaign, "bob").expires == expires
    campaign.tell("cy", "A", 0.5)
    clock.pass_hours(6)
    assert campaign.status().expired == 2
    times = [at for it in segments(campaign.core.store, campaign.name) for at in it.records["at"].tolist()]
    assert times == sorted(times)
    campaign.close()


def test_acting_at_the_deadline_is_decided_once(url: str, clock: Clock) -> None:
    for early, outcome in ((1, "paid"), (0, None), (-1, None)):
        campaign = create(url, clock, name=f"at {early}", offer_lasts="1 hour")
        offer = offered(campaign, "ann")
        clock.now += 3600 * 10**6 - early
        assert campaign.tell("ann", offer.arm, 0.5).outcome == outcome
        (row,) = campaign.offers()
        assert row.ending == (outcome or "expired")
        assert len(campaign.ledger()) == (outcome == "paid")
        campaign.close()


def test_three_silences_in_a_row_park_an_agent_and_a_pull_brings_it_back(url: str, clock: Clock) -> None:
    campaign = create(url, clock, offer_lasts="1 hour", cool_down="1 hour")
    for expired in range(1, 4):
        offered(campaign, "ann")
        clock.pass_hours(1)
        assert campaign.status().expired == expired
        assert campaign.status().absent == (expired == 3)
        clock.pass_hours(1)
        end_step(campaign)
    campaign = reopen(campaign, url, clock)
    assert campaign.ask("ann") is None
    assert "parked" in [entry.action for entry in campaign.audit()]
    assert campaign.status().awaited[0] == "ann"
    assert "awaited: ann" in campaign.verdict().why
    campaign.tell("ann", "A", 0.5)
    assert campaign.status().absent == 0
    end_step(campaign)
    offered(campaign, "ann")
    campaign.close()


def test_an_offer_that_is_taken_breaks_a_row_of_silences(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="1 hour", cool_down="1 hour")
    for turn in range(5):
        offer = offered(campaign, "ann")
        if turn == 2:
            campaign.tell("ann", offer.arm, 0.5)
        clock.pass_hours(2)
        end_step(campaign)
    assert (campaign.status().expired, campaign.status().absent) == (4, 0)
    campaign.close()


@pytest.mark.parametrize("how", ["pause", "stop"])
def test_pausing_and_stopping_take_offers_back_without_a_ban_and_pay_what_is_on_its_way(
    url: str, clock: Clock, how: str
) -> None:
    campaign = create(url, clock, offer_lasts="2 hours")
    taken, refused, silent = (offered(campaign, agent) for agent in ("ann", "bob", "cy"))
    getattr(campaign, how)(by="ops")
    campaign = reopen(campaign, url, clock)
    assert [campaign.ask(agent) for agent in ("ann", "bob", "cy")] == [None] * 3
    assert campaign.status().reserved.minor == 150
    assert campaign.tell("ann", taken.arm, 0.5).outcome == "paid"
    if how == "pause":
        assert campaign.tell("bob", other(refused), 0.5).outcome == "cancelled"
    else:
        with pytest.raises(errors.WrongMoment, match="has stopped, so nothing can be told any more"):
            campaign.tell("bob", other(refused), 0.5)
    clock.pass_hours(2)
    status = campaign.status()
    assert (status.paid, status.cancelled, status.refused, status.expired, status.reserved.minor) == (1, 2, 0, 0, 0)
    if how == "pause":
        campaign.tell("cy", silent.arm, 0.5)
        assert campaign.status().step == 1
        assert campaign.status().banned == 0
        campaign.resume()
        offered(campaign, "bob")
    else:
        before = contents(campaign)
        for act in (lambda: campaign.tell("ann", taken.arm, 0.5), campaign.stop, lambda: campaign.add_agents(["dan"])):
            with pytest.raises(errors.WrongMoment):
                act()
        assert contents(campaign) == before
    campaign.close()


def test_a_stopped_campaign_pays_an_offer_on_its_way_once_in_a_batch(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    offer = offered(campaign, "ann")
    campaign.stop()
    replies = campaign.tell_each([("ann", offer.arm, 0.5)] * 2 + [("bob", "A", 0.5)])
    assert isinstance(replies[1], errors.WrongMoment)
    assert isinstance(replies[2], errors.WrongMoment)
    assert len(campaign.ledger()) == 1
    campaign.close()


@pytest.mark.parametrize("takes", [True, False])
def test_elimination_takes_offers_back_without_a_ban(url: str, clock: Clock, takes: bool) -> None:
    rule = fp.rules.Paper(0.1, "simplified", scale=0.001)
    principal = fp.Principal(rule, observe=fp.observe.Steps(0), offers="each")
    campaign = create(url, clock, principal=principal, agents=["ann", "bob"], horizon=10_000)
    campaign.tell_many([(agent, arm, 0.5) for agent in ("ann", "bob") for arm in "ABABC"])
    offer = offered(campaign, "bob")
    assert offer.arm == "C"
    campaign.tell_many([("ann", "C", 0.0)] * 20)
    assert [arm.name for arm in campaign.status().arms if not arm.active] == ["C"]
    assert campaign.ask("bob") is None
    campaign = reopen(campaign, url, clock)
    assert campaign.tell("bob", "C" if takes else "A", 0.5).outcome == ("paid" if takes else "cancelled")
    campaign.tell_many([("ann", "A", 0.5)] * 2)
    status = campaign.status()
    assert (status.banned, status.refused, status.paid) == (0, 0, int(takes))
    offered(campaign, "bob")
    campaign.close()


def test_the_verdict_is_final_logged_and_takes_all_offers_back(url: str, clock: Clock) -> None:
    campaign = create(url, clock, agents=["ann"], arms=["A", "B"])
    offer = offered(campaign, "ann")
    campaign.tell_many([("ann", arm, reward) for arm, reward in (("A", 1.0), ("B", 0.0))] * 60)
    verdict = campaign.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified) == ("A", True, True)
    assert verdict.rests_on.delta == 0.05
    assert offer.arm == "A"
    campaign.tell_many([("ann", arm, reward) for arm, reward in (("A", 0.0), ("B", 1.0))] * 200)
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert campaign.verdict() == verdict
    assert campaign.ask("ann") is None
    assert [entry.detail["decided"]["arm"] for entry in campaign.audit() if "decided" in entry.detail] == ["A"]
    campaign.close()


def test_a_campaign_stops_by_itself_when_its_time_is_over(url: str, clock: Clock) -> None:
    campaign = create(url, clock, ends="2030-03-17T20:00:00+00:00")
    assert clock.now < 1_900_008_000_000_000
    offer = offered(campaign, "ann")
    clock.now = 1_900_008_000_000_000
    assert campaign.ask("bob") is None
    status = campaign.status()
    assert (status.status, status.why, status.decided) == ("stopped", "its time was over", False)
    assert campaign.tell("ann", offer.arm, 0.5).outcome == "paid"
    campaign.close()


def test_the_writer_expires_offers_without_being_asked(sqlite: str) -> None:
    import time

    campaign = fp.Campaign.create(
        sqlite, name="x", arms=2, agents=2, principal=EACH, price="1 EUR", offer_lasts="0.2 seconds"
    )
    campaign.start()
    assert campaign.ask(0) is not None
    limit = time.monotonic() + 20
    while campaign.offers()[0].ending is None and time.monotonic() < limit:
        time.sleep(0.02)
    assert campaign.offers()[0].ending == "expired"
    campaign.close()
