"""Many at once: an offer is paid once, a budget is never exceeded, a deadline is one instant, an end hides nothing."""

from __future__ import annotations

import asyncio

import pytest

from freepull.campaigns import AsyncCampaign, Status
from freepull.errors import Fenced
from load.races import at_the_deadline, last_bonus, one_offer
from support.running import Service

pytestmark = pytest.mark.slow


def test_fifty_pulls_on_one_offer_are_paid_once(both: Service) -> None:
    assert asyncio.run(one_offer(both.port, both.admin, "race", 50)) == (1, 1)


def test_a_hundred_asks_for_the_last_bonus_reserve_one(both: Service) -> None:
    assert asyncio.run(last_bonus(both.port, both.admin, "race", 100)) == (1, 100, 100)


def test_who_acts_at_the_deadline_is_paid_or_too_late(both: Service) -> None:
    found = asyncio.run(at_the_deadline(both.port, both.admin, "race", 60))
    assert found.wrong == 0, str(found)
    assert found.paid + found.expired == 60


def test_a_writer_that_ends_hides_no_other_campaign(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.create(name="ending")
    service.create(name="going on")
    asked = AsyncCampaign.status

    async def status(self: AsyncCampaign) -> Status:
        if self.name == "ending":
            raise Fenced("it was taken over.")
        found: Status = await asked(self)
        return found

    monkeypatch.setattr(AsyncCampaign, "status", status)
    rows = service.send("GET", "/campaigns").json()
    assert [(row["name"], row["here"], row["status"]) for row in rows] == [
        ("ending", False, None),
        ("going on", True, "running"),
    ]
