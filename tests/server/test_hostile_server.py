"""The SDK against a server that means no good: whatever it answers, a client gets a reply or a ServiceError, soon."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull.errors import FreepullError, ServiceError
from support.running import certificate

pytestmark = pytest.mark.slow
Answering = Callable[[socket.socket], None]


class Hostile:
    """Listens, reads what comes, and answers as it likes."""

    def __init__(self, answer: Answering) -> None:
        self._answer, self.first = answer, True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.at = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked: list[bytes] = []
        self._lines: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Hostile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                self._lines.append(line)
                threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.first:
                self.asked.append(line.recv(1 << 16))
            self._answer(line)
            line.shutdown(socket.SHUT_WR)


def says(body: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> Answering:
    """Answer with a body."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *more]
    return lambda line: line.sendall("\r\n".join([*lines, "", ""]).encode() + body)


def raw(*pieces: bytes, pause: float = 0.0, times: int = 1) -> Answering:
    """Send pieces, the last of them many times."""

    def answer(line: socket.socket) -> None:
        for piece in pieces[:-1]:
            line.sendall(piece)
        for _ in range(times):
            line.sendall(pieces[-1])
            time.sleep(pause)

    return answer


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
ODD: dict[str, Answering] = {
    "HTML": says(b"<html>log in</html>", kind="text/html"),
    "HTML as JSON": says(b"<html>log in</html>"),
    "JSON as HTML": says(b"{}", kind="text/html"),
    "nothing": says(b""),
    "null": says(b"null"),
    "no content": raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a list": says(b"[1, 2, 3]"),
    "rows of another kind": says(b'[{"a": 1}]'),
    "wrong types": says(b'{"offer": 7, "results": [{"error": 7}], "tokens": [{}], "event": "x", "name": 9}'),
    "wrong values": says(b'{"offer": {"number": "a"}, "results": [], "tokens": [], "event": 1, "outcome": "gold"}'),
    "cut JSON": says(b'{"offer": {"num'),
    "deep JSON": says(b"[" * 100_000),
    "bad UTF-8": says(b'{"offer": "\xff\xfe"}'),
    "a number without end": says(b'{"event": ' + b"9" * 100_000 + b"}"),
    "a redirect": says(b"", "302 Found", "text/html", "location: http://127.0.0.1:1/"),
    "a permanent redirect": says(b"{}", "308 Permanent Redirect", "application/json", "location: http://127.0.0.1:1/"),
    "not modified": raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "a strange status": says(b"{}", "999 What"),
    "an owner elsewhere": says(b'{"owner": "http://127.0.0.1:1"}', "421 Misdirected"),
    "an owner of another type": says(b'{"owner": {"a": 1}}', "421 Misdirected"),
    "a problem of another type": says(b'{"type": 7, "detail": [], "remedy": {}, "expected": "x"}', "422 No"),
    "a gap of another type": says(b'{"type": "/problems/EventGap", "expected": {}}', "409 Conflict"),
    "a gap without words": says(b'{"type": "EventGap", "detail": null, "expected": "7"}', "409 Conflict"),
    "a problem that names no error": says(b'{"type": "/problems/annotations", "detail": "x"}', "422 No"),
    "an error page": says(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html"),
    "too busy for a year": says(b"{}", "503 No", "application/json", "retry-after: 31536000"),
    "compressed": says(gzip.compress(b"{}"), "200 OK", "application/json", "content-encoding: gzip"),
    "a bomb": says(gzip.compress(bytes(50 << 20)), "200 OK", "application/json", "content-encoding: gzip"),
    "an unknown coding": says(b"{}", "200 OK", "application/json", "content-encoding: zz"),
    "a body that is cut": raw(HEAD + b"content-length: 1000\r\n\r\n{"),
    "two lengths": raw(HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}}"),
    "a wrong chunk": raw(HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "bytes": raw(bytes(range(256)) * 10),
    "a closed door": raw(b""),
    "silence": raw(b"", pause=30.0),
    "headers that drip": raw(b"HTTP/1.1 200 OK\r\nx: ", b"y", pause=0.1, times=300),
    "a body that drips": raw(HEAD + b"content-length: 100000\r\n\r\n", b" ", pause=0.1, times=300),
    "chunks that drip": raw(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n", pause=0.1, times=300),
    "headers without end": raw(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 10_000, times=1000),
    "continue without end": raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, times=20_000),
    "a body without end": raw(HEAD + b"\r\n", b" " * (1 << 20), times=100_000),
}
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "status": lambda client, campaign, agent: campaign.status(),
    "campaigns": lambda client, campaign, agent: client.campaigns(),
    "tell_each": lambda client, campaign, agent: campaign.tell_each([("ann", "A", 0.5)]),
    "tokens": lambda client, campaign, agent: campaign.agent_tokens(["ann"]),
    "ask as an admin": lambda client, campaign, agent: campaign.ask("ann"),
    "ledger": lambda client, campaign, agent: campaign.ledger(),
    "ask": lambda client, campaign, agent: agent.ask(),
    "tell": lambda client, campaign, agent: agent.tell("A", 0.5),
    "me": lambda client, campaign, agent: agent.me(),
}


