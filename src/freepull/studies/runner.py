"""Running a study in chunks, on this machine's processes or a Dask cluster, with progress."""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from freepull import validation
from freepull.errors import FreepullError, StudyError
from freepull.simulation import Result, simulate
from freepull.simulation.compiled.coding import unsupported
from freepull.studies.cells import arguments, experiment
from freepull.studies.store import Store
from freepull.studies.study import Cell, Misplaced, Study
from freepull.version import __version__

STEPS = 200_000_000
"""Steps of agents in a chunk, for every core: a few seconds."""
FEWEST = 10_000_000
"""On a cluster, chunks are not cut smaller than this."""
PARTS = 8
"""Chunks that every thread of a cluster gets at least, so that nobody waits long for the last one."""
LONGEST = 10_000
"""Runs in a chunk, at most."""


@dataclass(frozen=True)
class Chunk:
    """Some runs of one cell."""

    cell: Cell
    runs: tuple[int, ...]

    @property
    def steps(self) -> int:
        """How many steps all agents make in it."""
        return self.cell.steps * len(self.runs)

    def play(self, threads: int = 1, progress: Callable[[int], None] | bool = False) -> Result:
        """Simulate these runs: all that a machine has to do."""
        try:
            built = arguments(self.cell.parameters)
        except Misplaced as wrong:  # a part of one's own that this machine does not have
            raise StudyError(wrong.sentence) from None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "interrupted")
            result = simulate(**built, runs=self.runs, workers=threads, progress=progress)
        return replace(result, provenance={**result.provenance, "process": os.getpid()})


