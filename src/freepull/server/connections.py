"""Connections: how many there may be, how large and how slow what comes on them, and how slowly answers are read.

All of this needs no token, so it is refused before the application hears of it, and costs little.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from freepull.server.middleware import CLOSE, HEADERS, NO_STORE, Log, whole
from freepull.server.problems import Refused

HEADER_SECONDS = 10.0
"""For a request's head to arrive, and for TLS to be agreed on."""
IDLE_SECONDS = 10
UNREAD_SECONDS = 30.0
"""For whoever gets an answer to read some of it."""
CLOSING_SECONDS = 5.0
MOST_HEAD, MOST_HEADERS, MOST_ADDRESS = 64 << 10, 100, 16 << 10
"""Bytes of a head, headers in it, and bytes of the address in its first line."""
MOST_PIPELINED = 32
"""Requests that are sent before the first of them is answered."""
MOST_UNREAD = 1 << 20
"""Bytes of a body that still come after its request was refused."""
WASTE = 16
"""Bytes that may come for one of a body; a chunk of one byte takes six."""
ONCE = frozenset({b"authorization", b"content-length", b"content-type", b"host", b"idempotency-key"})
"""Headers of which two would be two opinions."""
MOST_CONNECTIONS = 10_000
SPARE = 64
"""Descriptors that are left for the store, files and whatever else."""
LOOKING = 1.0
"""Seconds between two looks at how many descriptors are in use, and between two lines of the log."""
AT_ONCE = 64
"""Connections that are taken in one turn of the loop; turns are long under load."""
RESTING = 0.1
"""Seconds without a new connection after one could not be taken."""
UNREADABLE = 400, "the request is no HTTP.", "Send it as RFC 9112 has it.", CLOSE
TOO_LARGE = (
    *(431, f"a request must have at most {MOST_HEADERS} headers of {MOST_HEAD:,} bytes in all."),
    *("Send fewer or shorter ones.", CLOSE),
)
TOO_LONG = 414, f"the address must have at most {MOST_ADDRESS:,} bytes.", "Send a shorter one.", CLOSE
TOO_MANY = 400, f"at most {MOST_PIPELINED} requests may wait on a connection.", "Wait for their answers.", CLOSE
PADDED = 400, "the body has far more padding than content.", "Send larger chunks.", CLOSE
NO_HOST = 400, "the request has no header Host.", "Send it.", CLOSE


class Gate:
    """What all connections of a process share: how many there are, from each address too, and who was turned away."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._here: Counter[str] = Counter()
        self._most, self._looked, self._told = MOST_CONNECTIONS, 0.0, 0.0
        self._refused: Counter[str] = Counter()
        self.count = 0
        """How many there are."""

    def enter(self, address: str) -> bool:
        """Count a connection, unless there are too many, or more than half of them would be from its address."""
        now = time.monotonic()
        if now >= self._looked + LOOKING:
            self._looked, self._most = now, min(MOST_CONNECTIONS, descriptors() + self.count)
        if self.count >= self._most or self._here[address] >= max(1, self._most // 2):
            self.refused("connection")
            return False
        self.count += 1
        self._here[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Take note that a connection has ended."""
        self.count -= 1
        self._here[address] -= 1
        if not self._here[address]:
            del self._here[address]

    def refused(self, what: str) -> None:
        """Count what was refused; the log has it once a second at most, because there may be very much of it."""
        self._refused[what] += 1
        now = time.monotonic()
        if now >= self._told + LOOKING:
            self._told = now
            self._log("refused", connections=self.count, **self._refused)
            self._refused.clear()


