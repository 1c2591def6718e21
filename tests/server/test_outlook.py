"""When a verdict is expected, and for how much: found beside the service, kept, and shown."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from freepull.planning.onward import Onward, Seen
from freepull.principal import for_people
from freepull.server import hosting, outlooks
from support.browsing import TWELVE, log_in, play
from support.running import Service

STEPS = Onward(np.array([3.0, 5.0, 8.0, np.inf]), np.array([0.0, 2.0, 4.0, 10.0]))


@pytest.fixture(autouse=True)
def _seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "SHARED", 0.0)


def look(service: Service) -> None:
    """Let the service forecast what is due."""
    found = service.server.application.hosting
    asyncio.run_coroutine_threadsafe(found.outlooks.look(found.here().values()), service.loop).result(60)


def short(service: Service) -> Any:
    return service.send("GET", "/overview").json()[0]


def test_a_forecast_is_in_money_and_dates_and_is_not_made_again_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    asked: list[Seen] = []

    def beside(seen: Seen, stopped: threading.Event) -> Onward:
        assert threading.current_thread() is not service.thread  # never where requests are answered
        asked.append(seen)
        return STEPS

    monkeypatch.setattr(outlooks, "beside", beside)
    path = service.create(horizon=200, agents=TWELVE, principal=None, scale="0..5", budget="30 EUR")
    play(service, path, 5)
    look(service)
    assert (asked, short(service)["outlook"]) == ([], None)  # too few pulls
    service.server.application.hosting.outlooks._made.clear()
    play(service, path, 13)
    now = time.time()
    look(service)
    (seen,) = asked
    assert 0 < seen.squares.sum() < 12 * 18 / 25 + 1  # told in [0, 1] of 5
    told = short(service)["outlook"]
    assert (told["chance"], told["runs"]) == (0.75, 4)
    spent = service.send("GET", path).json()["spent"]["minor"]
    assert [it["minor"] - spent for it in told["spend"]] == [0, 100, 500]
    dates = [datetime.fromisoformat(it).timestamp() - now for it in told["when"]]
    assert dates[0] * 8 == pytest.approx(dates[2] * 3, rel=0.2, abs=2.0)
    assert dates == sorted(dates)
    play(service, path, 1)
    look(service)
    assert len(asked) == 1  # not more often than every ten minutes
    log_in(page, service, service.reader)
    assert page.inner_text("#expected").startswith("about 20")
    assert page.inner_text("#expected").endswith(f"for {(spent + 100) / 100:.2f} EUR in all")
    assert page.inner_text("#expected-chance").startswith("In 75 % of 4 simulated courses there is a verdict in time")
    assert "On the scale 0..5:" in page.inner_text("#better")
    assert "Mean per agent (0..5)" in page.inner_text("#table-arms")
    service.send("POST", f"{path}/stop", {"why": "enough"})
    page.wait_for_selector("#outlook", state="hidden")
    assert short(service)["outlook"] is None


def test_another_process_is_asked_and_let_go() -> None:
    trial = for_people(30).start(arms=2, agents=3, horizon=30)
    nothing = Seen(trial.principal, trial.state(), np.zeros((3, 2)), True, 0, 0)
    assert outlooks.beside(nothing, threading.Event()) is None  # it answers that nothing is known yet
    stopped = threading.Event()
    stopped.set()
    began = time.monotonic()
    assert outlooks.beside(nothing, stopped) is None
    assert time.monotonic() - began < 10
