"""Every route, over real HTTP, on both stores."""

from __future__ import annotations

import io
import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from freepull.campaigns import Campaign
from freepull.campaigns.view import MOST_POINTS, History
from freepull.server.auth import Tokens
from freepull.server.middleware import Metrics
from freepull.server.routes.agents import HotRoutes
from support.running import NEW, Service


def test_a_campaign_from_creation_to_stop(both: Service) -> None:
    made = both.send("POST", "/campaigns", NEW)
    assert made.status_code == 201
    assert (made.json()["status"], made.json()["agents"], made.json()["spent"]) == (
        "enrolling",
        3,
        {"minor": 0, "currency": "EUR"},
    )
    path = "/campaigns/onboarding"
    assert both.send("POST", f"{path}/agents", {"agents": ["dee"]}).json() == {"numbers": [3]}
    assert both.send("POST", f"{path}/start").json()["status"] == "running"
    token = both.tokens(path, "ann")["ann"]
    offer = both.send("POST", f"{path}/me/offer", token=token).json()["offer"]
    assert (offer["agent"], offer["bonus"]) == ("ann", {"minor": 50, "currency": "EUR"})
    assert both.send("POST", f"{path}/me/offer", token=token).json()["offer"] == offer
    me = both.send("GET", f"{path}/me", token=token).json()
    assert (me["offer"], me["pulls"], me["next_number"], me["arms"]) == (offer, [0, 0, 0], 1, ["A", "B", "C"])
    assert [row["offer"] for row in both.send("GET", f"{path}/offers?open_only=true").json()] == [offer["id"]]
    pull = {"arm": offer["arm"], "reward": 0.5, "event": "e1"}
    told = both.send("POST", f"{path}/me/observations", pull, token).json()
    assert (told["outcome"], told["offer"], told["paid"]) == ("paid", offer["id"], {"minor": 50, "currency": "EUR"})
    assert both.send("POST", f"{path}/me/observations", pull, token).json() == told
    assert both.send("GET", f"{path}/me", token=token).json()["pulls"].count(1) == 1
    assert both.send("GET", f"{path}/offers?open_only=true").json() == []
    assert [entry["amount"]["minor"] for entry in both.send("GET", f"{path}/ledger").json()] == [50]
    assert [row["ending"] for row in both.send("GET", f"{path}/offers").json()] == ["paid"]
    assert both.send("GET", f"{path}/ledger?after=1").json() == []
    assert both.send("GET", f"{path}/verdict").json()["decided"] is False
    assert both.send("GET", f"{path}/bans").json() == []
    agents = both.send("GET", f"{path}/agents?after=0&limit=2").json()
    assert [(row["number"], row["name"], row["state"]) for row in agents] == [(1, "bob", "active"), (2, "cy", "active")]
    assert len(both.send("GET", f"{path}/arms").json()) == 3
    assert both.send("POST", f"{path}/pause").json()["status"] == "paused"
    assert both.send("POST", f"{path}/resume").json()["status"] == "running"
    changed = both.send("PATCH", f"{path}/budget", {"budget": "9 EUR"}).json()
    assert changed["budget"] == {"minor": 900, "currency": "EUR"}
    assert both.send("POST", f"{path}/agents/dee/leave").json()["absent"] == 1
    assert both.send("POST", f"{path}/stop", {"why": "over"}).json()["why"] == "over"
    audit = both.send("GET", f"{path}/audit").json()
    assert [row["action"] for row in audit][:3] == ["created", "enrolled", "enrolled"]
    assert audit[-1]["who"].startswith("token ")
    rows = both.send("GET", "/campaigns").json()
    assert [(row["name"], row["owner"], row["here"], row["status"]) for row in rows] == [
        ("onboarding", both.at if "postgres" in str(both.url) else rows[0]["owner"], True, "stopped")
    ]
    assert both.send("GET", f"{path}/history").json()[-1]["spent"] == 50
    pulls = both.send("GET", f"{path}/pulls").json()
    assert (pulls["names"], sum(map(sum, pulls["pulls"])), pulls["sampled"]) == (["ann", "bob", "cy", "dee"], 1, False)


