"""The HTTP rows of what must be shown, each as a function that returns its figures; `load.py` prints them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from .traffic import Figures, Line, Process, hang_up


async def _on_all(connections: int, one: Callable[[int], Coroutine[Any, Any, None]], figures: Figures) -> Figures:
    """Do something on so many connections at once, and return what came of it."""
    begun = time.perf_counter()
    await asyncio.gather(*(one(n) for n in range(connections)))
    figures.seconds = time.perf_counter() - begun
    return figures


async def closed_loop(
    port: int, tokens: Sequence[str], connections: int, seconds: float, tls: ssl.SSLContext | None = None
) -> Figures:
    """Every connection is an agent that tells one pull after the other."""
    figures, end = Figures(), time.perf_counter() + seconds

    async def one(n: int) -> None:
        line, i = Line(port, tls), 0
        while time.perf_counter() < end:
            i += 1
            body = b'{"arm":"arm %d","reward":%.1f,"event":"%d-%d"}' % (i % 2, i % 11 / 10, n, i)
            begun = time.perf_counter()
            status, _ = await line.post("/campaigns/c0/me/observations", tokens[n % len(tokens)], body)
            figures.note(status, time.perf_counter() - begun)
        await line.close()

    return await _on_all(connections, one, figures)


async def closed_loop_of_acts(port: int, tokens: Sequence[str], connections: int, seconds: float) -> Figures:
    """Every connection is an agent that makes one pull after the other, and tells the outcome of the one before."""
    figures, end = Figures(), time.perf_counter() + seconds

    async def one(n: int) -> None:
        line, token, i = Line(port), tokens[n % len(tokens)], 0

        async def post(what: str, body: bytes) -> None:
            begun = time.perf_counter()
            status, _ = await line.post(f"/campaigns/c0/me/{what}", token, body)
            figures.note(status, time.perf_counter() - begun, what == "acts")

        while time.perf_counter() < end:
            i += 1
            await post("acts", b'{"arm":"arm %d","event":"a%.3f-%d-%d"}' % (i % 2, end, n, i))
            if i > 1:
                await post("outcomes", b'{"event":"a%.3f-%d-%d","reward":%.1f}' % (end, n, i - 1, i % 11 / 10))
        await line.close()

    return await _on_all(connections, one, figures)


async def batches(port: int, gateway: str, agents: int, connections: int, size: int, seconds: float) -> Figures:
    """Gateways send batches as fast as they are answered."""
    figures, end = Figures(), time.perf_counter() + seconds

    async def one(n: int) -> None:
        line, chance = Line(port), random.Random(n)
        bodies = []
        for _ in range(50):
            rows = [
                {"agent": f"user-{chance.randrange(agents)}", "arm": f"arm {chance.randrange(2)}", "reward": 0.5}
                for _ in range(size)
            ]
            bodies.append(json.dumps({"observations": rows}, separators=(",", ":")).encode())
        while time.perf_counter() < end:
            begun = time.perf_counter()
            status, _ = await line.post("/campaigns/c0/observations:batch", gateway, chance.choice(bodies))
            figures.note(status, time.perf_counter() - begun, size)
        await line.close()

    return await _on_all(connections, one, figures)


async def gateway_loop(port: int, gateway: str, agents: int, connections: int, seconds: float) -> Figures:
    """A backend asks and tells for its users with one token, on many connections, one user after the other on each."""
    figures, end = Figures(), time.perf_counter() + seconds

    async def one(n: int) -> None:
        line, i = Line(port), 0
        while time.perf_counter() < end:
            i += 1
            user = f"/campaigns/c0/agents/user-{(n + i * connections) % agents}"
            pull = b'{"arm":"arm %d","reward":0.5,"event":"g%d-%d"}' % (i % 2, n, i)
            for verb, body in (("offer", b""), ("observations", pull)):
                begun = time.perf_counter()
                status, _ = await line.post(f"{user}/{verb}", gateway, body)
                figures.note(status, time.perf_counter() - begun)
        await line.close()

    return await _on_all(connections, one, figures)


async def steady(port: int, tokens: Sequence[str], rate: float, seconds: float, most: int = 2000) -> Figures:
    """Pulls come at a rate, whether or not earlier ones are answered; times count from when each was due."""
    figures, idle = Figures(), [Line(port) for _ in range(most)]
    begun, tasks, sent = time.perf_counter(), set[asyncio.Task[None]](), 0

    async def one(line: Line, n: int, due: float) -> None:
        try:
            body = b'{"arm":"arm %d","reward":0.5,"event":"s%.3f-%d"}' % (n % 2, begun, n)
            status, _ = await line.post("/campaigns/c0/me/observations", tokens[n % len(tokens)], body)
            figures.statuses[status] += 1
            if status == 200:
                figures.times.append(time.perf_counter() - due)
                figures.moments.append(due)
                figures.events += 1
        except (OSError, asyncio.IncompleteReadError):
            figures.statuses[0] += 1
        finally:
            idle.append(line)

    while (now := time.perf_counter()) < begun + seconds:
        while sent < (now - begun) * rate:
            if idle:
                task = asyncio.create_task(one(idle.pop(), sent, begun + sent / rate))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.001)
    await asyncio.gather(*tasks)
    figures.seconds = time.perf_counter() - begun
    for line in idle:
        await line.close()
    return figures


async def overload(port: int, tokens: Sequence[str], capacity: float, seconds: float) -> tuple[Figures, float]:
    """Send three times what is possible; return what came of it, and after how many seconds all was well again."""
    figures = await steady(port, tokens, 3 * capacity, seconds, most=1500)
    begun = time.perf_counter()
    while time.perf_counter() < begun + 30:
        after = await steady(port, tokens, capacity / 4, 0.5)
        if set(after.statuses) == {200} and after.p(0.99) < 250:
            return figures, time.perf_counter() - begun - 0.5
    return figures, float("inf")


async def half_open(process: Process, connections: int) -> tuple[float, float]:
    """Open connections that send half a request; return how long a good one takes, and when all are closed."""
    lines = []
    for i in range(connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        writer.write([b"", b"GET / HT", b"POST /v1/campaigns HTTP/1.1\r\nhost: x\r\n"][i % 3])
        lines.append((reader, writer))
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    await hang_up(writer)
    answered = time.perf_counter() - begun

    async def closed(it: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionResetError):
            await it.read()

    await asyncio.gather(*(closed(it) for it, _ in lines))
    for _, it in lines:
        await hang_up(it)
    return answered, time.perf_counter() - begun


async def while_scraped(port: int, token: str, tokens: list[str], seconds: float) -> tuple[Figures, float]:
    """Let agents act while a monitor reads every half second how campaigns stand; return also its slowest scrape."""
    slowest, over = 0.0, asyncio.Event()

    async def scrape() -> None:
        nonlocal slowest
        while not over.is_set():
            begun = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            headers = f"host: x\r\nauthorization: Bearer {token}\r\nconnection: close"
            writer.write(f"GET /metrics HTTP/1.1\r\n{headers}\r\n\r\n".encode())
            assert b'freepull_campaign_observations_total{campaign="c0"}' in await reader.read()
            await hang_up(writer)
            slowest = max(slowest, time.perf_counter() - begun)
            await asyncio.sleep(0.5)

    scraping = asyncio.create_task(scrape())
    found = await closed_loop(port, tokens, 64, seconds)
    over.set()
    await scraping
    return found, slowest
