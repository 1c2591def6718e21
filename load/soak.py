"""A soak: hours of traffic with faults of all kinds at once, and a model beside it that is compared at the end.

Agents ask and tell, gateways send batches; every event is sent until it is answered, some of them again, in another
order, or on a connection that is cut. Meanwhile processes are killed, stopped and woken, the disk is full, PostgreSQL
is killed, and the machine's clock jumps. At the end every answer must be borne out, the ledger to the cent.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

import freepull as fp
from chaos.postgres_server import PostgresServer
from freepull.campaigns.journal.recovery import verify
from freepull.server.auth import Tokens

from .traffic import Line, Process

AGENTS, GATEWAYS, BATCH = 200, 4, 20
PRICE = 37
"""Cents."""
ARMS = 3
PRINCIPAL = {
    "rule": {"part": "Comparisons", "delta": 1e-100},
    "observe": {"part": "Steps", "n": 0},
    "protocol": {"part": "NeverBan"},
    "offers": "each",
}
"""Everybody is always offered something, and nothing is ever decided."""
NEW: dict[str, Any] = {
    "name": "c0",
    "arms": ARMS,
    "agents": AGENTS,
    "price": f"{PRICE / 100} EUR",
    "principal": PRINCIPAL,
}
OUTCOMES = (None, "paid", "refused", "cancelled")
HOURS = 3.0
"""By so much the clock is wrong at most."""
PATIENCE = 300.0
"""Seconds for everything to be answered once the faults are over."""
KEPT = Path(tempfile.gettempdir()) / "freepull-soak.log"
"""Where the log of a soak is kept that found something."""
TRY_AGAIN = (408, 421, 429, 500, 502, 503)


@dataclass
class Model:
    """Every event that was sent, by its number, and how it was answered."""

    agents: array[int] = field(default_factory=lambda: array("l"))
    arms: array[int] = field(default_factory=lambda: array("b"))
    rewards: array[float] = field(default_factory=lambda: array("d"))
    places: array[int] = field(default_factory=lambda: array("q"))
    """In the log; -1 while it is not answered."""
    outcomes: array[int] = field(default_factory=lambda: array("b"))
    offers: array[int] = field(default_factory=lambda: array("q"))
    promised: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Offers that agents were told of: whose, and of which arm."""
    repeated: int = 0
    differing: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Answers that mean that something is wrong with the service."""

    def new(self, agent: int, arm: int, reward: float) -> int:
        """Note an event before it is sent; return its number."""
        self.rewards.append(reward)
        whole = ((self.agents, agent), (self.arms, arm), (self.places, -1), (self.outcomes, 0), (self.offers, 0))
        for column, value in whole:
            column.append(value)
        return len(self.places) - 1

    def answered(self, number: int, told: dict[str, Any]) -> None:
        """Note an answer; every further one must be the same."""
        if told.get("error"):
            self.refused[str(told["error"].get("detail"))[:80]] += 1
            return
        outcome, offer = OUTCOMES.index(told["outcome"]), told["offer"] or 0
        paid = told["paid"] and (told["paid"]["minor"], told["paid"]["currency"])
        if (paid is not None) != (outcome == 1) or paid not in (None, (PRICE, "EUR")):
            self.differing.append(f"event {number}: {told}")
        if self.places[number] < 0:
            self.places[number], self.outcomes[number], self.offers[number] = told["event"], outcome, offer
            return
        self.repeated += 1
        if (self.places[number], self.outcomes[number], self.offers[number]) != (told["event"], outcome, offer):
            self.differing.append(f"event {number} was answered in two ways: {told}")

    def row(self, number: int) -> dict[str, Any]:
        """Return what is sent for an event."""
        return {"arm": f"arm {self.arms[number]}", "reward": self.rewards[number], "event": f"e{number}"}


@dataclass
class Soak:
    """What came of it."""

    seconds: float = 0.0
    events: int = 0
    asked: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    paid: int = 0
    spent: int = 0
    problems: list[str] = field(default_factory=list)

    def demand(self, right: bool, what: str) -> None:
        """Note a problem, if there is one."""
        if not right:
            self.problems.append(what)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        wrong = f"; NOT AS PROMISED: {'; '.join(self.problems[:5])}" if self.problems else ""
        return (
            f"{self.seconds / 60:.0f} minutes: {self.events:,} pulls answered ({self.events / self.seconds:,.0f}/s), "
            f"{self.asked:,} asks, {self.repeated:,} repeated; {self.paid:,} paid, {self.spent / 100:,.2f} EUR; "
            f"{faults}{wrong}"
        )


class Services:
    """One or two processes on a store, which are harmed."""

    def __init__(self, url: str, folder: Path, server: PostgresServer | None) -> None:
        self.url, self.folder, self.server = url, folder, server
        self.shift = folder / "shift"
        self.shift.write_text("0")
        self.log = folder / "log"
        self.all = [self._start() for _ in range(2 if server else 1)]

    def _start(self) -> Process:
        program = ("-m", "load.soak", str(self.shift))
        return Process(self.url, "--agent-rate", "1000000", log=self.log, program=program)

    def replace(self, which: int) -> None:
        """Start a process in the place of one that is no more, however often that takes."""
        for _ in range(20):
            try:
                self.all[which] = self._start()
                return
            except (AssertionError, RuntimeError, OSError):
                time.sleep(0.5)
        raise RuntimeError("the service does not start any more; see its log")

    def harm(self, chance: random.Random) -> str:
        """Do something bad; return what."""
        which = chance.randrange(len(self.all))
        it = self.all[which]
        if it.process.poll() is not None:
            self.replace(which)
            return "start after an end by itself"
        kinds = ["kill -9", "stop and wake", "clock", "clock"]
        kind = chance.choice([*kinds, "kill of PostgreSQL" if self.server else "full disk"])
        if kind == "kill -9":
            it.kill()
            self.replace(which)
        elif kind == "stop and wake":
            it.process.send_signal(signal.SIGSTOP)
            time.sleep(chance.choice([0.3, 1.0, 8.0]))
            it.process.send_signal(signal.SIGCONT)
        elif kind == "clock":
            self.shift.write_text(str(chance.choice([0.0, chance.uniform(-HOURS, HOURS)]) * 3600))
        elif self.server is not None:
            self.server.kill()
            time.sleep(chance.uniform(0.0, 1.5))
            self.server.start()
        else:
            self._fill(it, which)
        return kind

    def _fill(self, it: Process, which: int) -> None:
        """Let no file of a process grow any more for a while; it ends, and another one begins."""
        with suppress(ProcessLookupError):
            resource.prlimit(it.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            with suppress(Exception):
                it.process.wait(5.0)
            resource.prlimit(it.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        if it.process.poll() is not None:
            self.replace(which)

    def heal(self) -> None:
        """See to it that all of them run."""
        for which, it in enumerate(self.all):
            it.process.send_signal(signal.SIGCONT)
            if it.process.poll() is not None:
                self.replace(which)

    def end(self) -> list[int]:
        """End all; return their exit codes."""
        return [it.end() for it in self.all]


def soak(url: str, seconds: float, rate: float, server: PostgresServer | None, seed: int = 1) -> Soak:
    """Let everything happen for a while; compare."""
    found, model = Soak(), Model()
    tokens = Tokens(url)
    admin, gateway = tokens.new("admin")[0], tokens.new("gateway")[0]
    tokens.close()
    with tempfile.TemporaryDirectory() as folder:
        services = Services(url, Path(folder), server)
        first = services.all[0]
        first.ask(admin, "POST", "/campaigns", NEW)
        first.ask(admin, "POST", "/campaigns/c0/start")
        made = first.ask(admin, "POST", "/campaigns/c0/tokens", {"agents": list(range(AGENTS))})
        own = [it["token"] for it in made["tokens"]]
        begun, over = time.monotonic(), threading.Event()
        harming = threading.Thread(target=_harm, args=(services, begun + seconds, random.Random(seed), found, over))
        harming.start()
        try:
            traffic = Traffic(lambda: [it.port for it in services.all], model, found, own, gateway, rate)
            asyncio.run(traffic.run(begun + seconds, over.is_set))
            harming.join()
            found.seconds = seconds
            try:
                compare([it.address for it in services.all], services.folder, admin, model, found)
            except fp.errors.FreepullError as error:
                found.demand(False, f"{type(error).__name__}: {error}")
        finally:
            harming.join()
            codes = services.end()
        found.demand(set(codes) == {0}, f"exit codes {codes}")
        try:
            verify(url, "c0", wait=30.0)
        except fp.errors.FreepullError as error:
            found.demand(False, f"verify: {error}")
        lines = services.log.read_text(errors="replace").splitlines()
        told = [line for line in lines if '"what":"broken"' in line or '"what":"error"' in line]
        found.demand(not told, f"{len(told)} lines of the log, such as {told[:3]}")
        if found.problems:
            shutil.copy(services.log, KEPT)
    return found


def _harm(services: Services, end: float, chance: random.Random, found: Soak, over: threading.Event) -> None:
    """Do bad things until the time is over, then heal everything."""
    try:
        time.sleep(2.0)
        while time.monotonic() < end - 5.0:
            found.faults[services.harm(chance)] += 1
            time.sleep(chance.uniform(0.5, 10.0))
        services.heal()
    except BaseException as error:
        found.problems.append(f"{type(error).__name__}: {error}")
    finally:
        over.set()


class Traffic:
    """Agents and gateways, each of which sends an event until it is answered."""

    def __init__(
        self, ports: Callable[[], list[int]], model: Model, found: Soak, tokens: list[str], gateway: str, rate: float
    ) -> None:
        self.ports, self.model, self.found = ports, model, found
        self.tokens, self.gateway, self.rate = tokens, gateway, rate

    async def run(self, end: float, over: Callable[[], bool]) -> None:
        """Send until the time is over, and go on until everything is answered."""
        self.over = over
        half = self.rate / 2
        agents = [self._agent(m, end, AGENTS / half) for m in range(AGENTS)]
        gateways = [self._gateway(n, end, GATEWAYS * BATCH / half) for n in range(GATEWAYS)]
        await asyncio.wait_for(asyncio.gather(*agents, *gateways), end - time.monotonic() + PATIENCE)

    async def _send(self, line: Line, chance: random.Random, path: str, token: str, body: bytes) -> dict[str, Any]:
        """Send a request until it is answered, at whichever process answers; sometimes hang up in between."""
        wait = 0.05
        while True:
            try:
                if chance.random() < 0.002:
                    await self._cut(line.port, path, token, body)
                async with asyncio.timeout(10.0):
                    status, answer = await line.post(f"/campaigns/c0/{path}", token, body)
                self.found.statuses[status] += 1
                if status == 200:
                    told: dict[str, Any] = json.loads(answer)
                    return told
                if status not in TRY_AGAIN:
                    raise RuntimeError(f"{path} was answered with {status}: {answer[:300]!r}")
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError):
                self.found.statuses[0] += 1
                await line.close()
            await asyncio.sleep(wait * chance.uniform(0.5, 1.5))
            wait = min(2 * wait, 1.0)
            port = chance.choice(self.ports())
            if port != line.port:
                await line.close()
                line.port = port

    async def _cut(self, port: int, path: str, token: str, body: bytes) -> None:
        """Send the same, and hang up before it is answered, or in the middle of it."""
        self.found.faults["connection dropped"] += 1
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST /v1/campaigns/c0/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            whole = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            writer.write(whole[: random.choice([len(whole), len(whole), len(whole) // 2])])
            await writer.drain()
            writer.transport.abort()

    async def _agent(self, m: int, end: float, apart: float) -> None:
        """Ask, tell, and now and then tell something old again, or two at once in the wrong order."""
        chance, model, token = random.Random(m), self.model, self.tokens[m]
        lines = [Line(self.ports()[0]) for _ in range(2)]
        mine, due = list[int](), time.monotonic() + chance.random() * apart

        async def tell(number: int, line: Line) -> None:
            body = json.dumps(model.row(number)).encode()
            model.answered(number, await self._send(line, chance, "me/observations", token, body))

        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = max(due + apart, time.monotonic() - 5.0)
            arm = chance.randrange(ARMS)
            if chance.random() < 0.3:
                offer = (await self._send(lines[0], chance, "me/offer", token, b""))["offer"]
                self.found.asked += 1
                if offer is not None:
                    arm = int(offer["arm"].removeprefix("arm "))
                    self._promise(offer["id"], m, arm)
            numbers = [model.new(m, arm, round(chance.random(), 6))]
            if mine and chance.random() < 0.05:
                numbers.append(chance.choice(mine[-50:]))
            if chance.random() < 0.05:
                numbers.append(numbers[0])
            if chance.random() < 0.05:
                numbers.insert(0, model.new(m, chance.randrange(ARMS), round(chance.random(), 6)))
            await asyncio.gather(*(tell(number, lines[i % 2]) for i, number in enumerate(numbers[:2])))
            for number in numbers[2:]:
                await tell(number, lines[0])
            mine = [*mine[-50:], *numbers]
        for line in lines:
            await line.close()

    def _promise(self, id: int, agent: int, arm: int) -> None:
        if self.model.promised.setdefault(id, (agent, arm)) != (agent, arm):
            self.model.differing.append(f"offer {id} was made twice")

    async def _gateway(self, n: int, end: float, apart: float) -> None:
        """Send batches, with events of earlier ones among them."""
        chance, model, line = random.Random(f"gateway {n}"), self.model, Line(self.ports()[0])
        old, due = list[int](), time.monotonic()
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = max(due + apart, time.monotonic() - 5.0)
            numbers = [
                model.new(chance.randrange(AGENTS), chance.randrange(ARMS), round(chance.random(), 6))
                for _ in range(BATCH)
            ]
            new = list(numbers)
            if chance.random() < 0.1 and old:
                numbers += chance.sample(old, min(5, len(old)))
            chance.shuffle(numbers)
            rows = [model.row(it) | {"agent": f"#{model.agents[it]}"} for it in numbers]
            body = json.dumps({"observations": rows}).encode()
            told = await self._send(line, chance, "observations:batch", self.gateway, body)
            for number, result in zip(numbers, told["results"], strict=True):
                model.answered(number, result)
            old = [*old[-200:], *new]
        await line.close()


def compare(addresses: list[str], folder: Path, admin: str, model: Model, found: Soak) -> None:
    """Compare everything that was acknowledged with what is there."""
    found.events, found.repeated = sum(it >= 0 for it in model.places), model.repeated
    found.demand(found.events == len(model.places), f"{len(model.places) - found.events} events were not answered")
    found.demand(not model.differing, f"{len(model.differing)} answers differ: {model.differing[:3]}")
    found.demand(not model.refused, f"refused: {model.refused.most_common(3)}")
    with fp.Client(addresses[0], admin, owners=addresses[1:], retries=30, seconds=60.0) as client:
        campaign, file = client.campaign("c0"), folder / "all.parquet"
        campaign.export(file)
        status, ledger = campaign.status(), campaign.ledger()
    names = [f"#{m}" for m in range(AGENTS)]
    acknowledged = pl.DataFrame(
        {
            "sequence": list(model.places),
            "agent": list(model.agents),
            "arm": list(model.arms),
            "reward": list(model.rewards),
            "outcome": [OUTCOMES[it] for it in model.outcomes],
            "offer": [it or None for it in model.offers],
        },
        schema_overrides={"outcome": pl.String, "offer": pl.Int64},
    )
    there = pl.read_parquet(file)
    rows = there.height
    there = there.with_columns(
        pl.col("arm").str.strip_prefix("arm ").cast(pl.Int64),
        pl.col("agent").replace_strict(names + [f"agent {m}" for m in range(AGENTS)], [*range(AGENTS)] * 2, default=-1),
        (pl.col("reward") * 10**6).round().cast(pl.Int64),
    )
    wanted = acknowledged.with_columns((pl.col("reward") * 10**6).round().cast(pl.Int64), pl.col("arm").cast(pl.Int64))
    same = [it for it in ("sequence", "agent", "arm", "reward", "outcome", "offer") if it in there.columns]
    found.demand(len(same) == 6, f"the export has {there.columns}")
    missing = wanted.join(there.select(same), on=same, how="anti", nulls_equal=True)
    found.demand(missing.height == 0, f"{missing.height} answers are not in the log: {missing.head(2).rows()}")
    found.demand(rows == found.events == status.observations, f"{rows} rows, {status.observations} in the status")
    paid = {offer for offer, outcome in zip(model.offers, model.outcomes, strict=True) if outcome == 1}
    entries = {it.offer: it for it in ledger}
    found.paid, found.spent = len(ledger), sum(it.amount.minor for it in ledger)
    found.demand(len(entries) == len(ledger), f"{len(ledger) - len(entries)} offers were paid twice")
    found.demand(paid == set(entries), f"{len(paid ^ set(entries))} payments differ from what was acknowledged")
    found.demand(found.spent == PRICE * len(paid) == status.spent.minor, f"{found.spent} cents, {status.spent} spent")
    whose = dict(zip(model.offers, zip(model.agents, model.arms, strict=True), strict=True))
    wrong = [it for it in paid if model.promised.get(it, whose[it]) != whose[it]]
    found.demand(not wrong, f"{len(wrong)} offers were paid to others, or for other arms")


def _shifted(file: str) -> None:
    """Run the service with a clock that is wrong by what a file says."""
    real, offset = time.time_ns, 0

    def look() -> None:
        nonlocal offset
        while True:
            with suppress(OSError, ValueError):
                offset = round(float(Path(file).read_text()) * 1e9)
            time.sleep(0.2)

    threading.Thread(target=look, daemon=True).start()
    time.time_ns = lambda: real() + offset
    time.time = lambda: (real() + offset) / 1e9
    from freepull.cli import main

    main()


if __name__ == "__main__":
    _, where, *words = sys.argv
    sys.argv = ["freepull", *words]
    assert os.path.exists(where)
    _shifted(where)
