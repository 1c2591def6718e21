"""How requests are sent: with a token, again after a failure with the same event id, and to the campaign's owner."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, get_type_hints
from urllib.parse import quote

import msgspec

from freepull import errors
from freepull.commands import Awaiting, Blocking, Twin
from freepull.errors import FreepullError, InvalidInput, MissingExtra, ServiceError

Arguments = ParamSpec("Arguments")
Reply = TypeVar("Reply")
AGAIN = (408, 421, 429, 502, 503, 504)
"""After these the same request is sent again."""
SECONDS = 30.0
RETRIES = 8


def httpx() -> Any:
    """Return the HTTP library, which takes longer to load than all of the client."""
    try:
        import httpx as library
    except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
        raise MissingExtra("clients need httpx; install freepull with pip install 'freepull[client]'.") from error
    return library


@dataclass(frozen=True)
class Call(Generic[Reply]):
    """One request, and the type of its reply."""

    method: str
    path: str
    reply: Any
    body: Any = None
    """Sent as JSON; bytes are sent as they are."""
    kind: str = "application/json"
    query: tuple[tuple[str, Any], ...] = ()
    keyed: bool = False
    """Whether it takes an Idempotency-Key, which makes it safe to repeat."""
    token: str = ""
    """Sent instead of the client's own."""

    def read(self, content: bytes) -> Reply:
        """Read the reply."""
        if self.reply is bytes:
            return content  # type: ignore[return-value]
        found: Reply = msgspec.json.decode(content or b"null", type=self.reply)
        return found


Talk = Generator[Call[Any], Any, Reply]
"""Requests and what is made of their replies, written once: whoever drives it waits for each, or awaits it."""


def send(call: Call[Reply]) -> Talk[Reply]:
    """Send one request."""
    found: Reply = yield call
    return found


def place(*parts: str) -> str:
    """Return the path of something of the service."""
    return "/".join(["/v1", *(quote(part, safe=":") for part in parts)])


class Attempt:
    """One request, sent until it is answered or patience is over."""

    def __init__(
        self, call: Call[Any], url: str, token: str, retries: int = 0, owners: dict[str, str] | None = None
    ) -> None:
        owners = {} if owners is None else owners
        self.call, self._home, self._left, self._tries = call, url, retries, 0
        self._campaign, self._owners = "/".join(call.path.split("/")[:4]), owners
        self.url = owners.get(self._campaign, url)
        headers = {"authorization": f"Bearer {call.token or token}"}
        if call.keyed:
            headers["idempotency-key"] = uuid.uuid4().hex
        content = None
        if call.body is not None:
            headers["content-type"] = call.kind
            content = call.body if isinstance(call.body, bytes) else msgspec.json.encode(call.body)
        self.options: dict[str, Any] = {"headers": headers, "content": content, "params": dict(call.query) or None}

    def arguments(self) -> tuple[str, str]:
        """Return method and address."""
        return self.call.method, self.url + self.call.path

    def failed(self, error: Exception) -> float:
        """Take note that no answer came; return after how many seconds to try again, or raise."""
        self._go(None)
        if self._left <= 0:
            raise unreachable(self._home, error) from None
        return self._wait(None)

    def answered(self, status: int, content: bytes, after: str | None) -> float | None:
        """Take note of an answer; return None if it is good, or after how many seconds to try again, or raise."""
        if status < 400:
            return None
        said = told(content)
        waits = status in AGAIN or (status == 409 and after is not None)  # what was sent before is still going on
        if not waits or self._left <= 0:
            raise error_of(said | {"status": status})
        owner = said.get("owner") if status == 421 else None
        moved = isinstance(owner, str) and owner != self.url and self._may_follow(owner)
        self._go(str(owner) if moved else None)
        if moved and self._tries < 2:
            self._spend()
            return 0.0
        return self._wait(after)

    def _go(self, owner: str | None) -> None:
        """Send to a campaign's owner from now on, or home again."""
        if owner is None:
            self._owners.pop(self._campaign, None)
        else:
            self._owners[self._campaign] = owner
        self.url = owner or self._home

    def _may_follow(self, owner: str) -> bool:
        """Say whether a token may be sent there: never without TLS if it was given with TLS."""
        return owner.startswith("https://") or (owner.startswith("http://") and self._home.startswith("http://"))

    def _spend(self) -> None:
        self._left, self._tries = self._left - 1, self._tries + 1

    def _wait(self, after: str | None) -> float:
        self._spend()
        asked: float = float(after) if after and after.isascii() and after.isdigit() else 0.0
        return max(asked, 0.1 * 2.0 ** min(self._tries, 5)) * random.uniform(0.5, 1.0)


def told(content: bytes) -> dict[str, Any]:
    """Return the problem that an answer describes."""
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def unreachable(url: str, error: Exception) -> ServiceError:
    """Return the error for a service that does not answer."""
    what = " ".join(str(error).split()) or type(error).__name__
    return ServiceError(f"the service at {url} cannot be reached ({what}); check the address, or try again later.")


