"""Without its lease an owner answers nothing: not what it has just committed, nor what it still knows by heart."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from staging import Clock, create

from freepull import errors
from freepull.live.stores.postgres import PostgresStore
from freepull.live.verification import verify

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
