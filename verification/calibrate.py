"""Tries plans on worlds that were not used to make them: does the 90 % range hold a single trial's spend in 90 %?

`python -m verification.calibrate` takes about 20 minutes on two cores and writes docs/calibration.md with its picture;
`--settings 40` a tenth of that; without --docs it writes nothing then. `--street` tries street panels alone, and
`--money` prices that differ, 5 minutes each, and writes their part of the page. It ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import track

from . import calibration_page
from .calibration import (
    PRICED_SETTINGS,
    SEED,
    SETTINGS,
    STREET_SETTINGS,
    Found,
    fluid_errors,
    priced_met,
    street_met,
    tried,
)
from .calibration_worlds import FAMILIES, FIRST_PRICED, FIRST_STREET

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Try, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=SETTINGS, help="how many worlds")
    parser.add_argument("--seed", type=int, default=SEED, help="which worlds; another one for tuning")
    parser.add_argument("--docs", type=Path, default=None, help="where to write calibration.md")
    parser.add_argument("--street", action="store_true", help="street panels alone")
    parser.add_argument("--money", action="store_true", help="prices that differ alone")
    chosen = parser.parse_args()
    console, began = Console(highlight=False), time.perf_counter()
    alone = chosen.street or chosen.money
    streets, prices = (-(-chosen.settings * count // SETTINGS) for count in (STREET_SETTINGS, PRICED_SETTINGS))
    plain = [] if alone else list(range(chosen.settings))
    street_numbers = [] if chosen.money else [FIRST_STREET + i for i in range(streets)]
    priced_numbers = [] if chosen.street else [FIRST_PRICED + i for i in range(prices)]
    numbers = plain + street_numbers + priced_numbers
    for first in {numbers[0], numbers[-1]}:
        tried(first, chosen.seed, runs=40, trials=1)  # compiles once, for both processes
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # polars does not survive a fork
        work = pool.map(partial(tried, seed=chosen.seed), numbers, chunksize=len(FAMILIES))
        rows = list(track(work, "trying plans", total=len(numbers), disable=not sys.stderr.isatty()))
    first, last = len(plain), len(plain) + len(street_numbers)
    rows, street, priced = rows[:first], rows[first:last], rows[last:]
    docs = chosen.docs or (ROOT / "docs" if chosen.settings == SETTINGS and chosen.seed == SEED else None)
    if chosen.street:
        told, met = calibration_page.street_lines(street), street_met(street)
        path = docs and calibration_page.write_part(calibration_page.street_section(street), docs)
    elif chosen.money:
        told, met = calibration_page.priced_lines(priced), priced_met(priced)
        path = docs and calibration_page.write_part(calibration_page.priced_section(priced), docs)
    else:
        found = Found(rows, fluid_errors(), street, priced)
        told, met = calibration_page.lines(found), found.met
        path = docs and calibration_page.write(found, docs)
    for line in [*told, *([str(path)] if path else []), f"{time.perf_counter() - began:.0f} s"]:
        console.print(line)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
