"""Snapshots: the state of a campaign as kept between openings."""

from __future__ import annotations

import os
import struct
import tempfile
import threading
import time
import warnings
import zlib
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from queue import SimpleQueue
from typing import Any

import msgspec
import numpy as np

from freepull.campaigns.journal.events import RECORD, Log
from freepull.campaigns.people import SETTLED, Awaited, Standing
from freepull.campaigns.settings import Settings
from freepull.campaigns.state import State
from freepull.campaigns.stores import Lease, Store
from freepull.campaigns.trials import restore
from freepull.errors import Corrupt, InvalidInput, StoreError, WriterEnded
from freepull.principal import saving

PLAIN = (
    *("status", "events", "at", "panel", "panels", "weights", "observations", "observed", "paid", "in_step"),
    *("round_closes", "refused", "decision", "stopped_why", "rehearsals", "doubts", "came", "never_came"),
    "clipped",
)
PEOPLE = ("enrolled", "silent", "cooling", "banned", "bans", "declined")
"""The fields that are stored as they are."""


class Content(msgspec.Struct):
    """Plain data from which a state can be made again."""

    segment: int
    checksum: int
    status: str
    events: int
    at: int
    panel: int
    panels: int
    weights: list[float] | None
    observations: int
    observed: int
    paid: list[int]
    in_step: int
    round_closes: int | None
    refused: list[tuple[int, int]]
    decision: dict[str, Any] | None
    stopped_why: str
    rehearsals: int
    doubts: list[str]
    enrolled: int
    silent: dict[int, int]
    cooling: dict[int, int]
    parked: list[int]
    left: list[int]
    banned: dict[int, tuple[int, int, int, int, int, int, None]]
    bans: int
    budget: int | None
    made: int
    open: list[tuple[int, int, int, int, int, int, bool]]
    endings: dict[str, int]
    pulls: list[int]
    acted: bytes
    numbers: bytes
    last: bytes
    last_event: bytes
    amounts: bytes = b""
    spent: int | None = None
    settlements: bytes = b""
    sent: dict[int, tuple[str, int]] = {}
    accepted: list[int] = []
    """Agents who have accepted their open offers."""
    declined: dict[int, int] = {}
    acts: list[tuple[int, int, int, int]] = []
    """Events that told pulls whose outcomes are to come, each with its agent, arm and deadline."""
    due: list[tuple[int, int, int, int, int, int, int, bool]] = []
    """Such events whose offers wait for the outcome, each with its offer as in ``open``."""
    came: int = 0
    never_came: int = 0
    clipped: int = 0
    unavailable: list[tuple[int, int, int | None]] = []
    """Agents, each with an arm that it cannot have, and until when."""


def _kept(it: Standing) -> tuple[int, int, int, int, int, int, bool]:
    return it.offer, it.agent, it.arm, it.step, it.at, it.deadline, it.recalled


def content_of(state: State, log: Log) -> Content:
    """Return what a snapshot has of a state, and where in the log it is; the same bytes for the same log."""
    people, offers = state.people, state.offers
    return Content(
        segment=log.number,
        checksum=log.checksum,
        **{name: getattr(state, name) for name in PLAIN},
        **{name: getattr(people, name) for name in PEOPLE},
        parked=sorted(people.parked),
        left=sorted(people.left),
        budget=offers.budget,
        made=offers.made,
        open=[_kept(it) for it in offers.open.values()],
        endings=dict(offers.endings),
        pulls=state.pulls.tolist(),
        acted=state.acted.tobytes(),
        numbers=people.numbers.tobytes(),
        last=people.last.tobytes(),
        last_event=people.last_event.tobytes(),
        amounts=offers.amounts.tobytes(),
        spent=offers.spent if offers.amounts else None,
        settlements=bytes(state.settlements.states),
        sent=dict(sorted(state.settlements.sent.items())),
        accepted=[agent for agent, it in offers.open.items() if it.accepted],
        acts=[(event, *it) for event, it in state.acts.items()],
        due=[(event, *_kept(it)) for event, it in offers.due.items()],
        unavailable=[(*which, until) for which, until in sorted(people.unavailable.items())],
    )


