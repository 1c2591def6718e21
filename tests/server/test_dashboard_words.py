"""What the dashboard says to a team that has not read the documentation, and that all of it can be seen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from support.browsing import LOOKS, OBSERVE, TWELVE, log_in, play, shoot
from support.running import Service

pytestmark = pytest.mark.slow

CERTIFIED = {"part": "Certified", "delta": 0.05}
LONG = "L" * 200


def test_it_says_whom_it_waits_for_and_why_and_that_the_money_is_gone(page: Page, service: Service) -> None:
    """Ann refuses, bob leaves, and the others are paid until the budget is used up."""
    principal = {"observe": {"part": "Steps", "n": 1}, "rule": CERTIFIED}
    path = service.create(horizon=100, agents=["ann", "bob", "cy", "dan"], principal=principal)
    service.send("PATCH", f"{path}/budget", {"budget": "1.20 EUR"})
    service.send("POST", f"{path}/agents/bob/leave")
    tokens = service.tokens(path, "ann", "cy", "dan")
    for step in range(6):
        for agent, token in tokens.items():
            offer = service.send("POST", f"{path}/me/offer", token=token).json()["offer"]
            arm = "A" if agent == "ann" else offer["arm"] if offer else "ABC"[step % 3]
            service.send("POST", f"{path}/me/observations", {"arm": arm, "reward": 0.5}, token)
    told = service.send("GET", path).json()
    assert (sorted(told["awaited"]), told["spent"]["minor"]) == (["ann", "bob"], 100)
    log_in(page, service, service.reader)
    words = page.inner_text("#awaited")
    assert "ann (banned: must pull unpaid, or be unbanned)" in words
    assert "bob (has left: must pull again)" in words
    used_up = page.get_by_text("The budget of 1.20 EUR is used up: raise it, or nobody is paid.")
    assert used_up.is_visible()
    shoot(page, "waiting")
    service.send("PATCH", f"{path}/budget", {"budget": "9 EUR"})
    used_up.wait_for(state="hidden")


def test_its_words_are_explained_and_nothing_is_forecast_while_it_observes(page: Page, service: Service) -> None:
    observe = {"part": "Steps", "n": 5}
    path = service.create(horizon=100, agents=TWELVE, principal={"observe": observe, "rule": CERTIFIED})
    play(service, path, 3)
    log_in(page, service, service.reader)
    assert page.inner_text("#phase-means") == "nobody is paid yet"
    assert "free mode (everybody at their own pace)" in page.inner_text("#observations")
    assert page.inner_text("#missing").startswith("2 more arms must go, each at evidence 20 = 1/δ.")
    assert "out at 20 = 1/δ" in page.inner_text("#chart-stops-note")
    assert "Evidence (out at 20)" in page.inner_text("#table-arms thead")
    assert "no forecast while it only observes" in page.inner_text("#chart-spend-note")
    assert page.evaluate("document.querySelector('#chart-spend').data.length") == 1
    page.get_by_text("What the words mean").click()
    assert "1/δ, so 20 for δ = 5 %" in page.inner_text(".head")
    shoot(page, "early")
    play(service, path, 10)
    page.wait_for_function("() => document.querySelector('#chart-spend').data.length === 2")
    assert page.inner_text("#phase-means") == "missing pulls are paid for"
    assert "no forecast" not in page.inner_text("#chart-spend-note")


@pytest.mark.parametrize("rule", ["Paper", "Passive"])
def test_a_rule_that_certifies_nothing_here_promises_nothing(page: Page, service: Service, rule: str) -> None:
    parts = {"part": rule} | ({"delta": 0.1, "bound": "equation"} if rule == "Paper" else {})
    path = service.create(horizon=60, agents=TWELVE, principal={"observe": OBSERVE, "rule": parts})
    play(service, path, 4)
    log_in(page, service, service.reader)
    why, missing = page.inner_text("#verdict-why"), page.inner_text("#missing")
    assert "not certified" in why
    assert "probability" not in why
    if rule == "Passive":
        assert missing == "This rule only watches: no arm goes, and nothing is ever decided."
    else:
        assert missing == "2 more arms must go."
        assert "Bound (±)" in page.inner_text("#table-arms thead")


def test_a_decided_trial_can_be_stopped_and_says_so(page: Page, service: Service) -> None:
    path = service.create(horizon=500, agents=TWELVE, principal={"observe": OBSERVE, "rule": CERTIFIED})
    for _ in range(6):
        play(service, path, 10, gap=0.4)
        if service.send("GET", path).json()["decided"]:
            break
    log_in(page, service, service.admin)
    assert page.inner_text("#missing") == "Nothing: it is decided, and you can stop it."
    page.locator("#stop").click()
    page.locator("#stop-sure").click()
    page.wait_for_function("() => document.querySelector('#missing').textContent === 'Nothing: it is decided.'")


def test_long_names_many_rows_and_narrow_screens_hide_nothing(page: Page, service: Service) -> None:
    agents = [LONG, *(f"user-{i}" for i in range(1, 30))]
    principal = {"observe": {"part": "Steps", "n": 2}, "rule": CERTIFIED}
    path = service.create(horizon=100, agents=agents, principal=principal)
    play(service, path, 8)
    tokens = service.tokens(path, *agents[:4])
    for token in tokens.values():
        service.send("POST", f"{path}/me/offer", token=token)
    log_in(page, service, service.reader)
    labels = page.locator("#chart-heat .ytick text").all_text_contents()
    assert [label for label in reversed(labels) if label.startswith("user-")] == agents[1:]
    wide = "it => it.scrollWidth <= it.clientWidth + 1"
    assert LONG[:60] in page.inner_text("#table-ledger")
    for name in ("ledger", "offers", "bans", "arms"):
        assert page.eval_on_selector(f"#table-{name}", wide), name
    page.evaluate("document.querySelector('#table-bans').replaceChildren()")  # as long as nobody is banned
    offers, bans = page.locator(".table.offers").bounding_box(), page.locator(".table.bans").bounding_box()
    assert offers is not None
    assert bans is not None
    assert bans["y"] - offers["y"] - offers["height"] < 20
    shoot(page, "long", LOOKS[:1])
    page.set_viewport_size({"width": 375, "height": 800})
    page.wait_for_timeout(300)
    cut = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent)"
    assert page.eval_on_selector_all(".note", cut) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
