"""The messages of an answer: sent with the headers that all of them have, or caught instead."""

from __future__ import annotations

import asyncio
from typing import Any

from freepull.errors import FreepullError
from freepull.service import problems

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
Headers = list[tuple[bytes, bytes]]


class Sending:
    """Sends an answer, with the headers that all of them have."""

    def __init__(self, send: Any, id: str) -> None:
        self._send, self.id, self.status = send, id, 0
        self.close = False
        """Whether the connection ends with the answer."""
        self.reading = False
        """Whether the body has not arrived yet."""

    async def __call__(self, message: Any) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = [*HEADERS, (b"x-request-id", self.id.encode())]
            if self.close:
                more.append((b"connection", b"close"))
            known = {name for name, _ in message["headers"]}
            if b"cache-control" not in known:
                more.append(NO_STORE)
            message = message | {"headers": [*message["headers"], *more]}
        await self._send(message)

    async def problem(self, error: FreepullError) -> None:
        """Send an error, unless an answer has begun."""
        if not self.status:
            await self.all(*_told(error))

    async def all(self, status: int, kind: str, body: bytes, more: Headers) -> None:
        """Send a whole answer."""
        for message in _messages(status, kind, body, more):
            await self(message)


def _told(error: FreepullError) -> tuple[int, str, bytes, Headers]:
    """Return an error as an answer: status, kind, body, headers."""
    found = problems.problem(error)
    more = [(name.encode(), value.encode()) for name, value in problems.headers(found, error).items()]
    return found.status, problems.MEDIA_TYPE, problems.encode(found), more


def _messages(status: int, kind: str, body: bytes, more: Headers) -> tuple[Any, Any]:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
    start = {"type": "http.response.start", "status": status, "headers": headers}
    return start, {"type": "http.response.body", "body": body}


def whole(error: FreepullError) -> tuple[Any, Any]:
    """Return the messages of an error, for one that is sent often: all but the request's id."""
    start, body = _messages(*_told(error))
    return start | {"headers": [*start["headers"], *HEADERS, NO_STORE]}, body


class Caught:
    """Catches an answer instead of sending it."""

    def __init__(self) -> None:
        self.status, self.body = 500, b""

    async def __call__(self, message: Any) -> None:
        """Catch a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


def again(body: bytes, receive: Any) -> Any:
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
