"""Connections under attack: heads without end, trailers, padding, two opinions in one request, answers nobody reads."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from freepull.server.connections import descriptors
from support.running import Service

pytestmark = pytest.mark.slow
HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"POST /v1/campaigns HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"


def connect(service: Service) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", service.port))
    line.settimeout(20)
    return line


def read(line: socket.socket) -> bytes:
    """Read until the other side hangs up."""
    found = b""
    try:
        while piece := line.recv(1 << 16):
            found += piece
    except (ConnectionResetError, BrokenPipeError):
        pass
    return found


def flood(service: Service, begin: bytes, piece: bytes, most: int = 64 << 20) -> tuple[int, bytes]:
    """Send a beginning, and pieces until the connection ends; return how many bytes were taken, and the answer."""
    with connect(service) as line:
        taken = 0
        try:
            line.sendall(begin)
            while taken < most:
                line.sendall(piece)
                taken += len(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return taken, read(line)


def talk(service: Service, sent: bytes) -> bytes:
    """Send something, and return what is answered until the other side hangs up."""
    with connect(service) as line:
        line.sendall(sent)
        return read(line)


ENDLESS = {
    "headers": (HEAD, b"x-more: " + b"y" * 1000 + b"\r\n"),
    "one header": (HEAD + b"x-more: ", b"y" * 1000),
    "a name": (HEAD + b"x", b"y" * 1000),
    "an address": (b"GET /", b"y" * 1000),
    "a method": (b"GET", b"T" * 1000),
    "empty lines": (b"", b"\r\n" * 500),
    "trailers": (CHUNKED + b"\r\n0\r\n", b"x-more: " + b"y" * 1000 + b"\r\n"),
    "one trailer": (CHUNKED + b"\r\n0\r\nx-more: ", b"y" * 1000),
    "padding of chunks": (CHUNKED + b"\r\n1;x=", b"y" * 1000),
    "a body that was refused": (
        b"POST /v1/campaigns HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n",
        b"y" * 1000,
    ),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_cut_off_before_it_takes_memory(service: Service, what: str) -> None:
    taken, answer = flood(service, *ENDLESS[what])
    assert taken < 16 << 20
    assert answer == b"" or int(answer[9:12]) in (400, 401, 414, 431)
    assert service.http.get("/healthz").status_code == 200


def test_heads_up_to_the_limits_are_read_and_larger_ones_refused(service: Service) -> None:
    close = b"connection: close\r\n"
    many = b"".join(b"x-%d: y\r\n" % i for i in range(98))
    long = b"x-more: " + b"y" * 60_000 + b"\r\n"
    for head, status in (
        (HEAD + close + many + b"\r\n", 200),
        (HEAD + close + many + b"z: y\r\n\r\n", 431),
        (HEAD + close + long + b"\r\n", 200),
        (HEAD + close + long + b"x-last: " + b"y" * 6000 + b"\r\n\r\n", 431),
        (b"GET /" + b"y" * 16_000 + b" HTTP/1.1\r\nhost: x\r\n" + close + b"\r\n", 404),
        (b"GET /" + b"y" * 17_000 + b" HTTP/1.1\r\nhost: x\r\n" + close + b"\r\n", 414),
    ):
        answer = talk(service, head)
        assert int(answer[9:12]) == status, (head[:60], answer)
        if status in (414, 431):
            assert b"application/problem+json" in answer
            assert b'"remedy":"Send' in answer
            assert b"connection: close" in answer


TWO_MINDS = {
    "length and chunks": POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
    "the same length twice": POST + b"content-length: 4\r\ncontent-length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"content-length: 4, 4\r\n\r\nabcd",
    "a signed length": POST + b"content-length: +4\r\n\r\nabcd",
    "a folded header": HEAD + b"x-more: y\r\n z\r\n\r\n",
    "a bare line feed": b"GET /healthz HTTP/1.1\nhost: x\n\n",
    "a bare line feed in headers": b"GET /healthz HTTP/1.1\r\nhost: x\nx-more: y\r\n\r\n",
    "a bare carriage return": b"GET /healthz HTTP/1.1\r\nhost: x\rx-more: y\r\n\r\n",
    "a blank before the colon": b"GET /healthz HTTP/1.1\r\nhost : x\r\n\r\n",
    "a zero byte": b"GET /healthz HTTP/1.1\r\nhost: x\x00y\r\n\r\n",
    "another coding": POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked before another coding": POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "a wrong chunk": POST + b"transfer-encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n",
    "a chunk that is too long": POST + b"transfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
    "two hosts": HEAD + b"host: y\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\nx: y\r\n\r\n",
    "two tokens": HEAD + b"authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
}


@pytest.mark.parametrize("what", TWO_MINDS)
def test_a_request_that_can_be_read_in_two_ways_is_refused_and_ends_the_connection(service: Service, what: str) -> None:
    after = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = talk(service, TWO_MINDS[what] + after)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what came behind it was read as a request"
    assert b"application/problem+json" in answer


def test_a_trailer_is_no_header(service: Service) -> None:
    """Whoever checks headers on the way, a proxy for example, has not seen it."""
    token = f"authorization: Bearer {service.admin}\r\n".encode()
    sent = b"DELETE /v1/tokens/none HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
    assert talk(service, sent + token + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert talk(service, sent + b"\r\n0\r\n" + token + b"\r\n").startswith(b"HTTP/1.1 401")


def test_what_is_wrong_behind_a_request_does_not_take_its_answer(service: Service) -> None:
    good = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = talk(service, good + b"\x00\x01 nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"ready\n")
    answer = talk(service, good * 500)
    assert 1 <= answer.count(b"HTTP/1.1 200") <= 40
    assert answer.count(b"HTTP/1.1 200") + answer.count(b"HTTP/1.1 400") == answer.count(b"HTTP/1.1 ")


def test_a_head_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freepull.server.connections.HEADER_SECONDS", 0.5)
    with Service(f"sqlite:///{tmp_path}/trial.db") as service, connect(service) as line:
        begun = time.monotonic()
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: ")
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() < begun + 10:
                line.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - begun < 3


def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead viewers would keep their places, and downloads their files."""
    monkeypatch.setattr("freepull.server.connections.UNREAD_SECONDS", 0.5)
    with Service(f"sqlite:///{tmp_path}/trial.db") as service:
        lines = []
        for _ in range(5):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", service.port))
            line.sendall(b"GET /plotly.js HTTP/1.1\r\nhost: x\r\n\r\n" * 4)
            lines.append(line)
        limit = time.monotonic() + 15
        while service.server.gate.count > 1 and time.monotonic() < limit:
            time.sleep(0.05)
        assert service.server.gate.count <= 1
        for line in lines:
            line.close()


def test_more_connections_than_there_are_descriptors_for_are_turned_away(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = service.server.gate
    monkeypatch.setattr("freepull.server.connections.descriptors", lambda: 40 - gate.count)
    gate._looked = 0.0
    lines = [connect(service) for _ in range(100)]
    limit = time.monotonic() + 10
    while gate.count < 20 and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.2)
    assert gate.count == 20, "half of what there is, for one address"
    assert service.http.get("/healthz").status_code == 200, "who was here before stays"
    assert read(lines[-1]) == b""
    for line in lines:
        line.close()
    while gate.count > 1 and time.monotonic() < limit:
        time.sleep(0.02)
    assert talk(service, HEAD + b"connection: close\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_what_others_have_open_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (400, 400))
    monkeypatch.setattr("os.listdir", lambda _: [""] * 100)
    assert descriptors() == 400 - 100 - 64
    monkeypatch.setattr("os.listdir", lambda _: [""] * 390)
    assert descriptors() == 0
