"""What is too much: bodies, requests that wait, agents who ask too often, connections that stay half open."""

from __future__ import annotations

import asyncio
import gzip
import resource
import select
import socket
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from freepull.server.auth import BodyLimits, RateLimit
from freepull.server.problems import Refused
from support.running import Service, is_problem


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


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(service: Service, tmp_path: Path) -> None:
    path, many = service.create(), tmp_path / "many.parquet"
    pull = pl.DataFrame({"agent": ["ann"], "arm": ["A"], "reward": [0.5]})
    pull.select(pl.all().repeat_by(4_000_000).explode()).write_parquet(many)
    for body, kind, said in (
        (many.read_bytes(), "application/vnd.apache.parquet", "import.parquet has 4,000,000; import it in parts"),
        (gzip.compress(b"agent,arm,reward\n" + b"ann,A,0.5\n" * 1_000_000), "text/csv", "import.csv is compressed"),
    ):
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        refused = service.send("POST", f"{path}/imports", content=body, headers={"content-type": kind})
        assert (refused.status_code, is_problem(refused)) == (422, True)
        assert said in refused.json()["detail"]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown < 100_000
    assert service.send("GET", path).json()["observations"] == 0


@pytest.mark.slow
def test_more_than_may_wait_is_refused_and_viewers_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Service(f"sqlite:///{tmp_path}/trial.db", waiting=3) as service:
        path, logged = service.create(), list[str]()
        head = f"HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin}\r\n"
        lines = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(6)]
        for line in lines[:3]:
            line.sendall(f"GET /v1{path}/stream {head}\r\n".encode())
            line.settimeout(10)
            assert line.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)
        usual = service.http.get("/readyz")
        assert usual.status_code == 200
        service.log = lambda what, **_: logged.append(what)

        async def for_long() -> list[tuple[str, str]]:
            await asyncio.sleep(20)
            return []

        monkeypatch.setattr(service.server.application.hosting, "names", for_long)
        for line in lines[3:]:
            line.sendall(f"GET /v1/campaigns {head}\r\n".encode())
        limit = time.monotonic() + 20
        while (found := service.http.get("/readyz")).status_code == 200 and time.monotonic() < limit:
            time.sleep(0.02)
        assert (found.status_code, found.headers["retry-after"], is_problem(found)) == (503, "1", True)
        begun = time.monotonic()
        assert {service.http.get("/readyz").status_code for _ in range(100)} == {503}
        assert 1 <= logged.count("overloaded") <= 2 + time.monotonic() - begun
        assert set(usual.headers) - set(found.headers) == {"x-request-id"}
        assert service.http.get("/healthz").status_code == 200
        counted = 'freepull_requests_total{route="none",method="GET",status="503"} 101'
        assert counted in service.http.get("/metrics").text
        for line in lines:
            line.close()


@pytest.mark.slow
def test_bodies_that_never_end_take_no_places_and_one_token_begins_only_some(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path}/trial.db", waiting=8, bodies=BodyLimits(at_once=64)) as service:
        path = service.create()
        tokens = service.tokens(path, "ann", "bob")
        where = f"{path}/me/observations"

        def begin(token: str, count: int, method: str = "POST") -> list[socket.socket]:
            lines = []
            for _ in range(count):
                lines.append(socket.create_connection(("127.0.0.1", service.port)))
                head = f"{method} /v1{where} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
                lines[-1].sendall(f"{head}content-type: application/json\r\ncontent-length: 50\r\n\r\n{{".encode())
            return lines

        def answered(lines: list[socket.socket], least: int) -> list[bytes]:
            until = time.monotonic() + 10
            while len(select.select(lines, [], [], 0.1)[0]) < least and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(0.2)
            found = []
            for line in lines:
                line.setblocking(False)
                try:
                    found.append(line.recv(1000)[9:12])
                except BlockingIOError:
                    found.append(b"")
            return found

        lines = begin(tokens["ann"], 30)
        assert sorted(answered(lines, 26)) == [b""] * 4 + [b"429"] * 26
        pull = {"arm": "A", "reward": 0.5, "event": "x"}
        late = service.send("POST", where, pull, tokens["ann"])
        assert (late.status_code, late.headers["retry-after"], is_problem(late)) == (429, "1", True)
        assert service.send("POST", where, pull, tokens["bob"]).status_code == 200
        assert service.send("GET", path).status_code == 200
        for line in lines:
            line.close()
        time.sleep(0.3)
        assert service.send("POST", where, pull, tokens["ann"]).status_code == 200
        for token in (service.admin, service.gateway, *tokens.values(), *service.tokens(path, "cy").values()):
            lines += begin(token, 4)
        lines += begin(service.reader, 20)
        assert answered(lines[30:], 0).count(b"") >= 20
        assert service.send("GET", path).status_code == 200
        for line in lines:
            line.close()


@pytest.mark.slow
def test_without_a_token_no_body_is_waited_for(service: Service) -> None:
    for path in ("/v1/campaigns", "/healthz", "/", "/v1/openapi.json"):
        with socket.create_connection(("127.0.0.1", service.port)) as line:
            line.settimeout(5)
            line.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{{".encode())
            assert line.recv(1000)[9:12] in (b"401", b"405")


def test_new_connections_are_taken_while_the_turns_of_the_loop_are_long(service: Service) -> None:
    turns, count = 0, 200

    def turn() -> None:
        nonlocal turns
        turns += 1
        time.sleep(0.005)
        if turns < 10_000:
            service.loop.call_soon(turn)

    lines = [socket.socket() for _ in range(count)]
    service.loop.call_soon_threadsafe(turn)
    for line in lines:
        line.connect(("127.0.0.1", service.port))
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    for line in lines:
        assert line.recv(100).startswith(b"HTTP/1.1 200")
        line.close()
    needed, turns = turns, 10_000
    assert needed < count / 2


@pytest.mark.slow
def test_an_agent_that_asks_too_often_gets_429(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path}/trial.db", agent_rate=1) as service:
        path = service.create()
        tokens = service.tokens(path, "ann", "bob")
        found = [service.send("GET", f"{path}/me", token=tokens["ann"]) for _ in range(20)]
        assert {it.status_code for it in found} == {200, 429}
        late = next(it for it in found if it.status_code == 429)
        assert (late.headers["retry-after"], is_problem(late)) == ("1", True)
        assert service.send("GET", f"{path}/me", token=tokens["bob"]).status_code == 200


def test_who_waits_may_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rates = [100.0], RateLimit(5.0)
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


@pytest.mark.slow
def test_slow_and_half_open_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freepull.server.connections.HEADER_SECONDS", 0.5)
    monkeypatch.setattr("freepull.server.server.IDLE_SECONDS", 1)
    with Service(f"sqlite:///{tmp_path}/trial.db", seconds=0.5) as service:
        beginnings = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"]
        beginnings += [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /he"]
        sockets = []
        for i in range(200):
            sockets.append(socket.create_connection(("127.0.0.1", service.port)))
            sockets[-1].sendall(beginnings[i % len(beginnings)])
        assert service.http.get("/healthz").status_code == 200
        for path in ("/campaigns", "/campaigns/x/stream", "/campaigns/exports/pause"):
            slow = socket.create_connection(("127.0.0.1", service.port))
            head = f"POST /v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin}\r\n"
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
