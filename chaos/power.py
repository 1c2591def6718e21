"""Power cuts, simulated: unsynced writes are lost or torn. What was answered is there; with less care, it is not."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import count

from freepull.campaigns.stores import sqlite
from freepull.campaigns.stores.sqlite import SqliteStore
from freepull.errors import FreepullError

from .disk import Disk
from .outcome import Finding, finding
from .world import AGENTS, Answer, create, lost, pull, right

ACTS, SNAPSHOT_EVERY, CHECKPOINT = 25, 20, 12
_NUMBERS = count()


def run(cuts: int = 2000, careless: int = 200) -> Finding:
    """Cut the power at random moments, and see what is left; then the same with synchronous = NORMAL."""
    with finding(f"power cut × {cuts}") as found:
        pages, sqlite.CHECKPOINT = sqlite.CHECKPOINT, CHECKPOINT
        try:
            safe = _cut_often(cuts, "FULL", found)
            unsafe = _cut_often(careless, "NORMAL", None)
        finally:
            sqlite.CHECKPOINT = pages
        found.demand(safe == 0, f"{safe} cuts lost what was answered")
        found.demand(unsafe > 0, "with synchronous = NORMAL the same test must fail, and did not")
        found.figures |= {"cuts that lost something": safe, "with synchronous = NORMAL": f"{unsafe} of {careless}"}
        return found


def _cut_often(cuts: int, synchronous: str, found: Finding | None) -> int:
    """Return how many cuts lost an answer, or left a campaign that is not right."""
    rng, bad, answered = random.Random(7), 0, 0
    changes = _play(Disk(_name()), random.Random(0), synchronous)[1]
    for _ in range(cuts):
        disk = Disk(_name(), cut_at=rng.randrange(1, changes))
        answers, _ = _play(disk, random.Random(rng.random()), synchronous)
        answered += len(answers)
        problem = _examine(disk.after_cut(rng), answers)
        bad += bool(problem)
        if problem and found is not None:
            found.demand(False, problem)
    if found is not None:
        found.figures["answers"] = answered
    return bad


def _name() -> str:
    return f"disk {next(_NUMBERS)}"


def _play(disk: Disk, rng: random.Random, synchronous: str) -> tuple[list[Answer], int]:
    """Run a campaign on the disk until the power goes off; return what was answered."""
    answers: list[Answer] = []
    with suppress(FreepullError):
        campaign = create(
            SqliteStore(f"{disk.name}.db", synchronous=synchronous, vfs=disk.name), snapshot_every=SNAPSHOT_EVERY
        )
        try:
            for number in range(ACTS):
                agent = rng.randrange(AGENTS)
                offer = campaign.ask(agent)
                offered = None if offer is None else campaign.settings.arms.index(offer.arm)
                pulled = pull(rng, offered, number, agent)
                answers.append(Answer(pulled, campaign.tell(*pulled)))
        finally:
            campaign.close()
    return answers, disk.changes


def _examine(left: dict[str, bytearray], answers: list[Answer]) -> str:
    """Open what is left of a disk; return what is wrong with it."""
    disk = Disk(_name(), left)
    path = next((path for path in left if path.endswith(".db")), "none.db")
    try:
        missing = lost(SqliteStore(path, vfs=disk.name), answers) if answers else []
        problem = right(SqliteStore(path, vfs=disk.name)) if answers else ""
    except FreepullError as error:
        return str(error)
    finally:
        disk.vfs.unregister()
    return f"{len(missing)} answers are lost" if missing else problem
