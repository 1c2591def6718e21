"""Running a study: what is missing, in chunks of runs, here or on a cluster, kept as soon as it is finished."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from freepull import checks
from freepull.simulation import Result, simulate
from freepull.simulation.compiled.coding import LONGEST_STREAM
from freepull.studies.building import arguments
from freepull.studies.progress import Advance, study_bar
from freepull.studies.store import Store
from freepull.studies.study import Cell, Study

CHUNK = 200_000_000
"""Steps of agents in a chunk, for every core: a few seconds, so that little is lost if the power fails."""
LONGEST_CHUNK = 10_000


@dataclass(frozen=True)
class Task:
    """Some runs of one cell."""

    cell: Cell
    runs: tuple[int, ...]


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
    threads = (os.cpu_count() or 1) if workers is None else checks.whole("workers", workers, 1)
    began = time.perf_counter()
    with Store.begin(folder, study) as store:
        cells = [cell for cell in study.cells if only(cell)]
        kept = sum(min(store.finished(cell), cell.runs) for cell in cells)
        tasks = list(plan(store, cells, 1 if scheduler else threads))
        wanted, new, interrupted = sum(cell.runs for cell in cells), 0, False
        with study_bar(study.name, wanted, tasks, progress) as advance:
            try:
                for task, result in _played(tasks, threads, scheduler, advance):
                    if result.frame.height:
                        store.add(task.cell, result)
                        new += result.frame.height
                    if result.interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                interrupted = True
    return Report(Path(folder), wanted, kept, new, interrupted, time.perf_counter() - began)


def plan(store: Store, cells: Iterable[Cell], threads: int) -> Iterator[Task]:
    """Cut the missing runs of cells into chunks."""
    for cell in cells:
        size = max(1, min(LONGEST_CHUNK, CHUNK * threads // cell.steps))
        if cell.parameters["horizon"] >= LONGEST_STREAM:
            size = threads  # the readable engine is slow
        missing = store.missing(cell)
        for at in range(0, len(missing), size):
            yield Task(cell, tuple(missing[at : at + size]))


def _played(tasks: list[Task], threads: int, scheduler: str | None, advance: Advance) -> Iterable[tuple[Task, Result]]:
    if scheduler is None:
        return _here(tasks, threads, advance)
    from freepull.studies.cluster import play

    return play(tasks, scheduler, advance)


def _here(tasks: list[Task], threads: int, advance: Advance) -> Iterator[tuple[Task, Result]]:
    for task in tasks:
        yield task, work(task, threads, partial(advance, task.cell))


def work(task: Task, threads: int = 1, progress: Callable[[int], None] | bool = False) -> Result:
    """Simulate some runs of one cell: all that a machine has to do."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted")
        result = simulate(**arguments(task.cell.parameters), runs=task.runs, workers=threads, progress=progress)
    return replace(result, provenance={**result.provenance, "process": os.getpid()})
