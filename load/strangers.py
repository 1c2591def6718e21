"""Servers that mean no good: whatever they answer, a client gets a reply or a ServiceError, soon."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import freepull as fp
from freepull.errors import EventGap, ServiceError

from .traffic import Row

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


async def _asked(home: Hostile, clients: int) -> tuple[list[object], float]:
    """Let clients on asyncio ask for everything at once; return what they got, and how long the last one waited."""
    begun = time.monotonic()
    async with contextlib.AsyncExitStack() as stack:
        asking = []
        for _ in range(clients):
            client = await stack.enter_async_context(fp.AsyncClient(home.at, "secret", retries=0, seconds=0.5))
            agent = await stack.enter_async_context(fp.AsyncAgentClient(home.at, "c", "secret", retries=0, seconds=0.5))
            asking += [call(client, client.campaign("c"), agent) for call in CALLS.values()]
        found = await asyncio.gather(*asking, return_exceptions=True)
        return list(found), time.monotonic() - begun


def strangers(clients: int) -> Iterator[Row]:
    """Let many clients on asyncio ask each of these servers at once."""
    asked, longest, wrong = 0, 0.0, list[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, answer in ODD.items():
        with Hostile(answer) as home:
            found, lasted = asyncio.run(_asked(home, clients))
        asked, longest = asked + len(found), max(longest, lasted)
        wrong += [f"{name}: {it!r}"[:200] for it in found if not isinstance(it, (ServiceError, EventGap))]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    words = f"{asked:,} requests, {len(wrong)} met anything else; all answered within {longest:.1f} s; {grown:+.0f} MB"
    good = not wrong and longest <= 10 and grown < 500
    bar = "a ServiceError each, ≤ 10 s, < 500 MB"
    yield f"AsyncClient × {clients} at {len(ODD)} servers that mean no good", bar, "; ".join([words, *wrong[:3]]), good