def missing(store: Store, cells: Sequence[Cell], threads: int, cluster: int = 0) -> Iterator[Chunk]:
    """Cut the missing runs of cells into chunks for so many threads of a process, or of a cluster of such processes."""
    steps = STEPS * threads
    if cluster:
        total = sum(cell.steps * len(store.missing(cell)) for cell in cells)
        steps = min(steps, max(FEWEST, total // (PARTS * cluster)))
    for cell in cells:
        size = max(1, min(LONGEST, steps // cell.steps))
        runs = store.missing(cell)
        if runs and unsupported(experiment(cell.parameters)) is not None:
            size = threads  # the readable engine is slow
        for at in range(0, len(runs), size):
            yield Chunk(cell, tuple(runs[at : at + size]))


Advance = Callable[[Cell, int], None]
"""Told that some more runs of a cell are finished."""


@contextmanager
def study_bar(name: str, total: int, chunks: Sequence[Chunk], wanted: bool | None) -> Iterator[Advance]:
    """Show runs done, the cell at work and the time left; ``wanted`` None means: if standard error is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda cell, n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    done = total - sum(len(chunk.runs) for chunk in chunks)
    columns = (
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        TextColumn("{task.fields[done]:,}/{task.fields[wanted]:,} runs, left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[cell]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        steps = sum(chunk.steps for chunk in chunks)
        shown = bar.add_task("", total=max(steps, 1), name=name, done=done, cell="", wanted=total)

        def advance(cell: Cell, n: int) -> None:
            nonlocal done
            done += n
            bar.update(shown, advance=cell.steps * n, done=done, cell=cell.name)

        yield advance


PATIENCE = 30
"""Seconds to wait for the scheduler, and for its first worker."""


AHEAD = 2
"""Chunks that a cluster is given for every thread, so that none is idle between two."""
LATE = 3.0
"""A chunk that takes this many times as long as others is given to another worker as well, where one is idle."""
GLANCE = 1.0
"""Seconds after which to look whether workers came or went, or one is late."""


@dataclass
class _Given:
    """What a cluster was given: the copies of every chunk that are under way, and how fast chunks are."""

    client: Any
    chunks: Sequence[Chunk]
    under_way: dict[Any, int] = field(default_factory=dict)
    """The number of the chunk of every future."""
    since: dict[int, float] = field(default_factory=dict)
    """When a chunk was given last."""
    paces: list[float] = field(default_factory=list)
    """Seconds for a step of an agent, of every chunk that is finished."""

    def late(self) -> list[int]:
        """Return the chunks that take much longer than the finished ones make one expect, the oldest first."""
        if not self.paces:
            return []
        pace, now = sorted(self.paces)[len(self.paces) // 2], time.monotonic()
        expected = {number: pace * self.chunks[number].steps for number in dict.fromkeys(self.under_way.values())}
        return [number for number, it in expected.items() if now - self.since[number] > LATE * AHEAD * it + GLANCE]

    def give(self, left: list[int]) -> None:
        """Give late chunks to other workers as well, then new ones, as many as workers who are not late can take."""
        threads, late = self.client.nthreads(), self.late()
        slow: set[str] = set()
        if late:
            keys = {future.key for future, number in self.under_way.items() if number in late}
            slow = {worker for worker, held in self.client.processing().items() if keys & set(held)}
        good = [worker for worker in threads if worker not in slow]
        room = AHEAD * sum(threads[worker] for worker in good) - len(set(self.under_way.values()) - set(late))
        where = {"workers": good} if slow else {}
        for number in late[: max(room, 0)] if good else []:
            self._submit(number, where)
        for _ in range(min(len(left), room - len(late))):
            self._submit(left.pop(), where)

    def _submit(self, number: int, where: dict[str, list[str]]) -> None:
        future = self.client.submit(Chunk.play, self.chunks[number], pure=False, **where)
        self.under_way[future], self.since[number] = number, time.monotonic()


def play(client: Any, address: str, chunks: Sequence[Chunk], advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    """Give chunks to the cluster, some ahead, and yield them as they are finished.

    A chunk that is late is given to another worker as well: whoever is first counts, for both have the same bits. So a
    worker that hangs or crawls holds nobody up.
    """
    import distributed

    wait: Any = distributed.wait
    given, left, finished = _Given(client, chunks), list(reversed(range(len(chunks)))), set[int]()
    try:
        while len(finished) < len(chunks):
            given.give(left)
            if not given.under_way:  # nobody is there
                time.sleep(GLANCE)
                continue
            try:
                with client.as_current():
                    done = wait(list(given.under_way), timeout=GLANCE, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                continue
            for future in done:
                number = given.under_way.pop(future, -1)
                if number < 0:
                    continue
                chunk, result = chunks[number], _checked(future, address)
                copies = [other for other, same in given.under_way.items() if same == number]
                client.cancel(copies)
                for other in copies:
                    del given.under_way[other]
                finished.add(number)
                given.paces.append(result.provenance["seconds"] / chunk.steps)
                advance(chunk.cell, len(chunk.runs))
                yield chunk, result
    finally:
        client.cancel(list(given.under_way))


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise StudyError("scheduler needs Dask; install it with: pip install 'freepull[cluster]'.") from None
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(f"scheduler {address} cannot be reached: {error}; give one that runs.") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise StudyError(f"scheduler {address} has no workers; start some and run the study again.") from None
        yield client


def _checked(future: Any, address: str) -> Result:
    """Return what a worker found, if its freepull and its machine are of the same kind as ours."""
    from distributed import CancelledError

    try:
        result: Result = future.result()
    except FreepullError:
        raise
    except (Exception, CancelledError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise StudyError(f"the cluster at {address} failed ({what}); run the study again to continue it.") from None
    told = result.provenance
    theirs, ours = (told["freepull"], told["machine"]["architecture"]), (__version__, platform.machine())
    if theirs != ours:
        words = [f"freepull {version} on {machine}" for version, machine in (theirs, ours)]
        raise StudyError(f"a worker of {address} has {words[0]}, not {words[1]} as here; install the same everywhere.")
    return result


@dataclass(frozen=True)
class Report:
    """What one call of `run` did."""

    folder: Path
    wanted: int
    """Runs of the whole study."""
    kept: int
    """Runs that were finished before."""
    new: int
    """Runs that were simulated now."""
    interrupted: bool
    seconds: float


def run(
    study: Study,
    folder: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    only: Callable[[Cell], bool] = lambda cell: True,
) -> Report:
    """Run a study in a folder, or what is missing of it; Ctrl-C keeps every finished run.

    Parameters
    ----------
    workers
        Threads of this machine; all cores by default.
    scheduler
        The address of a Dask scheduler, to run on its workers instead; the bits are the same.
    progress
        Show a bar; by default, if standard error is a terminal.
    only
        Which cells to run now; the others can be run later in the same folder.
    """
    threads = (os.cpu_count() or 1) if workers is None else validation.whole("workers", workers, 1)
    began = time.perf_counter()
    with Store.begin(folder, study) as store:
        cells = [cell for cell in study.cells if only(cell)]
        kept = sum(cell.runs - len(store.missing(cell)) for cell in cells)
        wanted, new, interrupted = sum(cell.runs for cell in cells), 0, False
        there = nullcontext() if scheduler is None or kept == wanted else _connected(scheduler)
        with there as client:
            cluster = 0 if client is None else sum(client.nthreads().values())
            chunks = list(missing(store, cells, 1 if scheduler else threads, cluster))
            with study_bar(study.name, wanted, chunks, progress) as advance:
                try:
                    for chunk, result in _played(chunks, threads, client, scheduler, advance):
                        if result.frame.height:
                            store.add(chunk.cell, result)
                            new += result.frame.height
                        if result.interrupted:
                            raise KeyboardInterrupt
                except KeyboardInterrupt:
                    interrupted = True
    return Report(Path(folder), wanted, kept, new, interrupted, time.perf_counter() - began)


def _played(
    chunks: list[Chunk], threads: int, client: Any, scheduler: str | None, advance: Advance
) -> Iterable[tuple[Chunk, Result]]:
    return _here(chunks, threads, advance) if client is None else play(client, str(scheduler), chunks, advance)


def _here(chunks: list[Chunk], threads: int, advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    for chunk in chunks:
        yield chunk, chunk.play(threads, partial(advance, chunk.cell))
