"""Processes that are forked off while a campaign is open: whatever they do, the parent loses nothing."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import freepull as fp
from freepull.campaigns import Told

from .outcome import Finding, finding
from .world import AGENTS, NAME, Answer, Pull, create, forked, lost, pull, right

FORKS, PULLS = 5, 4
"""In every life of the parent, and the pulls between two of them."""


def run(lives: int = 60) -> Finding:
    """Let a process fork others while it works, kill it, and see what is left of what it was told."""
    with finding(f"{FORKS} forks in each of {lives} processes that are killed") as found:
        with tempfile.TemporaryDirectory() as folder:
            url, answers = f"sqlite:///{Path(folder)}/chaos.db", list[Answer]()
            create(url).close()
            for life in range(lives):
                answers += _life(url, life)
                wrong = right(url) if life % 10 == 9 or life == lives - 1 else ""
                found.demand(not wrong, f"after process {life}: {wrong}")
            missing = lost(url, answers)
        found.demand(not missing, f"{len(missing)} answers are not in the log")
        found.demand(len(answers) == lives * FORKS * PULLS, f"only {len(answers)} pulls were answered")
        found.figures |= {"forks": lives * FORKS, "pulls answered": len(answers), "lost": len(missing)}
        return found


def _life(url: str, life: int) -> list[Answer]:
    """Work in a process of its own, which forks others and is killed; return what it was answered."""
    child, reading = forked(lambda writing: _work(url, random.Random(life), writing))
    with open(reading, "rb") as pipe:
        lines = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the process ended by itself, with status {status}")
    return [Answer(Pull(*pulled), Told(*told)) for pulled, told in lines]


def _work(url: str, rng: random.Random, writing: int) -> None:
    warnings.simplefilter("ignore")
    campaign = fp.Campaign.open(url, NAME)
    for number in range(FORKS):
        others = os.fork()
        if others == 0:
            signal.alarm(30)
            os.close(writing)
            rng.choice(WAYS)(campaign)
        if os.waitpid(others, 0)[1] != 0:
            raise RuntimeError("a process that was forked off did not end as it should")
        for _ in range(PULLS):
            agent = rng.randrange(AGENTS)
            pulled = pull(rng, None, f"{rng.random()} {number}", agent)
            told = campaign.tell(*pulled)
            said = (told.event, told.outcome, told.offer)
            os.write(writing, json.dumps((pulled, said)).encode() + b"\n")
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(campaign: fp.Campaign) -> None:
    """Close it, here and in a thread."""
    with campaign:
        end = threading.Thread(target=campaign.close)
        end.start()
        end.join()
    gc.collect()
    os._exit(0)


def _use(campaign: fp.Campaign) -> None:
    """Try every kind of verb."""
    acts: list[Callable[[], object]] = [
        lambda: campaign.ask(0),
        lambda: campaign.tell(0, 0, 0.5),
        lambda: campaign.erase_names(),
        campaign.ledger,
        campaign.snapshot,
        lambda: fp.Campaign.open(campaign.core.store.url, NAME),
    ]
    for act in acts:
        with suppress(fp.errors.StoreError):
            act()
            os._exit(1)
    campaign.close()
    os._exit(0)


def _collect(campaign: fp.Campaign) -> None:
    """Forget everything."""
    campaign.core.__dict__.clear()
    gc.collect()
    os._exit(0)


WAYS = (_leave, _use, _collect)
