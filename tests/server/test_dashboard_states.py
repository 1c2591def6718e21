"""What the dashboard does when the connection, a request or another process lets it down."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from playwright.sync_api import Page

from freepull.server import hosting
from load.traffic import Process
from support.browsing import TWELVE, log_in, play, shoot
from support.running import Service

pytestmark = pytest.mark.slow

SAID = """() => { const it = document.querySelector('#live'); window.said = [];
    new MutationObserver(() => window.said.push(it.dataset.state)).observe(it, {attributes: true}); }"""
MOMENTS = 4
STATE = "() => document.querySelector('#live').dataset.state === '{}'"


def test_a_quiet_trial_is_live_and_a_silent_connection_is_made_anew(
    page: Page, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "SILENT", 1.0)
    service.create()
    page.clock.install()
    log_in(page, service, service.reader)
    page.evaluate(SAID)
    for _ in range(3):  # a minute in which nothing happens
        page.wait_for_timeout(1600)
        page.clock.fast_forward(20_000)
    assert page.evaluate("window.said") == []
    assert page.inner_text("#live") == "live"
    monkeypatch.setattr(hosting, "SILENT", 1000.0)
    page.wait_for_timeout(1600)
    page.clock.fast_forward(30_000)
    page.wait_for_function("() => window.said.includes('stale')")
    page.wait_for_function(STATE.format("on"))
    play(service, "/campaigns/onboarding", 1)
    page.clock.run_for(3000)
    page.wait_for_function("() => document.querySelector('#observations').textContent.startsWith('3 observations')")


def test_a_service_that_is_down_is_told_in_a_sentence_and_buttons_wait(page: Page, service: Service) -> None:
    service.create()
    log_in(page, service, service.admin)
    page.route("**/pause", lambda route: route.abort())
    page.locator("#pause").click()
    page.wait_for_selector("#message:not([hidden])")
    assert page.inner_text("#message") == "The service cannot be reached. See whether it runs, then try again."
    service.__exit__(None, None, None)
    page.wait_for_function(STATE.format("off"), timeout=20_000)
    assert page.locator("#pause").is_disabled()
    assert page.locator("#stop").is_disabled()
    service.__enter__()
    page.wait_for_function(STATE.format("on"), timeout=20_000)
    assert page.locator("#pause").is_enabled()
    assert page.locator("#message").is_hidden()


def test_another_process_is_named_with_a_link_and_gets_no_token(page: Page, postgres: str) -> None:
    service = Service(postgres)  # whose tokens are there before the owner is
    owner = Process(postgres)
    try:
        with service:
            body = {"name": "a b", "arms": 2, "agents": ["ann"], "price": "1 EUR", "horizon": 9}
            owner.ask(service.admin, "POST", "/campaigns", body)
            page.goto(service.at)
            page.get_by_label("Token").fill(service.reader)
            page.get_by_role("button", name="Log in").click()
            link = page.locator("#message a")
            link.wait_for()
            assert page.inner_text("#live") == "at another process"
            assert link.get_attribute("href") == f"{owner.address}/#a%20b"
            shoot(page, "elsewhere")
            link.click()
            page.wait_for_url(f"{owner.address}/#a%20b")
            assert page.get_by_label("Token").is_visible()
            assert page.evaluate("sessionStorage.length") == 0
            page.get_by_label("Token").fill(service.reader)
            page.get_by_role("button", name="Log in").click()
            page.wait_for_function("() => document.querySelector('#title').textContent === 'a b'")
            page.goto("about:blank")
    finally:
        owner.kill()


def test_all_parts_tell_of_the_same_moment_while_much_happens(page: Page, service: Service) -> None:
    path = service.create(agents=TWELVE)
    play(service, path, 1)
    log_in(page, service, service.reader)
    numbers = """() => {
        const plain = (it) => Number(String(it).replaceAll(',', ''));
        const rows = [...document.querySelectorAll('#table-arms tbody tr')];
        return [document.querySelector('#observations').textContent.split(' ')[0],
            document.querySelector('#chart-spend-text').textContent.match(/in ([0-9,]+) obs/)[1],
            rows.reduce((sum, it) => sum + plain(it.cells[4].textContent), 0),
            Math.max(...document.querySelector('#chart-evidence').data[0].x)].map(plain);
    }"""
    seen: set[int] = set()
    enough = Event()

    def go_on() -> None:
        while not enough.is_set():
            play(service, path, 3)

    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(go_on)
        try:
            last = time.monotonic() + 60
            while len(seen) < MOMENTS and time.monotonic() < last:
                found = page.evaluate(numbers)
                assert len(set(found)) == 1, found
                seen.add(found[0])
                page.wait_for_timeout(50)
        finally:
            enough.set()
        playing.result()
    assert len(seen) == MOMENTS
    status = service.send("GET", path).json()
    page.wait_for_function(f"() => ({numbers})()[0] === {status['observations']}")
    page.wait_for_timeout(1500)
    rows = page.locator("#table-ledger tbody tr").count()
    assert rows == min(200, status["paid"])
