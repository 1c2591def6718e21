"""Traffic for the service: raw HTTP/1.1 over asyncio streams, because a full client would be the bottleneck."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freepull.server.auth import Tokens

ROOT = Path(__file__).parents[1]
Row = tuple[str, str, object, bool]
"""What was done, the bar, what came of it, and whether the bar was reached."""


class Process:
    """A service in a process of its own, which can be killed."""

    def __init__(
        self,
        url: str,
        *options: str,
        log: str | Path = os.devnull,
        program: tuple[str, ...] = ("-m", "freepull"),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        command = [sys.executable, *program, "serve", "--store", url, "--port", "0", *options]
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        self.address = ""
        while not self.address:
            line = self.process.stderr.readline()
            assert line, "the service did not begin"
            told = json.loads(line) if line.startswith("{") else {}
            self.address = told.get("address", "")
        with open(log, "ab") as kept:
            self._drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=kept)
        self.process.stderr.close()
        self.port = int(self.address.rpartition(":")[2])
        for _ in range(6000):
            try:
                urllib.request.urlopen(f"{self.address}/readyz", timeout=5, context=tls).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the service is not ready")

    def ask(self, token: str, method: str, path: str, body: Any = None, raw: bool = False) -> Any:
        """Send one request; return what JSON it is answered with."""
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=600, context=self.tls) as found:
            return None if raw else json.load(found)

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()
        self._drain.wait(60)  # whatever it began must be gone too

    def end(self) -> int:
        """End it as an operator would; return the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self._drain.wait(60)
        return code

    @property
    def memory(self) -> float:
        """Resident memory in MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Figures:
    """What some traffic met with."""

    seconds: float = 0.0
    events: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    """When each of these was due, where that is known."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    def note(self, status: int, seconds: float, events: int = 1) -> None:
        """Count an answer; the time of a good one, and what it was for."""
        self.statuses[status] += 1
        if status == 200:
            self.times.append(seconds)
            self.events += events

    def p(self, share: float) -> float:
        """A quantile of the times of good answers, in milliseconds."""
        ordered = sorted(self.times)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def between(self, begin: float, end: float, inside: bool = True) -> Figures:
        """Return the good answers that were due within a time, or outside of it."""
        chosen = [took for took, at in zip(self.times, self.moments, strict=True) if (begin <= at < end) == inside]
        return Figures(self.seconds, len(chosen), self.statuses, chosen)

    def __str__(self) -> str:
        statuses = ", ".join(f"{count:,} × {status}" for status, count in sorted(self.statuses.items()))
        return f"{self.rate:,.0f} events/s, p50 {self.p(0.5):.1f} ms, p99 {self.p(0.99):.1f} ms ({statuses})"


class Line:
    """One connection that is kept open."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port, self.tls = port, tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, token: str, body: bytes) -> tuple[int, bytes]:
        """Send a POST and return status and body."""
        return await self.request("POST", path, body, authorization=f"Bearer {token}".encode())

    async def request(self, method: str, path: str, body: bytes = b"", **headers: bytes) -> tuple[int, bytes]:
        """Send a request and return status and body; a line that was closed while it was idle is opened again."""
        idle = self._writer is not None
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        assert self._reader is not None
        head = f"{method} /v1{path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode()
        for name, value in headers.items():
            head += name.replace("_", "-").encode() + b": " + value + b"\r\n"
        try:
            self._writer.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
            answer = await self._reader.readuntil(b"\r\n\r\n")
            lower = answer.lower()
            at = lower.find(b"content-length: ")
            length = int(lower[at + 16 : lower.index(b"\r\n", at)]) if at >= 0 else 0
            found = int(answer[9:12]), await self._reader.readexactly(length)
            if b"connection: close" in lower:
                await self.close()
            return found
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            if not idle:
                raise
            return await self.request(method, path, body, **headers)

    async def close(self) -> None:
        """Hang up; a line that is given up in the midst of that is closed all the same."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            await hang_up(writer)


async def call(port: int, method: str, path: str, token: str, body: Any = None) -> Any:
    """Send one request on a line of its own; return what is answered."""
    line = Line(port)
    content = b"" if body is None else json.dumps(body).encode()
    _, answer = await line.request(method, path, content, authorization=f"Bearer {token}".encode())
    await line.close()
    return json.loads(answer or b"null")


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until it is closed."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def fsync_time() -> float:
    """The machine's own: median seconds of 200 small writes with fsync."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return sorted(times)[100]


def stage(
    url: str,
    agents: int | list[str],
    arms: int = 2,
    options: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
    log: str | Path = os.devnull,
) -> tuple[Process, str, str]:
    """Start a service with a campaign that has begun; return it, an admin's token, and a gateway's."""
    tokens = Tokens(url)
    admin, gateway = tokens.new("admin")[0], tokens.new("gateway")[0]
    tokens.close()
    process = Process(url, "--agent-rate", "1000000", "--gateway-rate", "1000000", *options, log=log, tls=tls)
    body: dict[str, Any] = {"name": "c0", "arms": arms, "agents": agents, "price": "0.01 EUR", "if_no_outcome": 0.0}
    body["principal"] = {"rule": {"part": "Certified"}, "observe": {"part": "Steps", "n": 1_000_000}}
    process.ask(admin, "POST", "/campaigns", body)
    process.ask(admin, "POST", "/campaigns/c0/start")
    return process, admin, gateway


def agent_tokens(process: Process, admin: str, agents: int) -> list[str]:
    """Make tokens for the first agents."""
    made = process.ask(admin, "POST", "/campaigns/c0/tokens", {"agents": list(range(agents))})
    return [it["token"] for it in made["tokens"]]
