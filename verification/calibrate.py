"""Tries plans on worlds that were not used to make them: does the 90 % range hold a single trial's spend in 90 %?

`python -m verification.calibrate` takes about a quarter of an hour on two cores and writes docs/calibration.md with its
picture; `--settings 40` a tenth of that; without --docs it writes nothing then. It ends with 1 if a bar is missed.
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
from .calibration import SEED, SETTINGS, Found, fluid_errors, tried
from .calibration_worlds import FAMILIES

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Try, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=SETTINGS, help="how many worlds")
    parser.add_argument("--seed", type=int, default=SEED, help="which worlds; another one for tuning")
    parser.add_argument("--docs", type=Path, default=None, help="where to write calibration.md")
    chosen = parser.parse_args()
    console, began = Console(highlight=False), time.perf_counter()
    tried(0, chosen.seed)  # compiles once, for both processes
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # polars does not survive a fork
        work = pool.map(partial(tried, seed=chosen.seed), range(chosen.settings), chunksize=len(FAMILIES))
        rows = list(track(work, "trying plans", total=chosen.settings, disable=not sys.stderr.isatty()))
    found = Found(rows, fluid_errors())
    for line in calibration_page.lines(found):
        console.print(line)
    docs = chosen.docs or (ROOT / "docs" if chosen.settings == SETTINGS and chosen.seed == SEED else None)
    if docs is not None:
        console.print(f"{calibration_page.write(found, docs)}")
    console.print(f"{time.perf_counter() - began:.0f} s")
    return int(not found.met)


if __name__ == "__main__":
    sys.exit(main())
