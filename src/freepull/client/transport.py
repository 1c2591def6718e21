"""How requests are sent: with a token, again after a failure with the same event id, and to the campaign's owner."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, get_args, get_type_hints
from urllib.parse import quote

import msgspec

from freepull import validation
from freepull.client.reach import (
    TAKEOVER_SECONDS,
    Addresses,
    Deadline,
    bad_certificate,
    error_of,
    odd,
    told,
    trusted,
    unreachable,
)
from freepull.commands import Awaiting, Blocking, Twin
from freepull.errors import FreepullError, InvalidInput, MissingExtra, ServiceError

Arguments = ParamSpec("Arguments")
Reply = TypeVar("Reply")
AGAIN = (408, 421, 429, 502, 503, 504)
"""After these the same request is sent again."""
SECONDS = 3.0
"""For a reply; whoever takes longer is taken for hung, and another process is asked."""
LONG = 30.0
"""What takes long by its nature may take so many times as long; and a file ten times that."""
RETRIES = 12
"""With what lies between them, a minute for a service that hangs."""
LONGEST_WAIT = 10.0
"""Seconds between two attempts at most, whatever Retry-After says."""
SOON = 0.25
MOST_REPLY, MOST_FILE = 64 << 20, 8 << 30
"""Bytes of a reply."""
FILES = ("text/csv", "application/vnd.apache.parquet", "application/octet-stream")


def httpx() -> Any:
    """Return the HTTP library, which takes longer to load than all of the client."""
    try:
        import httpx as library
    except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
        raise MissingExtra("clients need httpx; install freepull with pip install 'freepull[client]'.") from error
    return library


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    content: bytes
    kind: str = "application/json"
    """The type of the content."""
    after: str | None = None
    """When to try again."""


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
    long: bool = False
    """Whether it takes long by its nature."""

    @property
    def patience(self) -> float:
        """How many times as long as others it may take."""
        return 10 * LONG if self.reply is bytes else LONG if self.long else 1.0

    def read(self, found: Answer) -> Reply:
        """Read the reply, or raise if it is none that this service would give."""
        kind = found.kind.partition(";")[0].strip().lower()
        if self.reply is bytes:
            if kind not in FILES:
                raise odd(f"its type is {kind!r} instead of a file's", found.status)
            return found.content  # type: ignore[return-value]
        if found.content and kind != "application/json":
            raise odd(f"its type is {kind!r} instead of 'application/json'", found.status)
        try:
            reply: Reply = msgspec.json.decode(found.content or b"null", type=self.reply)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise odd(str(error), found.status) from None
        return reply


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

    def __init__(self, call: Call[Any], addresses: Addresses, token: str, retries: int = 0) -> None:
        self.call, self._addresses, self._left, self._tries = call, addresses, retries, 0
        self._campaign, self._until, self._asked = "/".join(call.path.split("/")[:4]), 0.0, 0.0
        self._returned = False
        self.url = addresses.of(self._campaign)
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
        if call.keyed:
            headers["idempotency-key"] = uuid.uuid4().hex
        content = None
        if call.body is not None:
            headers["content-type"] = call.kind
            content = call.body if isinstance(call.body, bytes) else msgspec.json.encode(call.body)
        self.options: dict[str, Any] = {"headers": headers, "content": content, "params": dict(call.query) or None}

    def arguments(self) -> tuple[str, str]:
        """Return method and address, to be asked now."""
        self._asked = time.monotonic()
        return self.call.method, self.url + self.call.path

    def failed(self, error: Exception) -> float:
        """Take note that no answer came; return after how many seconds to try again, perhaps elsewhere, or raise."""
        failed = self.url
        self._addresses.failed(self._campaign, failed)
        self.url = self._addresses.of(self._campaign)
        if self._left <= 0 or bad_certificate(error):
            raise unreachable(failed, error) from None
        if self.url != failed and not self._addresses.hung(self.url):
            self._spend()
            return 0.0
        return self._wait(None)

    def answered(self, found: Answer) -> float | None:
        """Take note of an answer; return None if it is good, or after how many seconds to try again, or raise."""
        self._addresses.answered(self.url)
        status, after = found.status, found.after
        if 200 <= status < 300:
            self._addresses.follow(self._campaign, self.url)
            return None
        if status < 400:
            raise odd("it sends this client elsewhere, which is not followed", status)
        said = told(found.content)
        waits = status in AGAIN or (status == 409 and after is not None)  # what was sent before is still going on
        if status == 421 and said.get("owner"):
            return self._moved(said)
        if not waits or self._left <= 0:
            raise error_of(said | {"status": status})
        return self._wait(after)

    def _moved(self, said: dict[str, Any]) -> float:
        """Ask the owner, if it is one of the given addresses; while it is hung, ask until somebody else takes over."""
        owner, now = self._addresses.known(said["owner"]), time.monotonic()
        if owner is None:
            raise ServiceError(
                f"another process has the campaign, {validation.shown(said['owner'])}, and a token is sent only to "
                "addresses that were given; ask there, or give it as one of owners.",
                421,
            )
        if owner != self.url and self._lives(owner, said.get("lease_left")):
            self._addresses.follow(self._campaign, owner)
            self.url = owner
            if self._left <= 0:
                raise error_of(said | {"status": 421})
            self._spend()
            return 0.0 if self._tries < 3 else SOON
        self._until = self._until or now + TAKEOVER_SECONDS
        if now < self._until and self._left > 0:
            return SOON
        if self._left <= 0:
            raise error_of(said | {"status": 421})
        return self._wait(None)

    def _lives(self, owner: str, left: Any) -> bool:
        """Say whether an owner is worth asking: it was not silent lately, or has renewed its lease since.

        One that renews its lease and yet gives no answer is not asked again at once for the second time.
        """
        if not self._addresses.hung(owner, TAKEOVER_SECONDS):
            return True
        hung = self._addresses.hung(owner)
        if not isinstance(left, float | int) or not 0.0 <= left < 1e6:
            return not hung
        if not self._addresses.renewed(self._campaign, self._asked, left) or (hung and self._returned):
            return False
        self._returned = True
        return True

    def _spend(self) -> None:
        self._left, self._tries = self._left - 1, self._tries + 1

    def _wait(self, after: str | None) -> float:
        self._spend()
        asked: float = float(after) if after and after.isascii() and after.isdigit() else 0.0
        return min(LONGEST_WAIT, max(asked, 0.1 * 2.0 ** min(self._tries, 5))) * random.uniform(0.5, 1.0)


def checked(token: Any) -> str:
    """Check what is sent to be let in."""
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InvalidInput("token must be the text that freepull token new has shown.")
    return token


class Reach(TypedDict, total=False):
    """How a service is reached, the same for every client."""

    retries: int
    """How often a request is sent again."""
    seconds: float
    """How long to wait for each reply."""
    owners: Iterable[str]
    """The addresses of all processes, where several share a database."""


class _Sender:
    """Sends requests; written once as coroutines, which a `Connection` runs without asyncio."""

    http: Any

    def __init__(
        self, url: str, token: str, *, retries: int = RETRIES, seconds: float = SECONDS, owners: Iterable[str] = ()
    ) -> None:
        self.addresses, self.token = Addresses(url, owners), checked(token)
        self.url = self.addresses.all[0]
        self._retries, self.seconds = retries, validation.real("seconds", seconds, 0.0, 1e6, open_low=True)

    async def _request(self, attempt: Attempt, seconds: float, most: int) -> Answer:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _send(self, call: Call[Reply]) -> Reply:
        attempt = Attempt(call, self.addresses, self.token, self._retries)
        seconds, most = self.seconds * call.patience, MOST_FILE if call.reply is bytes else MOST_REPLY
        library = httpx()
        while True:
            try:
                found = await self._request(attempt, seconds, most)
            except (library.TransportError, TimeoutError) as error:
                wait: float | None = attempt.failed(error)
            except (library.HTTPError, library.InvalidURL, library.StreamError, UnicodeError) as error:
                raise odd(str(error)) from None
            else:
                wait = attempt.answered(found)
                if wait is None:
                    return call.read(found)
            await self._sleep(wait or 0.0)

    async def _talk(self, talk: Talk[Reply]) -> Reply:
        found: Any = None
        failed: FreepullError | None = None
        while True:
            try:
                call = talk.send(found) if failed is None else talk.throw(failed)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            try:
                found, failed = await self._send(call), None
            except FreepullError as error:
                failed = error


def options_of(attempt: Attempt, seconds: float) -> dict[str, Any]:
    """Return how a request is sent."""
    return attempt.options | {"timeout": seconds, "follow_redirects": False}


def enough(found: Any, size: int, most: int) -> None:
    """Raise if a reply is too large, or was packed although nobody asked for that."""
    if size > most or found.headers.get("content-encoding", "identity") != "identity":
        raise odd(f"it has more than {most:,} bytes, or is compressed", found.status_code)


def answer_of(found: Any, pieces: list[bytes]) -> Answer:
    """Return what came back."""
    headers = found.headers
    return Answer(found.status_code, b"".join(pieces), headers.get("content-type", ""), headers.get("retry-after"))


class Connection(_Sender):
    """Sends requests, and waits for their replies."""

    def __init__(self, url: str, token: str, **reach: Unpack[Reach]) -> None:
        super().__init__(url, token, **reach)
        self._deadline = Deadline()
        self.http = httpx().Client(transport=self._deadline.transport(), trust_env=False)

    def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        return _run(self._send(call))

    def talk(self, talk: Talk[Reply]) -> Reply:
        """Send what is asked for, one after another, and return what comes of it."""
        return _run(self._talk(talk))

    def pieces(self, attempt: Attempt, seconds: float, most: int) -> Generator[Any, None, None]:
        """Yield an answer, and then its content piece by piece."""
        size = 0
        with (
            self._deadline.within(seconds),
            self.http.stream(*attempt.arguments(), **options_of(attempt, seconds)) as found,
        ):
            yield found
            for piece in found.iter_raw():
                size += len(piece)
                enough(found, size, most)
                yield piece

    async def _request(self, attempt: Attempt, seconds: float, most: int) -> Answer:
        found, *pieces = self.pieces(attempt, seconds, most)
        return answer_of(found, pieces)

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

    def __init__(self, url: str, token: str, http: Any, **reach: Unpack[Reach]) -> None:
        super().__init__(url, token, **reach)
        self.own = http is None
        self.http = httpx().AsyncClient(verify=trusted(), trust_env=False) if http is None else http

    async def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        return await self._send(call)

    async def talk(self, talk: Talk[Reply]) -> Reply:
        """Send what is asked for, one after another, and return what comes of it."""
        return await self._talk(talk)

    async def _request(self, attempt: Attempt, seconds: float, most: int) -> Answer:
        pieces, size = list[bytes](), 0
        options = options_of(attempt, seconds)
        async with asyncio.timeout(seconds), self.http.stream(*attempt.arguments(), **options) as found:
            async for piece in found.aiter_raw():
                pieces.append(piece)
                size += len(piece)
                enough(found, size, most)
        return answer_of(found, pieces)

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

    def __init__(self, url: str, token: str, reach: Reach) -> None:
        self.connection = Connection(url, token, **reach)

    def close(self) -> None:
        """Close the connections."""
        self.connection.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnected(Awaiting):
    """The same for asyncio; connections of somebody else's can be shared."""

    def __init__(self, url: str, token: str, reach: Reach, http: Any = None) -> None:
        self.connection = AsyncConnection(url, token, http, **reach)

    async def close(self) -> None:
        """Close the connections, if they are nobody else's."""
        if self.connection.own:
            await self.connection.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