def descriptors() -> int:
    """Return how many more connections there are descriptors for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    try:
        used = len(os.listdir("/dev/fd"))
    except OSError:  # none is left to look with
        used = soft
    return max(0, soft - used - min(SPARE, soft // 4))


def raise_limit() -> None:
    """Allow this process as many descriptors as it may have, since a usual limit is lower than what it is worth."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + 1000
    with suppress(ValueError, OSError):
        if soft != resource.RLIM_INFINITY and soft < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Acceptor:
    """Takes the connections of one listening socket, as far as the gate lets them in."""

    def __init__(
        self, listening: socket.socket, make: Callable[[str], Connection], gate: Gate, tls: ssl.SSLContext | None
    ) -> None:
        self._socket, self._make, self._gate = listening.dup(), make, gate
        self._tls: dict[str, Any] = {}
        if tls is not None:
            self._tls = {"ssl_handshake_timeout": HEADER_SECONDS, "ssl_shutdown_timeout": CLOSING_SECONDS, "ssl": tls}
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._go_on()

    def _go_on(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                found, where = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor or no memory is left; asking again at once would not help
                self._gate.refused("accept")
                self._loop.remove_reader(self._socket.fileno())
                self._rest = self._loop.call_later(RESTING, self._go_on)
                return
            address = str(where[0])
            if not self._gate.enter(address):
                found.close()
                continue
            task = self._loop.create_task(self._begin(found, address))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, found: socket.socket, address: str) -> None:
        try:
            found.setblocking(False)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(lambda: self._make(address), found, **self._tls)
        except (OSError, TimeoutError, asyncio.CancelledError):  # gone, or no TLS
            self._gate.refused("connection" if not self._tls else "tls")
            self._gate.leave(address)
            found.close()

    def close(self) -> None:
        """Take no more."""
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for task in self._beginning:
            task.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""


class Connection(HttpToolsProtocol):
    """A connection whose heads must be small and come in time, and whose answers must be read."""

    def __init__(self, *args: Any, gate: Gate, address: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._gate, self._address = gate, address
        self._slow: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_body = self._over = False
        self._came = self._size = self._count = self._dropped = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._unread is not None:
            self._unread.cancel()
        self._gate.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless too much has come."""
        if self._over:
            return
        self._unset_keepalive_if_required()
        if self._slow is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()
        self._came += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # another protocol, which is not spoken here: HTTP ends with this answer
            self._end()
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, Refused) else Refused(*UNREADABLE))
        else:
            if not self._in_body and self._came > MOST_HEAD:
                self._refuse(Refused(*TOO_LARGE))
            elif self._in_body and self._came > MOST_HEAD:
                self._refuse(Refused(*PADDED))

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        self._size = self._count = self._dropped = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Read the address."""
        if len(self.url) + len(url) > MOST_ADDRESS:
            raise Refused(*TOO_LONG)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header; what comes behind a body is counted and left out, because it was not there to be checked."""
        self._size += len(name) + len(value)
        self._count += 1
        if self._size > MOST_HEAD or self._count > MOST_HEADERS:
            raise Refused(*TOO_LARGE)
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop waiting for the head, see that it is of one mind, and hand the request on."""
        self._stop_waiting()
        names = [name for name, _ in self.headers]
        if len(set(names)) < len(names):
            for name in ONCE:
                if names.count(name) > 1:
                    raise Refused(400, f"the header {name.decode()} is given twice.", "Give it once.", CLOSE)
        if b"host" not in names and self.parser.get_http_version() == "1.1":
            raise Refused(*NO_HOST)
        if len(self.pipeline) >= MOST_PIPELINED:
            raise Refused(*TOO_MANY)
        self._in_body, self._came = True, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body on; of a request that was answered already, only so much still comes."""
        self._came -= WASTE * len(body)
        if self.cycle.response_complete:
            self._dropped += len(body)
            if self._dropped > MOST_UNREAD:
                raise Refused(*UNREADABLE)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin anew."""
        self._in_body, self._came = False, 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait until some of an answer was read, but not for ever."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_SECONDS, self._give_up, "unread")

    def resume_writing(self) -> None:
        """Go on."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _refuse(self, error: Refused) -> None:
        """Answer with a problem and hang up; whatever is being answered already is answered first."""
        self._stop_waiting()
        self._gate.refused(str(error.status))
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self._in_body:
            self._end()
            return
        self._over = True
        if not (answering and self.cycle.response_started):
            start, body = whole(error)
            more = [*start["headers"], *HEADERS, NO_STORE]
            head = b"".join(b"%s: %s\r\n" % header for header in more)
            self.transport.write(STATUS_LINE[error.status] + head + b"\r\n" + body["body"])
        self.transport.close()

    def _end(self) -> None:
        """Read nothing more, and hang up after what is being answered."""
        self._over = True
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def _wait(self) -> None:
        self._slow = self.loop.call_later(HEADER_SECONDS, self._give_up, "slow")

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _give_up(self, why: str) -> None:
        self._gate.refused(why)
        self.transport.abort()
