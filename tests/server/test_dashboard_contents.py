"""What tables and charts say, cell by cell and trace by trace, of a screen whose numbers are all different.

The screen is made up, so that nothing can be right by chance; the last test holds the real ones against the API.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import Page

from freepull.campaigns.view import Screen
from support.browsing import OBSERVE, TWELVE, log_in, play
from support.running import Service

DAY = "2030-01-02T"
EUR = "EUR"


def amount(minor: int) -> dict[str, Any]:
    return {"minor": minor, "currency": EUR}


def arm(name: str, mean: float, bound: float, pulls: int, paid: int, active: bool = True) -> dict[str, Any]:
    told = {"name": name, "active": active, "mean": mean, "bound": bound, "pulls": pulls, "paid": paid}
    return told | {"withdrawn": False}


def at(observations: int, paid: int, means: list[Any], bounds: list[Any], active: list[bool]) -> dict[str, Any]:
    """A point of the history."""
    told = {"events": 2 * observations, "at": f"{DAY}03:00:00+00:00", "step": observations // 10, "paid": paid}
    return told | {
        "observations": observations,
        "spent": 50 * paid,
        "means": means,
        "bounds": bounds,
        "active": active,
    }


def check(name: str, e_value: float | None, missing: float, *, why: str, alarmed: bool = False) -> dict[str, Any]:
    """One check."""
    told = {"name": name, "tests": "t", "e_value": e_value, "level": 0.01, "alarmed": alarmed, "counted": 9}
    return told | {"missing": missing, "why": why}


ARMS = [arm("A", 0.81, 0.25, 41, 11), arm("B", 0.62, 3.5, 33, 8), arm("C", 0.33, 44.0, 26, 4, active=False)]
STATUS = {
    "name": "onboarding",
    "status": "running",
    "why": "",
    "phase": "incentivizing",
    "mode": "free",
    "step": 10,
    "in_step": 0,
    "horizon": 40,
    "kappa": 3,
    "agents": 10,
    "late_joiners": 2,
    "observations": 100,
    "observed_only": 1,
    "arms": ARMS,
    "threshold": 20.0,
    "leader": "A",
    "decided": False,
    "certified": False,
    "rehearsal": False,
    "offered": 46,
    "open_offers": 2,
    "paid": 23,
    "refused": 9,
    "expired": 7,
    "cancelled": 5,
    "banned": 3,
    "absent": 1,
    "awaited": ["bob"],
    "price": amount(50),
    "spent": amount(1150),
    "reserved": amount(100),
    "budget": amount(3000),
    "events": 200,
    "at": f"{DAY}03:00:00+00:00",
    "differences": [
        {"arm": "A", "than": "B", "low": -0.0125, "high": 0.21, "comparisons": 1234, "people": 56, "seen": 0.1},
        {"arm": "B", "than": "C", "low": 0.034, "high": 0.45, "comparisons": 789, "people": 43, "seen": None},
    ],
    "checks": [
        check(
            "common shock", 123.4, 0.034, alarmed=True, why="not certified, because it was found that events hit many"
        ),
        check("drift", 1.25, 0.2, why="no alarm so far"),
        check("reporting", None, 0.015, why="1,000 pulls were reported; this is shown, not tested"),
    ],
    "remedy": "bring them back.",
    "acted": 9,
}
RESTS_ON = {"rule": "a rule (proven)", "delta": 0.05, "target": "t", "leavers": "l", "assumptions": ["first"]}
SCREEN: dict[str, Any] = {
    "status": STATUS,
    "verdict": {
        "arm": "A",
        "decided": False,
        "certified": False,
        "why": "two are still in",
        "step": None,
        "spent": amount(1150),
        "rests_on": RESTS_ON,
    },
    "awaited": [{"number": 1, "name": "bob", "pulls": [1, 2, 3], "state": "parked", "offer": None}],
    "history": [
        at(20, 0, [0.5, 0.4, 0.3], [1.0, 1.5, 2.0], [True, True, True]),
        at(60, 10, [0.7, 0.6, 0.2], [0.5, 2.5, 8.0], [True, True, True]),
        at(80, 15, [0.75, None, 0.25], [0.4, None, 30.0], [True, True, False]),
        at(100, 23, [0.81, 0.62, 0.33], [0.25, 3.5, 44.0], [True, True, False]),
    ],
    "pulls": {
        "agents": 10,
        "quantiles": [[4, 5, 6, 7, 8, 9, 11], [0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 2, 3, 4, 10]],
        "sampled": False,
        "names": ["ann", "bob"],
        "pulls": [[3, 2, 1], [0, 5, 4]],
    },
    "offers": [
        {
            "offer": 45,
            "agent": "ann",
            "arm": "B",
            "step": 10,
            "at": f"{DAY}03:04:05+00:00",
            "expires": "2030-01-03T03:04:05+00:00",
            "recalled": True,
            "ending": None,
            "ended": None,
            "bonus": amount(35),
        }
    ],
    "ledger": [
        {"entry": 1, "offer": 12, "agent": "ann", "arm": "C", "amount": amount(50), "at": f"{DAY}01:01:01+00:00"}
        | {"settlement": "open"},
        {"entry": 2, "offer": 17, "agent": "bob", "arm": "B", "amount": amount(75), "at": f"{DAY}02:02:02+00:00"}
        | {"settlement": "settled"},
    ],
    "bans": [
        {"agent": "cy", "offer": 8, "step": 4, "until": 9, "at": f"{DAY}01:00:00+00:00", "lifted": None},
        {
            "agent": "dan",
            "offer": 13,
            "step": 5,
            "until": None,
            "at": f"{DAY}02:00:00+00:00",
            "lifted": f"{DAY}02:30:00+00:00",
        },
        {"agent": "eve", "offer": 14, "step": 6, "until": None, "at": f"{DAY}02:10:00+00:00", "lifted": None},
    ],
    "overview": {
        "name": "onboarding",
        "owner": "",
        "here": True,
        "phase": "incentivizing",
        "leader": "A",
        "risk": 0.142,
        "agreed": 0.05,
        "stuck": [{"why": "banned", "words": "bob is banned.", "agents": ["bob"], "helps": "unban"}],
    },
    "audit": [
        {"event": 3, "at": f"{DAY}01:00:00+00:00", "who": "ops", "action": "paused", "detail": {}},
        {"event": 9, "at": f"{DAY}02:00:00+00:00", "who": "", "action": "step_ended", "detail": {"step": 6}},
    ],
}


def show(page: Page, service: Service, broken: bool = False, **changes: Any) -> None:
    """Open the page, and let the stream send a made-up screen, one that the service could send unless it is broken."""
    service.create()
    screen = SCREEN | changes if broken else msgspec.convert(SCREEN | changes, Screen)
    body = f"event: screen\nid: 199\ndata: {msgspec.json.encode(screen).decode()}\n\n"
    page.route("**/stream?screen=true", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    log_in(page, service, service.reader)


def traces(page: Page, chart: str) -> list[dict[str, Any]]:
    """Return what plotly was given to draw."""
    found: list[dict[str, Any]] = page.evaluate(
        f"JSON.parse(JSON.stringify(document.querySelector('#chart-{chart}').data))"
    )
    return found


def lines_at(page: Page, chart: str) -> list[float]:
    """Return the heights of a chart's dashed lines."""
    found: list[float] = page.evaluate(
        f"document.querySelector('#chart-{chart}').layout.shapes.map((it) => [it.y0, it.y1]).flat()"
    )
    return found


