"""Two writers: one is stopped for longer than its lease, and resumed; from then on it must acknowledge nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import freepull as fp
from freepull.campaigns.journal.events import Row
from freepull.campaigns.stores.postgres import PostgresStore
from freepull.errors import CampaignBusy, FreepullError

from .outcome import Finding, finding
from .postgres_server import PostgresServer
from .world import NAME, create, forked, right


def run(stopped: float = 10.0, turns: int = 3) -> Finding:
    """PostgreSQL: the stale writer is fenced. SQLite: the second one cannot even open the file."""
    with finding(f"two writers, one stopped {stopped:g} s and resumed") as found:
        with PostgresServer() as server:
            create(server.url).close()
            for _ in range(turns):
                _fence(server.url, stopped, found)
            found.demand(right(server.url) == "", "the campaign is not right after two writers")
        with tempfile.TemporaryDirectory() as folder:
            _lock(f"sqlite:///{Path(folder)}/chaos.db", found)
        return found


class Slow(PostgresStore):
    """A database far away: whatever is read takes a while, and all of it longer than a lease lasts."""

    def query(self, sql: str, values: Row = ()) -> list[Row]:
        """Read, slowly."""
        time.sleep(0.03)
        return super().query(sql, values)


def slowly(turns: int = 12, processes: int = 3) -> Finding:
    """Let processes that read for longer than a lease lasts take turns: none takes the campaign from one that reads."""
    with finding(f"{processes} processes that read for longer than a lease lasts, {turns} turns each") as found:
        with PostgresServer() as server:
            with create(server.url) as campaign:
                for number in range(200):
                    campaign.tell(number % 60, 0, 0.5)
            begun = time.monotonic()
            children = [_reader(server.url, turns) for _ in range(processes)]
            lines = list[str]()
            for child, reading in children:
                with open(reading, encoding="ascii") as pipe:
                    lines += pipe.read().splitlines()
                os.waitpid(child, 0)
            wrong = right(server.url)
            with fp.Campaign.open(server.url, NAME, wait=30.0) as campaign:
                told = campaign.status().observations - 200
        found.demand(not wrong, f"the campaign is not right: {wrong}")
        done = lines.count("told")
        found.demand(done == told == processes * turns, f"{done} of {processes * turns} turns, {told} pulls")
        found.demand(lines.count("Corrupt") == 0, "a process took the campaign for damaged")
        found.figures |= {"turns": done, "taken away": lines.count("Fenced"), "damaged": lines.count("Corrupt")}
        found.figures["seconds a turn"] = (time.monotonic() - begun) / max(1, done)
        return found


def _reader(url: str, turns: int) -> tuple[int, int]:
    """Start a process that opens the campaign, tells one pull and closes it, so often; it says how that ends."""

    def work(writing: int) -> None:
        done, limit = 0, time.monotonic() + 20 * turns
        while done < turns and time.monotonic() < limit:
            try:
                with fp.Campaign.open(Slow(url, lease_seconds=0.4), NAME, wait=60.0) as campaign:
                    campaign.tell(3, 0, 0.5)
                done, said = done + 1, "told"
            except FreepullError as error:
                said = type(error).__name__
            os.write(writing, said.encode() + b"\n")

    return forked(work)


def _fence(url: str, stopped: float, found: Finding) -> None:
    child, reading = _other(url)
    with open(reading, "rb") as pipe:
        for _ in range(20):
            pipe.readline()
        os.kill(child, signal.SIGSTOP)
        begun = time.monotonic()
        with fp.Campaign.open(url, NAME, wait=stopped + 20) as campaign:
            waited = time.monotonic() - begun
            told = campaign.tell(1, 1, 0.5)
            time.sleep(max(0.0, stopped - (time.monotonic() - begun)))
            before = campaign.status().events
            _drain(reading)
            os.kill(child, signal.SIGCONT)
            heard, limit = b"", time.monotonic() + 60
            while b'"Fenced"' not in heard and time.monotonic() < limit:
                time.sleep(0.5)
                heard += _drain(reading)
            campaign.tell(2, 2, 0.5)
            after = campaign.status().events
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        said = [json.loads(line) for line in (heard + _drain(reading)).split(b"\n")[:-1]]
    begun_later = {number for kind, number in said if kind == "begun"}
    acknowledged = [number for kind, number in said if kind == "answered" and number in begun_later]
    found.demand(not acknowledged, f"the stale writer acknowledged {len(acknowledged)} requests after it was resumed")
    found.demand("Fenced" in [kind for kind, _ in said], "the stale writer was never told that it is one")
    found.demand(after >= before and told.event is not None, "the new writer could not go on")
    found.figures["taken over after (s)"] = waited
    found.figures["acknowledged after it was resumed"] = len(acknowledged)


def _other(url: str) -> tuple[int, int]:
    """Start a process that asks and tells for ever, and says what it begins and how that ends."""

    def work(writing: int) -> None:
        campaign = fp.Campaign.open(url, NAME, wait=30.0)
        for number in range(10**9):
            os.write(writing, json.dumps(["begun", number]).encode() + b"\n")
            try:
                campaign.ask(0)
                if number % 3 == 0:
                    campaign.tell(3, 0, 0.5)
                os.write(writing, json.dumps(["answered", number]).encode() + b"\n")
            except FreepullError as error:
                os.write(writing, json.dumps([type(error).__name__, number]).encode() + b"\n")
                time.sleep(0.05)

    return forked(work)


def _drain(reading: int) -> bytes:
    """Return what the pipe holds by now."""
    os.set_blocking(reading, False)
    found = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(reading, 1 << 16):
            found += part
    return found


def _lock(url: str, found: Finding) -> None:
    create(url).close()
    child, reading = _other(url)
    with open(reading, "rb") as pipe:
        pipe.readline()
        os.kill(child, signal.SIGSTOP)
        try:
            fp.Campaign.open(url, NAME).close()
            found.demand(False, "a second process could open the file")
        except CampaignBusy:
            pass
        os.kill(child, signal.SIGCONT)
        pipe.readline()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    found.demand(right(url) == "", "the file is not right after two processes")
