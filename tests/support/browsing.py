"""A real browser: how tests log in, let a campaign go on, and keep pictures."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from .running import Service

PICTURES = Path(__file__).parents[2] / "out" / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EXPECTED = "Failed to load resource"
"""A server that is down, or a wrong token."""
LOOKS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TWELVE = [f"user-{i}" for i in range(12)]
OBSERVE = {"part": "Steps", "n": 3}


@contextmanager
def launched() -> Iterator[Browser]:
    """Start a browser."""
    assert CHROMIUM is not None, "the dashboard's tests need the system's Chromium: make test installs it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    """Open a page that must not have anything to complain of."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and EXPECTED not in message.text:
            said.append(message.text)

    found.on("console", note)
    found.on("pageerror", lambda error: said.append(str(error)))
    yield found
    context.close()
    complaints = [line for line in said if "ERR_" not in line]
    assert not complaints, complaints


def play(service: Service, path: str, steps: int = 30, gap: float = 0.2) -> None:
    """Let everybody act for some steps: most take offers, one in seven pulls as it likes."""
    arms = [arm["name"] for arm in service.send("GET", f"{path}/arms").json()]
    agents = [row["name"] for row in service.send("GET", f"{path}/agents").json()]
    tokens = service.tokens(path, *agents)
    chance = random.Random(steps)
    for step in range(steps):
        pulls = []
        for i, agent in enumerate(agents):
            offer = service.send("POST", f"{path}/me/offer", token=tokens[agent]).json()["offer"]
            arm = offer["arm"] if offer and (step + i) % 7 else arms[(step + i) % len(arms)]
            pulls.append({"agent": agent, "arm": arm, "reward": float(chance.random() < 0.9 - gap * arms.index(arm))})
        service.send("POST", f"{path}/observations:batch", {"observations": pulls}, service.gateway)


def log_in(page: Page, service: Service, token: str, campaign: str = "") -> None:
    """Log in, and wait for a campaign: the only one, or one of several."""
    page.goto(f"{service.at}/#{campaign}" if campaign else service.at)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#view:not([hidden])")
    page.wait_for_selector("body[data-drawn]")


def shoot(page: Page, name: str, looks: Sequence[Literal["light", "dark"]] = LOOKS) -> None:
    """Keep pictures of a page: light, dark and narrow."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for look in looks:
        page.emulate_media(color_scheme=look)
        page.wait_for_timeout(200)
        page.screenshot(path=PICTURES / f"{name}-{look}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    page.wait_for_timeout(400)
    page.screenshot(path=PICTURES / f"{name}-narrow.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 900})


def money(amount: dict[str, Any]) -> str:
    return f"{amount['minor'] / 100:.2f} {amount['currency']}"