def test_a_restart_keeps_everything(both: Service) -> None:
    path = both.create()
    token = both.tokens(path, "ann")["ann"]
    both.send("POST", f"{path}/me/observations", {"arm": "A", "reward": 0.25, "event": 1}, token)
    before = both.send("GET", path).json()
    both.restart()
    assert both.send("GET", path).json() == before
    assert both.send("GET", f"{path}/me", token=token).json()["next_number"] == 2


def test_a_gateway_tells_for_many_and_each_has_its_result(both: Service) -> None:
    path = both.create()
    pulls = [
        {"agent": "ann", "arm": "A", "reward": 0.5, "event": "g1"},
        {"agent": "nobody", "arm": "A", "reward": 0.5},
        {"agent": "bob", "arm": "Z", "reward": 0.5},
        {"agent": "bob", "arm": "B", "reward": 1, "event": 2},
        {"agent": "#2", "arm": "B", "reward": 0.0},
    ]
    results = both.send("POST", f"{path}/observations:batch", {"observations": pulls}, both.gateway).json()["results"]
    assert [(it["error"] or {}).get("type", "").rpartition("/")[2] for it in results] == [
        *("", "UnknownAgent", "UnknownArm", "EventGap", "")
    ]
    assert results[3]["error"]["expected"] == 1
    assert both.send("GET", path).json()["observations"] == 2
    assert "freepull_observations_total 2\n" in both.http.get("/metrics").text
    noted = both.send("GET", f"{path}/audit").json()[-1]
    assert noted["action"] == "noted"
    assert noted["who"].startswith("token ")


def test_open_offers_are_those_of_the_table_that_have_not_ended(both: Service) -> None:
    path = both.create(agents=[f"user-{i}" for i in range(6)])
    tokens = both.tokens(path, *(f"user-{i}" for i in range(6)))
    offers = [both.send("POST", f"{path}/me/offer", token=token).json()["offer"] for token in tokens.values()]
    for i in (0, 3):
        both.send("POST", f"{path}/me/observations", {"arm": offers[i]["arm"], "reward": 0.5}, tokens[f"user-{i}"])
    both.send("POST", f"{path}/pause")  # the others are taken back
    both.restart()
    table = both.send("GET", f"{path}/offers").json()
    found = both.send("GET", f"{path}/offers?open_only=true").json()
    assert found == [row for row in table if row["ending"] is None]
    assert [(row["offer"], row["recalled"]) for row in found] == [(2, True), (3, True), (5, True), (6, True)]
    assert both.send("GET", f"{path}/offers?open_only=true&after=2&limit=2").json() == found[1:3]


def test_exports_and_imports_are_files(service: Service) -> None:
    path = service.create()
    rows = "agent,arm,reward\nann,A,0.5\nbob,B,0.25\n"
    headers = {"content-type": "text/csv"}
    for new in (2, 0):  # the same file is told once
        done = service.send("POST", f"{path}/imports?name=day1", content=rows, headers=headers)
        assert done.json() == {"observations": new}
    assert service.send("GET", path).json()["observations"] == 2
    found = service.send("GET", f"{path}/exports/observations.parquet")
    assert pl.read_parquet(io.BytesIO(found.content))["reward"].to_list() == [0.5, 0.25]
    found = service.send("GET", f"{path}/exports/observations.csv")
    assert found.headers["content-type"].startswith("text/csv")
    assert found.text.splitlines()[1].split(",")[2:5] == ["ann", "A", "0.5"]
    assert service.send("GET", f"{path}/exports/ledger.csv").text.startswith("entry,offer,agent")
    assert service.send("GET", f"{path}/exports/secrets.csv").status_code == 404
    bad = service.send("POST", f"{path}/imports", content="agent,arm,reward\nann,A,7\n", headers=headers)
    assert (bad.status_code, "row 1" in bad.json()["detail"]) == (422, True)


