"""The server: uvicorn, with connections that cannot stay half open, streams that end at shutdown, and a log in JSON."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from freepull.campaigns.journal import recovery
from freepull.campaigns.stores import Where
from freepull.errors import InvalidInput, MissingExtra
from freepull.server.auth import Limits
from freepull.server.problems import traced

try:
    import uvicorn

    from freepull.server.app import Application
    from freepull.server.auth import Tokens
    from freepull.server.connections import IDLE_SECONDS, Acceptor, Connection, Gate, raise_limit
    from freepull.server.readings import traced_by
    from freepull.server.webhooks import Target
except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
    if isinstance(error, MissingExtra):
        raise
    raise MissingExtra("the service needs Litestar; install freepull with pip install 'freepull[live]'.") from error

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from freepull.server.oidc import Provider

SWITCH = 0.0005
"""Seconds after which the writers' threads get their turn; with Python's 5 ms every reply would wait for several."""
ENDING_SECONDS = 10
EVERYWHERE = ("0.0.0.0", "::", "")


class Server(uvicorn.Server):
    """A server that ends streams first when it is told to end, and ends by itself when the disk has failed."""

    def __init__(
        self,
        where: Where,
        host: str,
        port: int,
        limits: Limits | None = None,
        log: Callable[..., None] | None = None,
        provider: Provider | None = None,
        tracer: Tracer | None = None,
        targets: Iterable[Target] = (),
        **more: Any,
    ) -> None:
        self.log = log or write_log
        self.gate = Gate(self.log)
        self.application = Application(where, limits, self.log, provider, tracer, targets)
        config = uvicorn.Config(
            self.application,
            host=host,
            port=port,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=2048,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=ENDING_SECONDS,
            **more,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and listen."""
        await super().startup([])

        def make(address: str) -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state, gate=self.gate, address=address)

        listening: Any = [Acceptor(it, make, self.gate, self.config.ssl) for it in sockets or []]
        self.servers = listening
        if self.started:
            notify("READY=1")

    async def main_loop(self) -> None:
        """Serve until a signal comes, or the store has failed."""
        watching = asyncio.create_task(self._watch())
        try:
            await super().main_loop()
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        await self.application.hosting.failed.wait()
        self.log("failed", error="the store failed, so this process ends; start it again")
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the streams end, then everything else."""
        notify("STOPPING=1")
        self.application.hosting.closing.set()
        await super().shutdown(sockets)


def notify(state: str) -> None:
    """Tell systemd how this process stands, where it wants to be told."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(state.encode(), "\0" + place[1:] if place.startswith("@") else place)


def write_log(what: str, **more: Any) -> None:
    """Write one line of JSON; whoever calls sees to it that it has no secret and no name of an agent."""
    line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "what": what} | more
    with suppress(ValueError, OSError):
        sys.stderr.write(msgspec.json.encode(line).decode() + "\n")


class JsonLines(logging.Handler):
    """Writes what libraries log as lines of our log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, whatever is in it."""
        more: dict[str, Any] = {}
        if record.exc_info and record.exc_info[1] is not None:
            more = traced(record.exc_info[1])
        write_log("log", source=record.name, level=record.levelname.lower(), text=_line(record), **more)


def _line(record: logging.LogRecord) -> str:
    try:
        return " ".join(record.getMessage().split())[:1000]
    except (TypeError, ValueError):
        return str(record.msg)[:1000]


def log_everything() -> None:
    """Write in one form whatever this process has to say: what libraries log, warnings, and errors nobody caught."""
    root = logging.getLogger()
    root.handlers, root.level = [JsonLines()], logging.WARNING
    logging.captureWarnings(True)
    sys.excepthook = lambda _, error, __: write_log("error", **traced(error))
    threading.excepthook = lambda it: write_log("error", **traced(it.exc_value or RuntimeError("unknown")))
    sys.unraisablehook = lambda it: write_log("error", **traced(it.exc_value or RuntimeError("unknown")))


def listen(host: str, port: int) -> socket.socket:
    """Take a port, or say in a sentence why not."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else Nagle stays on
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"cannot listen on {host}:{port} ({error}); choose another --port or --host.") from None
    found.listen(2048)
    return found


def address_of(host: str, port: int, tls: bool) -> str:
    """Return how a process that listens here is reached; one that listens everywhere, by the machine's name.

    >>> address_of("::1", 8000, tls=True)
    'https://[::1]:8000'
    """
    host = socket.gethostname() if host in EVERYWHERE else host
    return f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"


def check_address(address: str) -> None:
    """Refuse an address that no client could use."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and address.isprintable()
        good = good and " " not in address and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(f"--address must begin with http:// or https:// and name a host, got {address!r}.")


def welcome(tokens: Tokens, first_token: bool) -> None:
    """See to it that somebody can come in: print the first token if that is wanted, or say how to make one."""
    if tokens.rows():
        if first_token:
            write_log("no first token", remedy="the store has tokens already; make another with freepull token new")
        return
    if first_token:
        token, _ = tokens.new("admin", label="first token", by="freepull serve --first-token")
        print(f"The first token, of scope admin; it is not shown again: {token}", flush=True)
    else:
        write_log(
            "no token",
            remedy="nobody can log in yet: stop, and make a token with freepull token new --scope admin --store … "
            "or start with --first-token",
        )


def run(
    where: Where,
    host: str = "127.0.0.1",
    port: int = 8000,
    address: str | None = None,
    limits: Limits | None = None,
    first_token: bool = False,
    provider: Callable[[str], Provider] | None = None,
    traces: str | None = None,
    targets: Iterable[Target] = (),
    **more: Any,
) -> int:
    """Serve the campaigns of a store, its URL or what opens it, until a signal comes; return the exit code.

    ``provider`` returns with whom people log in, given how this process is reached; ``traces`` is the
    name of an exporter of OpenTelemetry, and ``targets`` are told what happens.
    """
    if address is not None:
        check_address(address)
    listening = listen(host, port)
    port = listening.getsockname()[1]
    here = address_of(host, port, tls=more.get("ssl_certfile") is not None)
    known_as = (address or here).rstrip("/")
    recovery.known_as(known_as)
    asked = None if provider is None else provider(known_as)
    spans = None if traces is None else traced_by(traces)
    tracer = None if spans is None else spans.get_tracer("freepull")
    server = Server(where, host, port, limits, provider=asked, tracer=tracer, targets=targets, **more)
    log_everything()
    sys.setswitchinterval(SWITCH)
    raise_limit()
    write_log("serving", address=here)
    welcome(server.application.hosting.tokens, first_token)
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again once it has ended well
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listening])
    if spans is not None:
        spans.shutdown()
    write_log("ended")
    return 1 if server.application.hosting.failed.is_set() or not server.started else 0
