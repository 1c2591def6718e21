"""The one writer of a campaign: it gathers what is asked, commits it in groups, and only then answers.

Its thread answers to asyncio too: all answers of a commit wake the loop together, once.

A commit that fails ends the writer: nothing of it is answered, nothing is tried again, and whether it counts is found
out by reading the log anew.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from freepull.campaigns.commands import Decider
from freepull.campaigns.directory import Batch, Pull
from freepull.campaigns.settings import Clock
from freepull.campaigns.stores import Lease, Store
from freepull.campaigns.stores.base import inherited, of_this_process, steady
from freepull.campaigns.telling import Known, tell
from freepull.errors import Corrupt, Fenced, FreepullError, Overloaded, StoreError, WriterEnded

Reply = TypeVar("Reply")


class _Answers:
    """Answers on their way to one loop, which it does not keep from being forgotten."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._awake = ref(loop), False
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()

    def add(self, mine: asyncio.Future[Any], theirs: Future[Any]) -> None:
        """Take an answer, in any thread; wake the loop, unless it is being woken already."""
        self._done.append((mine, theirs))
        loop = self._loop()
        if loop is not None and not self._awake:
            self._awake = True
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._awake = False
        while self._done:
            mine, theirs = self._done.popleft()
            if mine.done():
                continue
            error = theirs.exception()
            if error is None:
                mine.set_result(theirs.result())
            else:
                mine.set_exception(error)


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Answers] = WeakKeyDictionary()


def awaited(theirs: Future[Reply]) -> asyncio.Future[Reply]:
    """Return an answer of a writer as something that the running loop can await."""
    loop = asyncio.get_running_loop()
    answers = _LOOPS.get(loop)
    if answers is None:
        answers = _LOOPS[loop] = _Answers(loop)
    mine: asyncio.Future[Reply] = loop.create_future()
    theirs.add_done_callback(lambda it: answers.add(mine, it))
    return mine


MOST_QUEUED = 10_000
GROUP = 20_000
"""This many pulls, at least one request, go into one commit."""
FORGETTING, FORGOTTEN = 10 * 10**6, 20_000
"""How often old event ids are forgotten, in microseconds, and how many at a time."""


@dataclass(slots=True)
class Job:
    """Something to do, and whom to tell."""

    run: Callable[[int, Known], Any] | None
    """Takes the time and the event ids that were used before; raises only before anything has changed."""
    batch: Batch | None = None
    """What it tells, if it tells anything."""
    pull: Pull | None = None
    """Or it tells one pull and does nothing else, so that many are told together."""
    reply: Future[Any] = field(default_factory=Future)

    def known(self) -> list[bytes]:
        """Return the event ids that may have been used before."""
        if self.pull is not None:
            return [] if self.pull.id is None else [self.pull.id]
        return [] if self.batch is None else self.batch.known()


