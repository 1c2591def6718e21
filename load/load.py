"""`make load`: the HTTP rows of what must be shown, on SQLite and PostgreSQL, beside the machine's own fsync time."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from loads import batches, closed_loop, half_open, overload, steady, watch
from postgres_server import PostgresServer
from takeover import kill_the_owner
from traffic import agent_tokens, fsync_time, stage


def show(store: str, what: str, bar: str, found: object, reached: bool) -> bool:
    """Print one row."""
    print(f"{store:10} {what:38} {found}\n{'':10} bar: {bar}: {'reached' if reached else 'NOT reached'}", flush=True)
    return reached


def small(store: str, url: str, seconds: float) -> Iterator[bool]:
    """Agents one by one, gateways in batches, overload, half-open connections."""
    process, admin, (gateway,) = stage(url, agents=2000)
    try:
        tokens = agent_tokens(process, admin, 1000)
        asyncio.run(closed_loop(process.port, tokens, 64, min(5.0, seconds)))  # so that nothing is compiled in between
        found = asyncio.run(closed_loop(process.port, tokens, 64, seconds))
        good = found.rate >= 2000 and found.p(0.99) <= 100 and set(found.statuses) == {200}
        yield show(store, "closed loop, 64 connections", "≥ 2,000 events/s, p99 ≤ 100 ms, no error", found, good)
        capacity = found.rate
        found = asyncio.run(batches(process.port, gateway, 2000, 4, 100, seconds))
        yield show(store, "batches of 100, 4 connections", "≥ 50,000 events/s", found, found.rate >= 50_000)
        found, healed = asyncio.run(overload(process.port, tokens, capacity, seconds / 4))
        good = set(found.statuses) <= {200, 429, 503} and 503 in found.statuses and healed <= 5
        yield show(store, "3× overload", "429/503, recovers in 5 s", f"{found}; well again after {healed:.1f} s", good)
        answered, closed = asyncio.run(half_open(process, 2000))
        good = answered < 1 and closed <= 15
        yield show(
            store,
            "2,000 half-open connections",
            "answers; closed within 15 s",
            f"answered in {1000 * answered:.0f} ms, all closed after {closed:.1f} s",
            good,
        )
    finally:
        process.end()


async def crowd(port: int, tokens: list[str], admin: str, seconds: float) -> Any:
    """A thousand pulls a second while twenty people watch."""
    end = asyncio.Event()
    viewers = [asyncio.create_task(watch(port, admin, end)) for _ in range(20)]
    found = await steady(port, tokens, 1000, seconds)
    end.set()
    await asyncio.gather(*viewers)
    return found


def large(store: str, url: str, seconds: float) -> Iterator[bool]:
    """A million agents."""
    process, admin, _ = stage(url, agents=1_000_000)
    try:
        tokens = agent_tokens(process, admin, 10_000)
        asyncio.run(crowd(process.port, tokens, admin, min(10.0, seconds)))
        before = process.memory
        found = asyncio.run(crowd(process.port, tokens, admin, seconds))
        grown = process.memory - before
        good = found.p(0.99) <= 50 and set(found.statuses) == {200} and grown < 100
        words = f"{found}; memory {before:,.0f} MB, {grown:+,.0f} MB"
        yield show(store, "M = 10⁶, 1,000/s, 20 viewers", "p99 ≤ 50 ms, memory flat", words, good)
    finally:
        process.end()


@contextmanager
def sqlite() -> Iterator[str]:
    """Yield a file."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/load.db"


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of every row; the long one takes five times that")
    seconds = parser.parse_args().seconds
    print(f"this machine's fsync: {1000 * fsync_time():.2f} ms (median of 200)")
    reached = []
    with PostgresServer() as server:
        for store, where in (("SQLite", sqlite()), ("PostgreSQL", nullcontext(server.url))):
            with where as url:
                reached += list(small(store, url, seconds))
        with sqlite() as url:
            reached += list(large("SQLite", url, 5 * seconds))
        found = kill_the_owner(server.url, seconds=min(seconds, 20.0))
        good = found.lost == 0 and found.twice == 0
        reached.append(show("PostgreSQL", "owner killed under load", "0 lost, 0 paid twice", found, good))
    print(f"{sum(reached)} of {len(reached)} bars reached; fsync at the end: {1000 * fsync_time():.2f} ms")


if __name__ == "__main__":
    main()
