"""What a campaign promises, on both stores: replies, repetition, offers, money."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import Money, Told
from support.staging import EACH, Clock, contents, create, picture, reopen


def test_what_was_answered_is_there_after_reopening_bit_for_bit(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.tell("ann", offer.arm, 0.25, event="e1")
    campaign.tell("bob", "B", 1 / 3, event=1)
    campaign.tell_many([("cy", "A", 0.5), ("cy", "B", 0.75, "e2"), ("bob", "C", 0.1, 2)])
    campaign.ask("cy")
    before, status = picture(campaign), campaign.status()
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert campaign.status() == status
    assert status.observations == 5
    campaign.close()


def test_asking_again_returns_the_same_offer_until_it_ends(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    assert (offer.agent, offer.bonus, offer.id) == ("ann", Money(50, "EUR"), 1)
    assert campaign.ask("ann") == offer
    campaign = reopen(campaign, url, clock)
    assert campaign.ask("ann") == offer
    assert campaign.tell("ann", offer.arm, 1.0) == Told(4, "paid", 1, Money(50, "EUR"))
    assert campaign.ask("ann") is None
    assert [row.ending for row in campaign.offers()] == ["paid"]
    campaign.close()


@pytest.mark.parametrize("event", ["an id", 1])
def test_telling_again_returns_the_same_reply_and_counts_once(url: str, clock: Clock, event: str | int) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    told = campaign.tell("ann", offer.arm, 0.5, event=event)
    assert told.outcome == "paid"
    before = contents(campaign)
    assert campaign.tell("ann", offer.arm, 0.5, event=event) == told
    campaign = reopen(campaign, url, clock)
    assert campaign.tell("ann", offer.arm, 0.5, event=event) == told
    assert campaign.tell_many([("ann", offer.arm, 0.5, event)] * 3) == [told] * 3
    assert contents(campaign) == before
    with pytest.raises(errors.EventConflict, match="agent ann has used"):
        campaign.tell("ann", offer.arm, 0.25, event=event)
    with pytest.raises(errors.EventConflict):
        campaign.tell("ann", "B" if offer.arm != "B" else "C", 0.5, event=event)
    assert contents(campaign) == before
    assert campaign.tell("bob", offer.arm, 0.25, event=event).event == told.event + 1 if told.event else False
    campaign.close()


def test_numbers_must_follow_and_are_remembered_for_ever(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    with pytest.raises(errors.EventGap, match="must have number 1, got 2") as gap:
        campaign.tell("ann", "A", 0.5, event=2)
    assert gap.value.expected == 1
    first, second = campaign.tell("ann", "A", 0.5, event=1), campaign.tell("ann", "B", 0.5, event=2)
    clock.pass_hours(24 * 365)
    campaign = reopen(campaign, url, clock)
    assert campaign.tell("ann", "B", 0.5, event=2) == second
    assert campaign.tell("ann", "A", 0.5, event=1) == Told(None) != first
    assert campaign.status().observations == 2
    with pytest.raises(errors.EventGap, match="must have number 3, got 5"):
        campaign.tell("ann", "B", 0.5, event=5)
    replies = campaign.tell_many([("ann", "A", 0.5, 3), ("ann", "A", 0.5, 3), ("ann", "A", 0.1, 4)])
    assert replies[0] == replies[1]
    assert campaign.status().observations == 4
    campaign.close()


def test_event_ids_are_forgotten_after_the_window(url: str, clock: Clock) -> None:
    campaign = create(url, clock, remembers="2 hours")
    told = campaign.tell("ann", "A", 0.5, event="e")
    clock.pass_hours(1.9)
    for _ in range(3):  # what is forgotten is forgotten after an answer
        assert campaign.tell("ann", "A", 0.5, event="e") == told
    clock.pass_hours(0.2)
    campaign.tell("bob", "A", 0.5)
    assert contents(campaign)["event_ids"] == []
    assert campaign.tell("ann", "A", 0.9, event="e").event == 5
    campaign.close()


BAD: list[tuple[type[Exception], str, Any]] = [
    (errors.UnknownAgent, "has no agent 'dan'", ("dan", "A", 0.5)),
    (errors.UnknownAgent, "has no agent 3", (3, "A", 0.5)),
    (errors.UnknownAgent, "has no agent '#3'", ("#3", "A", 0.5)),
    (errors.UnknownAgent, "has no agent True", (True, "A", 0.5)),
    (errors.UnknownArm, "arm must be one of A, B, C", ("ann", "D", 0.5)),
    (errors.UnknownArm, "arm must be one of A, B, C", ("ann", 3, 0.5)),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", float("nan"))),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", float("inf"))),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", -0.1)),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", 1.0000001)),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", "0.5")),
    (errors.InvalidReward, "reward must be a number in", ("ann", "A", True)),
    (errors.InvalidInput, "event must be an id", ("ann", "A", 0.5, "")),
    (errors.InvalidInput, "event must be an id", ("ann", "A", 0.5, "x" * 201)),
    (errors.InvalidInput, "event must be an id", ("ann", "A", 0.5, 0)),
    (errors.InvalidInput, "event must be an id", ("ann", "A", 0.5, 1.5)),
    (errors.InvalidInput, "an observation must be", ("ann", "A")),
    (errors.InvalidInput, "an observation must be", 17),
]


@pytest.mark.parametrize(("kind", "said", "observation"), BAD)
def test_a_bad_observation_gets_one_sentence_and_moves_nothing(
    sqlite: str, clock: Clock, kind: type[Exception], said: str, observation: Any
) -> None:
    campaign = create(sqlite, clock)
    before, memory = contents(campaign), picture(campaign)
    with pytest.raises(kind, match=said) as problem:
        campaign.tell_many([("ann", "A", 0.5), observation, ("bob", "A", 0.5)])
    assert str(problem.value).endswith(".")
    assert "\n" not in str(problem.value)
    assert (contents(campaign), picture(campaign)) == (before, memory)
    replies = campaign.tell_each([("ann", "A", 0.5), observation, ("bob", "A", 0.5)])
    assert [type(reply) for reply in replies] == [Told, kind, Told]
    assert campaign.status().observations == 2
    campaign.close()


def test_a_refusal_bans_as_the_protocol_says_and_unban_ends_it(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    other = next(arm for arm in "ABC" if arm != offer.arm)
    assert campaign.tell("ann", other, 0.5).outcome == "refused"
    campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5)])
    assert campaign.ask("ann") is None
    assert campaign.status().banned == 1
    (ban,) = campaign.bans()
    assert (ban.agent, ban.offer, ban.step, ban.until, ban.lifted) == ("ann", 1, 1, None, None)
    with pytest.raises(errors.WrongMoment, match="agent bob is not banned"):
        campaign.unban("bob")
    campaign.unban("ann", by="ops")
    campaign = reopen(campaign, url, clock)
    assert campaign.status().banned == 0
    assert campaign.bans()[0].lifted is not None
    campaign.tell_many([("ann", "A", 0.5), ("bob", "A", 0.5), ("cy", "A", 0.5)])
    assert campaign.ask("ann") is not None
    assert [(entry.action, entry.who) for entry in campaign.audit()][-1] == ("unbanned", "ops")
    campaign.close()


def test_unban_forgets_the_refusals_that_led_there(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=replace(EACH, protocol=fp.protocols.BanAfter(2)))

    def refuse() -> int:
        """Let ann refuse an offer, and end the step; return how many are banned."""
        offer = campaign.ask("ann")
        assert offer is not None
        campaign.tell_many([("ann", "A" if offer.arm != "A" else "B", 0.5), ("bob", "A", 0.5), ("cy", "A", 0.5)])
        return campaign.status().banned

    assert [refuse(), refuse()] == [0, 1]
    campaign.unban("ann")
    for agent in ("bob", "cy", "cy"):
        campaign.tell(agent, "A", 0.5)  # offers are planned at the end of a step
    assert [refuse(), refuse()] == [0, 1]
    campaign.close()


def test_spending_never_exceeds_the_budget_and_offers_reserve(url: str, clock: Clock) -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each", budget=2)
    campaign = create(url, clock, principal=principal)
    assert campaign.status().budget == Money(100, "EUR")
    offers = [campaign.ask(agent) for agent in ("ann", "bob", "cy")]
    assert [offer is None for offer in offers] == [False, False, True]
    status = campaign.status()
    assert (status.spent, status.reserved) == (Money(0, "EUR"), Money(100, "EUR"))
    for offer in offers[:2]:
        assert offer is not None
        campaign.tell(offer.agent, offer.arm, 0.5)
    assert (campaign.status().spent.minor, campaign.status().reserved.minor) == (100, 0)
    with pytest.raises(errors.BudgetTooSmall, match=r"budget must be at least 1\.00 EUR, which is spent or reserved"):
        campaign.budget("0.99 EUR")
    with pytest.raises(errors.InvalidInput, match="budget must be in EUR"):
        campaign.budget("5 USD")
    campaign.tell("cy", "A", 0.5)
    assert [campaign.ask(agent) for agent in ("ann", "bob", "cy")] == [None] * 3
    campaign.budget("1.99 EUR", by="ops")
    campaign = reopen(campaign, url, clock)
    given = [offer for agent in ("ann", "bob", "cy") if (offer := campaign.ask(agent))]
    assert len(given) == 1
    campaign.budget(None)
    assert campaign.status().budget is None
    assert None not in [campaign.ask(agent) for agent in ("ann", "bob", "cy")]
    assert [entry.amount.minor for entry in campaign.ledger()] == [50, 50]
    assert len({entry.offer for entry in campaign.ledger()}) == 2
    campaign.close()


def test_the_ledger_refuses_a_second_payment_for_an_offer(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.tell("ann", offer.arm, 0.5)
    store, lease = campaign.core.store, campaign.core.writer.lease
    with pytest.raises(errors.StoreError):
        store.write(lease, {"ledger": [(2, offer.id, 0, 0, 50, "EUR", 0)]})
    assert len(campaign.ledger()) == 1
    campaign.close()


def test_a_campaign_needs_to_have_started_and_a_principal_of_our_own_parts(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, started=False)
    assert campaign.ask("ann") is None
    for act in (lambda: campaign.tell("ann", "A", 0.5), campaign.verdict):
        with pytest.raises(errors.WrongMoment, match="has not started"):
            act()
    assert campaign.status().status == "enrolling"
    campaign.close()

    class Mine(fp.protocols.NeverBan):
        pass

    class Plain:
        def banned_until(self, t: int, refusals: int) -> int:
            return t

    for protocol in (Mine(), Plain()):
        with pytest.raises(errors.InvalidInput, match="principal must be made of freepull's own parts"):
            create(sqlite, clock, name="b", principal=fp.Principal(protocol=protocol, observe=fp.observe.Steps(0)))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name must be a printable text"),
    ({"name": "a\nb"}, "name must be a printable text"),
    ({"arms": ["A"]}, "arms must be from 2"),
    ({"arms": ["A", "A"]}, "arms must be different names, got 'A' twice"),
    ({"arms": 1}, "arms must be a whole number from 2"),
    ({"arms": 501}, "arms must be at most 500 with rules.Certified"),
    ({"agents": 33_333_334}, "agents must be at most 33,333,333 in all with 3 arms"),
    ({"agents": ["ann", "ann"]}, "agents must be different names"),
    ({"agents": ["#1"]}, "agents must not have names that begin with '#'"),
    ({"agents": "ann"}, "agents must be a list of names, or how many"),
    ({"price": "0.505 EUR"}, "price must have at most 2 decimals in EUR"),
    ({"price": "0 EUR"}, "price must be above 0"),
    ({"price": 0.5}, "price must be an amount and a currency"),
    ({"mode": "fast"}, "mode must be one of free, rounds"),
    ({"offer_lasts": "soon"}, "offer_lasts must be a duration"),
    ({"round_lasts": "1 day"}, "round_lasts must be left out in free mode"),
    ({"ends": "tomorrow"}, "ends must be a time with a time zone"),
    ({"leavers": "worst_case"}, "leavers must be one of wait, independent, got 'worst_case', which there is no longer"),
    ({"withdrawal": True}, "withdrawal must be False with rules.Certified"),
    ({"late_joiners": "maybe"}, "late_joiners must be one of"),
    ({"weights": [1, 2]}, "weights must be 3 numbers"),
    ({"principal": "certified"}, "principal must be a freepull.Principal"),
    ({"principal": fp.Principal()}, "horizon must be a number of steps"),
    ({"by": "a\tb"}, "by must be a printable text"),
]


@pytest.mark.parametrize(("settings", "said"), WRONG)
def test_wrong_settings_get_one_sentence_and_make_no_campaign(
    sqlite: str, clock: Clock, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=said) as problem:
        create(sqlite, clock, **settings)
    assert str(problem.value).endswith(".")
    with pytest.raises(errors.UnknownCampaign, match="there is no file"):
        fp.Campaign.open(sqlite, "onboarding")


def test_one_offer_in_free_mode_is_warned_of(sqlite: str, clock: Clock) -> None:
    with pytest.warns(UserWarning, match="waits for the one agent whose pull is needed most"):
        create(sqlite, clock, principal=fp.Principal(observe=fp.observe.Steps(0))).close()


def test_campaigns_are_known_by_name_and_open_once(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    with pytest.raises(errors.CampaignBusy, match="open in this process already"):
        fp.Campaign.open(url, "onboarding")
    campaign.close()
    with pytest.raises(errors.CampaignExists, match="has a campaign 'onboarding' already"):
        create(url, clock)
    with pytest.raises(errors.UnknownCampaign, match="has no campaign 'other'; it has onboarding"):
        fp.Campaign.open(url, "other")
    with create(url, clock, name="second", principal=EACH) as second, fp.Campaign.open(url, "onboarding") as first:
        second.tell("ann", "A", 0.5)
        assert (first.status().observations, second.status().observations) == (0, 1)
    with pytest.raises(errors.WriterEnded, match="is closed"):
        second.ask("ann")
    second.close()


def test_what_is_told_for_others_is_audited_once(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    batch = [("ann", "A", 0.5, "e1"), ("bob", "B", 0.5, 1), ("nobody", "A", 0.5, "e2"), ("ann", "A", 0.5, "e1")]
    told = campaign.tell_each(batch, by="gateway")
    before = contents(campaign)
    assert [entry.detail for entry in campaign.audit() if entry.action == "noted"] == [{"told": 2}]
    again = campaign.tell_each(batch, by="gateway")
    assert [it for it in again if isinstance(it, Told)] == [it for it in told if isinstance(it, Told)]
    assert contents(campaign) == before
