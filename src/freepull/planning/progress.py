"""What a plan is doing, on a terminal; silence in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def telling(seconds: float, wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is being done; ``wanted`` None means: if standard error is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        began, task = time.perf_counter(), bar.add_task("simulating", total=seconds)
        yield lambda what: bar.update(
            task, description=f"simulating: {what}", completed=min(time.perf_counter() - began, 0.99 * seconds)
        )