def error_of(said: dict[str, Any]) -> FreepullError:
    """Return a problem as the exception that the campaign itself would raise, where there is one."""
    status, detail = int(said.get("status", 0)), str(said.get("detail", "the service gave no reason."))
    kind = getattr(errors, str(said.get("type", "")).rpartition("/")[2], None)
    if kind is errors.EventGap:
        return errors.EventGap(detail, int(said.get("expected") or 0))
    if inspect.isclass(kind) and issubclass(kind, FreepullError) and kind is not ServiceError:
        return kind(detail)
    return ServiceError(detail, status, str(said.get("remedy", "")))


def checked(url: Any, token: Any) -> tuple[str, str]:
    """Check where to send, and with what."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise InvalidInput(f"url must begin with http:// or https://, got {url!r}.")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InvalidInput("token must be the text that freepull token new has shown.")
    return url.rstrip("/"), token


class _Sender:
    """Sends requests; written once as coroutines, which a `Connection` runs without asyncio."""

    http: Any

    def __init__(self, url: str, token: str, retries: int) -> None:
        self.url, self.token = checked(url, token)
        self._retries, self._owners = retries, dict[str, str]()

    async def _request(self, *address: str, **options: Any) -> Any:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _send(self, call: Call[Reply]) -> Reply:
        attempt = Attempt(call, self.url, self.token, self._retries, self._owners)
        while True:
            try:
                found = await self._request(*attempt.arguments(), **attempt.options)
            except httpx().TransportError as error:
                wait: float | None = attempt.failed(error)
            else:
                wait = attempt.answered(found.status_code, found.content, found.headers.get("retry-after"))
                if wait is None:
                    return call.read(found.content)
            await self._sleep(wait or 0.0)

    async def _talk(self, talk: Talk[Reply]) -> Reply:
        found: Any = None
        while True:
            try:
                call = talk.send(found)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            found = await self._send(call)


class Connection(_Sender):
    """Sends requests, and waits for their replies."""

    def __init__(self, url: str, token: str, retries: int = RETRIES, seconds: float = SECONDS) -> None:
        super().__init__(url, token, retries)
        self.http = httpx().Client(timeout=seconds, trust_env=False)

    def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        return _run(self._send(call))

    def talk(self, talk: Talk[Reply]) -> Reply:
        """Send what is asked for, one after another, and return what comes of it."""
        return _run(self._talk(talk))

    async def _request(self, *address: str, **options: Any) -> Any:
        return self.http.request(*address, **options)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _run(waiting: Coroutine[Any, Any, Reply]) -> Reply:
    """Run a coroutine that never lets go of the thread, which needs no event loop."""
    try:
        waiting.send(None)
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    raise RuntimeError("a blocking connection must not await anything.")


class AsyncConnection(_Sender):
    """Sends requests, and awaits their replies."""

    def __init__(
        self, url: str, token: str, retries: int = RETRIES, seconds: float = SECONDS, http: Any = None
    ) -> None:
        super().__init__(url, token, retries)
        self.own = http is None
        self.http = httpx().AsyncClient(timeout=seconds, trust_env=False) if http is None else http

    async def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        return await self._send(call)

    async def talk(self, talk: Talk[Reply]) -> Reply:
        """Send what is asked for, one after another, and return what comes of it."""
        return await self._talk(talk)

    async def _request(self, *address: str, **options: Any) -> Any:
        return await self.http.request(*address, **options)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Talking(Twin[Arguments, Reply]):
    """A method that is written as a `Talk`, of whoever has a connection."""

    def __init__(self, method: Callable[Concatenate[Any, Arguments], Talk[Reply]]) -> None:
        super().__init__(lambda self, *args, **kwargs: self.connection.talk(method(self, *args, **kwargs)))
        self.method = method

    @cached_property
    def described(self) -> tuple[str | None, inspect.Signature]:
        """What the method says of itself; what it returns is what the talk does."""
        *_, reply = get_args(get_type_hints(self.method)["return"])
        return self.method.__doc__, inspect.signature(self.method).replace(return_annotation=reply)


class Connected(Blocking):
    """Whoever has connections, and closes them; a context manager."""

    def __init__(self, url: str, token: str, retries: int = RETRIES, seconds: float = SECONDS) -> None:
        self.connection = Connection(url, token, retries, seconds)

    def close(self) -> None:
        """Close the connections."""
        self.connection.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnected(Awaiting):
    """The same for asyncio; connections of somebody else's can be shared."""

    def __init__(
        self, url: str, token: str, retries: int = RETRIES, seconds: float = SECONDS, http: Any = None
    ) -> None:
        self.connection = AsyncConnection(url, token, retries, seconds, http)

    async def close(self) -> None:
        """Close the connections, if they are nobody else's."""
        if self.connection.own:
            await self.connection.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
