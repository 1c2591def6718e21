"""Campaigns in which offers differ: every offer, entry and limit is right to the minor unit, whatever happens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import rehearsal
from freepull.campaigns.journal.recovery import verify
from freepull.money import Money
from support.staging import OPENED, Clock, reopen

COMPENSATE = fp.pricing.Compensate(margin=0.033)
POSTED = fp.pricing.Posted(start=0.3)


def principal(pricing: fp.pricing.Pricing, **more: Any) -> fp.Principal:
    parts: dict[str, Any] = {"observe": fp.observe.Steps(0), "protocol": fp.protocols.NeverBan(), "offers": "each"}
    return fp.Principal(fp.rules.Certified(0.05), pricing=pricing, **parts | more)


def create(url: str, clock: Clock, who: fp.Principal, price: str = "0.50 EUR") -> fp.Campaign:
    campaign = fp.Campaign.create(
        url, name="onboarding", arms=["A", "B", "C"], agents=["ann", "bob", "cy", "dan"], price=price, principal=who,
        horizon=100, clock=clock,
    )  # fmt: skip
    OPENED.append(campaign)
    campaign.start()
    return campaign


def play(campaign: fp.Campaign, clock: Clock, rounds: int, refusing: str = "bob") -> list[tuple[int, Money]]:
    """Let everybody ask and act; return the offers that were paid, with what they promised."""
    paid = []
    for _ in range(rounds):
        for agent in ("ann", "bob", "cy", "dan"):
            clock.pass_hours(0.1)
            offer = campaign.ask(agent)
            arm = "A" if offer is None else offer.arm
            if offer is not None and agent == refusing:
                arm = "ABC"["ABC".index(arm) - 1]
            told = campaign.tell(agent, arm, [0.9, 0.4, 0.1]["ABC".index(arm)], f"{agent} {clock.now}")
            assert (told.paid is not None) == (offer is not None and arm == offer.arm)
            if offer is not None and told.paid is not None:
                assert told.paid == offer.bonus
                assert campaign.tell(agent, arm, [0.9, 0.4, 0.1]["ABC".index(arm)], f"{agent} {clock.now}") == told
                paid.append((offer.id, offer.bonus))
    return paid


@pytest.mark.parametrize("pricing", [COMPENSATE, POSTED])
def test_every_entry_is_what_was_offered_also_after_a_crash_and_from_a_snapshot(
    url: str, clock: Clock, pricing: fp.pricing.Pricing, tmp_path: Path
) -> None:
    campaign = create(url, clock, principal(pricing))
    paid = play(campaign, clock, 6)
    assert len({bonus for _, bonus in paid}) > 1, "prices differ"
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    paid += play(campaign, clock, 3)
    before = campaign.status()
    open_offer = campaign.ask("cy")
    campaign = reopen(campaign, url, clock)
    assert open_offer is None or campaign.ask("cy") == open_offer
    assert before.spent == campaign.status().spent == Money(sum(bonus.minor for _, bonus in paid), "EUR")
    assert [(it.offer, it.amount) for it in campaign.ledger()] == paid
    bonuses = {it.offer: it.bonus for it in campaign.offers()}
    assert all(bonuses[offer] == bonus for offer, bonus in paid)
    campaign.export(tmp_path / "ledger.parquet", "ledger")
    assert pl.read_parquet(tmp_path / "ledger.parquet")["minor_units"].to_list() == [bonus.minor for _, bonus in paid]
    campaign.close()
    assert verify(url, "onboarding").spent == before.spent


def test_compensation_is_what_the_record_says_rounded_up_to_a_cent(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal(COMPENSATE))
    means = {"A": 0.9, "B": 0.4, "C": 0.1}
    for agent in ("ann", "bob", "cy", "dan"):
        for arm in "ABC":
            campaign.tell(agent, arm, means[arm])
    seen = set()
    for _ in range(6):
        for agent in ("ann", "bob", "cy", "dan"):
            offer = campaign.ask(agent)
            if offer is not None:
                assert offer.bonus == Money(math.ceil((0.9 - means[offer.arm] + 0.033) * 50 - 1e-6), "EUR")
                seen.add(offer.arm)
            arm = "A" if offer is None else offer.arm
            campaign.tell(agent, arm, means[arm])
    assert len(seen) > 1


@pytest.mark.parametrize("pricing", [COMPENSATE, POSTED])
def test_a_budget_caps_the_sum_to_the_cent(sqlite: str, clock: Clock, pricing: fp.pricing.Pricing) -> None:
    campaign = create(sqlite, clock, principal(pricing, budget=1.0))
    assert campaign.status().budget == Money(50, "EUR")
    play(campaign, clock, 8, refusing="")
    status = campaign.status()
    assert status.budget is not None
    assert 0 < status.spent.minor <= 50
    assert status.reserved.minor == 0
    campaign.budget("0.77 EUR")
    campaign.snapshot()
    campaign = reopen(campaign, sqlite, clock)
    play(campaign, clock, 8, refusing="")
    assert status.spent.minor < campaign.status().spent.minor <= 77


def test_nobody_is_offered_nothing_and_odd_currencies_have_whole_units(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal(fp.pricing.Compensate(margin=0.0)), price="3 JPY")
    paid = play(campaign, clock, 6)
    assert {bonus.minor for _, bonus in paid} <= {1, 2, 3}
    assert 1 in {bonus.minor for _, bonus in paid}


def test_what_open_offers_may_cost_is_known_after_a_snapshot(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal(COMPENSATE))
    offers = [campaign.ask(agent) for agent in ("ann", "bob", "cy")]
    reserved = Money(sum(offer.bonus.minor for offer in offers if offer is not None), "EUR")
    assert campaign.status().reserved == reserved != Money(0, "EUR")
    campaign.snapshot()
    assert reopen(campaign, sqlite, clock).status().reserved == reserved


def test_an_amount_that_a_replay_does_not_find_again_is_refused(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = create(sqlite, clock, principal(COMPENSATE))
    play(campaign, clock, 2)
    campaign.close()
    monkeypatch.setattr(fp.pricing.Compensate, "price", lambda *_: 0.77)
    with pytest.raises(errors.ReplayDiffers, match=r"offer 1 pays 39 minor units and not"):
        fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshots=False)


def test_simulated_agents_weigh_what_they_are_really_offered(sqlite: str, clock: Clock) -> None:
    poor = fp.pricing.Compensate(margin=0.0, most=0.02)
    campaign = create(sqlite, clock, principal(poor))
    game = fp.Game([[0.9, 0.4, 0.1]] * 4)
    rehearsal.play(campaign, game, steps=12, answers=fp.answers.IfWorthIt())
    assert campaign.status().refused > 0


def test_a_campaign_says_that_it_makes_no_offers_and_resumes_when_the_budget_is_raised(
    sqlite: str, clock: Clock
) -> None:
    campaign = create(sqlite, clock, principal(fp.pricing.Compensate(0.2), budget=3.0, futility=0.1))
    assert campaign.status().held == ""
    said = "no offers for now, because a verdict in time and within the budget is less likely than 10 %"
    for t in range(40):
        for m, agent in enumerate(("ann", "bob", "cy", "dan")):
            offer = campaign.ask(agent)
            arm = "A" if offer is None else offer.arm
            campaign.tell(agent, arm, float((7 * t + 3 * m) % 10 < 6 - "ABC".index(arm)))
        if campaign.status().held:
            break
    assert campaign.status().held == said
    assert said in campaign.verdict().why
    assert [campaign.ask(agent) for agent in ("ann", "bob", "cy", "dan")] == [None] * 4
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.status().held == said
    campaign.budget("1000 EUR")
    assert campaign.status().held == ""
    assert said not in campaign.verdict().why
    assert any(campaign.ask(agent) is not None for agent in ("ann", "bob", "cy", "dan"))
    campaign.stop()
    assert campaign.status().held == ""
    campaign.close()
    verify(sqlite, "onboarding")


def test_a_price_of_two_to_the_thirty_minor_units_is_money_like_any_other(sqlite: str, clock: Clock) -> None:
    free = fp.pricing.Compensate(margin=0.0)
    campaign = create(sqlite, clock, principal(free), price="10737418.24 EUR")
    paid = play(campaign, clock, 6)
    assert min(bonus.minor for _, bonus in paid) == 1, "nobody is offered nothing"
    campaign.snapshot()
    campaign = reopen(campaign, sqlite, clock)
    paid += play(campaign, clock, 3)
    assert [(it.offer, it.amount) for it in campaign.ledger()] == paid
    assert min(bonus.minor for _, bonus in paid) == 1
    campaign.close()
    assert verify(sqlite, "onboarding").spent == Money(sum(bonus.minor for _, bonus in paid), "EUR")
