"""kill -9 at every statement of a migration on PostgreSQL, and several processes that migrate at once."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import psycopg

import freepull as fp
from freepull.campaigns.stores import sql
from freepull.campaigns.stores.postgres import PostgresStore

from .outcome import Finding, finding
from .postgres_server import PostgresServer
from .world import ASKING, create, right

OLD = 4
"""The version whose tables had no seals yet; what was in them must get some."""
ALL = len(sql.MIGRATIONS)
LEASE = 0.5


def run(every: int = 1, crowds: int = 20) -> Finding:
    """Kill a migration before and after each of its statements, or some; then let crowds of processes migrate."""
    with finding("kill -9 during migrations of PostgreSQL") as found, PostgresServer() as server:
        killed, whole, undone = 0, 0, 0
        for version in (0, OLD):
            _begin(server, version)
            statements = _statements(server)
            for number in range(1, statements + 1, every):
                for when in ("before", "after"):
                    _begin(server, version)
                    _die(server, number, when)
                    killed += 1
                    there = _version(server)
                    found.demand(there in (version, ALL), f"killed {when} {number}: tables of version {there}")
                    whole, undone = whole + (there == ALL), undone + (there == version)
                    _check(server, version, found, f"killed {when} statement {number} from version {version}")
        for crowd in range(crowds):
            version = (0, OLD)[crowd % 2]
            _begin(server, version)
            children = [_child(server, lambda _: True) for _ in range(6)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(it, 0)[1]) for it in children]
            found.demand(set(codes) == {0}, f"crowd {crowd}: exit codes {codes}")
            _check(server, version, found, f"crowd {crowd}")
        found.figures |= {"killed": killed, "undone": undone, "whole": whole, "crowds of 6": crowds}
        found.figures["seconds until one that hangs is passed by"] = _hung(server, found)
        return found


def _open(server: PostgresServer) -> PostgresStore:
    return PostgresStore(server.url, lease_seconds=LEASE)


def _begin(server: PostgresServer, version: int) -> None:
    """Make tables as an older freepull has left them, with something in them."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")
    if version:
        every, sql.MIGRATIONS = sql.MIGRATIONS, sql.MIGRATIONS[:version]
        try:
            _open(server).close()
        finally:
            sql.MIGRATIONS = every
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET search_path = freepull")
            for number in range(3):
                row = (f"{number:012x}", bytes(32), "read", "", "old", number)
                connection.execute("INSERT INTO tokens (id, hash, scope, campaign, label, made) VALUES "
                                   "(%s, %s, %s, %s, %s, %s)", row)  # fmt: skip


def _version(server: PostgresServer) -> int:
    """Return the version of the tables, once nobody is at work on them any more."""
    server.settle()
    with psycopg.connect(server.url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('freepull.version')").fetchone() == (None,):
            return 0
        rows = connection.execute("SELECT number FROM freepull.version ORDER BY 1").fetchall()
        assert [number for (number,) in rows] == list(range(1, len(rows) + 1)), rows
        return len(rows)


def _child(server: PostgresServer, at: Callable[[int], Any]) -> int:
    """Open the store in a process of its own, which calls ``at`` around each statement."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        plain, count = psycopg.Connection.execute, 0

        def execute(self: Any, *args: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            at(count)
            done = plain(self, *args, **more)
            at(-count)
            return done

        psycopg.Connection.execute = execute  # type: ignore[method-assign]
        _open(server).close()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _statements(server: PostgresServer) -> int:
    """Count the statements of a whole migration."""
    reading, writing = os.pipe()
    child = _child(server, lambda number: os.write(writing, b"x") if number > 0 else None)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        return len(pipe.read())


def _self(what: signal.Signals) -> None:
    os.kill(os.getpid(), what)


def _die(server: PostgresServer, number: int, when: str) -> None:
    wanted = number if when == "before" else -number
    child = _child(server, lambda now: _self(signal.SIGKILL) if now == wanted else None)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the process was not killed, but ended with {status}")


def _check(server: PostgresServer, version: int, found: Finding, when: str) -> None:
    """Open the store again; everything must be there, and a campaign must work."""
    store = _open(server)
    try:
        labels = [it.label for it in store.tokens()]
        found.demand(labels == (["old"] * 3 if version else []), f"{when}: tokens {labels}")
        store.check()
    except fp.errors.FreepullError as error:
        found.demand(False, f"{when}: {error}")
    finally:
        store.close()
    found.demand(_version(server) == ALL, f"{when}: not up to date")
    with create(lambda: _open(server), principal=ASKING) as campaign:
        campaign.tell(0, 0, 0.5, "one")
    wrong = right(server.url)
    found.demand(not wrong, f"{when}: {wrong}")


def _hung(server: PostgresServer, found: Finding) -> float:
    """Stop a process in the middle; another one must not wait for it for good."""
    _begin(server, 0)
    child = _child(server, lambda number: _self(signal.SIGSTOP) if number == -12 else None)
    os.waitpid(child, os.WUNTRACED)
    begun = time.monotonic()
    _check(server, 0, found, "while another one hung")
    seconds = time.monotonic() - begun
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found.demand(seconds < 10 * LEASE + 5, f"it took {seconds:.1f} s to pass by one that hung")
    return seconds
