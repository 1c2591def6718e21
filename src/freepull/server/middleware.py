"""What every request passes before and after the application: one class for each thing that is done with it.

`app` has the list. What one finds out, later ones read in ``scope["state"]``: headers, whether it streams,
authorization, visitor, clock, body, status.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import time
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

import msgspec

from freepull.campaigns.stores.serving import ReplyStore, StoredReply
from freepull.errors import FreepullError
from freepull.server import problems
from freepull.server.auth import CHANGING, Limits, Tokens, earliest, latest
from freepull.server.problems import Refused

App = Callable[[Any, Any, Any], Awaitable[None]]
Log = Callable[..., None]
Headers = list[tuple[bytes, bytes]]
WITH_BODY = ("POST", "PATCH", "DELETE", "PUT")
ALWAYS = ("/healthz", "/metrics")
"""Answered however much is waiting: an overloaded service is alive, and that is when it is looked at."""
OPEN = "/v1/openapi.json"
"""The only path under /v1 that needs no token."""
LARGE = ("/imports", "/agents", "/campaigns")
"""How paths end where admins may send much."""
CLOSE = {"connection": "close"}
SHARES = (16, 2, 1)
"""Which part of all bodies that are under way may be one token's, one address's, and the service's."""
SLASHES = re.compile("/{2,}")
ENCODED = re.compile("%2f", re.IGNORECASE)
PIECE = 64 << 10
"""Bytes of an answer that are handed over at a time; the next ones wait until these were read."""
WITHIN = "\0"
"""Stands for a slash within a name; names are printable, so none has it of its own."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
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
NO_STORE = (b"cache-control", b"no-store")


class Middleware:
    """Does one thing with a request, and hands it on."""

    next: App
    """Where it is handed on to."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        raise NotImplementedError


def chain(middleware: list[Middleware], app: App) -> App:
    """Return an application that requests reach through middleware, the first of the list first."""
    for it in reversed(middleware):
        it.next = app
        app = it
    return app


class Parse(Middleware):
    """Reads path and headers, for all that follow."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        path = scope["path"] = plain_path(scope)
        state = scope.setdefault("state", {})
        state["headers"], state["visitor"] = dict(scope["headers"]), None
        state["streams"] = scope["method"] == "GET" and path.endswith("/stream")
        await self.next(scope, receive, send)


class Overload(Middleware):
    """Refuses at once what comes while too much is waiting.

    There may be much of that: its answer is made once, and it is logged once a second at most.
    """

    def __init__(self, most: int, metrics: Metrics, log: Log) -> None:
        self._most, self._metrics, self._log = most, metrics, log
        self._start, self._body = whole(
            Refused(503, "too many requests are waiting.", "Try again after the time in Retry-After.")
        )
        self._start["headers"] += [*HEADERS, NO_STORE]
        self._told = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if self._metrics.waiting < self._most or scope["path"] in ALWAYS:
            await self.next(scope, receive, send)
            return
        await send(self._start)
        await send(self._body)
        self._metrics.request("none", scope["method"], self._start["status"], 0.0)
        now = time.monotonic()
        if now >= self._told + 1.0:
            self._told = now
            self._log("overloaded", waiting=self._metrics.waiting)


class Places(Middleware):
    """Gives a place to a request that is here whole; streams need none, because they wait for nothing."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most, self._metrics = most, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        metrics = self._metrics
        if scope["state"]["streams"] or scope["path"] in ALWAYS:
            await self.next(scope, receive, send)
            return
        if metrics.waiting >= self._most:
            raise Refused(503, "too many requests are waiting.", "Try again after the time in Retry-After.")
        metrics.waiting += 1
        place = 1

        async def sent(message: Any) -> None:
            nonlocal place
            if place and message["type"] == "http.response.body" and not message.get("more_body", False):
                metrics.waiting, place = metrics.waiting - 1, 0  # it is answered; who reads slowly takes no place
            await send(message)

        try:
            await self.next(scope, receive, sent)
        finally:
            metrics.waiting -= place


