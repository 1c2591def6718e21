"""What is refused: wrong tokens, wrong bodies, too much; always a problem with a sentence and a remedy, never a 5xx."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hostile import answers, bad_bodies, wrong_tokens
from running import NEW, Service

from freepull import errors
from freepull.service.access import Access
from freepull.service.problems import Refused
from freepull.service.rates import Rates

ADMIN_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/campaigns", None),
    ("POST", "/campaigns", NEW | {"name": "mine"}),
    ("GET", "{c}", None),
    *(("POST", f"{{c}}/{verb}", None) for verb in ("start", "pause", "resume")),
    ("POST", "{c}/stop", {"why": ""}),
    ("PATCH", "{c}/budget", {"budget": None}),
    ("POST", "{c}/agents", {"agents": ["eve"]}),
    *(
        ("GET", f"{{c}}/{table}", None)
        for table in (
            "arms",
            "agents",
            "offers",
            "ledger",
            "bans",
            "audit",
            "verdict",
            "history",
            "pulls",
            "margins",
            "stream",
        )
    ),
    ("POST", "{c}/imports", None),
    ("GET", "{c}/exports/ledger.csv", None),
    ("GET", "/exports/backup.db", None),
    ("POST", "{c}/agents/bob/unban", None),
    ("POST", "{c}/agents/bob/leave", None),
    ("POST", "{c}/agents/bob/revoke", None),
    ("DELETE", "{c}/agents/bob/name", None),
    ("POST", "{c}/snapshot", None),
    ("GET", "/token", None),
    ("POST", "{c}/arms/A/withdraw", None),
    ("POST", "{c}/tokens", {"agents": ["bob"]}),
    ("GET", "/tokens", None),
    ("POST", "/tokens", {"scope": "admin"}),
    ("DELETE", "/tokens/abc", None),
    ("POST", "{c}/observations:batch", {"observations": [{"agent": "bob", "arm": "A", "reward": 0.5}]}),
]
DEEP: dict[str, Any] = {"part": "Certified", "delta": 0.05}
for _ in range(400):
    DEEP = {"part": "Certified", "delta": DEEP}
AGENT_ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "{c}/me/offer", None),
    ("POST", "{c}/me/observations", {"arm": "A", "reward": 0.5}),
    ("GET", "{c}/me", None),
]


def is_problem(found: Any) -> bool:
    told = found.json()
    return bool(
        found.headers["content-type"] == "application/problem+json"
        and told["status"] == found.status_code
        and told["detail"].endswith((".", "?"))
        and told["remedy"]
    )


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
    assert made["token"].rpartition("_")[2] not in str(listed)


def test_a_store_keeps_no_secret_of_a_token(tmp_path: Path) -> None:
    access = Access(f"sqlite:///{tmp_path}/trial.db")
    token, row = access.new("admin")
    access.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert row.id.encode() in stored
    assert token.rpartition("_")[2].encode() not in stored


def test_bad_bodies_are_refused_and_change_nothing(service: Service) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"].encode()
    before = service.send("GET", path).json()
    routes = [("POST", f"{path}/me/observations", token)]
    admin = service.admin.encode()
    routes += [("POST", route, admin) for route in ("/campaigns", f"{path}/agents", f"{path}/observations:batch")]
    routes += [("POST", "/tokens", admin), ("PATCH", f"{path}/budget", admin), ("POST", f"{path}/stop", admin)]
    requests = (
        (method, route, body, headers | {"authorization": b"Bearer " + who})
        for i, (body, headers) in enumerate(bad_bodies(900))
        for method, route, who in [routes[i % len(routes)]]
    )
    found = asyncio.run(answers(service.port, requests))
    assert set(found) <= {0, 400, 413, 415, 422}
    assert min(found[status] for status in (400, 415, 422)) > 0
    assert service.send("GET", path).json() == before
    assert len(service.send("GET", "/campaigns").json()) == 1
    for body in (b"null", b"[]", b"7", b'"text"', b"{}", b'{"arm": "Z", "reward": 0.5}', b'{"arm": 0, "reward": 0.5}'):
        headers = {"content-type": "application/json"}
        answer = service.send("POST", f"{path}/me/observations", token=token.decode(), content=body, headers=headers)
        assert (answer.status_code, is_problem(answer)) == (422, True), body


def test_wrong_kinds_and_sizes_of_bodies(service: Service) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"]
    where = f"{path}/me/observations"
    json = {"content-type": "application/json"}
    assert service.send("POST", where, content=b"{}", token=token).status_code == 415
    gzip = json | {"content-encoding": "gzip"}
    assert service.send("POST", where, content=b"\x1f\x8b", token=token, headers=gzip).status_code == 415
    assert service.send("POST", where, content=b" " * (2 << 20), token=token, headers=json).status_code == 413

    def pieces() -> Any:
        for _ in range(40):
            yield b" " * (1 << 16)

    assert service.send("POST", where, content=pieces(), token=token, headers=json).status_code == 413
    many = {"observations": [{"agent": "ann", "arm": "A", "reward": 0.5}] * 1001}
    assert service.send("POST", f"{path}/observations:batch", many).status_code == 422
    form = service.send("POST", where, data={"arm": "A"}, token=token)
    assert form.status_code == 415


def test_only_admins_send_much_and_only_where_it_belongs(service: Service) -> None:
    path = service.create()
    names = [f"{i:0>200}" for i in range(6000)]
    assert service.send("POST", f"{path}/agents", {"agents": names}, service.reader).status_code == 413
    assert service.send("POST", f"{path}/stop", {"why": "x" * (2 << 20)}).status_code == 413
    assert service.send("POST", f"{path}/agents", {"agents": names}).status_code == 201


def test_more_than_may_wait_is_refused_and_viewers_do_not_count(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path}/trial.db", waiting=3) as service:
        path = service.create()
        head = f"HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin}\r\n"
        lines = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(6)]
        for line in lines[:3]:
            line.sendall(f"GET /v1{path}/stream {head}\r\n".encode())
            line.settimeout(10)
            assert line.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)
        assert service.http.get("/healthz").status_code == 200
        for line in lines[3:]:
            line.sendall(f"POST /v1{path}/pause {head}content-length: 9\r\n\r\n".encode())
        time.sleep(0.5)
        found = service.http.get("/healthz")
        assert (found.status_code, found.headers["retry-after"], is_problem(found)) == (503, "1", True)
        for line in lines:
            line.close()


@pytest.mark.parametrize(
    ("status", "method", "route", "body"),
    [
        (404, "GET", "/campaigns/none", None),
        (404, "GET", "/nothing", None),
        (405, "PUT", "{c}", None),
        (404, "POST", "{c}/agents/nobody/unban", None),
        (404, "POST", "{c}/arms/Z/withdraw", None),
        (404, "DELETE", "/tokens/none", None),
        (409, "POST", "{c}/start", None),
        (409, "POST", "{c}/resume", None),
        (409, "POST", "/campaigns", NEW),
        (422, "POST", "{c}/arms/A/withdraw", None),
        (422, "PATCH", "{c}/budget", {"budget": "9 USD"}),
        (422, "PATCH", "{c}/budget", {"budget": "much"}),
        (422, "POST", "{c}/agents", {"agents": ["ann"]}),
        (422, "POST", "{c}/tokens", {"agents": ["nobody"]}),
        (422, "POST", "/tokens", {"scope": "everything"}),
        (422, "POST", "/campaigns", NEW | {"name": "a\nb"}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "price": "free"}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Magic"}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Certified", "delta": "x"}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Certified", "beta": 1}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"delta": 1}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": DEEP}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "mode": "chaos"}),
        (400, "GET", "{c}/ledger?after=x", None),
        (400, "GET", "{c}/ledger?limit=0", None),
    ],
)
def test_every_refusal_has_its_status(service: Service, status: int, method: str, route: str, body: Any) -> None:
    path = service.create()
    found = service.send(method, route.replace("{c}", path), body)
    assert (found.status_code, is_problem(found)) == (status, True), found.text


def test_what_is_wrong_with_the_store_is_said_in_the_log_alone(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = service.create()

    def fail(*_: Any) -> None:
        raise errors.StoreError(f"{tmp_path}/trial.db cannot be read.")

    monkeypatch.setattr(service.server.gate.house.access.store, "query", fail)
    found = [service.send("GET", f"{path}/ledger?last=1"), service.send("GET", "/campaigns/none")]
    assert [(it.status_code, it.json()["detail"]) for it in found] == [(503, "the store failed.")] * 2


def test_events_conflict_gap_and_stop(service: Service) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"]

    def tell(**pull: Any) -> Any:
        return service.send("POST", f"{path}/me/observations", {"arm": "A", "reward": 0.5} | pull, token)

    assert tell(event="e").status_code == 200
    assert tell(event="e", reward=0.6).status_code == 422
    gap = tell(event=5)
    assert (gap.status_code, gap.json()["expected"]) == (409, 1)
    service.send("POST", f"{path}/stop", {})
    assert tell(event="f").status_code == 409


def test_an_agent_that_asks_too_often_gets_429(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path}/trial.db", agent_rate=5) as service:
        path = service.create()
        tokens = service.tokens(path, "ann", "bob")
        found = [service.send("GET", f"{path}/me", token=tokens["ann"]) for _ in range(20)]
        assert {it.status_code for it in found} == {200, 429}
        late = next(it for it in found if it.status_code == 429)
        assert (late.headers["retry-after"], is_problem(late)) == ("1", True)
        assert service.send("GET", f"{path}/me", token=tokens["bob"]).status_code == 200


def test_who_waits_may_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rates = [100.0], Rates(5.0)
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def taken() -> int:
        for count in range(100):
            try:
                rates.take("ann")
            except Refused:
                return count
        return 100

    assert taken() == 10
    now[0] += 1.0
    assert taken() == 5
    now[0] += 3600.0
    assert taken() == 10


def test_slow_and_half_open_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freepull.service.server.HEADER_SECONDS", 0.5)
    monkeypatch.setattr("freepull.service.server.IDLE_SECONDS", 1)
    with Service(f"sqlite:///{tmp_path}/trial.db", seconds=0.5) as service:
        beginnings = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"]
        beginnings += [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /he"]
        sockets = []
        for i in range(200):
            sockets.append(socket.create_connection(("127.0.0.1", service.port)))
            sockets[-1].sendall(beginnings[i % len(beginnings)])
        assert service.http.get("/healthz").status_code == 200
        slow = socket.create_connection(("127.0.0.1", service.port))
        head = f"POST /v1/campaigns HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin}\r\n"
        slow.sendall(f"{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{".encode())
        slow.settimeout(5)
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
        slow.close()
        begun = time.monotonic()
        for it in sockets:
            it.settimeout(5)
            try:
                while it.recv(1000):
                    pass
            except ConnectionResetError:
                pass
            it.close()
        assert time.monotonic() - begun < 4


def test_logs_have_no_secret_and_no_name(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    from freepull.service.server import write_log

    service.server.gate.log = write_log
    path = service.create()
    token = service.tokens(path, "ann")["ann"]
    service.send("POST", f"{path}/me/observations", {"arm": "Z", "reward": 0.5}, token)
    service.send("POST", f"{path}/agents/ann/unban", headers={"idempotency-key": "hush-hush"})
    service.send("GET", path, token=token + "x")
    told = capsys.readouterr().err
    assert '"status":422' in told
    for secret in (token, service.admin, service.admin.rpartition("_")[2], "ann", "hush-hush"):
        assert secret not in told
