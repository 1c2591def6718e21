"""Running a study in chunks, on this machine's processes or a Dask cluster, with progress."""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
LONGEST = 10_000
"""Runs in a chunk, at most."""


@dataclass(frozen=True)
class Chunk:
    """Some runs of one cell."""

    cell: Cell
    runs: tuple[int, ...]

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


def missing(store: Store, cells: Iterable[Cell], threads: int) -> Iterator[Chunk]:
    """Cut the missing runs of cells into chunks."""
    for cell in cells:
        size = max(1, min(LONGEST, STEPS * threads // cell.steps))
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
        steps = sum(chunk.cell.steps * len(chunk.runs) for chunk in chunks)
        shown = bar.add_task("", total=max(steps, 1), name=name, done=done, cell="", wanted=total)

        def advance(cell: Cell, n: int) -> None:
            nonlocal done
            done += n
            bar.update(shown, advance=cell.steps * n, done=done, cell=cell.name)

        yield advance


PATIENCE = 30
"""Seconds to wait for the scheduler, and for its first worker."""


def play(chunks: Sequence[Chunk], address: str, advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    """Give all chunks to the cluster, and yield them as they are finished."""
    if not chunks:
        return
    with _connected(address) as client:
        futures = {client.submit(Chunk.play, chunk, pure=False): chunk for chunk in chunks}
        try:
            for future in _finished(client, list(futures)):
                chunk, result = futures.pop(future), _checked(future, address)
                advance(chunk.cell, len(chunk.runs))
                yield chunk, result
        finally:
            client.cancel(list(futures))


def _finished(client: Any, futures: list[Any]) -> Iterator[Any]:
    import distributed

    ordered: Any = distributed.as_completed
    return iter(ordered(futures, loop=client.loop))


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
        chunks = list(missing(store, cells, 1 if scheduler else threads))
        wanted, new, interrupted = sum(cell.runs for cell in cells), 0, False
        with study_bar(study.name, wanted, chunks, progress) as advance:
            try:
                for chunk, result in _played(chunks, threads, scheduler, advance):
                    if result.frame.height:
                        store.add(chunk.cell, result)
                        new += result.frame.height
                    if result.interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                interrupted = True
    return Report(Path(folder), wanted, kept, new, interrupted, time.perf_counter() - began)


def _played(
    chunks: list[Chunk], threads: int, scheduler: str | None, advance: Advance
) -> Iterable[tuple[Chunk, Result]]:
    return _here(chunks, threads, advance) if scheduler is None else play(chunks, scheduler, advance)


def _here(chunks: list[Chunk], threads: int, advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    for chunk in chunks:
        yield chunk, chunk.play(threads, partial(advance, chunk.cell))
