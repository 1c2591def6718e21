"""Chunks: some missing runs of one cell, small enough that little is lost if the power fails."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from freepull.errors import StudyError
from freepull.simulation import Result, simulate
from freepull.simulation.compiled.coding import unsupported
from freepull.studies.building import arguments, experiment
from freepull.studies.schema import Misplaced
from freepull.studies.store import Store
from freepull.studies.study import Cell

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
