"""The dashboard in a real browser: figures equal the API's, names are text, it reconnects; pictures are kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from freepull.money import DIGITS, Money
from support.browsing import LOOKS, OBSERVE, TWELVE, log_in, money, play, shoot
from support.running import Service

pytestmark = pytest.mark.slow

HOSTILE = ['<img src=x onerror="document.title=1">', "<script>alert(1)</script>", "B &amp; <b>bold</b>"]
CHARTS = ("means", "stops", "evidence", "active", "spend", "pulls", "agents", "offers", "heat")


def test_figures_on_the_page_are_the_api_s_while_a_trial_runs(page: Page, service: Service) -> None:
    rule = {"part": "Certified", "delta": 0.05}
    path = service.create(horizon=500, agents=TWELVE, principal={"observe": OBSERVE, "rule": rule})
    service.send("PATCH", f"{path}/budget", {"budget": "400 EUR"})
    play(service, path, 6)
    log_in(page, service, service.reader)
    play(service, path, 10)
    token = service.tokens(path, "user-0")["user-0"]
    service.send("POST", f"{path}/me/offer", token=token)
    told = service.send("GET", path).json()
    page.wait_for_function(f"() => document.body.dataset.drawn >= {told['events']}", timeout=20_000)
    assert page.inner_text("#title") == "onboarding"
    assert page.inner_text("#status") == told["status"]
    assert page.inner_text("#phase") == told["phase"]
    assert page.inner_text("#spent") == money(told["spent"])
    assert page.inner_text("#budget").startswith(
        f"of 400.00 EUR, {money(told['reserved'])} reserved, {told['paid']} bonus"
    )
    assert page.inner_text("#progress") == f"step {told['step']} of 500"
    assert page.inner_text("#observations").startswith(f"{told['observations']} observations of 12 agents, free mode")
    rows = page.locator("#table-arms tbody tr")
    for k, arm in enumerate(told["arms"]):
        cells = rows.nth(k).locator("td").all_inner_texts()
        assert cells[0] == arm["name"]
        assert [float(cell) for cell in cells[2:4]] == pytest.approx([arm["mean"], arm["bound"]], rel=1e-3)
        assert [int(cell) for cell in cells[4:]] == [arm["pulls"], arm["pulls"] - arm["paid"], arm["paid"]]
    ledger = service.send("GET", f"{path}/ledger").json()
    assert page.locator("#table-ledger tbody tr").count() == len(ledger) == told["paid"]
    assert page.locator("#table-offers tbody tr").count() == told["open_offers"] == 1
    assert page.locator("#table-bans tbody tr").count() == len(service.send("GET", f"{path}/bans").json())
    lines = page.locator("#table-audit tbody tr").all_inner_texts()
    counts = [int(line.split("\t")[3].split()[0]) for line in lines if "\ttold\t" in line]
    assert sum(counts) == told["observations"]
    assert len(counts) < 16
    words = page.text_content("#chart-pulls-text") or ""
    assert f"A: {told['arms'][0]['pulls'] - told['arms'][0]['paid']} free" in words
    drawn = page.evaluate("document.querySelector('#chart-means').data[0].y")
    assert drawn == [arm["mean"] for arm in told["arms"]]
    for name in CHARTS:
        assert page.locator(f"#chart-{name} svg.main-svg").count() > 0, name
        assert (page.text_content(f"#chart-{name}-text") or "").endswith(".")
    for kind in ("chart", "table"):  # this rule does not say how much better an arm is
        assert page.locator(f"#{kind}-differences-title").is_hidden()
    assert page.locator("#admin").is_hidden()
    shoot(page, "running")
    play(service, path, 30, gap=0.4)
    page.wait_for_selector("#standing[data-standing=certified]", timeout=20_000)
    told = service.send("GET", path).json()
    page.wait_for_function(f"() => document.body.dataset.drawn >= {told['events']}", timeout=20_000)
    assert page.inner_text("#verdict") == told["leader"] == service.send("GET", f"{path}/verdict").json()["arm"]
    assert "ends with a wrong certified verdict is at most 5 %." in page.inner_text("#verdict-why")
    assert "; stands as long as payment, drift and the like move no mean" in page.inner_text("#verdict-why")
    page.get_by_text("What the verdict rests on").click()
    shoot(page, "decided")


def test_how_much_better_arms_are_appears_when_it_is_known_and_fits(page: Page, service: Service) -> None:
    arms = [f"a newsletter with a picture of cat {i}" for i in range(3)]
    path = service.create(horizon=200, arms=arms, agents=TWELVE, principal=None)
    log_in(page, service, service.reader)
    for kind in ("chart", "table"):
        assert page.locator(f"#{kind}-differences-title").is_hidden()
    play(service, path, 30, gap=0.3)
    told = service.send("GET", path).json()
    page.wait_for_function(f"() => document.body.dataset.drawn >= {told['events']}", timeout=20_000)
    known = told["differences"]
    assert len(known) == 2
    rows = page.locator("#table-differences tbody tr")
    for i, it in enumerate(known):
        assert rows.nth(i).locator("td").all_inner_texts()[:2] == [it["arm"], it["than"]]
    drawn = page.evaluate("document.querySelector('#chart-differences').data.map((it) => [it.y[0], ...it.x])")
    assert [it[1:] for it in drawn] == [[it["low"], it["high"]] for it in known]
    assert len({it[0] for it in drawn}) == 2  # long names that begin alike are still two rows
    assert all(it["than"] in (page.text_content("#chart-differences-text") or "") for it in known)
    assert page.eval_on_selector("#table-differences", "it => it.scrollWidth <= it.clientWidth + 1")
    boxes = [it.bounding_box() for it in page.locator("#tables .table").all() if it.is_visible()]
    corners = {(round(it["x"]), round(it["y"])) for it in boxes if it is not None}
    assert len(corners) == len(boxes) >= 5  # none lies upon another
    shoot(page, "differences")
    page.set_viewport_size({"width": 375, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    room = page.evaluate("document.querySelector('#chart-differences')._fullLayout.xaxis._length")
    assert room > 100  # for the bars, beside the names


def test_what_stops_the_trial_follows_the_rule(page: Page, service: Service) -> None:
    parts = {"part": "Paper", "delta": 0.05, "bound": "simplified"}
    path = service.create(horizon=100, agents=TWELVE, principal={"observe": OBSERVE, "rule": parts})
    play(service, path, 12)
    log_in(page, service, service.reader)
    told = service.send("GET", path).json()
    assert (page.text_content("#chart-stops-text") or "").startswith("Mean ± bound: A:")
    drawn = page.evaluate("document.querySelector('#chart-stops').data.map((it) => it.error_y.array[0])")
    assert drawn == [arm["bound"] for arm in told["arms"]]
    assert "its verdict is not certified" in page.inner_text("#verdict-why")
    shoot(page, "paper", LOOKS[:1])


def test_money_is_written_as_the_ledger_writes_it(page: Page, service: Service) -> None:
    page.goto(service.at)
    for currency in ("EUR", *DIGITS):
        script = f"import('/words.js').then(it => it.money({{minor: 12345, currency: '{currency}'}}))"
        assert page.evaluate(script) == str(Money(12345, currency))


def test_an_operator_pauses_and_cannot_stop(page: Page, service: Service) -> None:
    service.create(horizon=100)
    log_in(page, service, service.send("POST", "/tokens", {"scope": "operator"}).json()["token"])
    assert page.locator("#stop").is_hidden()
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector("#status[data-status=paused]")
    assert page.get_by_role("button", name="Resume").is_visible()


def test_an_admin_pauses_and_stops_with_the_keyboard(page: Page, service: Service) -> None:
    page.goto(service.at)
    shoot(page, "login")
    page.keyboard.press("Tab")
    page.get_by_label("Token").focus()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#login-error').textContent.includes('wrong, expired or revoked')"
    )
    page.get_by_label("Token").fill(service.admin)
    page.keyboard.press("Enter")
    page.wait_for_selector("#none:not([hidden])")
    shoot(page, "none")
    path = service.create()
    page.reload()
    page.wait_for_selector("body[data-drawn]")
    shoot(page, "empty")
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#status').textContent === 'paused'")
    assert service.send("GET", path).json()["status"] == "paused"
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").fill("enough <b>now</b>")
    shoot(page, "stop")
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
    service.__exit__(None, None, None)
    page.wait_for_function("() => document.querySelector('#live').dataset.state === 'off'", timeout=20_000)
    service.__enter__()
    page.wait_for_function("() => document.querySelector('#live').dataset.state === 'on'", timeout=20_000)
    play(service, path, 2)
    told = service.send("GET", path).json()
    expected = f"{told['observations']} observations of 3 agents"
    page.wait_for_function(
        f"() => document.querySelector('#observations').textContent.startsWith('{expected}')", timeout=20_000
    )


def test_nothing_of_one_campaign_stays_when_another_is_chosen(page: Page, service: Service) -> None:
    first = service.create()
    second = service.create(start=False, name="second")
    pull = {"observations": [{"agent": "ann", "arm": "B", "reward": 0.5}]}  # nobody has pulled A or C
    service.send("POST", f"{first}/observations:batch", pull)
    log_in(page, service, service.admin)
    assert page.text_content("#chart-means-text") == "A: –; B: 0.5; C: –."
    assert "Assumes" in (page.text_content("#rests") or "")
    page.locator("#stop").click()
    page.locator("#stop-sure").click()
    page.wait_for_function("() => document.querySelector('#status').textContent === 'stopped'")
    page.select_option("#campaign", "second")
    page.wait_for_function("() => document.querySelector('#title').textContent === 'second'")
    page.wait_for_selector("body[data-drawn]")
    assert page.inner_text("#verdict") == "not started"
    assert "Evidence or bound" in page.inner_text("#table-arms thead")
    assert page.text_content("#rests") == "There is no verdict before the start."
    assert page.text_content("#verdict-why") == ""
    assert page.text_content("#chart-means-text") == "The campaign has not started."
    shoot(page, "enrolling")
    page.locator("#stop").click()
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop-dialog:not([open])", state="attached")
    page.wait_for_timeout(300)
    assert service.send("GET", second).json()["status"] == "enrolling"


def test_withdrawn_arms_are_called_so_and_the_last_one_waits_for_the_step(page: Page, service: Service) -> None:
    principal = {"rule": {"part": "Comparisons", "delta": 0.1}, "observe": {"part": "Steps", "n": 3}, "offers": "each"}
    path = service.create(principal=principal, withdrawal=True)
    pull = {"observations": [{"agent": "ann", "arm": "A", "reward": 0.5}]}
    service.send("POST", f"{path}/observations:batch", pull)
    for arm in "BC":
        assert service.send("POST", f"{path}/arms/{arm}/withdraw").status_code == 200
    service.send("PATCH", f"{path}/budget", {"budget": "0.60 EUR"})
    log_in(page, service, service.reader)
    assert page.locator("#table-arms tbody td:nth-child(2)").all_inner_texts() == ["in", "withdrawn", "withdrawn"]
    assert page.inner_text("#missing") == "Nothing: it is decided when the step ends."
    assert "withdrawn: B, C" in (page.text_content("#rests") or "")
    lines = page.locator("#table-audit tbody tr").all_inner_texts()
    assert [line.split("\t")[2:] for line in lines[:3]] == [
        ["budget", "0.60 EUR"],
        ["withdrawn", "arm: C"],
        ["withdrawn", "arm: B"],
    ]


def test_the_end_of_a_long_step_is_told_in_words(page: Page, service: Service) -> None:
    page.goto(service.at)
    entry = "{action: 'step_closed', detail: {step: 4, eliminated: ['B']}}"
    script = f"import('/tables.js').then(it => it.auditLines([{entry}])[0].words)"
    assert page.evaluate(script) == "step 4; out: B"
