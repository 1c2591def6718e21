"""An owner that gives no answer: when clients ask it again, and what whoever takes over says meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import AsyncCampaign
from freepull.campaigns.stores.postgres import PostgresStore
from freepull.client import reach, transport
from freepull.client.reach import HUNG_SECONDS, TAKEOVER_SECONDS, Addresses
from freepull.client.transport import SOON, Answer, Attempt, Call
from freepull.server import hosting
from freepull.server.problems import problem
from support.running import Service, is_problem

A, B = "http://a", "http://b"
STATUS: Call[Any] = Call("GET", "/v1/campaigns/c", Any)
Set = Callable[[float], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Sets a client's clock."""
    now = 1000.0

    def set_to(seconds: float) -> None:
        nonlocal now
        now = 1000.0 + seconds

    for module in (reach, transport):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    return set_to


def held(left: float | None) -> Answer:
    """What the other process says of the owner, whose lease ends in so many seconds."""
    return Answer(421, msgspec.json.encode({"owner": A} | ({} if left is None else {"lease_left": left})))


class Asking:
    """A client whose owner has been silent since 0."""

    def __init__(self, at: Set) -> None:
        self.where, self._at = Addresses(A, [B]), at
        self.attempt = Attempt(STATUS, self.where, "t", 20)
        at(3.0)
        assert self.attempt.failed(OSError("hung")) == 0.0
        assert self.attempt.url == B

    def told(self, seconds: float, left: float | None, took: float = 0.0) -> str:
        """Ask the other process, and be answered that the owner has the campaign; return whom to ask next."""
        self._at(seconds - took)
        self.attempt.arguments()
        self._at(seconds)
        wait = self.attempt.answered(held(left))
        assert wait in (0.0, SOON)
        return self.attempt.url


def test_an_owner_that_does_not_renew_its_lease_is_not_asked_again(at: Set) -> None:
    asking = Asking(at)
    for step in range(8):
        seconds = 3.0 + step * SOON
        took = 0.2 * (step % 2)
        assert asking.told(seconds, 5.0 - seconds + took, took) == B, seconds
    for seconds in range(5, 15):
        at(seconds)
        wait = asking.attempt.answered(Answer(503, b"{}", after="1"))
        assert wait is not None
        assert wait <= 1.0 or seconds > 6
        assert asking.attempt.url == B, "which is opening the campaign"


def test_an_owner_that_renews_its_lease_is_asked_again_at_once_but_once(at: Set) -> None:
    asking = Asking(at)
    assert asking.told(3.0, 2.0) == B
    assert asking.told(3.25, 1.75) == B
    assert asking.told(3.5, 4.9) == A, "it has renewed its lease since"
    at(6.5)
    asking.attempt.failed(OSError("hung"))
    assert asking.told(6.5, 4.0) == B
    assert asking.told(8.0, 4.9) == B, "it renews its lease and gives no answer"
    assert asking.told(6.5 + HUNG_SECONDS, 4.9) == A


def test_a_slow_answer_is_not_taken_for_a_renewed_lease(at: Set) -> None:
    asking = Asking(at)
    assert asking.told(3.0, 2.0) == B
    assert asking.told(4.5, 1.9, took=1.4) == B, "this was said of 3.1"


def test_where_nothing_is_said_of_the_lease_an_owner_is_asked_again_after_a_while(at: Set) -> None:
    asking = Asking(at)
    assert asking.told(3.0, None) == B
    assert asking.told(2.9 + HUNG_SECONDS, None) == B
    assert asking.told(3.0 + HUNG_SECONDS, None) == A


@pytest.mark.parametrize("odd", ["soon", -1.0, 1e300, [1]])
def test_odd_words_about_a_lease_do_no_harm(odd: Any, at: Set) -> None:
    asking = Asking(at)
    assert asking.told(3.0, odd) == B
    assert asking.told(4.0, odd) == B


