"""A writer without its lease answers nothing, and a commit that fails is never tried again."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import core
from freepull.campaigns.journal import recovery
from freepull.campaigns.journal.events import ManyRows
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import Lease
from freepull.campaigns.stores.postgres import PostgresStore
from support.staging import Clock, create

SECONDS = 0.5


def test_a_writer_who_slept_between_commit_and_answer_is_silent(postgres: str, clock: Clock) -> None:
    campaign = create(PostgresStore(postgres, lease_seconds=SECONDS), clock)

    def asleep() -> None:
        time.sleep(1.5 * SECONDS)
        with closing(PostgresStore(postgres)) as store:
            store.release(store.claim("onboarding", "somebody else"))

    campaign.core.writer.after_group = asleep
    with pytest.raises(errors.Fenced, match="was taken over by another process; this one answers nothing"):
        campaign.tell("ann", "A", 0.5, event="e")
    assert verify(postgres, "onboarding").observations == 1, "it is in doubt, and there"


def test_an_open_offer_is_not_shown_again_by_a_writer_who_was_replaced(postgres: str, clock: Clock) -> None:
    campaign = create(PostgresStore(postgres, lease_seconds=60.0), clock)
    assert campaign.ask("ann") is not None
    with closing(PostgresStore(postgres)) as store:
        store.query("UPDATE campaigns SET epoch = epoch + 1")
    campaign.core.writer.lease.until = 0.0  # it has slept for a minute
    with pytest.raises(errors.Fenced):
        campaign.ask("ann")
    with pytest.raises(errors.Fenced):
        campaign.status()


def test_a_commit_that_fails_is_not_tried_again_and_ends_the_writer(sqlite: str, clock: Clock) -> None:
    campaign, tries = create(sqlite, clock), []

    def fail(lease: Lease, rows: ManyRows) -> None:
        tries.append(rows)
        raise errors.StoreError("the disk is on fire.")

    campaign.core.store.write = fail  # type: ignore[method-assign]
    for act in (lambda: campaign.tell("ann", "A", 0.5), campaign.status, lambda: campaign.ask("ann"), campaign.start):
        with pytest.raises(errors.WriterEnded, match=r"it could not go on .*the disk is on fire.*; open it again"):
            act()
    assert len(tries) == 1
    assert verify(sqlite, "onboarding").observations == 0


def test_a_lease_is_renewed_while_a_campaign_is_read_for_longer_than_it_lasts(
    postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(postgres, clock).close()
    store, plain, tries = partial(PostgresStore, postgres, lease_seconds=SECONDS), recovery.recover, []

    def slowly(*args: Any, **more: Any) -> Any:
        found = plain(*args, **more)
        time.sleep(1.5 * SECONDS)
        with closing(PostgresStore(postgres)) as other:
            with pytest.raises(errors.CampaignBusy):
                other.claim("onboarding", "somebody else")
            tries.append(args)
        return found

    monkeypatch.setattr(core, "recover", slowly)
    monkeypatch.setattr(recovery, "recover", slowly)
    with fp.Campaign.open(store, "onboarding", clock=clock) as campaign:
        assert campaign.tell("ann", "A", 0.5).event is not None
    assert verify(store, "onboarding").observations == 1
    assert len(tries) == 2


def test_what_cannot_be_looked_at_again_is_not_taken_for_damage(
    postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(postgres, clock).close()

    def damaged(store: PostgresStore, *_: object) -> None:
        with pytest.raises(errors.StoreError):
            store.query("SELECT pg_terminate_backend(pg_backend_pid())")
        raise errors.Corrupt("the ledger is of another time.")

    monkeypatch.setattr(core, "check_tables", damaged)
    with pytest.raises(errors.StoreError) as found:
        fp.Campaign.open(postgres, "onboarding", clock=clock)
    assert not isinstance(found.value, errors.Corrupt)
