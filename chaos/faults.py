"""A failing write, sync or read, or a full disk, at one I/O call after another: no answer after it, a clean start."""

from __future__ import annotations

import random
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw

import freepull as fp
from freepull.campaigns.stores import sqlite
from freepull.campaigns.stores.sqlite import SqliteStore
from freepull.errors import FreepullError, WriterEnded

from .outcome import Finding, finding
from .world import AGENTS, NAME, Answer, create, lost, pull, right

ACTS, CHECKPOINT = 40, 12
FAULTS = {"write or sync fails": apsw.IOError, "disk is full": apsw.FullError}
_NUMBERS = count()


class Fault(apsw.VFS):
    """The real disk, on which one call fails: one that changes something, or one that reads."""

    def __init__(self, at: int, kind: type[Exception], reads: bool = False) -> None:
        self.label = f"fault {next(_NUMBERS)}"
        self.at, self.kind, self.reads, self.calls = at, kind, reads, 0
        super().__init__(self.label, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return FaultFile(self, name, flags)

    def call(self, reads: bool = False) -> None:
        """Count a call, and fail if it is the one."""
        self.calls += reads == self.reads
        if reads == self.reads and self.calls == self.at:
            raise self.kind("made to fail")

    @property
    def hit(self) -> bool:
        """Whether the call has come that fails."""
        return self.calls >= self.at


class FaultFile(apsw.VFSFile):
    """A real file on it."""

    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        self.fault = fault
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self.fault.call(reads=True)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.fault.call()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.fault.call()
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self.fault.call()
        super().xTruncate(newsize)


def run(calls: int = 400, step: int = 1) -> Finding:
    """Let each of the first calls fail, in both ways."""
    with finding(f"I/O fault at each of the first {calls} calls") as found:
        pages, sqlite.CHECKPOINT = sqlite.CHECKPOINT, CHECKPOINT
        try:
            outcomes = [_one(at, kind, found) for at in range(1, calls + 1, step) for kind in FAULTS.values()]
        finally:
            sqlite.CHECKPOINT = pages
        found.figures |= {"faults": len(outcomes), "before the campaign was made": outcomes.count("creating")}
        found.figures |= {"writer ended": outcomes.count("ended"), "answers after a fault": outcomes.count("answered")}
        found.demand("answered" not in outcomes, "something was answered after a fault")
        found.demand("missed" not in outcomes, "a fault was never met; let more happen")
        found.demand("ended" in outcomes, "every fault came before there was a campaign; let more calls fail")
        return found


def unread(calls: int = 150, step: int = 1) -> Finding:
    """Let each of the first reads fail: the campaign closes all the same, and somebody else can open the file."""
    with finding(f"a failed read at each of the first {calls}") as found, tempfile.TemporaryDirectory() as folder:
        path, answers, met = str(Path(folder) / "chaos.db"), list[Answer](), 0
        create(SqliteStore(path)).close()
        for at in range(1, calls + 1, step):
            fault = Fault(at, apsw.IOError, reads=True)
            try:
                _read(fault, path, answers)
            except Exception as error:
                found.demand(isinstance(error, FreepullError), f"read {at}: {type(error).__name__}: {error}")
            fault.unregister()
            met += fault.hit
            try:
                missing, wrong = lost(SqliteStore(path), answers), right(SqliteStore(path))
            except FreepullError as error:
                missing, wrong = [], str(error)
            found.demand(not missing and not wrong, f"read {at}: {len(missing)} lost; {wrong}")
        found.figures |= {"faults": met, "pulls answered": len(answers)}
        found.demand(met == len(range(1, calls + 1, step)), "a fault was never met; let more be read")
        return found


def _read(fault: Fault, path: str, answers: list[Answer]) -> None:
    """Open the campaign, tell and read until that fails, and close it."""
    campaign = fp.Campaign.open(SqliteStore(path, vfs=fault.label), NAME)
    rng, store = random.Random(fault.at), campaign.core.store
    assert isinstance(store, SqliteStore)
    try:
        while not fault.hit:
            pulled = pull(rng, None, f"{fault.at} {len(answers)}", rng.randrange(AGENTS))
            answers.append(Answer(pulled, campaign.tell(*pulled)))
            store.query("PRAGMA shrink_memory")
            campaign.ledger()
            campaign.audit()
    except FreepullError:
        pass
    campaign.close()
    campaign.close()


def _one(at: int, kind: type[Exception], found: Finding) -> str:
    """Run until the fault, look, and restart; return when the fault was met."""
    with tempfile.TemporaryDirectory() as folder:
        fault, path, answers = Fault(at, kind), str(Path(folder) / "chaos.db"), list[Answer]()
        outcome = _until_fault(fault, path, answers)
        fault.unregister()
        with closing(SqliteStore(path)) as store:
            made = NAME in store.campaigns()
        if not made:
            found.demand(outcome == "creating", f"fault {at} ({kind.__name__}): the campaign is gone")
            create(SqliteStore(path)).close()
            return outcome
        missing, wrong = lost(SqliteStore(path), answers), right(SqliteStore(path))
        found.demand(not missing and not wrong, f"fault {at} ({kind.__name__}): {len(missing)} lost; {wrong}")
        with fp.Campaign.open(SqliteStore(path), NAME) as campaign:
            if campaign.status().status == "enrolling":
                campaign.start()
            campaign.tell(0, 0, 0.5)
        return outcome


def _until_fault(fault: Fault, path: str, answers: list[Answer]) -> str:
    try:
        campaign = create(SqliteStore(path, vfs=fault.label))
    except FreepullError:
        return "creating" if fault.hit else "missed"
    rng, outcome = random.Random(fault.at), "missed"
    for number in range(ACTS):
        agent = rng.randrange(AGENTS)
        try:
            offer = campaign.ask(agent)
            offered = None if offer is None else campaign.settings.arms.index(offer.arm)
            pulled = pull(rng, offered, number, agent)
            told = campaign.tell(*pulled)
        except WriterEnded:
            outcome = "ended"
            break
        answers.append(Answer(pulled, told))
        if fault.hit:
            outcome = "answered"
            break
    campaign.close()
    if fault.hit and outcome == "missed":
        outcome = "ended"
    if outcome == "ended":
        for act in (lambda: campaign.ask(0), lambda: campaign.tell(0, 0, 0.5), campaign.status):
            try:
                act()
            except FreepullError:
                continue
            return "answered"
    return outcome