def words(page: Page, chart: str) -> str:
    return page.text_content(f"#chart-{chart}-text") or ""


def cells(page: Page, table: str) -> list[list[str]]:
    rows = page.locator(f"#table-{table} tbody tr")
    return [rows.nth(i).locator("td").all_inner_texts() for i in range(rows.count())]


def heads(page: Page, table: str) -> list[str]:
    return page.locator(f"#table-{table} thead th").all_inner_texts()


def test_every_cell_of_every_table_is_in_its_column(page: Page, service: Service) -> None:
    show(page, service)
    assert heads(page, "arms") == ["Arm", "Standing", "Mean per agent", "Evidence (out at 20)", "Pulls", "Free", "Paid"]
    assert cells(page, "arms") == [
        ["A", "in", "0.81", "0.25", "41", "30", "11"],
        ["B", "in", "0.62", "3.5", "33", "25", "8"],
        ["C", "out", "0.33", "44", "26", "22", "4"],
    ]
    assert heads(page, "ledger") == ["Entry", "At (UTC)", "Agent", "Arm", "Amount", "Payout"]
    assert cells(page, "ledger") == [
        ["2", "2030-01-02 02:02:02", "bob", "B", "0.75 EUR", "settled"],
        ["1", "2030-01-02 01:01:01", "ann", "C", "0.50 EUR", "open"],
    ]
    assert heads(page, "offers") == ["Offer", "Agent", "Arm", "Bonus", "Time left", "Standing"]
    ((offer, agent, name, bonus, left, standing),) = cells(page, "offers")
    assert bonus == "0.35 EUR"
    assert (offer, agent, name, standing) == ("45", "ann", "B", "taken back")
    assert left != "now"
    assert heads(page, "bans") == ["Agent", "At (UTC)", "Reason", "Until"]
    assert cells(page, "bans") == [
        ["eve", "2030-01-02 02:10:00", "refused offer 14 in step 6", "for ever"],
        ["dan", "2030-01-02 02:00:00", "refused offer 13 in step 5", "lifted 2030-01-02 02:30:00"],
        ["cy", "2030-01-02 01:00:00", "refused offer 8 in step 4", "step 9"],
    ]
    assert cells(page, "audit") == [
        ["2030-01-02 02:00:00", "the campaign", "step ended", "step 6"],
        ["2030-01-02 01:00:00", "ops", "paused", ""],
    ]


