"""`make load`: the HTTP rows of what must be shown, on SQLite and PostgreSQL, beside the machine's own fsync time."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psycopg

from chaos.postgres_server import PostgresServer

from .crowd import crowd
from .loads import batches, closed_loop, closed_loop_of_acts, gateway_loop, half_open, overload, while_scraped
from .security import security
from .siege import siege
from .soak import soak
from .story import story
from .strangers import strangers
from .takeover import kill_the_owner
from .tls import tls
from .traffic import Row, agent_tokens, fsync_time, stage

PAGE = Path(__file__).parents[1] / "docs" / "load.md"
STORES = ("SQLite", "PostgreSQL")
PARTS = ("small", "large", "security", "takeover", "hanging", "siege", "tls", "strangers", "story")
SOAK = "soak"
"""Runs only when it is asked for: it takes hours."""
ONLY = {"takeover": "PostgreSQL", "hanging": "PostgreSQL", "siege": "SQLite", "tls": "SQLite", "strangers": "SQLite"}
"""Parts on one store alone: a file has one process, and what comes before a token is the same on both."""
HEAD = """# The service under load

Written by `make load`, row by row, each with its day and the load average when it began. The last ones are from
{machine}; the server, the traffic and PostgreSQL shared these cores. An fsync of a small file
took {fsync}.

| store | what | bar | measured | | on |
|---|---|---|---|---|---|
"""


def keep(page: Path, rows: list[str], head: str) -> None:
    """Write rows into the table of a page, each in the place of an older one of its kind; the text after it stays."""
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    before, _, after = before.partition("\n## ")
    table = {_kind(line): line for line in before.splitlines() if line.startswith("| ")}
    table = {kind: line for kind, line in table.items() if kind[0] in STORES}
    table |= {_kind(line): line for line in rows}
    page.write_text(head + "\n".join([*table.values(), ""]) + (f"\n## {after}" if after else ""), encoding="utf-8")


def _kind(row: str) -> tuple[str, str]:
    """Return on which store a row was measured, and what was done."""
    store, what = row.strip("| ").split(" | ")[:2]
    return store, what


def small(url: str, seconds: float) -> Iterator[Row]:
    """Agents one by one, gateways in batches, overload, half-open connections."""
    process, admin, gateway = stage(url, agents=[f"user-{m}" for m in range(2000)])
    try:
        tokens = agent_tokens(process, admin, 1000)
        asyncio.run(closed_loop(process.port, tokens, 64, min(5.0, seconds)))  # so that nothing is compiled in between
        found = asyncio.run(closed_loop(process.port, tokens, 64, seconds))
        good = found.rate >= 2000 and found.p(0.99) <= 100 and set(found.statuses) == {200}
        yield "closed loop, 64 connections", "≥ 2,000 events/s, p99 ≤ 100 ms, no error", found, good
        capacity = found.rate
        acts = asyncio.run(closed_loop_of_acts(process.port, tokens, 64, seconds))
        good = acts.rate >= 2000 and set(acts.statuses) == {200}
        yield "acts, each with its outcome later, 64 connections", "≥ 2,000 acts/s, no error", acts, good
        found, slowest = asyncio.run(while_scraped(process.port, admin, tokens, seconds))
        good = found.rate >= 0.95 * capacity and slowest <= 1 and set(found.statuses) == {200}
        words = f"{found}; slowest scrape {1000 * slowest:.0f} ms"
        yield "the same, /metrics read twice a second", "≥ 95 % of that, scrape ≤ 1 s", words, good
        found = asyncio.run(batches(process.port, gateway, 2000, 8, 100, seconds))
        yield "batches of 100, 8 connections", "≥ 50,000 events/s", found, found.rate >= 50_000
        found = asyncio.run(gateway_loop(process.port, gateway, 2000, 64, seconds))
        good = found.rate >= 2000 and set(found.statuses) == {200}
        yield "one gateway asks and tells for 2,000, 64 connections", "≥ 2,000 requests/s, no error", found, good
        found, healed = asyncio.run(overload(process.port, tokens, capacity, seconds / 4))
        good = set(found.statuses) <= {200, 429, 503} and 503 in found.statuses and healed <= 5
        yield "3× overload", "429/503, recovers in 5 s", f"{found}; well again after {healed:.1f} s", good
        answered, closed = asyncio.run(half_open(process, 2000))
        words = f"answered in {1000 * answered:.0f} ms, all closed after {closed:.1f} s"
        yield "2,000 half-open connections", "answers; closed within 15 s", words, answered < 1 and closed <= 15
    finally:
        process.end()


def large(url: str, seconds: float) -> Iterator[Row]:
    """A million agents."""
    agents, rate = 1_000_000, 1000.0
    process, admin, gateway = stage(url, agents=agents)
    try:
        tokens = agent_tokens(process, admin, 10_000)
        found = asyncio.run(crowd(process, tokens, admin, gateway, agents, rate, 5 * seconds))
        good = found.usual.p(0.99) <= 50 and found.during.p(0.99) <= 250 and set(found.usual.statuses) == {200}
        bar = "p99 ≤ 50 ms, ≤ 250 ms during the snapshot, memory flat"
        yield "M = 10⁶, K = 2, 1,000/s, 20 viewers", bar, found, good and found.steps == 1 and found.grown < 100
    finally:
        process.end()


def hostile(url: str, seconds: float) -> Iterator[Row]:
    """Requests that must be refused, and races for money."""
    with tempfile.NamedTemporaryFile() as log:
        process, admin, gateway = stage(url, agents=200, log=log.name)
        try:
            yield from security(
                process, admin, gateway, agent_tokens(process, admin, 200), round(10_000 * seconds / 60)
            )
        finally:
            process.end()
        lines, odd = Path(log.name).read_bytes().splitlines(), 0
        for line in lines:
            try:
                odd += not msgspec.json.decode(line)["what"]
            except (msgspec.DecodeError, TypeError, KeyError):
                odd += 1
        yield (
            "the log of all that",
            "every line is JSON",
            f"{len(lines):,} lines, {odd} are none",
            odd == 0 < len(lines),
        )


def takeover(url: str, seconds: float) -> Iterator[Row]:
    """The owner is killed."""
    found = kill_the_owner(url, seconds=min(seconds, 15.0), kills=4 if seconds >= 30 else 1)
    good = found.lost == found.twice == found.unpaid == 0 and found.told > 100
    yield "owner killed under load, 4 times", "0 lost, 0 paid twice", found, good


def hanging(url: str, seconds: float) -> Iterator[Row]:
    """The owner hangs."""
    times = 4 if seconds >= 30 else 1
    found = kill_the_owner(url, seconds=max(16.0, min(seconds, 24.0)), kills=times, hang=True)
    good = found.lost == found.twice == found.unpaid == found.failed == 0 and found.told > 100 and found.gap <= 8
    bar = "silence ≤ 8 s, 0 lost, 0 paid twice"
    yield f"owner stopped and woken under load, {times}×", bar, found, good


def soaked(url: str, seconds: float, rate: float, server: PostgresServer) -> Iterator[Row]:
    """Everything at once, for long."""
    found = soak(url, seconds, rate, server if url == server.url else None)
    bar = "every answer borne out, the ledger to the cent, verify"
    yield f"soak, {rate:,.0f} events/s, faults of all kinds", bar, found, not found.problems and found.events > 0


def whole_story(url: str, seconds: float) -> Iterator[Row]:
    """A team's story from a log of stars to the last payment."""
    with tempfile.TemporaryDirectory() as folder:
        found = story(url, Path(folder), people=500 if seconds >= 30 else 100)
    bar = "webhooks once each and in order, everybody paid once, certified, verify to the cent"
    yield "a team's story, outcomes days late, receiver and payer fail", bar, found, not found.problems


