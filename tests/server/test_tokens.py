"""Who may do what: every route with every kind of token, and tokens that are wrong, expired or revoked."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

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
        (method, path.replace("/bob/", "/{agent}/").replace("/A/", "/{arm}/").replace("/abc", "/{id}"))
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


@pytest.mark.parametrize("scope", ["reader", "gateway"])
def test_scopes_and_campaigns_of_tokens_hold(service: Service, scope: str) -> None:
    path = service.create()
    token = getattr(service, scope)
    for method, route, body in ADMIN_ROUTES:
        reads = method == "GET" and route not in ("/tokens", "/exports/backup.db")
        allowed = reads if scope == "reader" else route.endswith((":batch", "/token"))
        if not route.endswith("/stream"):
            status = service.send(method, route.replace("{c}", path), body, token).status_code
            assert (status == 403) != allowed, (method, route, status)
    only = service.send("POST", "/tokens", {"scope": "admin", "campaign": "onboarding"}).json()["token"]
    assert service.send("GET", path, token=only).status_code == 200
    service.create(name="second")
    assert service.send("GET", "/campaigns/second", token=only).status_code == 403
    assert service.send("POST", "/tokens", {"scope": "admin"}, only).status_code == 403


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