def test_a_csv_has_no_formula(service: Service) -> None:
    path = service.create(arms=["=1+1", "B"], agents=["@ann", "bob"])
    pull = {"observations": [{"agent": "@ann", "arm": "=1+1", "reward": 0.5}]}
    service.send("POST", f"{path}/observations:batch", pull)
    assert "'@ann,'=1+1," in service.send("GET", f"{path}/exports/observations.csv").text


def test_withdraw_and_unban_name_things_in_the_path(service: Service) -> None:
    principal = {"rule": {"part": "Comparisons", "delta": 0.1}, "observe": {"part": "Steps", "n": 0}}
    path = service.create(principal=principal, withdrawal=True)
    assert service.send("POST", f"{path}/arms/B/withdraw").json()["arms"][1]["active"] is False
    token = service.tokens(path, "ann")["ann"]
    while (offer := service.send("POST", f"{path}/me/offer", token=token).json()["offer"]) is None:
        service.send("POST", f"{path}/me/observations", {"arm": "A", "reward": 0.9}, token)
        assert service.send("GET", path).json()["step"] < 20
    other = "C" if offer["arm"] == "A" else "A"
    pull = {"arm": other, "reward": 0.5}
    assert service.send("POST", f"{path}/me/observations", pull, token).json()["outcome"] == "refused"
    for agent in ("bob", "cy"):
        both = {"observations": [{"agent": agent, "arm": "A", "reward": 0.5}] * 2}
        service.send("POST", f"{path}/observations:batch", both)
    assert service.send("GET", f"{path}/me", token=token).json()["banned"] is True
    assert len(service.send("GET", f"{path}/bans").json()) == 1
    assert service.send("POST", f"{path}/agents/ann/unban").json()["banned"] == 0
    assert service.send("POST", f"{path}/agents/ann/unban").status_code == 409


def test_the_stream_tells_what_happens_and_goes_on_where_it_broke_off(service: Service) -> None:
    path = service.create()
    headers = {"authorization": f"Bearer {service.reader}"}

    def events(after: str | None, wanted: int) -> list[str]:
        found: list[str] = []
        more = headers | ({"last-event-id": after} if after else {})
        with service.http.stream("GET", f"/v1{path}/stream", headers=more) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith(("event:", "id:")):
                    found.append(line.split(": ")[1])
                if len(found) >= 2 * wanted:
                    return found
        return found

    first = events(None, 1)
    assert first == ["status", "2"]
    service.send("POST", f"{path}/pause")
    service.send("POST", f"{path}/resume")
    assert events("2", 3) == ["audit", "3", "audit", "4", "status", "4"]


def test_a_stream_ends_with_its_token(service: Service) -> None:
    path = service.create()
    made = service.send("POST", "/tokens", {"scope": "read"}).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    with httpx.stream("GET", f"{service.at}/v1{path}/stream", headers=headers, timeout=20) as stream:
        lines = stream.iter_lines()
        assert "event: status" in itertools.islice(lines, 5)
        service.send("DELETE", f"/tokens/{made['id']}")
        service.send("POST", f"{path}/pause")
        assert not [line for line in lines if line.startswith("event")]


