"""Money that was changed or paid stands as it was: after snapshots, at the very limit, and in every column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import people
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import connect
from freepull.money import MOST_PRICE, Money
from support.staging import EACH, Clock, create, reopen


def test_a_changed_budget_is_in_the_snapshot(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    campaign.budget("0.75 EUR", by="ops")
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    assert campaign.status().budget == Money(75, "EUR")
    assert sum(campaign.ask(agent) is not None for agent in ("ann", "bob", "cy")) == 1
    campaign.budget(None)
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    assert campaign.status().budget is None
    assert sum(campaign.ask(agent) is not None for agent in ("ann", "bob", "cy")) == 3


def test_a_budget_may_be_just_what_is_spent_and_reserved(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    first, second = campaign.ask("ann"), campaign.ask("bob")
    assert first is not None
    assert second is not None
    campaign.tell("ann", first.arm, 0.5)
    campaign.budget("1.00 EUR")
    status = campaign.status()
    assert (status.spent.minor, status.reserved.minor) == (50, 50)
    assert status.budget == Money(100, "EUR")
    assert campaign.ask("cy") is None
    assert campaign.tell("bob", second.arm, 0.5).paid == Money(50, "EUR")


def test_every_column_of_the_ledger_is_what_it_says(url: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(url, clock)
    told: list[tuple[Any, ...]] = []
    for step in range(3):
        for agent in ("ann", "bob", "cy"):
            clock.pass_hours(1)
            offer = campaign.ask(agent)
            if agent == "bob" or offer is None:  # who refuses once gets no other offer
                campaign.tell(agent, "A" if offer is None or offer.arm != "A" else "B", 0.5)
            else:
                campaign.tell(agent, offer.arm, 0.5)
                told.append((len(told) + 1, offer.id, agent, offer.arm, Money(50, "EUR"), clock.now, step + 1))
    columns = [(it.entry, it.offer, it.agent, it.arm, it.amount) for it in campaign.ledger()]
    assert columns == [row[:5] for row in told]
    assert [round(it.at.timestamp() * 1e6) for it in campaign.ledger()] == [row[5] for row in told]
    assert len({row[3] for row in told}) > 1
    assert [row[0] for row in told] != [row[1] for row in told]
    campaign.export(tmp_path / "ledger.parquet", "ledger")
    exported = pl.read_parquet(tmp_path / "ledger.parquet")
    for name, at in (("entry", 0), ("offer", 1), ("agent", 2), ("arm", 3)):
        assert exported[name].to_list() == [row[at] for row in told], name
    offers = {it.offer: it for it in campaign.offers()}
    assert [offers[row[1]].step for row in told] == [row[6] for row in told]


def test_a_ban_can_be_lifted_in_the_step_of_its_refusal() -> None:
    principal = replace(EACH, protocol=fp.protocols.BanAfter(1))
    trial = principal.start(arms=3, agents=2)
    offer = trial.ask(0)
    assert offer is not None
    assert trial.tell(0, (offer.arm + 1) % 3, 0.5) == "refused"
    trial.unban(0)
    trial.end_step()
    assert trial.banned_until == [0, 0]
    assert trial.wanted(0) is not None


def test_what_bonuses_cost_in_all_can_always_be_written_down(url: str, clock: Clock) -> None:
    assert MOST_PRICE * (people.MOST_OFFERS + 1) <= people.MOST_SPENT
    said = r"price must be at most 20000000\.00 EUR, got '20000000\.01 EUR'"
    with pytest.raises(errors.InvalidInput, match=said):
        create(url, clock, price="20000000.01 EUR")
    campaign = create(url, clock, price="20000000 EUR")
    offer = campaign.ask("ann")
    assert offer is not None
    assert campaign.tell("ann", offer.arm, 0.5).paid == Money(MOST_PRICE, "EUR")
    assert reopen(campaign, url, clock).status().spent == Money(MOST_PRICE, "EUR")


def test_an_old_campaign_of_a_larger_price_stops_offering_before_its_sums_are_too_large(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = 10**15
    monkeypatch.setattr("freepull.money.MOST_PRICE", price)
    campaign = create(url, clock, price=str(Money(price, "EUR")))
    monkeypatch.setattr(people, "MOST_SPENT", 2 * price + 7)
    first = campaign.ask("ann")
    assert first is not None
    campaign.tell("ann", first.arm, 0.5)
    assert [campaign.ask(agent) is not None for agent in ("bob", "cy")] == [True, False]
    monkeypatch.setattr(people, "MOST_SPENT", 2 * price - 1)
    campaign = reopen(campaign, url, clock)  # what was offered before there was a limit is replayed, and paid
    offer = campaign.ask("bob")
    assert offer is not None
    assert campaign.tell("bob", offer.arm, 0.5).outcome == "paid"
    campaign.close()
    assert verify(url, "onboarding").spent == Money(2 * price, "EUR")


def test_a_ledger_that_is_too_large_to_be_added_up_in_64_bits_is_added_up(url: str) -> None:
    store = connect(url, new=True)
    rows = [(entry, entry, 0, 0, 9 * 10**18 + entry, "EUR", 1) for entry in range(1, 5)]
    lease = store.create("x", "a", {"ledger": rows})
    assert store.totals("x") == (4, 36 * 10**18 + 10)
    store.release(lease)
    store.close()
