"""A progress bar on a terminal, and silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wanted = bool | Callable[[int], None] | None
"""A bar, no bar, or a function that is told how many more runs are finished; None: if it is a terminal."""


@contextmanager
def progress_bar(title: str, total: int, wanted: Wanted, unit: str = "runs") -> Iterator[Callable[[int], None]]:
    """Yield a function that moves the bar on; ``wanted`` None means: if standard error is a terminal."""
    if callable(wanted):
        yield wanted
        return
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    left = TextColumn(f"{unit}, left")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), left, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n: bar.advance(task, n)