def test_what_is_known_how_sure_and_why_it_is_stuck_come_first(page: Page, service: Service) -> None:
    show(page, service)
    assert page.inner_text("#sure") == "If it were decided now, the risk of error would be 14 %; 5 % was agreed."
    assert page.inner_text("#better").split("\n") == ["better than B", "−0.013 to +0.21, +0.1 as seen"]
    bar = page.locator("#better .range span").evaluate("it => [it.style.left, it.style.width]")
    assert [float(it.rstrip("%")) for it in bar] == pytest.approx([50 - 50 * 0.0125 / 0.21, 50 + 50 * 0.0125 / 0.21])
    assert page.inner_text("#stuck") == "bob is banned."
    assert page.locator("#stuck button").count() == 0  # who only looks cannot help


def test_how_much_better_arms_are_is_a_table_a_chart_and_a_sentence(page: Page, service: Service) -> None:
    show(page, service)
    over = ["Over the first comparisons", "Of agents"]
    assert heads(page, "differences") == ["Arm", "than", "At least", "At most", "Seen", *over]
    assert cells(page, "differences") == [
        ["A", "B", "-0.0125", "0.21", "0.1", "1,234", "56"],
        ["B", "C", "0.034", "0.45", "–", "789", "43"],
    ]
    leading, fallen = traces(page, "differences")
    assert (leading["x"], fallen["x"]) == ([-0.0125, 0.21], [0.034, 0.45])
    assert leading["line"]["color"] != fallen["line"]["color"]  # C is out
    told = "A above B: from -0.0125 to 0.21, over the first 1,234 comparisons, of 56 agents; B above C: from 0.034"
    assert words(page, "differences").startswith(told)


