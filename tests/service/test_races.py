"""Many at once: one offer is paid at most once, a budget is never exceeded, a deadline is one instant for all."""

from __future__ import annotations

import asyncio

from races import at_the_deadline, last_bonus, one_offer
from running import Service


def test_fifty_pulls_on_one_offer_are_paid_once(both: Service) -> None:
    assert asyncio.run(one_offer(both.port, both.admin, "race", 50)) == (1, 1)


def test_a_hundred_asks_for_the_last_bonus_reserve_one(both: Service) -> None:
    assert asyncio.run(last_bonus(both.port, both.admin, "race", 100)) == (1, 100, 100)


def test_who_acts_at_the_deadline_is_paid_or_too_late(both: Service) -> None:
    found = asyncio.run(at_the_deadline(both.port, both.admin, "race", 60))
    assert found.wrong == 0, str(found)
    assert found.paid + found.expired == 60
