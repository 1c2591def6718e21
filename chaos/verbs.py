"""kill -9 during every verb of a campaign, a model beside it: each has happened as a whole, or not at all."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

import freepull as fp
from freepull.campaigns.stores import Where
from freepull.campaigns.stores.postgres import PostgresStore

from .outcome import Finding, finding
from .postgres_server import PostgresServer
from .world import NAME, forked, right

PRINCIPAL = fp.Principal(
    fp.rules.Comparisons(1e-100), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.NeverBan()
)
ARMS = ["A", "B", "C", "D"]
STATUS = {"create": "enrolling", "start": "running", "pause": "paused", "resume": "running", "stop": "stopped"}


@dataclass
class Model:
    """What must be so, as far as it was answered; the verb that was under way may have happened, too."""

    status: str = ""
    agents: int = 0
    named: set[str] = field(default_factory=set)
    pulls: int = 0
    active: int = len(ARMS)
    budget: str | None = None

    def after(self, verb: str, said: Any) -> Model:
        """Return what is so after a verb."""
        new = Model(self.status, self.agents, set(self.named), self.pulls, self.active, self.budget)
        if verb in ("create", "enrol"):
            new.agents += len(said)
            new.named |= set(said)
        elif verb in ("tell", "batch"):
            new.pulls += said
        elif verb == "withdraw":
            new.active -= 1
        elif verb == "budget":
            new.budget = said
        elif verb == "erase":
            new.named -= set(said)
        new.status = {
            "create": "enrolling",
            "start": "running",
            "pause": "paused",
            "resume": "running",
            "stop": "stopped",
        }.get(verb, self.status)
        return new


def run(kills: int = 150) -> Finding:
    """Let a process do one verb after the other, kill it, and compare what is left with the model."""
    with finding(f"kill -9 × {kills} during verbs") as found:

        @contextmanager
        def file() -> Iterator[Where]:
            with tempfile.TemporaryDirectory() as folder:
                yield f"sqlite:///{folder}/trial.db"

        return _lives(kills, found, file)


def on_postgres(kills: int = 150) -> Finding:
    """Do the same on a PostgreSQL, where a process that dies leaves a lease, and perhaps a statement under way."""
    with finding(f"kill -9 × {kills} during verbs on PostgreSQL") as found, PostgresServer() as server:

        @contextmanager
        def database() -> Iterator[Where]:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")
            yield partial(PostgresStore, server.url, lease_seconds=0.3)

        return _lives(kills, found, database, server.settle)


def _lives(
    kills: int,
    found: Finding,
    place: Callable[[], AbstractContextManager[Where]],
    settle: Callable[[], None] = lambda: None,
) -> Finding:
    """Kill one process after the other; each has a store of its own."""
    cut, happened, rng = Counter[str](), 0, random.Random(8)
    for turn in range(kills):
        with place() as where:
            model, doubt = _life(where, turn, rng.randrange(60 if turn % 2 else 8), rng.uniform(0.0, 0.01))
            settle()
            now = _now(where)
            possible = [model] if doubt is None else [model, model.after(*doubt)]
            happened += doubt is not None and now == possible[-1] != model
            cut[doubt[0] if doubt else "between two"] += 1
            found.demand(now in possible, f"life {turn}, during {doubt}: {now} is none of {possible}")
            wrong = right(where) if now.status else ""
            found.demand(not wrong, f"life {turn}: {wrong}")
    found.figures |= {"verbs cut off": len(cut), "cut off and there": happened}
    found.figures["cut off"] = ", ".join(f"{verb} {count}" for verb, count in cut.most_common())
    return found


def _now(where: Where) -> Model:
    """Return what a store has."""
    try:
        with fp.Campaign.open(where, NAME, wait=30.0) as campaign:
            it = campaign.status()
            active = len(ARMS) if it.status == "enrolling" else sum(arm.active for arm in it.arms)
            budget = None if it.budget is None else str(it.budget)
            return Model(it.status, it.agents, set(campaign.core.register.numbers), it.observations, active, budget)
    except fp.errors.UnknownCampaign:
        return Model()


def _life(where: Where, turn: int, verbs: int, seconds: float) -> tuple[Model, tuple[str, Any] | None]:
    """Work in a process of its own until it is killed; return what was answered, and what was under way."""

    def work(writing: int) -> None:
        warnings.simplefilter("ignore")
        _work(where, random.Random(turn), lambda *words: os.write(writing, json.dumps(words).encode() + b"\n"))

    child, reading = forked(work)
    model, doubt = Model(), None
    with open(reading, "rb") as pipe:
        lines = [pipe.readline() for _ in range(2 * verbs + 1)]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        lines += pipe
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the process ended by itself, with status {status}")
    for line in (it for it in lines if it.endswith(b"\n")):
        kind, verb, said = json.loads(line)
        if kind == "begun":
            doubt = verb, said
        else:
            model, doubt = model.after(verb, said), None
    return model, doubt


def _work(where: Where, rng: random.Random, say: Callable[..., object]) -> None:
    names = (f"user {i}" for i in range(10**9))
    first = [next(names) for _ in range(20)]
    there = list(first)
    numbers = iter(range(10**9))
    campaign: Any = None

    def do(verb: str, said: Any, act: Callable[..., Any], *args: Any) -> Any:
        say("begun", verb, said)
        done = act(*args)
        say("done", verb, said)
        return done

    def many() -> list[tuple[Any, ...]]:
        return [(rng.randrange(20), rng.choice("AB"), rng.random(), f"e {next(numbers)}") for _ in range(7)]

    made: dict[str, Any] = {"name": NAME, "arms": ARMS, "agents": first, "price": "0.25 EUR"}
    campaign = do("create", first, lambda: fp.Campaign.create(where, **made, principal=PRINCIPAL, withdrawal=True))
    more = [next(names) for _ in range(5)]
    do("enrol", more, campaign.add_agents, more)
    there += more
    do("start", None, campaign.start)
    for lap in range(3):
        for _ in range(3):
            do("ask", None, campaign.ask, rng.randrange(20))
            do("tell", 1, campaign.tell, *many()[0])
        do("batch", 7, campaign.tell_many, many())
        do("pause", None, campaign.pause)
        do("resume", None, campaign.resume)
        amount = f"{1000 + lap}.00 EUR"
        do("budget", amount, campaign.budget, amount)
        gone = [there.pop(rng.randrange(len(there)))] if len(there) > 3 else []
        do("erase", gone, campaign.erase_names, gone)
        do("snapshot", None, campaign.snapshot)
        if isinstance(where, str):
            do("backup", None, campaign.backup, Path(where.removeprefix("sqlite:///")).with_name(f"copy {lap}.db"))
        if lap < 2:
            do("withdraw", None, campaign.withdraw, ARMS[3 - lap])
    do("stop", None, campaign.stop)
    while True:
        do("ask", None, campaign.ask, 0)
