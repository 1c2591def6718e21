"""A process that is given no more memory: what it answered is there, it does not hang, and its file is right."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import freepull as fp
from freepull.campaigns import Told

from .outcome import Finding, finding
from .world import AGENTS, ARMS, NAME, PAYING, Answer, Pull, create, forked, lost, right

LEFT = (0, 1, 3, 8, 20, 60)
"""MB that a process may still have."""
PATIENCE = 60
"""Seconds after which a process that has not ended hangs."""


def run(lives: int = 60) -> Finding:
    """Let one process after the other run out of memory, in the midst of one verb or another."""
    with finding(f"{lives} processes that run out of memory") as found, tempfile.TemporaryDirectory() as folder:
        url, answers, ends = f"sqlite:///{folder}/chaos.db", list[Answer](), Counter[str]()
        create(url, principal=PAYING).close()
        _warm(folder)
        for life in range(lives):
            lines, status = _life(url, life)
            if os.WIFSIGNALED(status):
                lines.append(("end", f"signal {signal.Signals(os.WTERMSIG(status)).name}", None))
            for kind, what, told in lines:
                if kind == "told":
                    answers.append(Answer(Pull(*what), Told(*told)))
                else:
                    ends[what] += 1
                    found.demand("SIGALRM" not in what, f"life {life} hangs")
            wrong = right(url) if life % 10 == 9 or life == lives - 1 else ""
            found.demand(not wrong, f"after life {life}: {wrong}")
        missing = lost(url, answers)
        found.demand(not missing, f"{len(missing)} answers are not in the log")
        odd = [what for what in ends if what.startswith(("raw ", "Corrupt"))]
        found.demand(not odd, f"what nobody should be told: {odd}")
        found.figures |= {"pulls answered": len(answers), "lost": len(missing)}
        found.figures["ends"] = ", ".join(f"{count} × {what}" for what, count in ends.most_common())
        return found


def _warm(folder: str) -> None:
    """Load what the processes will call, so that it is memory for data that they lack."""
    url = f"sqlite:///{folder}/warm.db"
    with create(url, principal=PAYING) as campaign:
        for act in _acts(campaign, random.Random(0), folder).values():
            act()


def _acts(campaign: fp.Campaign, rng: random.Random, folder: str) -> dict[str, Callable[[], Any]]:
    def pulls(count: int) -> list[Pull]:
        return [
            Pull(rng.randrange(AGENTS), rng.randrange(ARMS), round(rng.random(), 6), f"{rng.random()} {i}")
            for i in range(count)
        ]

    def tell(count: int) -> list[tuple[Pull, Told]]:
        sent = pulls(count)
        return list(zip(sent, campaign.tell_many(sent), strict=True))

    return {
        "tell": lambda: tell(1),
        "batch": lambda: tell(300),
        "large batch": lambda: tell(2_000),
        "ask": lambda: campaign.ask(rng.randrange(AGENTS)) and None,
        "enrol": lambda: campaign.add_agents([f"user {rng.random()}" for _ in range(20_000)]) and None,
        "snapshot": lambda: campaign.snapshot() and None,
        "status": lambda: campaign.status() and None,
        "ledger": lambda: campaign.ledger() and None,
        "backup": lambda: campaign.backup(Path(folder) / f"{rng.random()}.db"),
    }


def _life(url: str, life: int) -> tuple[list[tuple[str, Any, Any]], int]:
    """Work in a process of its own until something fails; return what it said, and how it ended."""

    def work(writing: int) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        warnings.simplefilter("ignore")
        _work(url, random.Random(life), lambda *words: os.write(writing, json.dumps(words).encode() + b"\n"))

    child, reading = forked(work)
    with open(reading, "rb") as pipe:
        lines = [tuple(json.loads(line)) for line in pipe if line.endswith(b"\n")]
    return lines, os.waitpid(child, 0)[1]


def _fill(left: int, hard: int) -> list[bytearray]:
    """Take all memory that this process may have, but for some MB."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + (80 << 20), hard))
    held = list[bytearray]()
    for piece in (1 << 20, 1 << 14):
        try:
            while True:
                held.append(bytearray(piece))
        except MemoryError:
            pass
    del held[:left]
    return held


def _work(url: str, rng: random.Random, say: Callable[..., object]) -> None:
    """Open the campaign, and work on it with little memory."""
    hard, end, name = resource.getrlimit(resource.RLIMIT_AS)[1], "it went on", "open"
    try:
        with tempfile.TemporaryDirectory() as folder, fp.Campaign.open(url, NAME) as campaign:
            acts = _acts(campaign, rng, folder)
            held = _fill(rng.choice(LEFT), hard)
            for _ in range(15):
                name = rng.choice(list(acts))
                try:
                    for pulled, told in acts[name]() or ():
                        say("told", pulled, (told.event, told.outcome, told.offer))
                except MemoryError:
                    end = "MemoryError"
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            del held
    except fp.errors.FreepullError as error:
        end = f"{type(error).__name__} in {name}"
    except MemoryError:
        end = "MemoryError"
    except BaseException as error:
        end = f"raw {type(error).__name__} in {name}: {error}"
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    say("end", end, None)