class RequestLog(Middleware):
    """Gives every request an id and every answer the headers that all have; logs it and counts it."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._metrics, self._log = metrics, log
        self._prefix, self._numbers = uuid.uuid4().hex[:8], itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state, id = scope["state"], f"{self._prefix}{next(self._numbers):x}"

        async def headed(message: Any) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                headers = message["headers"]
                more = [*headers, *HEADERS, (b"x-request-id", id.encode())]
                if b"cache-control" not in {name for name, _ in headers}:
                    more.append(NO_STORE)
                message = message | {"headers": more}
            elif len(message.get("body", b"")) > PIECE:
                await _in_pieces(message, state, send)
                return
            await send(message)

        begun = time.perf_counter()
        try:
            await self.next(scope, receive, headed)
        finally:
            self._note(scope, id, time.perf_counter() - begun)

    def _note(self, scope: Any, id: str, seconds: float) -> None:
        state, method, route = scope["state"], scope["method"], scope.get("path_template") or "none"
        status, who = state.get("status", 499), state["visitor"]
        if not state["streams"]:
            self._metrics.request(route, method, status, seconds)
        if status < 400 and (method == "GET" or (who is not None and who.scope in ("agent", "gateway"))):
            return  # there are very many of these, and a campaign's own log has what they changed
        self._log(
            "request",
            id=id,
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            who="" if who is None or who.scope == "agent" else who.id,
        )


async def _in_pieces(message: Any, state: Any, send: Any) -> None:
    """Send a long answer piece by piece: who reads none of it costs one piece, who reads slowly has the time."""
    if "clock" in state:
        state["clock"].reschedule(None)
    body, more = message["body"], message.get("more_body", False)
    for begin in range(0, len(body), PIECE):
        further = more or begin + PIECE < len(body)
        await send({"type": message["type"], "body": body[begin : begin + PIECE], "more_body": further})
        await asyncio.sleep(0)  # others' turn: the system may take megabytes at once


class Problems(Middleware):
    """Answers what was refused or went wrong on the way with a problem, unless an answer has begun."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        found: FreepullError
        try:
            if b"%00" in scope["raw_path"]:
                raise Refused(400, "an address must not have a zero byte.", "Leave %00 out.")
            await self.next(scope, receive, send)
            return
        except FreepullError as error:
            found = error
        except Exception as error:
            self._log("error", **problems.traced(error))
            found = Refused(500, "something went wrong inside.", "Tell whoever runs the service.")
        if "status" not in scope["state"]:
            for message in whole(found):
                await send(message)


