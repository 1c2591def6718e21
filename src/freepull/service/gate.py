"""What every request passes before and after the application: limits, keys, headers, the log and the counters."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any

from freepull.errors import FreepullError
from freepull.service import problems
from freepull.service.answered import Answered
from freepull.service.house import House
from freepull.service.limits import Limits
from freepull.service.metrics import Metrics
from freepull.service.paths import plain_path
from freepull.service.problems import Refused
from freepull.service.quick import Quick
from freepull.service.wire import Caught, Sending, again, whole

WAITING = ("POST", "PATCH", "DELETE", "PUT")
ALWAYS = ("/healthz", "/metrics")
"""Answered however much is waiting: who is overloaded lives, and is looked at just then."""
BUSY, BUSY_BODY = whole(Refused(503, "too many requests are waiting.", "Try again after the time in Retry-After."))
"""The answer to those who come while too much is waiting: made once, so that it costs little."""


class Gate:
    """The outermost layer."""

    def __init__(
        self, app: Any, house: House, quick: Quick, limits: Limits, metrics: Metrics, log: Callable[..., None]
    ) -> None:
        self.quick = quick
        self.app, self.house, self.limits, self.metrics, self.log = app, house, limits, metrics, log
        self.answered = Answered(house.access)
        self.waiting = 0
        """Requests at this moment, streams excepted, which wait for nothing."""
        self._told = 0.0
        self._prefix, self._numbers = uuid.uuid4().hex[:8], itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] = plain_path(scope)
        if self.waiting >= self.limits.waiting and path not in ALWAYS:
            await self._refuse(scope["method"], send)
            return
        sending = Sending(send, f"{self._prefix}{next(self._numbers):x}")
        begun = time.perf_counter()
        reading = scope["method"] == "GET"  # what has a body has to arrive in time, wherever it goes
        streaming, exporting = reading and path.endswith("/stream"), reading and "/exports/" in path
        self.waiting += not streaming
        try:
            seconds = self.limits.seconds if scope["method"] in WAITING else self.limits.answer
            async with asyncio.timeout(None if streaming or exporting else seconds) as clock:
                await self._serve(scope, receive, sending, clock)
        except FreepullError as error:
            await sending.problem(error)
        except TimeoutError:
            sending.close = True
            slow = Refused(408, "the body took too long to arrive.", "Send it again, faster.")
            late = Refused(503, "the answer took too long.", "Try again with the same event id.")
            await sending.problem(slow if sending.reading else late)
        except Exception as error:
            self.log("error", error=f"{type(error).__name__}: {error}"[:500])
            await sending.problem(Refused(500, "something went wrong inside.", "Tell whoever runs the service."))
        finally:
            self.waiting -= not streaming
            self._note(scope, sending, time.perf_counter() - begun, streaming)

    async def _refuse(self, method: str, send: Any) -> None:
        """Refuse what comes while too much is waiting. There may be much of it: it is logged once a second at most."""
        await send(BUSY)
        await send(BUSY_BODY)
        self.metrics.request("none", method, BUSY["status"], 0.0)
        now = time.monotonic()
        if now >= self._told + 1.0:
            self._told = now
            self.log("overloaded", waiting=self.waiting)

    async def _serve(self, scope: Any, receive: Any, sending: Sending, clock: asyncio.Timeout) -> None:
        headers, method = dict(scope["headers"]), scope["method"]
        visitor = None
        if scope["path"].startswith("/v1/") and scope["path"] != "/v1/openapi.json":  # nobody's body is read unasked
            visitor = self.house.access.visitor(headers.get(b"authorization", b"").decode("latin-1"))
            scope.setdefault("state", {})["visitor"] = visitor
        if method not in WAITING:
            await self.app(scope, receive, sending)
            return
        admin = visitor if visitor is not None and visitor.scope == "admin" else None
        large = admin is not None and scope["path"].endswith(("/imports", "/agents", "/campaigns"))
        most = self.limits.upload if large else self.limits.body
        body = await self._body(headers, receive, sending, most)
        clock.reschedule(asyncio.get_running_loop().time() + self.limits.answer)
        key = headers.get(b"idempotency-key")
        if method == "POST" and admin is not None and key is not None and not scope["path"].endswith("/tokens"):
            await self._once(scope, key.decode("latin-1"), admin.id, body, sending)
            return
        if visitor is not None and method == "POST":
            answer = await self.quick.answer(scope, headers, visitor, body)
            if answer is not None:
                await sending.all(200, "application/json", answer, [])
                return
        await self.app(scope, again(body, receive), sending)

    async def _once(self, scope: Any, key: str, who: str, body: bytes, sending: Sending) -> None:
        """Answer a POST with a key once, and the same again after that."""

        async def run() -> tuple[int, bytes]:
            caught = Caught()
            await self.app(scope, again(body, None), caught)
            return caught.status, caught.body

        request = scope["path"].encode("utf-8", "surrogatepass") + b"\0" + scope["query_string"] + b"\0" + body
        status, answer, before = await self.answered.once(who, key, request, run)
        kind = problems.MEDIA_TYPE if status >= 400 else "application/json"
        more = [(b"idempotent-replayed", b"true")] if before else []
        await sending.all(status, kind, answer, more)

    async def _body(self, headers: dict[bytes, bytes], receive: Any, sending: Sending, most: int) -> bytes:
        """Read the body, within its limits."""
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(415, "the body must not be compressed.", "Leave Content-Encoding out.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > most:
            sending.close = True
            raise Refused(413, f"the body must have at most {most:,} bytes.", "Send less at a time.")
        parts, size = [], 0
        sending.reading = True
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
                sending.reading = False
                return b"".join(parts)

    def _note(self, scope: Any, sending: Sending, seconds: float, streaming: bool) -> None:
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
