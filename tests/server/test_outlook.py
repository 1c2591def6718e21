"""When a verdict is expected, and for how much: found beside the service, kept, and shown."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Page

from freepull.campaigns import view
from freepull.messages import Outlook
from freepull.money import Money
from freepull.planning.forecast import Onward, Seen
from freepull.principal import for_people
from freepull.server import hosting, outlooks
from support.browsing import TWELVE, log_in, play
from support.running import Service

STEPS = Onward(np.array([3e3, 5e3, 8e3, np.inf]), np.array([0.0, 2.0, 4.0, 10.0]))


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


def forecast(service: Service, **changed: Any) -> Any:
    """Leave a forecast with the campaign, as the process beside the service would."""
    (found,) = service.server.application.hosting.here().values()
    now = datetime.now(UTC)
    said = Outlook(
        now, 0.8, [now + timedelta(days=it) for it in (1, 3, 9)], [Money(it, "EUR") for it in (100, 200, 900)], 400
    )
    found.view.outlook = msgspec.structs.replace(said, **changed)
    return found


def test_a_forecast_that_is_ready_and_a_long_silence_reach_an_open_page_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    path = service.create(horizon=200, agents=TWELVE, principal=None)
    play(service, path, 2)
    log_in(page, service, service.reader)
    events = page.get_attribute("body", "data-drawn")
    assert page.inner_text("#expected") == "Not known yet."
    forecast(service)
    page.wait_for_function("() => document.querySelector('#expected').textContent.includes('for 2.00 EUR in all')")
    assert "28 of 35" in page.inner_text("#expected-range")
    assert page.locator("#stuck").is_hidden()
    day = 86_400_000_000
    monkeypatch.setattr(view, "system_clock", lambda: 3 * day + time.time_ns() // 1000)
    page.wait_for_selector("#stuck:not([hidden])")
    assert page.inner_text("#stuck").startswith("Nobody has done anything since ")
    assert page.get_attribute("body", "data-drawn") == events  # nothing has happened meanwhile


def test_where_a_verdict_is_unlikely_or_overdue_no_date_is_named_as_expected(service: Service, page: Page) -> None:
    service.create(name="newsletter", horizon=200, agents=TWELVE, principal=None, budget="30 EUR")
    forecast(service, chance=0.12)
    log_in(page, service, service.reader)
    page.wait_for_function("() => document.querySelector('#expected').textContent.includes('unlikely')")
    assert page.inner_text("#expected") == "A verdict in time and within the budget is unlikely: 12 %."
    forecast(service, chance=0.4)
    page.wait_for_function(
        "() => document.querySelector('#expected').textContent.endsWith('less likely than not: 40 %.')"
    )
    now = datetime.now(UTC)
    forecast(service, when=[now - timedelta(days=it) for it in (9, 5, 3)])
    page.wait_for_function("() => document.querySelector('#expected').textContent.startsWith('It takes longer')")
    forecast(service, when=[], chance=0.0)
    page.wait_for_function("() => document.querySelector('#expected').textContent === 'No verdict is in sight.'")


def test_no_forecast_spends_less_than_was_spent(service: Service) -> None:
    path = service.create(agents=TWELVE)
    play(service, path, 3)
    spent = service.send("GET", path).json()["spent"]["minor"]
    assert spent > 100
    forecast(service, spend=[Money(it, "EUR") for it in (0, 100, spent + 50)])
    assert [it["minor"] for it in short(service)["outlook"]["spend"]] == [spent, spent, spent + 50]


def test_what_has_changed_much_is_forecast_sooner() -> None:
    made, now = outlooks.Made(0.0, 1_000, 3_000), datetime.now(UTC)
    said = Outlook(now, 0.8, [now + timedelta(days=1)] * 3, [Money(1, "EUR")] * 3, 400)
    assert not made.outdated(1_100, 3_000, said)
    assert made.outdated(1_200, 3_000, said)
    assert made.outdated(1_001, 5_000, said)
    assert made.outdated(1_001, 3_000, msgspec.structs.replace(said, when=[now - timedelta(days=1)] * 3))
    assert outlooks.Made(0.0, 0, None).outdated(1, None, None)


def test_another_process_is_asked_and_let_go() -> None:
    trial = for_people(30).start(arms=2, agents=3, horizon=30)
    nothing = Seen(trial.principal, trial.state(), np.zeros((3, 2)), True, 0, 0)
    assert outlooks.beside(nothing, threading.Event()) is None  # it answers that nothing is known yet
    stopped = threading.Event()
    stopped.set()
    began = time.monotonic()
    assert outlooks.beside(nothing, stopped) is None
    assert time.monotonic() - began < 10


def test_a_forecast_that_fails_says_so_to_the_service_and_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    broken = Seen(for_people(30), b"no state", np.zeros((3, 2)), True, 0, 0)
    with pytest.raises(RuntimeError, match=r"^\w+: "):
        outlooks.beside(broken, threading.Event())
    assert capfd.readouterr() == ("", "")


ENDLESS = """
import threading, time
from freepull.server import outlooks

class Endless:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        print("begun", flush=True)
        time.sleep(600)

if __name__ == "__main__":
    outlooks.beside(Endless(), threading.Event())
"""


@pytest.mark.slow
def test_a_forecast_ends_with_a_service_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    with subprocess.Popen([sys.executable, tmp_path / "endless.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.kill()
        assert select.select([process.stdout], [], [], 20.0)[0]  # closed by all who had it
        assert process.stdout.read() == ""
