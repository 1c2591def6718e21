"""The dashboard in a real browser: figures equal the API's, names are text, it reconnects; pictures are kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from running import Service

PICTURES = Path(__file__).parents[2] / "out" / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = ['<img src=x onerror="document.title=1">', "<script>alert(1)</script>", "B &amp; <b>bold</b>"]
EXPECTED = ("Failed to load resource", "style-src-elem")
"""A server that is down, a wrong token, and plotly's style sheet for maps, which we have none of and do not allow."""
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs the system's Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(it in message.text for it in EXPECTED):
            said.append(message.text)

    found.on("console", note)
    found.on("pageerror", lambda error: said.append(str(error)))
    yield found
    context.close()
    assert [line for line in said if "ERR_" not in line] == []


def play(service: Service, path: str, steps: int = 30) -> None:
    """Let everybody pull every arm for some steps, and take offers."""
    arms = [arm["name"] for arm in service.send("GET", f"{path}/arms").json()]
    agents = [row["name"] for row in service.send("GET", f"{path}/agents").json()]
    tokens = service.tokens(path, *agents)
    for step in range(steps):
        pulls = []
        for i, agent in enumerate(agents):
            offer = service.send("POST", f"{path}/me/offer", token=tokens[agent]).json()["offer"]
            arm = offer["arm"] if offer and step % 7 else arms[(step + i) % len(arms)]
            reward = float((step * 7 + i) % 10 < 9 - 4 * arms.index(arm))
            pulls.append({"agent": agent, "arm": arm, "reward": reward})
        service.send("POST", f"{path}/observations:batch", {"observations": pulls})


def log_in(page: Page, service: Service, token: str) -> None:
    page.goto(service.at)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#view:not([hidden])")
    page.wait_for_selector("body[data-drawn]")


def shoot(page: Page, name: str) -> None:
    """Keep pictures of a page: light, dark and narrow."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for look in ("light", "dark"):
        page.emulate_media(color_scheme=look)
        page.wait_for_timeout(300)
        page.screenshot(path=PICTURES / f"{name}-{look}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=PICTURES / f"{name}-narrow.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 900})


def money(amount: dict[str, Any]) -> str:
    return f"{amount['minor'] / 100:.2f} {amount['currency']}"


def test_figures_on_the_page_are_the_api_s_while_a_trial_runs(page: Page, service: Service) -> None:
    path = service.create(horizon=500)
    service.send("PATCH", f"{path}/budget", {"budget": "40 EUR"})
    play(service, path, 10)
    log_in(page, service, service.reader)
    play(service, path, 20)
    told = service.send("GET", path).json()
    page.wait_for_function(f"() => document.body.dataset.drawn >= {told['events']}", timeout=20_000)
    assert page.inner_text("#title") == "onboarding"
    assert page.inner_text("#status") == told["status"]
    assert page.inner_text("#phase") == told["phase"]
    assert page.inner_text("#spent") == money(told["spent"])
    assert page.inner_text("#budget") == f"of 40.00 EUR, {money(told['reserved'])} reserved"
    assert page.inner_text("#progress") == f"step {told['step']} of 500"
    assert page.inner_text("#observations").startswith(f"{told['observations']} observations of 3 agents")
    rows = page.locator("#table-arms tbody tr")
    for k, arm in enumerate(told["arms"]):
        cells = rows.nth(k).locator("td").all_inner_texts()
        assert cells[0] == arm["name"]
        assert float(cells[2]) == pytest.approx(arm["mean"], rel=1e-3)
        assert [int(cell) for cell in cells[4:]] == [arm["pulls"], arm["paid"]]
    ledger = service.send("GET", f"{path}/ledger").json()
    assert page.locator("#table-ledger tbody tr").count() == len(ledger) == told["paid"]
    words = page.text_content("#chart-pulls-text") or ""
    assert f"A: {told['arms'][0]['pulls'] - told['arms'][0]['paid']} free" in words
    drawn = page.evaluate("document.querySelector('#chart-means').data[0].y")
    assert drawn == [arm["mean"] for arm in told["arms"]]
    for name in ("means", "stops", "evidence", "active", "spend", "pulls", "agents", "offers", "heat"):
        assert page.locator(f"#chart-{name} svg.main-svg").count() > 0, name
        assert (page.text_content(f"#chart-{name}-text") or "").endswith(".")
    assert page.locator("#admin").is_hidden()
    shoot(page, "campaign")


def test_an_admin_pauses_and_stops_with_the_keyboard(page: Page, service: Service) -> None:
    path = service.create()
    page.goto(service.at)
    shoot(page, "login")
    page.keyboard.press("Tab")
    page.get_by_label("Token").focus()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#login-error').textContent.includes('wrong, expired or revoked')"
    )
    log_in(page, service, service.admin)
    shoot(page, "empty")
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#status').textContent === 'paused'")
    assert service.send("GET", path).json()["status"] == "paused"
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").fill("enough <b>now</b>")
    page.locator("#stop-sure").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('stopped')")
    assert service.send("GET", path).json()["why"] == "enough <b>now</b>"
    assert page.inner_text("#status") == "stopped: enough <b>now</b>"


def test_hostile_names_are_shown_as_text(page: Page, service: Service) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    path = service.create(name="<i>c", arms=HOSTILE, agents=[f"{name} {i}" for i, name in enumerate(HOSTILE)])
    play(service, path.replace("<i>c", "%3Ci%3Ec"), 8)
    log_in(page, service, service.reader)
    assert page.inner_text("#title") == "<i>c"
    assert page.locator("#table-arms tbody tr td:first-child").all_inner_texts() == HOSTILE
    assert page.locator("main img, main script, main b").count() == 0
    assert page.evaluate("document.title") == "<i>c · freepull"
    assert all(url.startswith((service.at, "data:", "blob:")) for url in asked)


def test_it_reconnects_after_a_restart(page: Page, service: Service) -> None:
    path = service.create()
    log_in(page, service, service.reader)
    service.restart()
    page.wait_for_function("() => document.querySelector('#live').dataset.state === 'on'", timeout=20_000)
    play(service, path, 2)
    told = service.send("GET", path).json()
    expected = f"{told['observations']} observations of 3 agents"
    page.wait_for_function(
        f"() => document.querySelector('#observations').textContent.startsWith('{expected}')", timeout=20_000
    )
