"""A million agents: a thousand pulls a second while people watch, a snapshot is taken and a step ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .loads import steady
from .traffic import Figures, Line, Process, call, hang_up

VIEWERS = 20
BATCH = 1000


@dataclass
class Crowd:
    """What it met with."""

    usual: Figures
    during: Figures
    """While the snapshot was taken."""
    snapshot: float
    steps: int
    grown: float
    memory: float

    def __str__(self) -> str:
        return (
            f"{self.usual}; p99 {self.during.p(0.99):.1f} ms of {self.during.events:,} during a snapshot of "
            f"{self.snapshot:.1f} s; {self.steps} step ended; memory {self.memory:,.0f} MB, {self.grown:+,.0f} MB"
        )


async def watch(port: int, token: str, end: asyncio.Event) -> int:
    """Look at the stream until told otherwise; return how many bytes came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/campaigns/c0/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode())
    size = 0
    while not end.is_set():
        try:
            size += len(await asyncio.wait_for(reader.read(65536), 1.0))
        except TimeoutError:
            continue
    await hang_up(writer)
    return size


async def fill(port: int, gateway: str, pulls: int, agents: int) -> None:
    """Bring a step close to its end, in batches."""
    line = Line(port)
    for first in range(0, pulls, BATCH):
        rows = [{"agent": f"#{i % agents}", "arm": f"arm {i % 2}", "reward": 0.5} for i in range(first, first + BATCH)]
        status, told = await line.post(
            "/campaigns/c0/observations:batch", gateway, json.dumps({"observations": rows}).encode()
        )
        assert status == 200, told
    await line.close()


async def crowd(
    process: Process, tokens: Sequence[str], admin: str, gateway: str, agents: int, rate: float, seconds: float
) -> Crowd:
    """Send pulls at a rate; take a snapshot at 3/10 of the time, and let a step end at 7/10."""
    port = process.port
    await fill(port, gateway, int(agents - 0.7 * rate * seconds) // BATCH * BATCH, agents)
    end = asyncio.Event()
    viewers = [asyncio.create_task(watch(port, admin, end)) for _ in range(VIEWERS)]
    await steady(port, tokens, rate, min(10.0, seconds / 10))
    before, steps = process.memory, (await call(port, "GET", "/campaigns/c0", admin))["step"]

    async def snapshot() -> tuple[float, float]:
        await asyncio.sleep(0.3 * seconds)
        begun = time.perf_counter()
        await call(port, "POST", "/campaigns/c0/snapshot", admin)
        return begun, time.perf_counter()

    found, (begin, done) = await asyncio.gather(steady(port, tokens, rate, seconds), snapshot())
    end.set()
    assert min(await asyncio.gather(*viewers)) > 500
    steps = (await call(port, "GET", "/campaigns/c0", admin))["step"] - steps
    memory = process.memory
    usual, during = found.between(begin, done, inside=False), found.between(begin, done)
    return Crowd(usual, during, done - begin, steps, memory - before, memory)
