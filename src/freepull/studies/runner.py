"""Running a study: what is missing, in chunks of runs, here or on a cluster, kept as soon as it is finished."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from freepull import checks
from freepull.simulation import Result
from freepull.studies import cluster
from freepull.studies.chunks import Chunk, missing
from freepull.studies.progress import Advance, study_bar
from freepull.studies.store import Store
from freepull.studies.study import Cell, Study


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
    return _here(chunks, threads, advance) if scheduler is None else cluster.play(chunks, scheduler, advance)


def _here(chunks: list[Chunk], threads: int, advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    for chunk in chunks:
        yield chunk, chunk.play(threads, partial(advance, chunk.cell))
