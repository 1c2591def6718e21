"""Measures freepull beside the fastest program we can write by hand, plainer ones and other libraries.

`python -m benchmarks` takes about five minutes, prints a table and writes docs/benchmarks.md with its picture;
`--quick` takes one minute, with few repetitions. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from . import (
    against_limit,
    against_others,
    chart,
    durable,
    first_hour,
    growth,
    limit,
    minds,
    processes,
    report,
    rules,
    trial,
)
from .findings import FULL, QUICK, Findings

ROOT = Path(__file__).parent.parent
PICTURE = "images/benchmarks.png"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions, in about a minute")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where to write benchmarks.md and its picture")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="where other libraries are installed")
    chosen = parser.parse_args()
    effort = QUICK if chosen.quick else FULL
    console, found, began = (
        Console(highlight=False, width=None if sys.stdout.isatty() else 140),
        Findings(),
        time.perf_counter(),
    )

    def say(what: str) -> None:
        console.print(f"[dim]{time.perf_counter() - began:4.0f} s  {what} …[/dim]")

    _note_load(found)
    with tempfile.TemporaryDirectory() as folder:
        built = limit.build(Path(folder))
        if built is None:
            found.notes.append("There is no C program to compare with here: it needs AVX-512 and gcc, or clang++.")
        else:
            found.notes.append(f"The C program is written by hand for AVX-512; measured here: {built.how}.")
            found.versions["compiler of the C program:"] = built.compiler
        say("one thread")
        against_limit.one_thread(found, effort, built)
        if built is not None:
            say("two threads")
            against_limit.two_threads(found, effort, built)
        say("other strategies")
        against_others.strategies(found, effort, built)
    say("other rules")
    rules.measure(found, effort)
    say("a plain loop and the readable engine")
    against_others.scalar_loop(found, effort)
    against_others.readable(found, effort)
    say("parts of one's own")
    minds.measure(found, effort)
    say("other libraries")
    against_others.libraries(found, effort, chosen.out)
    say("growth")
    growth.measure(found, effort)
    say("starting, and memory")
    first_hour.measure(found, effort)
    processes.measure(found, effort)
    say("a live trial")
    trial.measure(found, effort)
    say("a durable campaign")
    durable.measure(found, effort)

    report.show(found, console)
    chart.draw(found, chosen.docs / PICTURE)
    page = report.write(found, chosen.docs, PICTURE)
    console.print(f"{time.perf_counter() - began:.0f} s; {page} and {chosen.docs / PICTURE}")


def _note_load(found: Findings) -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > 0.3 * cores:
        found.notes.append(
            f"The machine was busy (load {load:.1f} on {cores} cores): times are too long, two threads gain too little."
        )


if __name__ == "__main__":
    main()
