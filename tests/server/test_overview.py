"""The overview of campaigns: which arm, how sure, what was spent, and what is stuck; in a browser, and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from freepull.server import hosting
from support.browsing import OBSERVE, TWELVE, log_in, play, shoot
from support.running import Service

CERTIFIED = {"observe": {"part": "Steps", "n": 0}, "rule": {"part": "Certified", "delta": 0.05}}
BANNING = CERTIFIED | {"protocol": {"part": "TakeOrBan"}}


@pytest.fixture(autouse=True)
def _seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "SHARED", 0.0)


def rows(service: Service, token: str | None = None) -> dict[str, Any]:
    return {it["name"]: it for it in service.send("GET", "/overview", token=token).json()}


def staged(service: Service) -> None:
    """Stage a campaign that runs, one that is stuck, one that is decided, and one that has not started."""
    running = service.create(name="newsletter", horizon=200, agents=TWELVE, principal=None, scale="0..5")
    play(service, running, 20, gap=0.05)
    stuck = service.create(name="onboarding slots", agents=TWELVE, principal=BANNING)
    service.send("PATCH", f"{stuck}/budget", {"budget": "2 EUR"})
    play(service, stuck, 2)
    service.send("POST", f"{stuck}/pause")
    decided = service.create(name="checkout", agents=TWELVE, principal=CERTIFIED)
    while not service.send("GET", decided).json()["decided"]:
        play(service, decided, 10, gap=0.45)
    service.create(name="winter sale", start=False)


def test_every_campaign_is_there_in_short_and_stuck_ones_come_first(service: Service) -> None:
    staged(service)
    found = service.send("GET", "/overview", token=service.reader).json()
    assert [it["name"] for it in found] == ["onboarding slots", "newsletter", "winter sale", "checkout"]
    short = rows(service)
    status = service.send("GET", "/campaigns/newsletter").json()
    running = short["newsletter"]
    assert (running["leader"], running["spent"], running["stuck"]) == (status["leader"], status["spent"], [])
    assert (running["agreed"], running["unsettled"], running["scale"]) == (0.05, status["paid"], "0..5")
    rivals = [it["bound"] for it in status["arms"] if it["active"] and it["name"] != status["leader"]]
    evidence = max(min(rivals), status["within"] or 0)
    assert running["risk"] == pytest.approx(min(1.0, 0.05 * status["threshold"] / evidence))
    ahead = [it for it in status["differences"] if it["arm"] == status["leader"]]
    assert running["ahead"]["low"] == min(it["low"] for it in ahead)
    reasons = {it["why"]: it for it in short["onboarding slots"]["stuck"]}
    assert {"paused", "budget"} <= reasons.keys()
    assert (reasons["paused"]["helps"], reasons["budget"]["helps"]) == ("resume", "budget")
    assert reasons["budget"]["words"] == "The budget of 2.00 EUR is used up: raise it, or nobody is paid."
    done, new = short["checkout"], short["winter sale"]
    assert (done["decided"], done["certified"], done["leader"], done["stuck"]) == (True, True, "A", [])
    assert (new["status"], new["phase"], new["risk"], new["stuck"]) == ("enrolling", None, None, [])
    only = service.send("POST", "/tokens", {"scope": "read", "campaign": "checkout"}).json()["token"]
    assert [*rows(service, only)] == ["checkout"]


@pytest.mark.parametrize("budget", [70, 60])
def test_a_rest_of_the_budget_that_pays_for_no_bonus_is_told(service: Service, budget: int) -> None:
    principal = CERTIFIED | {"pricing": {"part": "Quota", "pulls": 0, "amount": 0.3}}
    path = service.create(principal=principal, budget=f"0.{budget} EUR")  # a bonus is 0.15 EUR
    told = []
    for _ in range(12):
        for agent in ("ann", "bob"):
            service.send("POST", f"{path}/agents/{agent}/offer")
            status = service.send("GET", path).json()
            left = budget - status["spent"]["minor"] - status["reserved"]["minor"]
            words = [it["words"] for it in rows(service)["onboarding"]["stuck"] if it["why"] == "budget"]
            told.append((left, words))
        play(service, path, 1)
    last = f"Of the budget of 0.{budget} EUR only 0.10 EUR is left, less than a bonus has been on average: raise it."
    if budget == 60:
        last = "The budget of 0.60 EUR is used up: raise it, or nobody is paid."
    assert {left for left, _ in told if left < 30} == {25, 10} if budget == 70 else {15, 0}
    assert all(words == [last] * (left < 15) for left, words in told)


def test_who_is_awaited_and_banned_is_named_with_what_helps(service: Service) -> None:
    path = service.create(principal=BANNING)
    offer = service.send("POST", f"{path}/agents/ann/offer").json()["offer"]
    other = next(arm for arm in "ABC" if arm != offer["arm"])
    for _ in range(9):  # ann refuses, and the step ends
        service.send("POST", f"{path}/observations:batch", {"observations": [
            {"agent": name, "arm": other if name == "ann" else "A", "reward": 0.5} for name in ("ann", "bob", "cy")
        ]})  # fmt: skip
    (reason, *_) = rows(service)["onboarding"]["stuck"]
    assert (reason["why"], reason["agents"], reason["helps"]) == ("banned", ["ann"], "unban")
    assert reason["words"] == "ann is banned, and must pull unpaid, or be unbanned."
    service.send("POST", f"{path}/agents/ann/unban")
    assert "banned" not in [it["why"] for it in rows(service)["onboarding"]["stuck"]]


@pytest.mark.slow
def test_the_page_begins_with_all_campaigns_and_leads_to_each(page: Page, service: Service) -> None:
    staged(service)
    page.goto(service.at)
    page.get_by_label("Token").fill(service.admin)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("body[data-drawn=all]")
    cards = page.locator(".campaign")
    assert cards.locator("h2").all_inner_texts() == ["onboarding slots", "newsletter", "winter sale", "checkout"]
    assert page.inner_text("#overview-short") == "4 campaigns, 1 decided, 1 stuck"
    assert "is used up: raise it" in cards.nth(0).inner_text()
    assert "risk of error" in cards.nth(1).inner_text()
    assert "the closest, on the scale 0..5." in cards.nth(1).inner_text()
    assert "Certified: such a trial ends" in cards.nth(3).inner_text()
    assert page.locator("#view").is_hidden()
    shoot(page, "overview")
    page.get_by_role("link", name="onboarding slots").click()
    page.wait_for_selector("#stuck:not([hidden])")
    assert page.inner_text("#title") == "onboarding slots"
    assert page.locator("#overview").is_hidden()
    shoot(page, "stuck")
    page.get_by_role("button", name="Raise the budget").click()
    page.get_by_label("The most that may be spent in all").fill("500 EUR")
    page.get_by_role("button", name="Set it").click()
    page.wait_for_function("() => document.querySelector('#budget').textContent.startsWith('of 500.00 EUR')")
    page.locator("#stuck [data-helps=resume]").click()
    page.wait_for_function("() => !document.querySelector('#stuck [data-helps=resume]')")
    page.go_back()
    page.wait_for_selector("body[data-drawn=all]")
    page.get_by_role("link", name="newsletter").click()
    page.wait_for_selector("#better .range")
    told = service.send("GET", "/campaigns/newsletter").json()
    known = [it for it in told["differences"] if it["arm"] == told["leader"]]
    assert page.locator("#better .range").count() == len(known)
    assert f"better than {known[0]['than']}" in page.inner_text("#better")
    assert "risk of error" in page.inner_text("#sure")
    assert page.inner_text("#expected") == "Not known yet."
    shoot(page, "known")
    page.locator("#campaign").select_option("checkout")
    page.wait_for_selector("#known.certified")
    assert page.inner_text("#verdict") == "A"
    assert page.locator("#stuck").is_hidden()
    shoot(page, "decided-campaign")


@pytest.mark.slow
def test_nothing_yet_and_not_yet_are_said(page: Page, service: Service) -> None:
    page.goto(service.at)
    page.get_by_label("Token").fill(service.reader)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#none:not([hidden])")
    for name in ("one", "two"):
        service.create(name=name, start=False, principal={"observe": OBSERVE, "rule": {"part": "Certified"}})
    held = list[Any]()
    page.route("**/v1/overview", lambda route: held.append(route))
    page.reload()
    page.wait_for_selector("#loading:not([hidden])")
    held[0].continue_()
    page.wait_for_selector("#overview:not([hidden])")
    assert page.locator("#loading").is_hidden()
    assert page.inner_text("#overview-short") == "2 campaigns, none is stuck"
    page.unroute("**/v1/overview")
    log_in_again = service.send("POST", "/tokens", {"scope": "read", "campaign": "one"}).json()["token"]
    page.evaluate("sessionStorage.clear()")
    log_in(page, service, log_in_again)  # one campaign: it is shown at once
    assert page.inner_text("#title") == "one"


def test_an_admin_changes_the_budget_and_ends_a_ban_before_it_is_stuck(service: Service, page: Page) -> None:
    path = service.create(principal=BANNING, budget="30 EUR")
    asked = service.send("POST", f"{path}/agents/ann/offer", token=service.gateway).json()["offer"]
    other = "A" if asked["arm"] == "B" else "B"
    pulls = [{"agent": who, "arm": other, "reward": 0.5} for who in ("ann", "bob", "cy")]
    service.send("POST", f"{path}/observations:batch", {"observations": pulls}, service.gateway)
    log_in(page, service, service.admin)
    page.locator("#set-budget").click()
    page.fill("#new-budget", "45 EUR")
    page.locator("#budget-sure").click()
    page.wait_for_function("() => document.querySelector('#budget').textContent.startsWith('of 45.00 EUR')")
    page.get_by_role("button", name="Unban ann").first.click()
    page.wait_for_function("() => document.querySelector('#table-bans').textContent.includes('lifted')")
    assert service.send("GET", path).json()["banned"] == 0
    assert page.locator("#table-bans button").count() == 0
    page.locator("#logout").click()
    page.wait_for_selector("#login:not([hidden])")
    log_in(page, service, service.reader)
    assert page.locator("#set-budget").is_hidden()
