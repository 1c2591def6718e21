"""A siege: what needs no token, or one of many, and must not keep others out."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from .traffic import Process, Row, agent_tokens, call, hang_up, stage

Found = TypeVar("Found")
BODY = (
    b"POST /v1/campaigns/c0/me/observations HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ncontent-length: 50\r\n"
)


async def healthy(port: int, end: asyncio.Event) -> float:
    """Ask for /healthz again and again, each time on a new connection; return the longest time that took."""
    longest = 0.0
    while not end.is_set():
        begun = time.perf_counter()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                await reader.read()
                await hang_up(writer)
        longest = max(longest, time.perf_counter() - begun)
        await asyncio.sleep(0.02)
    return longest


async def flood(port: int, begin: bytes, piece: bytes, most: int) -> int:
    """Send a beginning, and pieces until the connection ends or enough was sent; return how many bytes were taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = 0
    with suppress(OSError):
        writer.write(begin)
        while sent < most and not reader.at_eof():
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    await hang_up(writer)
    return sent


async def under(process: Process, attack: Callable[[], Awaitable[Found]]) -> tuple[Found, float, float]:
    """Attack; return what that says, the longest time for /healthz, and by how many MB the process grew."""
    before, most, end = process.memory, 0.0, asyncio.Event()

    async def weigh() -> None:
        nonlocal most
        while not end.is_set():
            most = max(most, process.memory)
            await asyncio.sleep(0.02)

    looking = [asyncio.create_task(healthy(process.port, end)), asyncio.create_task(weigh())]
    found = await attack()
    await asyncio.sleep(0.2)
    end.set()
    longest, _ = await asyncio.gather(*looking)
    return found, longest or 0.0, most - before


async def heads(port: int) -> str:
    """Six connections with 57 MB of headers each."""
    line = b"x-more: " + b"y" * 8000 + b"\r\n"
    taken = await asyncio.gather(
        *(flood(port, b"GET /healthz HTTP/1.1\r\nhost: x\r\n", line, 57_000_000) for _ in range(6))
    )
    return f"{max(taken) / 1e6:.1f} MB taken at most"


async def bodies(port: int, token: str, other: str) -> tuple[int, list[int]]:
    """300 bodies of one agent's that never end; return how many were refused at once, and what another agent meets."""
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
    for _, writer in lines:
        writer.write(BODY % token.encode() + b"content-type: application/json\r\n\r\n{")
    await asyncio.sleep(1.0)
    refused, statuses = 0, []
    for reader, _ in lines:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                refused += (await reader.read(12))[9:] == b"429"
    for _ in range(50):
        answer = await call(port, "GET", "/campaigns/c0/me", other)
        statuses.append(answer.get("status", 0) if isinstance(answer.get("status"), int) else 200)
    for _, writer in lines:
        await hang_up(writer)
    return refused, statuses


async def unread(port: int, token: str, viewers: int) -> str:
    """Viewers who never read, until they are given up."""
    lines = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(viewers)]
    for _, writer in lines:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        head = f"GET /plotly.js HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
    begun = time.perf_counter()
    while time.perf_counter() < begun + 60 and connections(port) > viewers // 4:
        await asyncio.sleep(0.5)
    for _, writer in lines:
        writer.transport.abort()
    return f"{viewers} given up after {time.perf_counter() - begun:.0f} s"