class TimeLimits(Middleware):
    """Gives up on a body that comes too slowly, and on an answer that takes too long, streams and exports excepted."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state, method = scope["state"], scope["method"]
        seconds: float | None = self._limits.seconds if method in WITH_BODY else self._limits.answer
        if state["streams"] or (method == "GET" and "/exports/" in scope["path"]):
            seconds = None
        try:
            async with asyncio.timeout(seconds) as state["clock"]:
                await self.next(scope, receive, send)
        except TimeoutError:
            if method in WITH_BODY and "body" not in state:
                raise Refused(408, "the body took too long to arrive.", "Send it again, faster.", CLOSE) from None
            raise Refused(503, "the answer took too long.", "Try again with the same event id.", CLOSE) from None


class Auth(Middleware):
    """Finds out who asks, before anything of a body is read."""

    def __init__(self, tokens: Tokens, credentials: Callable[[Any], str]) -> None:
        self._tokens, self._credentials = tokens, credentials

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["path"].startswith("/v1/") and scope["path"] != OPEN:
            state = scope["state"]
            state["authorization"] = given = self._credentials(scope)
            state["visitor"] = self._tokens.visitor(given)
        await self.next(scope, receive, send)


def sent_token(scope: Any) -> str:
    """Return who asks, as the header Authorization says."""
    header: bytes = scope["state"]["headers"].get(b"authorization", b"")
    return header.decode("latin-1")


class Bodies(Middleware):
    """Reads a body whole, if it is not too large; from then on it is the answer that takes time.

    One token, one address and all of them together may have so many bodies under way, so that nobody who sends slowly,
    or never ends, keeps others out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most = [max(1, limits.bodies.at_once // share) for share in SHARES]
        self._coming: dict[str, int] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state, limits = scope["state"], self._limits
        visitor = state["visitor"]
        if scope["method"] not in WITH_BODY or visitor is None:  # without a token nothing is done with a body
            await self.next(scope, receive, send)
            return
        most = limits.bodies.pull if visitor.scope == "agent" else limits.bodies.most
        if visitor.scope in CHANGING and scope["path"].endswith(LARGE):
            most = limits.bodies.upload
        senders = (f"token {visitor.id}", f"address {(scope['client'] or ('',))[0]}", "service")
        coming = self._begin(senders, visitor.scope == "gateway")
        try:
            body = state["body"] = await self._read(state["headers"], receive, most)
        finally:
            for sender in senders:
                coming[sender] -= 1
                if not coming[sender]:
                    del coming[sender]
        state["clock"].reschedule(asyncio.get_running_loop().time() + limits.answer)
        await self.next(scope, again(body, receive), send)

    def _begin(self, senders: tuple[str, str, str], gateway: bool) -> dict[str, int]:
        """Count a body that begins, or refuse it; a gateway's token may have as many as an address."""
        coming, (one, *others) = self._coming, self._most
        for sender, most in zip(senders, (others[0] if gateway else one, *others), strict=True):
            if coming.get(sender, 0) >= most:
                words = f"one {sender.partition(' ')[0]} may have {most} bodies under way at a time."
                status = 503 if sender == "service" else 429
                raise Refused(status, words, "End those that were begun, and try again.", CLOSE)
        for sender in senders:
            coming[sender] = coming.get(sender, 0) + 1
        return coming

    async def _read(self, headers: dict[bytes, bytes], receive: Any, most: int) -> bytes:
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(415, "the body must not be compressed.", "Leave Content-Encoding out.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > most:
            raise _too_large(most)
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the connection ended before the body.", "Send it again.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return b"".join(parts)


def _too_large(most: int) -> Refused:
    return Refused(413, f"the body must have at most {most:,} bytes.", "Send less at a time.", CLOSE)


def plain_path(scope: Any) -> str:
    """Return the path of a request: decoded, without empty parts, slashes within names marked."""
    path: str = scope["path"]
    if b"%" in scope["raw_path"]:
        path = unquote(ENCODED.sub(WITHIN, scope["raw_path"].decode("latin-1")))
    return SLASHES.sub("/", path).rstrip("/") or "/"


def name_in(part: str) -> str:
    """Return the name that a part of a path stands for.

    >>> name_in(plain_path({"path": "", "raw_path": b"/v1/a%2Fb"}).rpartition("/")[2])
    'a/b'
    """
    return part.replace(WITHIN, "/")


def messages(status: int, kind: str, body: bytes, more: Headers | None = None) -> tuple[Any, Any]:
    """Return the messages of an answer."""
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *(more or [])]
    start = {"type": "http.response.start", "status": status, "headers": headers}
    return start, {"type": "http.response.body", "body": body}


def whole(error: FreepullError) -> tuple[Any, Any]:
    """Return the messages of an error."""
    found = problems.problem(error)
    more = [(name.encode(), value.encode()) for name, value in problems.headers(found, error).items()]
    return messages(found.status, problems.MEDIA_TYPE, problems.encode(found), more)


def again(body: bytes, receive: Any) -> Any:
    """Return a `receive` that has the body already; without another one behind it, nothing more ever comes."""
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


COUNTED = {
    "requests_total": "Requests, by route, method and status.",
    "request_seconds": "How long answers took, streams excepted.",
    "observations_total": "Pulls that were told.",
    "requests_waiting": "Requests at this moment.",
    "started_timestamp_seconds": "When this process began.",
    "campaigns_owned": "Campaigns that are open here.",
    "campaigns_broken": "Campaigns that cannot be read.",
    "viewers": "Streams at this moment.",
    "store_errors_total": "Looks at the store that failed.",
}
"""What this process counts, for Prometheus."""


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP freepull_{name} {COUNTED[name]}", f"# TYPE freepull_{name} {kind}"]


class Metrics:
    """What this process has done since it began, for Prometheus: numbers only, no names, so anybody may read them."""

    def __init__(self) -> None:
        self.waiting = 0
        """Requests at this moment, streams excepted."""
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._observations = 0
        self._began = int(time.time())

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[route, method, status] += 1
        self._seconds += seconds
        self._buckets[bisect_left(BUCKETS, seconds)] += 1

    def observations(self, count: int) -> None:
        """Count pulls that were told."""
        self._observations += count

    def text(self, **more: int) -> str:
        """Return everything as Prometheus reads it, with further numbers; those whose name says so are totals."""
        lines = _head("requests_total", "counter")
        for (route, method, status), count in sorted(self._requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"freepull_requests_total{{{labels}}} {count}")
        total = sum(self._requests.values())
        lines += _head("request_seconds", "histogram")
        upto = accumulate(self._buckets)
        lines += [f'freepull_request_seconds_bucket{{le="{it}"}} {next(upto)}' for it in BUCKETS]
        lines.append(f'freepull_request_seconds_bucket{{le="+Inf"}} {total}')
        lines += [f"freepull_request_seconds_sum {self._seconds:.6f}", f"freepull_request_seconds_count {total}"]
        own = {
            "observations_total": self._observations,
            "requests_waiting": self.waiting,
            "started_timestamp_seconds": self._began,
        }
        for name, value in (own | more).items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [*_head(name, kind), f"freepull_{name} {value}"]
        return "\n".join(lines) + "\n"


KEPT = 86_400 * 10**6
LONGEST_KEY = 200


class Idempotency(Middleware):
    """Runs a request once for its Idempotency-Key: an admin's POST that was answered is answered the same for a day.

    The answer is kept in the store, so that a restart does not forget it. Names of agents can be erased, so they are
    not stored here: whom a campaign waits for, or an answer is about, is left out of its copy. Tokens are secrets, so a
    request that makes some is not kept at all.
    """

    def __init__(self, store: Callable[[], ReplyStore]) -> None:
        self._store = store
        self._going_on: set[bytes] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state = scope["state"]
        key, visitor = state["headers"].get(b"idempotency-key"), state["visitor"]
        changes = visitor is not None and visitor.scope in CHANGING
        if key is None or not changes or scope["method"] != "POST" or scope["path"].endswith("/tokens"):
            await self.next(scope, receive, send)
            return
        if not 0 < len(key) <= LONGEST_KEY:
            raise Refused(422, f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.", "Send a shorter one.")
        id = hashlib.sha256(f"{visitor.id}\0{key.decode('latin-1')}".encode()).digest()
        if id in self._going_on:
            wait = {"retry-after": "1"}
            raise Refused(409, "a request with this Idempotency-Key is going on.", "Wait for its answer.", wait)
        self._going_on.add(id)
        try:
            reply, before = await self._once(id, scope)
        finally:
            self._going_on.discard(id)
        kind = problems.MEDIA_TYPE if reply.status >= 400 else "application/json"
        more = [(b"idempotent-replayed", b"true")] if before else []
        for message in messages(reply.status, kind, reply.body, more):
            await send(message)

    async def _once(self, id: bytes, scope: Any) -> tuple[StoredReply, bool]:
        """Return the reply to a request, and whether it was answered before."""
        body = scope["state"]["body"]
        request = scope["path"].encode("utf-8", "surrogatepass") + b"\0" + scope["query_string"] + b"\0" + body
        content, store = hashlib.sha256(request).digest(), self._store()
        known = await asyncio.to_thread(store.find_reply, id, earliest() - KEPT)
        if known is not None:
            if known.request != content:
                raise Refused(
                    422, "this Idempotency-Key was used for another request.", "Take a new key for a new request."
                )
            return known, True
        status, parts = 500, list[bytes]()

        async def catch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self.next(scope, again(body, None), catch)
        reply = StoredReply(content, status, b"".join(parts))
        if status < 300:
            kept = reply._replace(body=_nameless(reply.body))
            await asyncio.to_thread(self._store().keep_reply, id, kept, latest(), earliest() - KEPT)
        return reply, False


def _nameless(body: bytes) -> bytes:
    told = msgspec.json.decode(body or b"null")
    return msgspec.json.encode(_without_names(told)) if isinstance(told, dict) else body


def _without_names(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out whom a campaign waits for, and whom an answer is about, also where an offer says it."""
    if told.get("awaited"):
        told["awaited"] = []
    if "agent" in told:
        told["agent"] = ""
    if isinstance(told.get("offer"), dict):
        told["offer"] = _without_names(told["offer"])
    return told