def test_how_near_the_leader_is_to_being_best_up_to_epsilon_stands_where_evidence_does(
    page: Page, service: Service
) -> None:
    compared = [arm | {"compared": mean} for arm, mean in zip(ARMS, (0.7, 0.6, None), strict=True)]
    more = {"arms": compared, "epsilon": 0.02, "within": 7.25, "comparisons": 1234, "decided": False}
    show(page, service, status=STATUS | more)
    assert "That A is at most ε = 0.02 worse than the others has evidence 7.25." in page.inner_text("#missing")
    assert "That A is best up to ε = 0.02 has evidence 7.25" in words(page, "stops")
    assert "1,234 comparisons opened" in page.inner_text("#observations")
    assert [row[3] for row in cells(page, "arms")] == ["0.7", "0.6", "–"]
    assert "at the decision" not in page.inner_text("#table-differences-title")


def test_differences_of_a_decided_campaign_are_those_of_the_decision(page: Page, service: Service) -> None:
    show(page, service, status=STATUS | {"decided": True})
    assert page.inner_text("#table-differences-title").endswith("as it was at the decision")


def test_checks_are_a_table_and_an_alarm_is_at_the_top(page: Page, service: Service) -> None:
    show(page, service)
    assert heads(page, "checks") == ["Check", "Standing", "Evidence", "Alarm at", "Missing", "In words"]
    found = "not certified, because it was found that events hit many"
    assert cells(page, "checks") == [
        ["common shock", "alarm", "123.4", "100", "3.4 %", found],
        ["drift", "no alarm", "1.25", "100", "20 %", "no alarm so far"],
        ["reporting", "counted", "–", "–", "1.5 %", "1,000 pulls were reported; this is shown, not tested"],
    ]
    assert page.inner_text("#alarm") == f"Alarm: common shock: {found}."
    assert page.is_visible("#alarm")


def test_without_an_alarm_and_without_checks_the_page_says_so(page: Page, service: Service) -> None:
    show(page, service, status=STATUS | {"checks": []})
    assert page.is_hidden("#alarm")
    assert page.inner_text("#table-checks") == "No assumption is checked here."


def test_the_head_says_what_the_status_has(page: Page, service: Service) -> None:
    show(page, service)
    assert page.inner_text("#verdict") == "A leads"
    assert page.inner_text("#missing") == "1 more arm must go, each at evidence 20 = 1/δ. Next is B, at 3.5."
    waiting = "Waiting for bob (parked, because offers lapsed: must pull again). Bring them back."
    assert page.inner_text("#awaited") == waiting
    assert page.inner_text("#progress") == "step 10 of 40"
    assert page.evaluate("[...document.querySelectorAll('progress')].map((it) => it.value)") == pytest.approx(
        [10 / 40, 1150 / 3000]
    )
    assert " of 9 of 10 agents, " in page.inner_text("#observations")
    assert page.inner_text("#observations").endswith("3 banned, 1 absent, 2 joined late")
    assert page.inner_text("#spent") == "11.50 EUR"
    assert page.inner_text("#budget") == "of 30.00 EUR, 1.00 EUR reserved, 23 bonuses paid"
    assert page.locator("#held").is_hidden()
    assert page.text_content("#phase") == "incentivizing"


def test_the_head_says_why_no_offers_are_made(page: Page, service: Service) -> None:
    said = "no offers for now, because a verdict in time is less likely than 5 %"
    show(page, service, status=STATUS | {"held": said})
    assert page.inner_text("#held") == f"N{said[1:]}."


@pytest.mark.parametrize(
    ("pricing", "told"),
    [
        ("", "A bonus costs 0.50 EUR."),
        ("Mine(m=1)", "Every offer has its own amount, by Mine(m=1); a bonus of 1 costs 0.50 EUR."),
    ],
)
def test_the_head_says_what_an_offer_pays(page: Page, service: Service, pricing: str, told: str) -> None:
    show(page, service, status=STATUS | {"pricing": pricing})
    assert page.inner_text("#price") == told


def test_the_head_says_that_it_is_a_rehearsal(page: Page, service: Service) -> None:
    show(page, service, status=STATUS | {"rehearsal": True})
    assert page.text_content("#phase") == "incentivizing, a rehearsal"


