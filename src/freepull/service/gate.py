"""What every request passes before and after the application: limits, keys, headers, the log and the counters."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from freepull.errors import FreepullError
from freepull.service import problems
from freepull.service.answered import Answered
from freepull.service.house import House
from freepull.service.metrics import Metrics
from freepull.service.problems import Refused

CONTENT_SECURITY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    b"style-src-elem 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No script but ours, nothing from elsewhere; plotly sets styles on its own elements, and adds an empty sheet."""
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
WAITING = ("POST", "PATCH", "DELETE", "PUT")


@dataclass(frozen=True)
class Limits:
    """What one process takes on."""

    body: int = 1 << 20
    """Bytes of a body."""
    upload: int = 32 << 20
    """Bytes of an import, or of a list of agents."""
    seconds: float = 10.0
    """For a body to arrive."""
    answer: float = 60.0
    """For an answer, streams and exports excepted."""
    waiting: int = 256
    """Requests at a time; more are refused at once."""
    agent_rate: float = 20.0
    """Requests a second of one agent, on average."""


class Gate:
    """The outermost layer."""

    def __init__(self, app: Any, house: House, limits: Limits, metrics: Metrics, log: Callable[..., None]) -> None:
        self.app, self.house, self.limits, self.metrics, self.log = app, house, limits, metrics, log
        self.answered = Answered(house.access)
        self.waiting = 0
        self._prefix, self._numbers = uuid.uuid4().hex[:8], itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sending = _Sending(send, f"{self._prefix}{next(self._numbers):x}")
        begun = time.perf_counter()
        self.waiting += 1
        streaming = scope["path"].endswith("/stream")
        try:
            if self.waiting > self.limits.waiting and self.waiting - self.house_viewers() > self.limits.waiting:
                raise Refused(503, "too many requests are waiting.", "Try again after the time in Retry-After.")
            async with asyncio.timeout(None if streaming else self.limits.answer):
                await self._serve(scope, receive, sending)
        except FreepullError as error:
            await sending.problem(error)
        except TimeoutError:
            await sending.problem(Refused(503, "the answer took too long.", "Try again with the same event id."))
        finally:
            self.waiting -= 1
            self._note(scope, sending, time.perf_counter() - begun, streaming)

    def house_viewers(self) -> int:
        """Return how many of the requests are streams, which wait for nothing."""
        return sum(found.viewers.count for found in self.house.here().values())

    async def _serve(self, scope: Any, receive: Any, sending: _Sending) -> None:
        headers = dict(scope["headers"])
        method = scope["method"]
        if method not in WAITING:
            await self.app(scope, receive, sending)
            return
        body = await self._body(scope, headers, receive, sending)
        key = headers.get(b"idempotency-key")
        header = headers.get(b"authorization", b"").decode("latin-1")
        if method == "POST" and key is not None and not scope["path"].endswith("/tokens"):
            visitor = self.house.access.visitor(header)
            if visitor.scope == "admin":
                await self._once(scope, key.decode("latin-1"), visitor.id, body, sending)
                return
        await self.app(scope, _again(body, receive), sending)

    async def _once(self, scope: Any, key: str, who: str, body: bytes, sending: _Sending) -> None:
        """Answer a POST with a key once, and the same again after that."""

        async def run() -> tuple[int, bytes]:
            caught = _Caught()
            await self.app(scope, _again(body, None), caught)
            return caught.status, caught.body

        request = scope["path"].encode("utf-8", "surrogatepass") + b"\0" + scope["query_string"] + b"\0" + body
        status, answer, before = await self.answered.once(who, key, request, run)
        kind = problems.MEDIA_TYPE if status >= 400 else "application/json"
        more = [(b"idempotent-replayed", b"true")] if before else []
        await sending.all(status, kind, answer, more)

    async def _body(self, scope: Any, headers: dict[bytes, bytes], receive: Any, sending: _Sending) -> bytes:
        """Read the body, within its limits."""
        path = scope["path"]
        most = self.limits.upload if path.endswith(("/imports", "/agents", "/campaigns")) else self.limits.body
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(415, "the body must not be compressed.", "Leave Content-Encoding out.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > most:
            sending.close = True
            raise Refused(413, f"the body must have at most {most:,} bytes.", "Send less at a time.")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the connection ended before the body.", "Send it again.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        sending.close = True
                        raise Refused(413, f"the body must have at most {most:,} bytes.", "Send less at a time.")
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            sending.close = True
            raise Refused(408, "the body took too long to arrive.", "Send it again, faster.") from None

    def _note(self, scope: Any, sending: _Sending, seconds: float, streaming: bool) -> None:
        route = scope.get("path_template") or "none"
        status = sending.status or 499
        if not streaming:
            self.metrics.request(route, scope["method"], status, seconds)
        who = scope.get("state", {}).get("visitor")
        quiet = status < 400 and (scope["method"] == "GET" or (who is not None and who.scope in ("agent", "gateway")))
        if not quiet:
            self.log(
                "request",
                id=sending.id,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                who="" if who is None or who.scope == "agent" else who.id,
            )


class _Sending:
    """Sends an answer, with the headers that all of them have."""

    def __init__(self, send: Any, id: str) -> None:
        self._send, self.id, self.status, self.close = send, id, 0, False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = [*HEADERS, (b"x-request-id", self.id.encode())]
            if self.close:
                more.append((b"connection", b"close"))
            known = {name for name, _ in message["headers"]}
            if b"cache-control" not in known:
                more.append((b"cache-control", b"no-store"))
            message = message | {"headers": [*message["headers"], *more]}
        await self._send(message)

    async def problem(self, error: FreepullError) -> None:
        """Send an error, unless an answer has begun."""
        if self.status:
            return
        found = problems.problem(error)
        more = [(name.encode(), value.encode()) for name, value in problems.headers(found, error).items()]
        await self.all(found.status, problems.MEDIA_TYPE, problems.encode(found), more)

    async def all(self, status: int, kind: str, body: bytes, more: list[tuple[bytes, bytes]]) -> None:
        """Send a whole answer."""
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


class _Caught:
    """Catches an answer instead of sending it."""

    def __init__(self) -> None:
        self.status, self.body = 500, b""

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


def _again(body: bytes, receive: Any) -> Any:
    """Return a `receive` that has the body already."""
    given = False

    async def received() -> Any:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        if receive is None:
            await asyncio.Event().wait()
        return await receive()

    return received