@pytest.fixture(params=ODD)
def hostile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.setattr("freepull.client.transport.MOST_REPLY", 8 << 20)
    with Hostile(ODD[request.param]) as running:
        yield running


def refused(ask: Callable[[], Any]) -> None:
    begun = time.monotonic()
    with pytest.raises(FreepullError) as found:
        ask()
    assert time.monotonic() - begun < 5
    assert isinstance(found.value, (ServiceError, fp.errors.EventGap)), repr(found.value)
    assert len(str(found.value)) < 2000
    assert str(found.value).isprintable()


def test_blocking_clients_get_a_service_error(hostile: Hostile, tmp_path: Path) -> None:
    with (
        fp.Client(hostile.at, "secret", retries=0, seconds=0.25) as client,
        fp.AgentClient(hostile.at, "c", "secret", retries=0, seconds=0.25) as agent,
    ):
        for call in CALLS.values():
            refused(partial(call, client, client.campaign("c"), agent))
        with fp.Client(hostile.at, "secret", retries=0, seconds=0.004) as hasty:
            refused(lambda: hasty.backup(tmp_path / "copy.db"))
            refused(lambda: hasty.campaign("c").export(tmp_path / "all.csv"))
    assert list(tmp_path.iterdir()) == []


def test_clients_on_asyncio_get_a_service_error(hostile: Hostile) -> None:
    async def run() -> None:
        async with (
            fp.AsyncClient(hostile.at, "secret", retries=0, seconds=0.25) as client,
            fp.AsyncAgentClient(hostile.at, "c", "secret", retries=0, seconds=0.25) as agent,
        ):

            async def one(ask: Callable[[Any, Any, Any], Any]) -> FreepullError:
                with pytest.raises(FreepullError) as found:
                    await ask(client, client.campaign("c"), agent)
                return found.value

            begun = time.monotonic()
            found = await asyncio.gather(*(one(ask) for ask in CALLS.values()))
            assert time.monotonic() - begun < 5
            assert all(isinstance(it, (ServiceError, fp.errors.EventGap)) for it in found)

    asyncio.run(run())


def test_a_token_goes_nowhere_that_was_not_given() -> None:
    with Hostile(says(b"{}")) as elsewhere:
        for status, more in (("421 Misdirected", ()), ("307 Redirect", (f"location: {elsewhere.at}/v1/campaigns",))):
            moved = says(f'{{"owner": "{elsewhere.at}"}}'.encode(), status, "application/json", *more)
            with Hostile(moved) as home, fp.Client(home.at, "secret", retries=3) as client:
                with pytest.raises(ServiceError):
                    client.campaign("c").status()
                assert len(home.asked) == 1
        assert elsewhere.asked == []


def test_a_table_that_never_ends_is_noticed() -> None:
    row = b'[{"name": "a", "number": 5, "state": "active", "pulls": [], "offer": null, "banned": null, "left": null}]'
    with Hostile(says(row)) as home, fp.Client(home.at, "secret", retries=0) as client, pytest.raises(ServiceError):
        client.campaign("c").agents()


def test_an_expired_certificate_is_said_at_once(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)

    def agree(line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            context.wrap_socket(line, server_side=True).close()

    home = Hostile(agree)
    home.first = False
    begun = time.monotonic()
    expected = r"^the certificate of https://.* is not valid \(.*\); put it right there"
    with (
        home,
        fp.Client(home.at.replace("http", "https"), "secret") as client,
        pytest.raises(ServiceError, match=expected),
    ):
        client.campaigns()
    assert time.monotonic() - begun < 5