@contextmanager
def sqlite() -> Iterator[str]:
    """Yield a new file."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/load.db"


@contextmanager
def postgres(server: PostgresServer) -> Iterator[str]:
    """Yield an empty database."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")
    yield server.url


def main() -> None:
    """Run everything that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of every row; the long one takes five times that")
    parser.add_argument("--only", choices=(*PARTS, SOAK), nargs="+", help="some parts alone")
    parser.add_argument("--minutes", type=float, default=120.0, help="of the soak, on all stores together")
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second of the soak")
    parser.add_argument("--store", choices=STORES, help="one store alone")
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="where the rows are written, each part's when it is over"
    )
    asked = parser.parse_args()
    parts: dict[str, Callable[[str, float], Iterator[Row]]]
    parts = {
        "small": small,
        "large": large,
        "security": hostile,
        "takeover": takeover,
        "hanging": hanging,
        "siege": siege,
        "tls": lambda url, seconds: tls(url, seconds / 3),
        "story": whole_story,
        "strangers": lambda _, seconds: strangers(10 if seconds >= 30 else 2),
    }
    fsync = f"{1000 * fsync_time():.2f} ms"
    print(f"this machine's fsync: {fsync} (median of 200); load average {os.getloadavg()[0]:.1f}")
    machine = f"{os.cpu_count()} cores ({platform.machine()}) with Python {platform.python_version()}"
    head, reached = HEAD.format(machine=machine, fsync=fsync), list[bool]()
    with PostgresServer() as server:
        stores = [asked.store] if asked.store else STORES
        parts[SOAK] = lambda url, _: soaked(url, 60 * asked.minutes / len(stores), asked.rate, server)
        for part in asked.only or PARTS:
            for store in stores:
                if store not in ONLY.get(part, store):
                    continue
                lines, began = list[str](), f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}"
                with sqlite() if store == "SQLite" else postgres(server) as url:
                    for what, bar, found, good in parts[part](url, asked.seconds):
                        told = "reached" if good else "NOT reached"
                        print(f"{store:10} {what:38} {found}\n{'':10} bar: {bar}: {told}", flush=True)
                        lines.append(f"| {store} | {what} | {bar} | {found} | {told} | {began} |")
                        reached.append(good)
                keep(asked.page, lines, head)
    print(f"{sum(reached)} of {len(reached)} bars reached; the rows are in {asked.page}")


if __name__ == "__main__":
    main()
