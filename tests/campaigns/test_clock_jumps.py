"""Clocks that jump by hours: money and repetitions stay right, leases fence, and what changes is what is documented."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import freepull as fp
from freepull.campaigns import core
from freepull.campaigns.journal import recovery
from freepull.campaigns.stores.postgres import PostgresStore
from freepull.errors import CampaignBusy, Fenced
from support.staging import HOUR, Clock, create, reopen

HOURS = 5.0
Two = tuple[PostgresStore, PostgresStore]


@pytest.fixture
def two_stores(postgres: str) -> Iterator[Two]:
    """Two processes' connections to one database."""
    with closing(PostgresStore(postgres)) as one, closing(PostgresStore(postgres)) as two:
        yield one, two


def test_a_clock_that_is_set_forward_ends_offers_early_and_changes_no_answer(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="2 hours")
    offer = campaign.ask("ann")
    assert offer is not None
    paid = campaign.tell("ann", offer.arm, 0.5, "one")
    assert paid.outcome == "paid"
    waiting = campaign.ask("bob")
    assert waiting is not None
    clock.pass_hours(HOURS)
    assert campaign.tell("ann", offer.arm, 0.5, "one") == paid
    late = campaign.tell("bob", waiting.arm, 0.5, "two")
    assert (late.outcome, late.paid) == (None, None)  # it had lapsed by then
    status = campaign.status()
    assert (status.spent.minor, status.reserved.minor, status.expired) == (50, 0, 1)
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.tell("ann", offer.arm, 0.5, "one") == paid
    assert len(campaign.ledger()) == 1


def test_a_clock_that_is_set_back_revives_no_offer_and_time_waits_for_it(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="2 hours")
    lapsed = campaign.ask("ann")
    assert lapsed is not None
    clock.pass_hours(HOURS)
    new = campaign.ask("bob")
    assert new is not None
    clock.pass_hours(-HOURS)
    campaign = reopen(campaign, sqlite, clock)
    again = campaign.ask("bob")
    assert again is not None
    assert again.id == new.id
    told = campaign.tell("bob", new.arm, 0.5, "one")
    assert (told.outcome, told.offer) == ("paid", new.id)
    assert campaign.tell("ann", lapsed.arm, 0.5, "two").paid is None
    during = campaign.ask("cy")
    assert during is not None
    clock.pass_hours(HOURS - 0.1)  # time stands still until the clock is where it was
    same = campaign.ask("cy")
    assert same is not None
    assert same.id == during.id
    clock.pass_hours(2.2)
    after = campaign.ask("cy")
    assert after is None or after.id != during.id
    times = [it.at for it in campaign.audit()]
    assert times == sorted(times)
    assert len(campaign.ledger()) == 1


def test_ids_are_forgotten_by_a_jump_of_a_month_and_not_by_one_of_a_day(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    told = campaign.tell("ann", "A", 0.5, "one")
    clock.pass_hours(24)
    campaign.ask("bob")
    assert campaign.tell("ann", "A", 0.5, "one") == told
    clock.pass_hours(-24)
    assert campaign.tell("ann", "A", 0.5, "one") == told
    clock.pass_hours(24 * 40)
    campaign.tell("bob", "A", 0.5)
    assert campaign.tell("ann", "A", 0.5, "one").event != told.event


def jump(store: PostgresStore, hours: float) -> None:
    """Let a lease look as it does when the database's own clock has jumped by so much."""
    with store.transaction() as do:
        do.run("UPDATE campaigns SET lease_until = lease_until - ?", (round(hours * HOUR),))


def test_an_owner_whose_lease_ran_out_by_a_jump_of_the_database_s_clock_is_fenced(two_stores: Two) -> None:
    one, two = two_stores
    lease = one.create("x", "one", {"names": [(0, "ann")]})
    with pytest.raises(CampaignBusy):
        two.claim("x", "two")
    jump(two, HOURS)
    taken = two.claim("x", "two")
    assert lease.holds  # it does not know yet
    with pytest.raises(Fenced):
        one.write(lease, {"names": [(1, "bob")]})
    two.write(taken, {"names": [(1, "cy")]})
    assert list(two.read("x", "names")) == [(0, "ann"), (1, "cy")]


def test_a_jump_back_keeps_nobody_from_taking_over_for_hours(two_stores: Two) -> None:
    one, two = two_stores
    lease = one.create("x", "one", {"names": [(0, "ann")]})
    jump(two, -HOURS)
    assert [it.held for it in two.holders("x")] == [False]
    taken = two.claim("x", "two")  # no lease lasts that long, so it is worth nothing
    with pytest.raises(Fenced):
        one.renew(lease)
    two.renew(taken)
    assert [it.held for it in one.holders("x")] == [True]


def test_an_owner_who_lives_mends_its_lease_after_a_jump_back(two_stores: Two) -> None:
    one, two = two_stores
    lease = one.create("x", "one", {})
    jump(two, -HOURS)
    one.renew(lease)
    with pytest.raises(CampaignBusy):
        two.claim("x", "two")


def test_what_another_writes_while_a_process_reads_is_no_damage(
    two_stores: Two, postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(postgres, clock).close()
    plain, two = recovery.recover, two_stores[1]

    def slowly(*args: Any, **more: Any) -> Any:
        found = plain(*args, **more)
        jump(two, HOURS)  # it was stopped here for longer than its lease
        lease = two.claim("onboarding", "another")
        two.write(lease, {"ledger": [(1, 1, 0, 0, 50, "EUR", 0)]})
        return found

    monkeypatch.setattr(core, "recover", slowly)
    with pytest.raises(Fenced):
        fp.Campaign.open(PostgresStore(postgres), "onboarding", clock=clock)