def test_the_chart_of_offers_says_what_became_of_each(page: Page, service: Service) -> None:
    show(page, service)
    (bars,) = traces(page, "offers")
    expected = {"made": 46, "paid": 23, "refused": 9, "expired": 7, "cancelled": 5, "open": 2}
    assert dict(zip(bars["y"], bars["x"], strict=True)) == expected
    assert bars["text"] == [str(count) for count in expected.values()]
    assert words(page, "offers") == "46 made, 23 paid, 9 refused, 7 expired, 5 cancelled, 2 open."


def test_charts_of_now_say_what_the_arms_have(page: Page, service: Service) -> None:
    show(page, service)
    (means,) = traces(page, "means")
    assert (means["x"], means["y"]) == (["A", "B", "C"], [0.81, 0.62, 0.33])
    assert words(page, "means") == "A: 0.81; B: 0.62; C: 0.33 (out)."
    (stops,) = traces(page, "stops")
    assert [stops["base"] + height for height in stops["y"]] == pytest.approx([0.25, 3.5, 44.0])
    assert lines_at(page, "stops") == [20, 20]
    assert words(page, "stops") == "Evidence against A: 0.25; B: 3.5; C: 44. An arm goes at 20 = 1/δ."
    free, paid = traces(page, "pulls")
    assert (free["name"], free["y"], paid["name"], paid["y"]) == ("free", [30, 25, 22], "paid", [11, 8, 4])
    assert page.inner_text("#chart-pulls-note") == "77.0 % were free"
    (box,) = traces(page, "agents")
    assert box["x"] == ["all arms", "A", "B", "C"]
    assert [box[part] for part in ("lowerfence", "q1", "median", "q3", "upperfence")] == [
        [4, 0, 1, 0],
        [6, 2, 3, 1],
        [7, 3, 4, 2],
        [8, 4, 5, 3],
        [11, 6, 7, 10],
    ]
    assert words(page, "agents").startswith("all arms: from 4 to 11, median 7; A: from 0 to 6, median 3")
    (heat,) = traces(page, "heat")
    assert (heat["x"], heat["y"], heat["z"]) == (["A", "B", "C"], ["ann", "bob"], [[3, 2, 1], [0, 5, 4]])
    assert heat["zmax"] == 5
    assert "2 of 10 agents (a sample)" in words(page, "heat")


def test_charts_over_time_say_what_the_history_has(page: Page, service: Service) -> None:
    show(page, service)
    seen = [20, 60, 80, 100]
    evidence = traces(page, "evidence")
    assert [(it["name"], it["x"], it["y"], it["line"]["dash"]) for it in evidence] == [
        ("A", seen, [1.0, 0.5, 0.4, 0.25], "solid"),
        ("B", seen, [1.5, 2.5, None, 3.5], "solid"),
        ("C", seen, [2.0, 8.0, 30.0, 44.0], "dot"),
    ]
    assert lines_at(page, "evidence") == [20, 20]
    assert words(page, "evidence") == "A: from 1 to 0.25; B: from 1.5 to 3.5; C: from 2 to 44."
    (active,) = traces(page, "active")
    assert (active["x"], active["y"], active["line"]["shape"]) == (seen, [3, 3, 2, 2], "hv")
    assert words(page, "active") == "2 of 3 arms are still in."
    spent, forecast = traces(page, "spend")
    assert (spent["x"], spent["y"]) == (seen, [0.0, 5.0, 7.5, 11.5])
    # from the middle of what was paid (80 pulls, 7.50 EUR) on, 0.20 EUR a pull: at 400 pulls 71.50, but for the budget
    assert (forecast["x"], forecast["y"]) == ([100, 400], [11.5, 30.0])
    assert lines_at(page, "spend") == [30, 30]
    assert "it is 30.00 EUR at the horizon" in words(page, "spend")