def test_new_requests_go_to_whoever_answered_last(at: Set) -> None:
    asking = Asking(at)
    assert asking.told(3.0, 2.0) == B
    at(5.5)
    assert asking.attempt.answered(Answer(200, b"null")) is None
    for seconds in (6.0, 3.0 + HUNG_SECONDS, 3.0 + TAKEOVER_SECONDS, 1e5):
        at(seconds)
        assert Attempt(STATUS, asking.where, "t", 20).url == B


def test_while_nobody_has_answered_new_requests_do_not_go_to_who_is_silent(at: Set) -> None:
    asking = Asking(at)
    for seconds in (4.0, 3.0 + HUNG_SECONDS, 2.9 + TAKEOVER_SECONDS):
        at(seconds)
        assert Attempt(STATUS, asking.where, "t", 20).url == B
    at(3.0 + TAKEOVER_SECONDS)
    assert Attempt(STATUS, asking.where, "t", 20).url == A


@pytest.mark.slow
def test_it_is_told_how_long_a_lease_lasts(postgres: str) -> None:
    fp.Campaign.create(postgres, name="c", arms=2, agents=2, price="1 EUR").close()
    other = PostgresStore(postgres)
    other.claim("c", f"{A} 1:1")
    with Service(postgres) as service:
        lease = other.claim("c", f"{A} 1:1")
        told = [service.send("GET", "/campaigns/c") for _ in range(2)]
        assert [(it.status_code, it.json()["owner"]) for it in told] == [(421, A)] * 2
        first, second = (it.json()["lease_left"] for it in told)
        assert 0.0 < second < first <= lease.seconds
        limit = time.monotonic() + 30
        while service.send("GET", "/campaigns/c").status_code != 200 and time.monotonic() < limit:
            time.sleep(0.05)
        assert service.send("GET", "/campaigns/c").status_code == 200
    other.close()
    assert problem(errors.CampaignBusy("it is held", A)).lease_left is None


@pytest.mark.slow
def test_a_campaign_that_takes_long_to_open_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "OPENING", 0.2)
    monkeypatch.setattr(hosting, "LOOKING", 3600.0)
    begun, plainly = list[str](), AsyncCampaign.open

    async def slowly(url: Any, name: str) -> AsyncCampaign:
        begun.append(name)
        await asyncio.sleep(1.5)
        return await plainly(url, name)

    with Service(f"sqlite:///{tmp_path}/trial.db") as service:
        path = service.create()
        house = service.server.application.hosting
        asyncio.run_coroutine_threadsafe(house._open.pop("onboarding").campaign.close(), service.loop).result(10)
        monkeypatch.setattr(AsyncCampaign, "open", slowly)
        asked = asyncio.run_coroutine_threadsafe(house.find("onboarding"), service.loop)
        time.sleep(0.1)
        asked.cancel()
        at = time.monotonic()
        told = service.send("GET", path)
        assert 0.1 < time.monotonic() - at < 1.0
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert is_problem(told)
        while (told := service.send("GET", path)).status_code == 503 and time.monotonic() < at + 30:
            time.sleep(0.05)
        assert told.status_code == 200
        assert begun == ["onboarding"], "whoever asks meanwhile waits for the same"


@pytest.mark.slow
def test_a_campaign_whose_maker_gave_up_is_there_all_the_same(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = AsyncCampaign.create

    async def slowly(url: Any, **settings: Any) -> AsyncCampaign:
        made = await plainly(url, **settings)
        await asyncio.sleep(0.5)
        return made

    monkeypatch.setattr(AsyncCampaign, "create", slowly)
    house = service.server.application.hosting
    settings = {"name": "late", "arms": 2, "agents": 2, "price": "1 EUR"}
    asked = asyncio.run_coroutine_threadsafe(house.create(**settings), service.loop)
    time.sleep(0.3)
    asked.cancel()
    assert service.send("GET", "/campaigns/late").status_code == 200, "who asks while it is made waits for it"
    again = service.send("POST", "/campaigns", settings)
    assert (again.status_code, again.json()["type"]) == (409, "/problems/CampaignExists")