class Writer:
    """A thread that owns a campaign's state."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        decider: Decider,
        clock: Clock,
        most_queued: int,
        after_group: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self.store, self.lease, self.decider, self.clock = store, lease, decider, clock
        self.after_group, self.on_end = after_group, on_end
        self._most = most_queued
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._ended: StoreError | None = None
        self._forgotten = 0
        self._thread = threading.Thread(target=self._run, name=f"freepull {decider.name}", daemon=True)
        of_this_process(self)
        self._thread.start()

    def forked(self) -> None:
        """Leave the campaign to the process that this one was forked from; locks may have been held there."""
        self._wake, self._jobs = threading.Condition(), deque()
        self._ended = WriterEnded(str(inherited(f"campaign {self.decider.name}")))

    def submit(self, job: Job) -> Future[Any]:
        """Queue a job; its future is done when what it did is durable."""
        with self._wake:
            if self._ended is not None:
                raise self._ended
            if self._closing:
                raise WriterEnded(f"campaign {self.decider.name} is closed; open it again.")
            if len(self._jobs) >= self._most:
                raise Overloaded(f"campaign {self.decider.name} has {self._most:,} requests waiting; try again later.")
            self._jobs.append(job)
            self._wake.notify()
        return job.reply

    def close(self) -> None:
        """Do what is queued, then end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def check(self) -> None:
        """Raise if the writer has ended on its own, or is another process's."""
        if self._ended is not None:
            raise self._ended

    @property
    def ended(self) -> StoreError | None:
        """Why the writer ended, if it did so on its own."""
        return self._ended

    def _run(self) -> None:
        group: list[Job] = []
        try:
            while self._wait():
                group = self._take()
                self._serve(group)
        except BaseException as error:
            self._end(group, error)

    def _wait(self) -> bool:
        """Wait for jobs, for something that is due, or for the lease to need care; say whether to go on."""
        with self._wake:
            if not self._jobs and not self._closing:
                due = self.decider.due()
                soon = 3600.0 if due is None else max(0.0, (due - self.clock()) / 1e6)
                self._wake.wait(min(soon, self.lease.seconds / 3))
            return bool(self._jobs) or not self._closing

    def _take(self) -> list[Job]:
        group, pulls = list[Job](), 0
        with self._wake:
            while self._jobs and pulls < GROUP:
                job = self._jobs.popleft()
                pulls += 1 if job.batch is None else len(job.batch)
                group.append(job)
        return group

    def _serve(self, group: list[Job]) -> None:
        """Do a group of jobs, commit, and answer."""
        state = self.decider.state
        at = max(self.clock(), state.at)
        self.decider.tick(at)
        ids = [key for job in group for key in job.known()]
        known = self.store.find_events(self.lease, ids) if ids else {}
        answers: list[tuple[Any, FreepullError | None]] = []
        for single, jobs in groupby(group, lambda job: job.pull is not None):
            if single:
                answers += self._tell([job.pull for job in jobs if job.pull is not None], at, known)
            else:
                answers += [self._do(job, at, known) for job in jobs]
        self._commit(at)
        self.after_group()
        if not self.lease.holds:  # we may have been asleep since; without the lease nothing is answered
            self.store.renew(self.lease)
        for job, (reply, error) in zip(group, answers, strict=True):
            if not job.reply.set_running_or_notify_cancel():
                continue
            if error is None:
                job.reply.set_result(reply)
            else:
                job.reply.set_exception(error)

    def _tell(self, pulls: list[Pull], at: int, known: Known) -> Iterator[tuple[Any, FreepullError | None]]:
        """Tell single pulls all at once; each has its own reply or error."""
        for told in tell(self.decider, Batch.of(pulls), at, known, strict=False):
            yield (None, told) if isinstance(told, FreepullError) else (told, None)

    def _do(self, job: Job, at: int, known: Known) -> tuple[Any, FreepullError | None]:
        assert job.run is not None
        try:
            return job.run(at, known), None
        except StoreError:
            raise
        except FreepullError as error:
            return None, error

    def _commit(self, at: int) -> None:
        """Make what was done durable; without anything to commit, see that the campaign is still ours."""
        state, log = self.decider.state, self.decider.log
        if log.gathered:
            rows, state.rows = state.rows or {}, {}
            rows["segments"] = [log.seal(rows.get("event_ids", ()))]
            self.store.write(self.lease, rows)
        elif self.lease.until - steady() < self.lease.seconds * 2 / 3:
            self.store.renew(self.lease)
        if at - self._forgotten >= FORGETTING:
            self._forgotten = at
            self.store.remove(self.lease, "event_ids", "at", state.at - state.settings.remembers, FORGOTTEN)

    def _end(self, group: list[Job], error: BaseException) -> None:
        """Answer nothing but that this is the end."""
        ended: StoreError = WriterEnded(
            f"campaign {self.decider.name} was closed, because it could not go on ({_line(error)}); open it again, and "
            "repeat what was not answered with the same event ids."
        )
        if isinstance(error, (Fenced, Corrupt)):
            ended = error
        ended.__cause__ = error if ended is not error else None
        with self._wake:
            self._ended = ended
            jobs = [*group, *self._jobs]
            self._jobs.clear()
        with suppress(Exception):
            self.store.close()
        self.on_end()
        for job in jobs:
            if not job.reply.done():
                job.reply.set_exception(ended)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