def test_no_more_may_watch_than_one_process_bears(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    path = service.create()
    monkeypatch.setattr("freepull.server.hosting.WATCHERS", 0)
    headers = {"authorization": f"Bearer {service.reader}"}
    with service.http.stream("GET", f"/v1{path}/stream", headers=headers) as stream:
        assert stream.status_code == 503


def test_tables_are_paged_from_either_end(both: Service) -> None:
    path = both.create()
    for verb in ("pause", "resume") * 2:
        both.send("POST", f"{path}/{verb}")
    rows = both.send("GET", f"{path}/audit").json()
    assert len(rows) == 7
    for query, part in (
        ("last=2", rows[-2:]),
        ("last=1000", rows),
        ("limit=3", rows[:3]),
        ("last=4&limit=1", rows[3:4]),
    ):
        assert both.send("GET", f"{path}/audit?{query}").json() == part
    assert both.send("GET", f"{path}/audit?after={rows[5]['event']}&last=5").json() == rows[6:]


def test_a_long_history_is_thinned_and_keeps_its_beginning(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"name": "c", "arms": 2, "agents": 2, "price": "1 EUR", "horizon": 9, "mode": "rounds"}
    with Campaign.create(f"sqlite:///{tmp_path}/trial.db", **settings) as campaign:
        status, history = campaign.status(), History(campaign.core)
    for events in range(1, 5000):
        history.add(replace(status, events=events))
    found = [point.events for point in history._points]
    assert (found[0], len(found) <= MOST_POINTS) == (1, True)
    assert found[-1] > 4900
    assert max(later - earlier for earlier, later in itertools.pairwise(found)) <= 4 * 5000 / MOST_POINTS


def test_health_readiness_and_metrics_need_no_token(service: Service) -> None:
    path = service.create()
    assert service.http.get("/healthz").text == "ok\n"
    assert service.http.get("/readyz").text == "ready\n"
    service.send("GET", path)
    text = service.http.get("/metrics").text
    assert 'freepull_requests_total{route="/v1/campaigns/{campaign}",method="GET",status="200"} 1' in text
    assert "freepull_campaigns_owned 1" in text
    assert "onboarding" not in text
    metrics = Metrics()
    metrics.request("r", "GET", 200, 0.02)
    text = metrics.text(viewers=1)
    assert [f'_bucket{{le="{bound}"}} {count}\n' in text for bound, count in ((0.01, 0), (0.025, 1), ("+Inf", 1))] == [
        *(True, True, True)
    ]


def test_an_idempotency_key_answers_once(both: Service) -> None:
    key = {"idempotency-key": "k1"}
    first = both.send("POST", "/campaigns", NEW, headers=key)
    again = both.send("POST", "/campaigns", NEW, headers=key)
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    both.restart()
    assert both.send("POST", "/campaigns", NEW, headers=key).json() == first.json()
    assert both.send("POST", "/campaigns", NEW | {"name": "other"}, headers=key).status_code == 422
    assert both.send("POST", "/campaigns", NEW).status_code == 409
    assert len(both.send("GET", "/campaigns").json()) == 1
    failing = {"idempotency-key": "k2"}
    assert both.send("POST", "/campaigns/onboarding/pause", headers=failing).status_code == 409
    both.send("POST", "/campaigns/onboarding/start")
    assert both.send("POST", "/campaigns/onboarding/pause", headers=failing).status_code == 200


def test_a_key_is_its_token_s_own(service: Service) -> None:
    path, key = service.create(), {"idempotency-key": "k"}
    other = service.send("POST", "/tokens", {"scope": "admin"}).json()["token"]
    assert service.send("POST", f"{path}/pause", headers=key).status_code == 200
    assert service.send("POST", f"{path}/resume", token=other, headers=key).status_code == 200
    assert service.send("GET", path).json()["status"] == "running"


def test_a_key_whose_request_is_going_on_is_told_to_wait(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(tokens: Tokens, campaign: str, agent: int, by: str) -> None:
        begun.set()
        go_on.wait(20)

    monkeypatch.setattr(Tokens, "revoke_agent", slow)
    path, key = service.create(), {"idempotency-key": "k"}
    with ThreadPoolExecutor() as threads:
        first = threads.submit(service.send, "POST", f"{path}/agents/ann/revoke", headers=key)
        assert begun.wait(20)
        second = service.send("POST", f"{path}/agents/ann/revoke", headers=key)
        go_on.set()
        assert (second.status_code, second.headers["retry-after"]) == (409, "1")
        assert first.result().status_code == 204


def test_answers_to_keys_are_kept_for_a_day_without_names(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    path = service.create(mode="rounds")
    pull = {"observations": [{"agent": "ann", "arm": "A", "reward": 0.5}]}
    service.send("POST", f"{path}/observations:batch", pull)
    key = {"idempotency-key": "k"}
    first = service.send("POST", f"{path}/pause", headers=key).json()
    assert first["awaited"] == ["bob", "cy"]
    assert service.send("POST", f"{path}/pause", headers=key).json() == first | {"awaited": []}
    stored = service.store.query("SELECT body FROM answered")
    assert len(stored) == 1
    assert b"bob" not in stored[0][0]
    monkeypatch.setattr("freepull.server.middleware.KEPT", -1)
    assert service.send("POST", f"{path}/pause", headers=key).status_code == 409


@pytest.mark.parametrize("path", ["/tokens", "/tokens/", "//tokens", "{c}/tokens", "{c}/tokens//"])
def test_no_token_is_kept_for_a_key_however_its_path_is_written(service: Service, path: str) -> None:
    body = {"agents": ["ann"]} if "{c}" in path else {"scope": "read"}
    where, key = path.replace("{c}", service.create()), {"idempotency-key": "k"}
    made = [service.send("POST", where, body, headers=key) for _ in range(2)]
    assert [it.status_code for it in made] == [201, 201]
    assert "idempotent-replayed" not in made[1].headers
    assert service.store.query("SELECT * FROM answered") == []


@pytest.mark.parametrize("path", ["/", "/dashboard.js", "/plotly.js", "/v1/openapi.json"])
def test_pages_are_served_with_strict_headers(service: Service, path: str) -> None:
    found = service.http.get(path)
    assert found.status_code == 200
    policy = found.headers["content-security-policy"]
    for strict in ("default-src 'none'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"):
        assert strict in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"


def test_hot_routes_are_answered_as_the_framework_would(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(name: str) -> list[Any]:
        path = service.create(name=name)
        ann = service.tokens(path, "ann")["ann"]
        pull = {"arm": "A", "reward": 0.5, "event": "e"}
        many = [{"agent": "bob", "arm": "B", "reward": 1.0}, {"agent": "nobody", "arm": "B", "reward": 1.0}]
        found = [
            service.send("POST", f"{path}/me/offer", token=ann),
            service.send("POST", f"{path}/me/observations", pull, ann),
            service.send("POST", f"{path}/me/observations", pull | {"arm": "B"}, ann),
            service.send("POST", f"{path}/me/observations", {"arm": "A"}, ann),
            service.send("POST", f"{path}/me/observations", content=b"{}", token=ann),
            service.send("POST", f"{path}/me/observations", pull, service.gateway),
            service.send("POST", f"{path}/observations:batch", {"observations": many}, service.gateway),
            service.send("POST", f"{path}/observations:batch", {"observations": []}, service.gateway),
            service.send("POST", f"{path}/observations:batch", {"observations": many}, ann),
        ]
        told = [it.json() for it in found]
        told[0]["offer"].pop("expires")
        heads = [(it.headers["content-type"], sorted(it.headers)) for it in found]
        return [[it.status_code for it in found], json.loads(json.dumps(told).replace(name, "it")), heads]

    hot = answers("hot")
    reached = []

    async def pass_on(self: HotRoutes, scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])
        await self.next(scope, receive, send)

    monkeypatch.setattr(HotRoutes, "__call__", pass_on)
    assert hot == answers("framework")
    assert hot[0] == [200, 200, 422, 422, 415, 403, 200, 422, 403]
    assert any(path.endswith("/me/offer") for path in reached)
    assert (
        'route="/v1/campaigns/{campaign}/me/offer",method="POST",status="200"} 2' in service.http.get("/metrics").text
    )


@pytest.mark.parametrize("name", ["*", "a*b", "[a]", "day?1", "{a,b}", "%2E%2E", "~"])
def test_a_file_may_have_any_name(service: Service, name: str) -> None:
    path = service.create()
    content, headers = b"agent,arm,reward\nann,A,1\n", {"content-type": "text/csv"}
    found = service.send("POST", f"{path}/imports", params={"name": name}, content=content, headers=headers)
    assert (found.status_code, found.json()) == (200, {"observations": 1})