def test_a_forecast_that_the_budget_does_not_end_goes_on_as_it_went(page: Page, service: Service) -> None:
    show(page, service, status=STATUS | {"budget": None})
    _, forecast = traces(page, "spend")
    assert forecast["y"] == pytest.approx([11.5, 71.5])
    assert lines_at(page, "spend") == []
    assert "it is 71.50 EUR at the horizon" in words(page, "spend")


def test_a_band_goes_from_mean_minus_bound_to_mean_plus_bound(page: Page, service: Service) -> None:
    arms = [arm("A", 0.81, 0.125, 41, 11), arm("B", 0.62, 0.25, 33, 8)]
    history = [
        at(50, 2, [0.5, 0.25], [0.25, 0.125], [True, True]),
        at(75, 2, [0.5, None], [None, 0.25], [True, True]),
        at(100, 23, [0.75, 0.5], [0.125, 0.25], [True, True]),
    ]
    show(page, service, status=STATUS | {"arms": arms, "threshold": None}, history=history)
    drawn = traces(page, "evidence")
    bands = [(drawn[i], drawn[i + 1], drawn[i + 2]) for i in (0, 3)]
    assert [[it["y"] for it in band] for band in bands] == [
        [[0.75, None, 0.875], [0.25, None, 0.625], [0.5, None, 0.75]],
        [[0.375, None, 0.75], [0.125, None, 0.25], [0.25, None, 0.5]],
    ]
    for upper, lower, mean in bands:
        assert [it.get("fill") for it in (upper, lower, mean)] == [None, "tonexty", None]
        assert {it["name"] for it in (upper, lower, mean)} == {mean["name"]}
        assert upper["x"] == lower["x"] == mean["x"] == [50, 75, 100]
    assert words(page, "evidence") == "Mean ± bound: A: now 0.75 ± 0.125; B: now 0.5 ± 0.25."
    points = traces(page, "stops")
    assert [(it["x"], it["y"], it["error_y"]["array"]) for it in points] == [
        (["A"], [0.81], [0.125]),
        (["B"], [0.62], [0.25]),
    ]
    assert "A: 0.81 ± 0.125; B: 0.62 ± 0.25" in words(page, "stops")


def test_a_chart_that_cannot_be_drawn_stops_no_other(page: Page, service: Service) -> None:
    show(page, service, broken=True, history=[{"observations": 1}] * 2)
    assert "could not be drawn" in words(page, "evidence")
    assert page.locator("#chart-heat svg.main-svg").count() > 0
    assert page.locator("#table-audit tbody tr").count() == 2


@pytest.mark.parametrize("rule", ["Certified", "Population"])
def test_a_screen_has_what_the_api_has(both: Service, rule: str) -> None:
    principal = {"observe": OBSERVE, "rule": {"part": rule, "delta": 0.1}}
    path = both.create(horizon=100, agents=TWELVE, principal=principal)
    play(both, path, 8)
    both.send("POST", f"{path}/me/offer", token=both.tokens(path, "user-0")["user-0"])
    both.send("POST", f"{path}/agents/user-5/leave")
    headers = {"authorization": f"Bearer {both.reader}"}
    with httpx.stream("GET", f"{both.at}/v1{path}/stream?screen=true", headers=headers, timeout=20) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: screen"
        screen = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
    assert screen["status"] == both.send("GET", path).json()
    for part in ("verdict", "pulls", "ledger", "bans", "audit"):
        assert screen[part] == both.send("GET", f"{path}/{part}").json(), part
    assert screen["offers"] == both.send("GET", f"{path}/offers?open_only=true").json() != []
    assert screen["bans"] != []
    agents = {row["name"]: row for row in both.send("GET", f"{path}/agents").json()}
    assert screen["awaited"] == [agents[name] for name in screen["status"]["awaited"]] != []
    history = both.send("GET", f"{path}/history").json()
    assert screen["history"][:-1] == [it for it in history if it["observations"] < screen["status"]["observations"]]
    last = screen["history"][-1]
    assert (last["events"], last["spent"]) == (screen["status"]["events"], screen["status"]["spent"]["minor"])
