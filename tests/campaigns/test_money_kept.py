"""Money that was changed or paid stands as it was: after snapshots, at the very limit, and in every column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

import freepull as fp
from freepull.money import Money
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