def restored(settings: Settings, content: Content, trial: memoryview) -> tuple[State, Log]:
    """Make the state again, and the end of its log."""
    state = State(settings)
    for name in PLAIN:
        setattr(state, name, getattr(content, name))
    for name in PEOPLE:
        setattr(state.people, name, getattr(content, name))
    people, offers = state.people, state.offers
    people.unavailable = {(agent, arm): until for agent, arm, until in content.unavailable}
    people.parked, people.left = set(content.parked), set(content.left)
    offers.budget, offers.made = content.budget, content.made
    offers.endings.update(content.endings)
    offers.amounts = array("I", content.amounts)
    offers.spent = offers.endings["paid"] * offers.price.minor if content.spent is None else content.spent
    amounts = offers.amounts
    offers.open = {row[1]: Standing(*row, amounts[row[0] - 1] if amounts else None) for row in content.open}
    for agent in content.accepted:
        offers.open[agent].accepted = True
    offers.due = {row[0]: Standing(*row[1:], amounts[row[1] - 1] if amounts else None) for row in content.due}
    standing = (*offers.open.values(), *offers.due.values())
    offers.reserved = sum(map(offers.amount, (it.offer for it in standing)))
    state.acts = {event: Awaited(*act) for event, *act in content.acts}
    offers.recalled = {agent for agent, standing in offers.open.items() if standing.recalled}
    known = state.settlements
    known.states, known.sent = bytearray(content.settlements), dict(content.sent)
    known.settled = known.states.count(SETTLED)
    state.pulls = np.array(content.pulls, np.int64)
    state.acted = np.frombuffer(content.acted, bool).copy()
    state.acted_and_left = sum(bool(state.acted[agent]) for agent in (*content.parked, *content.left))
    people.numbers = np.frombuffer(content.numbers, np.int64).copy()
    people.last = np.frombuffer(content.last, RECORD).copy()
    people.last_event = np.frombuffer(content.last_event, np.int64).copy()
    if len(trial):
        state.started = restore(settings, content.panels, trial)
    return state, Log(content.segment, content.events, content.checksum)


MAGIC = b"fpsn"
VERSION = 3
"""Version 2 did not know in free mode when agents were last told of."""
HEADER = struct.Struct("<4sHHQ")
"""magic, version, 0, bytes of what is not the trial."""
CHECKSUM = struct.Struct("<I")
PART = 1 << 18
OLD = 16
"""Parts of older snapshots that are removed at a time."""
Piece = bytes | memoryview
Begun = tuple[int, int, Iterator[bytes], list[Future[int]], float]
"""A snapshot that was frozen: after which event, its size, its parts, who waits for it, and when."""
WORKED, REPLAYED = 1.5, 3.0
"""Seconds of its writer's work after which a log is long; and how often such work takes as long as reading it again."""
SOONER, RESTS = 200, 100
"""A long log has at least this share of the usual events; and other snapshots take a hundredth of the time at most."""
STREAM = 5e-7
"""Seconds that a snapshot takes for every stream, about: for one of which nothing is known yet."""


def pieces(state: State, log: Log) -> list[Piece]:
    """Return a snapshot in pieces that are not copied; nothing may change until they are written."""
    kept = msgspec.msgpack.encode(content_of(state, log))
    trial = [] if state.started is None else list(state.started.state_pieces())
    return [HEADER.pack(MAGIC, VERSION, 0, len(kept)), kept, *trial]


def begin(found: list[Piece]) -> Iterator[bytes]:
    """Freeze the pieces as they are at this moment; return them in parts, to be written at leisure."""
    if not hasattr(os, "fork"):
        return _parts(b"".join(found))
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python fears forks of processes with threads; the child only writes
            child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        _send(found, writing)
    os.close(writing)
    return _received(reading, child)


def _send(found: list[Piece], writing: int) -> None:
    """Write the pieces and vanish; this is the child, which must touch nothing else.

    It lets go of all files and sockets but its end of the pipe: held by it, a port would outlive the campaign, and the
    pipe's other end would keep it waiting for a reader who was killed.
    """
    failed = 1
    try:
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        for piece in found:
            rest = memoryview(piece).cast("B")
            while len(rest):
                rest = rest[os.write(writing, rest[:PART]) :]
        failed = 0
    finally:
        os._exit(failed)


def _received(reading: int, child: int) -> Iterator[bytes]:
    try:
        with open(reading, "rb") as pipe:
            while part := pipe.read(PART):
                yield part
    finally:
        _, status = os.waitpid(child, 0)
    if status:
        raise StoreError("a snapshot could not be taken: the process that copied it ended early.")


def _parts(whole: bytes) -> Iterator[bytes]:
    for begin in range(0, len(whole), PART):
        yield whole[begin : begin + PART]


