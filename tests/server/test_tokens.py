"""Who may do what: every route with every kind of token, and tokens that are wrong, expired or revoked."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull.server.auth import Tokens
from load.hostile import answers, wrong_tokens
from support.every_route import ADMIN_ROUTES, AGENT_ROUTES
from support.running import Service, is_problem


def test_the_lists_here_have_every_route(service: Service) -> None:
    paths = service.http.get("/v1/openapi.json").json()["paths"]
    known = {(method.upper(), path) for path, methods in paths.items() for method in methods if "/v1" in path}
    listed = {
        (method, "/v1" + path.replace("{c}", "/campaigns/{campaign}"))
        for method, path, _ in ADMIN_ROUTES + AGENT_ROUTES
    }
    filled = {
        (
            method,
            f"{path}/".replace("/bob/", "/{agent}/")
            .replace("/A/", "/{arm}/")
            .replace("/abc", "/{id}")
            .replace("/shop/", "/{target}/")[:-1],
        )
        for method, path in listed
    }
    assert {(m, p.replace("ledger.csv", "{file}")) for m, p in filled} == known


def test_an_agent_reaches_nothing_but_its_own(service: Service) -> None:
    path = service.create()
    other = service.create(name="second")
    for token in service.tokens(path, "ann", "cy").values():
        for method, route, body in ADMIN_ROUTES:
            found = service.send(method, route.replace("{c}", path), body, token)
            assert (found.status_code, is_problem(found)) == (403, True), (method, route)
        for method, route, body in AGENT_ROUTES:
            found = service.send(method, route.replace("{c}", other), body, token)
            assert (found.status_code, is_problem(found)) == (401, True), (method, route)
    assert service.send("GET", path).json()["observations"] == 0
    assert len(service.send("GET", "/tokens").json()) == 3


READS = {(method, route) for method, route, _ in ADMIN_ROUTES if method == "GET"}
SECRETS = {("GET", "/tokens"), ("GET", "/tokens/audit"), ("GET", "/exports/backup.db"), ("GET", "/webhooks")}
SPOKEN = {
    ("POST", f"{{c}}/agents/bob/{verb}")
    for verb in ("offer", "accept", "decline", "acts", "outcomes", "observations", "pass-over")
}
AVAILABLE = {("POST", f"{{c}}/agents/bob/arms/A/{word}") for word in ("available", "unavailable")}
OPERATED = {
    *AVAILABLE,
    *(("POST", f"{{c}}/{verb}") for verb in ("start", "pause", "resume", "snapshot", "agents")),
    *(("POST", f"{{c}}/agents/bob/{verb}") for verb in ("unban", "leave", "pass-over", "revoke")),
}
ALLOWED = {
    "admin": {(method, route) for method, route, _ in ADMIN_ROUTES},
    "operator": (READS - SECRETS) | OPERATED,
    "read": READS - SECRETS,
    "gateway": {("GET", "/token"), ("POST", "{c}/observations:batch"), ("GET", "{c}/agents/bob"), *SPOKEN, *AVAILABLE},
    "payer": {("GET", "/token"), ("GET", "{c}/ledger"), ("POST", "{c}/ledger/settle")},
    "agent": {(method, route) for method, route, _ in AGENT_ROUTES},
}
"""The table of docs/service.md, route by route."""


@pytest.mark.parametrize("scope", ALLOWED)
def test_every_route_takes_the_scopes_that_it_should(service: Service, scope: str) -> None:
    path = service.create()
    token = (
        service.tokens(path, "cy")["cy"]
        if scope == "agent"
        else service.send("POST", "/tokens", {"scope": scope}).json()["token"]
    )
    wrong = []
    for method, route, body in ADMIN_ROUTES + AGENT_ROUTES:
        if not route.endswith("/stream"):
            more = {"content": b"{}"} if route.endswith("/imports") else {}
            status = service.send(method, route.replace("{c}", path), body, token, **more).status_code
            if (status == 403) == ((method, route) in ALLOWED[scope]):
                wrong.append((method, route, status))
    assert wrong == []
    with service.http.stream("GET", f"/v1{path}/stream", headers={"authorization": f"Bearer {token}"}) as found:
        assert found.status_code == (200 if scope in ("admin", "operator", "read") else 403)


def test_an_operator_runs_a_campaign_without_touching_its_money(service: Service) -> None:
    path = service.create(start=False)
    token = service.send("POST", "/tokens", {"scope": "operator", "label": "on call"}).json()["token"]
    for verb, status in (("start", "running"), ("pause", "paused"), ("resume", "running")):
        found = service.send("POST", f"{path}/{verb}", token=token, headers={"idempotency-key": verb})
        assert (found.status_code, found.json()["status"]) == (200, status)
        again = service.send("POST", f"{path}/{verb}", token=token, headers={"idempotency-key": verb})
        assert again.headers["idempotent-replayed"] == "true"
    before = service.send("GET", path).json()
    new = {"name": "mine", "arms": ["A", "B"], "agents": ["x"], "price": "100 EUR", "horizon": 9}
    pulls = {"observations": [{"agent": "bob", "arm": "A", "reward": 0.5}]}
    for method, route, body in (
        ("POST", "/campaigns", new),
        ("PATCH", f"{path}/budget", {"budget": None}),
        ("POST", "/tokens", {"scope": "read"}),
        ("POST", f"{path}/tokens", {"agents": ["bob"]}),
        ("POST", f"{path}/observations:batch", pulls),
    ):
        found = service.send(method, route, body, token)
        assert (found.status_code, is_problem(found)) == (403, True)
        assert "admin" in found.json()["remedy"]
    assert service.send("GET", path).json() == before
    who = {it["who"] for it in service.send("GET", f"{path}/audit").json() if it["action"] in ("started", "paused")}
    assert who == {f"token {token.split('_')[1]}"}


def test_a_token_for_one_campaign_is_for_no_other(service: Service) -> None:
    path = service.create()
    only = service.send("POST", "/tokens", {"scope": "admin", "campaign": "onboarding"}).json()["token"]
    assert service.send("GET", path, token=only).status_code == 200
    service.create(name="second")
    assert service.send("GET", "/campaigns/second", token=only).status_code == 403
    assert service.send("POST", "/tokens", {"scope": "admin"}, only).status_code == 403
    assert service.send("GET", "/tokens/audit", token=only).status_code == 403


def test_who_made_and_revoked_tokens_is_kept(both: Service) -> None:
    def noted() -> list[tuple[str, ...]]:
        rows = both.send("GET", "/tokens/audit").json()
        assert [row["entry"] for row in rows] == list(range(1, len(rows) + 1))
        fields = ("who", "action", "id", "scope", "campaign", "label", "agents")
        return [tuple(row[field] for field in fields) for row in rows]

    path = both.create()
    me = f"token {both.admin.split('_')[1]}"
    first = noted()
    assert [(who, action, scope) for who, action, _, scope, *_ in first] == [
        ("the test", "made", scope) for scope in ("admin", "read", "gateway")
    ]
    made = both.send("POST", "/tokens", {"scope": "read", "campaign": "onboarding", "label": "Ünï"}).json()
    both.tokens(path, "ann", "bob")
    for _ in range(2):
        assert both.send("DELETE", f"/tokens/{made['id']}").status_code == 204
    assert both.send("POST", f"{path}/agents/cy/revoke").status_code == 204
    named = (made["id"], "read", "onboarding", "Ünï", "")
    assert noted()[len(first) :] == [
        (me, "made", *named),
        (me, "made", "", "agent", "onboarding", "", "0-1"),
        (me, "revoked", *named),
        (me, "revoked", "", "agent", "onboarding", "", "2"),
    ]
    for refused in ({"scope": "nonsense"}, {"scope": "read", "campaign": "none"}, {"scope": "read", "lasts": "soon"}):
        assert both.send("POST", "/tokens", refused).status_code in (404, 422)
    assert len(noted()) == len(first) + 4
    assert len(both.send("GET", "/tokens/audit?after=2&limit=3").json()) == 3
    secrets = [both.admin.split("_", 2)[2], made["token"].split("_", 2)[2]]
    assert not any(secret in both.send("GET", "/tokens/audit").text for secret in secrets)
    with fp.Client(both.at, both.admin) as client:
        assert [it.entry for it in client.token_audit(after=4)] == [5, 6, 7]
        for _ in range(3):  # a token for a minute is noted once an hour
            client.campaign("onboarding").agent_tokens(["ann"], "1 minute")
        assert [it.agents for it in client.token_audit(after=7)] == ["0"]


SEALED = ("campaigns", "offers", "ledger", "bans", "audit", "names", "agent_versions", "secrets", "answered")
BEFORE = [
    "DROP TABLE token_notes",
    "DROP TABLE settlements",
    "DROP TABLE webhooks",
    "ALTER TABLE tokens RENAME TO old",
    "CREATE TABLE tokens (id TEXT PRIMARY KEY, hash {blob} NOT NULL, scope TEXT NOT NULL CHECK (scope IN "
    "('admin', 'read', 'gateway')), campaign TEXT NOT NULL, label TEXT NOT NULL, made BIGINT NOT NULL, "
    "expires BIGINT, revoked BIGINT)",
    "INSERT INTO tokens SELECT id, hash, scope, campaign, label, made, expires, revoked FROM old",
    "DROP TABLE old",
    "ALTER TABLE campaigns DROP COLUMN head",
    "ALTER TABLE offers DROP COLUMN amount",
    *(f"ALTER TABLE {table} DROP COLUMN seal" for table in SEALED),
]
"""What version 3 of the tables had."""


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_tokens_of_the_version_before_are_kept(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    """A store from before there were operators: its tokens hold, and new ones can be made."""
    url = f"sqlite:///{tmp_path}/trial.db" if store == "sqlite" else request.getfixturevalue("postgres")
    tokens = Tokens(url)
    token, row = tokens.new("read", label="old", lasts="1 day")
    kept: Any = tokens.store
    with kept.transaction() as do:
        for statement in BEFORE:
            do.run(statement.format_map(kept.words))
        if store == "postgres":
            do.run("DELETE FROM version WHERE number > 3")
        else:
            kept.set_version(do, 3)
    tokens.close()
    tokens = Tokens(url)
    assert (tokens.rows(), tokens.visitor(f"Bearer {token}").scope) == ([row], "read")
    assert tokens.audit() == []
    assert tokens.visitor(f"Bearer {tokens.new('operator')[0]}").scope == "operator"
    tokens.close()


def test_wrong_tokens_are_all_401(service: Service) -> None:
    path = service.create()
    other = service.create(name="second")
    foreign = service.tokens(other, "ann")["ann"]
    gone = service.tokens(path, "cy")["cy"]
    service.send("POST", f"{path}/agents/cy/revoke")
    right = [service.tokens(path, "ann")["ann"], service.admin]
    headers = wrong_tokens(right, [gone, foreign], 700)
    requests = (("GET", f"{path}/me", b"", {"authorization": header}) for header in headers)
    assert asyncio.run(answers(service.port, requests)) == {401: 700}
    for header in (b"", b"Bearer", b"\xff", b"Bearer a b c", b"Bearer fpa_.", b"Bearer fpa_!!.!!", b"Bearer fp__"):
        found = service.http.get(f"/v1{path}/me", headers={b"authorization": header})
        assert (found.status_code, is_problem(found)) == (401, True)
        assert found.headers["www-authenticate"] == "Bearer"
    assert service.send("GET", f"{path}/me", token="").status_code == 401
    assert service.send("GET", f"{path}/me", token=right[0]).status_code == 200


@pytest.mark.parametrize("path", ["//v1/campaigns", "/v1//campaigns", "/v1/campaigns/", "///v1/tokens//"])
def test_slashes_are_no_way_around_a_token(service: Service, path: str) -> None:
    found = service.http.get(service.at + path)
    assert (found.status_code, is_problem(found)) == (401, True)
    assert service.http.get(service.at + path, headers={"authorization": f"Bearer {service.admin}"}).status_code == 200


def test_no_body_is_read_without_a_token(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(b"POST /v1/campaigns HTTP/1.1\r\nhost: x\r\ncontent-length: 30000000\r\n\r\n")
        line.settimeout(5)
        assert line.recv(100).startswith(b"HTTP/1.1 401")


def test_expired_and_revoked_tokens_are_401(service: Service) -> None:
    path = service.create()
    short = service.send("POST", f"{path}/tokens", {"agents": ["ann"], "lasts": "0.001 seconds"}).json()
    brief = service.send("POST", "/tokens", {"scope": "read", "lasts": "0.001 seconds"}).json()
    time.sleep(0.01)
    assert service.send("GET", f"{path}/me", token=short["tokens"][0]["token"]).status_code == 401
    assert service.send("GET", path, token=brief["token"]).status_code == 401
    tokens = service.tokens(path, "ann", "bob")
    assert service.send("POST", f"{path}/agents/bob/revoke").status_code == 204
    assert service.send("GET", f"{path}/me", token=tokens["bob"]).status_code == 401
    assert service.send("GET", f"{path}/me", token=tokens["ann"]).status_code == 200
    assert service.send("GET", f"{path}/me", token=service.tokens(path, "bob")["bob"]).status_code == 200
    made = service.send("POST", "/tokens", {"scope": "read", "label": "x"}).json()
    assert service.send("GET", path, token=made["token"]).status_code == 200
    assert service.send("DELETE", f"/tokens/{made['id']}").status_code == 204
    assert service.send("GET", path, token=made["token"]).status_code == 401
    listed = {row["id"]: row for row in service.send("GET", "/tokens").json()}
    assert listed[made["id"]]["revoked"] is not None
    assert made["token"].split("_", 2)[2] not in str(listed)


def test_a_store_keeps_no_secret_of_a_token(tmp_path: Path) -> None:
    tokens = Tokens(f"sqlite:///{tmp_path}/trial.db")
    token, row = tokens.new("admin")
    tokens.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert row.id.encode() in stored
    assert token.split("_", 2)[2].encode() not in stored


def test_a_clock_that_jumps_revives_no_token_and_forgets_no_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumped = [0]

    def clock() -> int:
        return time.time_ns() // 1000 + jumped[0]

    monkeypatch.setattr("freepull.server.auth.system_clock", clock)
    path, day = service.create(), 86_400 * 10**6
    made = service.send("POST", f"{path}/tokens", {"agents": ["ann"], "lasts": "1.5 seconds"}).json()["tokens"][0]
    stored = service.send("POST", "/tokens", {"scope": "read", "lasts": "1.5 seconds"}).json()
    lasting = service.tokens(path, "bob")["bob"]
    key = {"idempotency-key": "k"}
    numbers = service.send("POST", f"{path}/agents", {"agents": 2}, headers=key).json()
    jumped[0] = 3 * day
    assert service.send("POST", f"{path}/agents", {"agents": 2}, headers=key).json() == numbers
    assert service.send("POST", f"{path}/pause", headers={"idempotency-key": "other"}).status_code == 200
    jumped[0] = -3 * day
    assert service.send("POST", f"{path}/agents", {"agents": 2}, headers=key).json() == numbers
    assert service.send("GET", f"{path}/me", token=lasting).status_code == 200
    time.sleep(2.0)
    for token, where in ((made["token"], f"{path}/me"), (stored["token"], "/token")):
        assert service.send("GET", where, token=token).status_code == 401
    jumped[0] = 90 * day
    assert service.send("GET", f"{path}/me", token=lasting).status_code == 401
    jumped[0] = 0
    assert service.send("GET", f"{path}/me", token=lasting).status_code == 200