def connections(port: int) -> int:
    """How many connections to a port are established, as the service sees them."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def siege(url: str, seconds: float) -> Iterator[Row]:
    """Heads, bodies, answers nobody reads, and a process with few descriptors and little memory."""
    process, admin, _ = stage(url, agents=200)
    try:
        tokens = agent_tokens(process, admin, 200)
        found, longest, grown = asyncio.run(under(process, lambda: heads(process.port)))
        words = f"{found}; /healthz {1000 * longest:.0f} ms at most, {grown:+.0f} MB"
        yield "6 × 57 MB of headers", "closed at once; /healthz ≤ 250 ms", words, longest <= 0.25 and grown < 20
        (refused, met), longest, grown = asyncio.run(under(process, lambda: bodies(process.port, tokens[0], tokens[1])))
        words = (
            f"{refused} got 429; others: {sorted(set(met))}; /healthz {1000 * longest:.0f} ms at most, {grown:+.0f} MB"
        )
        yield (
            "300 bodies of one agent that never end",
            "others are answered",
            words,
            set(met) == {200} and refused > 200,
        )
        found, longest, grown = asyncio.run(under(process, lambda: unread(process.port, admin, 100)))
        words = f"{found}; /healthz {1000 * longest:.0f} ms at most, {grown:+.0f} MB"
        good = "after 60" not in str(found) and longest <= 1.0 and grown < 100
        yield "100 who never read", "given up within 45 s; /healthz ≤ 1 s, < 100 MB", words, good
    finally:
        process.end()
    with tempfile.TemporaryDirectory() as folder:
        yield from fresh(f"sqlite:///{folder}/fresh.db", folder)


def fresh(url: str, folder: str) -> Iterator[Row]:
    """A new installation, with few descriptors, all of which are asked for as soon as it is ready."""
    os.environ["NUMBA_CACHE_DIR"], before = folder, os.environ.get("NUMBA_CACHE_DIR")
    begun = time.perf_counter()
    process, admin, _ = stage(url, agents=2)
    try:
        ready = time.perf_counter() - begun
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (200, 200))
        memory = int(process.memory * 1e6)
        time.sleep(1.2)

        async def crowd() -> None:
            lines = []
            for _ in range(400):
                with suppress(OSError):
                    lines.append(await asyncio.open_connection("127.0.0.1", process.port))
            await asyncio.sleep(2.0)
            for _, writer in lines:
                await hang_up(writer)

        asyncio.run(crowd())
        rows = [{"agent": f"#{i % 2}", "arm": "arm 0", "reward": 0.5} for i in range(20)]
        told = process.ask(admin, "POST", "/campaigns/c0/observations:batch", {"observations": rows})
        right = all(it["error"] is None for it in told["results"])
        words = f"ready after {ready:.0f} s; the first steps end: {right}"
        yield (
            "new installation, 200 descriptors, 400 connections",
            "goes on",
            words,
            right and process.process.poll() is None,
        )
        _, hard = resource.prlimit(process.process.pid, resource.RLIMIT_AS)
        size = int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(process.process.pid, resource.RLIMIT_AS, (size + (16 << 20), hard))
        statuses = asyncio.run(greedy(process.port, admin))
        resource.prlimit(process.process.pid, resource.RLIMIT_AS, (hard, hard))
        with urllib.request.urlopen(f"{process.address}/readyz", timeout=10) as found:
            well = found.status == 200 and process.ask(admin, "GET", "/campaigns/c0")["observations"] == 20
        words = f"imports of 30 MB got {statuses}; well afterwards: {well}; {memory / 1e6:.0f} MB before"
        yield "16 MB of memory left", "goes on, nothing told", words, well and process.process.poll() is None
    finally:
        process.end()
        if before is not None:
            os.environ["NUMBA_CACHE_DIR"] = before


async def greedy(port: int, admin: str) -> list[int]:
    """Send imports that need more memory than there is."""
    statuses = []
    for _ in range(4):
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                head = f"POST /v1/campaigns/c0/imports HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {admin}\r\n"
                writer.write(f"{head}content-type: text/csv\r\ncontent-length: {30 << 20}\r\n\r\n".encode())
                with suppress(OSError):
                    for _ in range(30):
                        writer.write(b"agent,arm,rewar\n" * (1 << 16))
                        await writer.drain()
                statuses.append(int((await reader.read(12) or b"HTTP/1.1 000")[9:]))
                await hang_up(writer)
    return statuses