def write(store: Store, lease: Lease, event: int, size: int, parts: Iterator[bytes]) -> None:
    """Store a snapshot part by part, then remove the older ones."""
    count = -(-size // PART)
    for number, part in enumerate(parts):
        row = (event, number, count, CHECKSUM.pack(zlib.crc32(part)) + part)
        with _at_leisure():
            store.write(lease, {"snapshots": [row]})
    gone = OLD
    while gone:
        with _at_leisure():
            gone = store.remove(lease, "snapshots", "event", event, OLD)


@contextmanager
def _at_leisure() -> Iterator[None]:
    """Leave the store to others afterwards, for as long as it was taken."""
    begun = time.perf_counter()
    yield
    time.sleep(time.perf_counter() - begun)


def newest(store: Store, name: str) -> int | None:
    """Return the event of the newest snapshot that is complete."""
    return max((event for event, there, parts in store.snapshots(name) if there == parts), default=None)


def read(store: Store, name: str, event: int, settings: Settings) -> tuple[State, Log] | None:
    """Read a snapshot back; None if it is whole, but of another version, so that the log has to do."""
    with tempfile.TemporaryFile() as file:
        for number, (has_event, part, _, data) in enumerate(store.read(name, "snapshots", (event, -1))):
            if has_event != event:
                break
            if part != number or zlib.crc32(data[CHECKSUM.size :]) != CHECKSUM.unpack_from(data)[0]:
                raise Corrupt(
                    f"the snapshot of campaign {name!r} after event {event} is damaged in part {number}; open the "
                    "campaign without snapshots to replay its log instead."
                )
            file.write(data[CHECKSUM.size :])
        file.flush()
        with mmap(file.fileno(), 0, access=ACCESS_READ) as whole:
            magic, version, _, length = HEADER.unpack_from(whole)
            if (magic, version) != (MAGIC, VERSION):
                return None
            kept = msgspec.msgpack.decode(whole[HEADER.size : HEADER.size + length], type=Content)
            with memoryview(whole) as view, view[HEADER.size + length :] as trial:
                if bytes(trial[: len(saving.MAGIC)]) not in (b"", saving.MAGIC):
                    return None
                if kept.events != event:
                    raise Corrupt(
                        f"the snapshot of campaign {name!r} after event {event} was taken after event {kept.events}; "
                        "open the campaign without snapshots to replay its log instead."
                    )
                try:
                    return restored(settings, kept, trial)
                except InvalidInput:  # the principal has other parameters in this version
                    return None


class Snapshotter:
    """Takes a snapshot now and then, while the campaign goes on: after so many events, or as soon as it would take long
    to read again what came since, for others wait for that when they take over.

    Its thread is there from the start: where memory is short, one that is started later may never begin, and whoever
    starts it waits for ever.
    """

    def __init__(
        self, store: Store, lease: Lease, state: State, log: Log, every: int, wake: Callable[[], None], replayed: float
    ) -> None:
        self._store, self._lease, self._state, self._log = store, lease, state, log
        self._every, self._wake = every, wake
        self._last = newest(store, lease.name) or 0
        streams = state.people.enrolled * len(state.settings.arms)
        self._worked, self._rests = -REPLAYED * replayed, time.monotonic() + RESTS * STREAM * streams
        """How long the writer had worked at the last one, and until when no other is due for that."""
        self._wanted: list[Future[int]] = []
        self._writing = False
        self._begun: SimpleQueue[Begun | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="freepull snapshot", daemon=True)
        self._thread.start()

    def want(self) -> Future[int]:
        """Ask for one as soon as possible; its future is the event after which it was taken, once it is stored."""
        future: Future[int] = Future()
        self._wanted.append(future)
        return future

    def after_group(self) -> None:
        """Begin one, if it is time and nothing hinders; called by the writer, when all that has happened is stored."""
        event = self._state.events
        worked = time.thread_time()
        new = event - self._last
        long = new * SOONER >= self._every and worked - self._worked >= WORKED and time.monotonic() >= self._rests
        due = new >= self._every or self._wanted or long
        if not due or self._state.ending is not None or self._writing:
            return
        waiting, self._wanted = self._wanted, []
        self._last, self._worked = event, worked
        try:
            found = pieces(self._state, self._log)
            size = sum(len(memoryview(piece).cast("B")) for piece in found)
            parts = begin(found)
        except (OSError, MemoryError) as error:  # the campaign goes on; the next one is due after as many events again
            why = str(error) or "there is too little memory"
            _fail(waiting, StoreError(f"a snapshot could not be taken ({why}); try again later."))
            return
        self._writing = True
        self._begun.put((event, size, parts, waiting, time.monotonic()))

    def _run(self) -> None:
        while (begun := self._begun.get()) is not None:
            self._write(*begun)

    def _write(self, event: int, size: int, parts: Iterator[bytes], waiting: list[Future[int]], begun: float) -> None:
        try:
            write(self._store, self._lease, event, size, parts)
        except Exception as error:  # the next commit says what is wrong with the store; a snapshot is not needed
            _fail(waiting, error)
        else:
            for future in waiting:
                future.set_result(event)
        self._rests = time.monotonic() + RESTS * (time.monotonic() - begun)
        self._writing = False
        self._wake()  # or whoever has wanted the next one meanwhile would wait until something else happens

    def close(self) -> None:
        """Wait for the one that is being written, and take no other."""
        self._begun.put(None)
        self._thread.join()
        self.give_up()

    def give_up(self) -> None:
        """Take no other."""
        self._begun.put(None)
        waiting, self._wanted = self._wanted, []
        _fail(waiting, WriterEnded("the campaign was closed before a snapshot was taken; open it again."))


def _fail(waiting: list[Future[int]], error: Exception) -> None:
    for future in waiting:
        future.set_exception(error)
