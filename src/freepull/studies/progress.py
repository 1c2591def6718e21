"""A progress bar for studies: cells differ in size, so the time left is told from steps, not from runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from freepull.studies.chunks import Chunk
from freepull.studies.study import Cell

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
