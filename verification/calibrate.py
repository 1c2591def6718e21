"""Tries plans on worlds that were not used to make them: does the 90 % range hold a single trial's spend in 90 %?

`python verification/calibrate.py` takes about ten minutes on two cores and writes docs/calibration.md with its picture;
`--settings 40` takes about a minute; without --docs it writes nothing then. It ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import calibration_page
import numpy as np
from calibration_worlds import FAMILIES, world
from rich.console import Console
from rich.progress import track

import freepull as fp

ROOT = Path(__file__).parent.parent
SEED = 2026
SETTINGS, TRIALS, RUNS = 500, 20, 199
"""Worlds, true trials in each, and runs behind each plan."""
FLUID_GAMES = 12


@dataclass(frozen=True)
class Tried:
    """One plan, and what the true trials paid."""

    family: str
    places: tuple[float, ...]
    """Where each spend lies in the plan's distribution, in [0, 1]; ties are broken at random."""
    inside: tuple[bool, ...]
    """Whether each lies within the 90 % range as printed, ends included."""
    paid: tuple[float, ...]
    planned: float
    """The plan's expected spend."""
    certain: float
    """The plan's chance of a certified answer."""
    certified: float
    """The share of true trials with one."""
    low: float
    high: float
    formula: float | None
    """The spend by the formulas, None near zero."""

    def covered(self, share: float) -> float:
        """The share of trials within the range, ties broken at random."""
        return float(np.mean([abs(place - 0.5) <= share / 2 for place in self.places]))


def tried(number: int, seed: int = SEED) -> Tried:
    """Make a plan for one world, then let the world happen."""
    at = world(seed, number)
    plan = fp.plan(
        principal=at.principal, horizon=at.horizon, runs=RUNS, curves=False, seed=number, workers=1, progress=False,
        **at.told,
    )  # fmt: skip
    true = fp.simulate(
        at.game, agents=at.picks, answers=at.answers, principal=at.principal, horizon=at.horizon, runs=TRIALS,
        seed=seed + 1_000_003 * (number + 1), workers=1, until="decided", progress=False,
    )  # fmt: skip
    assert plan.forecast is not None
    paid, luck = true.frame["paid"].to_list(), np.random.default_rng([seed, number, 1]).random(TRIALS)
    low, high = plan.forecast.range(0.9)
    return Tried(
        family=at.family,
        places=tuple(plan.forecast.position(x, float(u)) for x, u in zip(paid, luck, strict=True)),
        inside=tuple(low <= x <= high for x in paid),
        paid=tuple(map(float, paid)),
        planned=plan.forecast.mean,
        certain=plan.forecast.chance[0],
        certified=float(true.frame["certified"].mean()),  # type: ignore[arg-type]
        low=low,
        high=high,
        formula=plan.first.spend,
    )


def fluid_errors(games: int = FLUID_GAMES, horizon: int = 20_000, runs: int = 2_000) -> list[tuple[float, float]]:
    """Per stream with N ≥ 100: the relative error of the fluid count, and the standard error of measuring it."""
    found = []
    for number in range(games):
        rng = np.random.default_rng([SEED, 9, number])
        game = fp.Game(rng.uniform(0.2, 0.8, (2, int(rng.integers(2, 5)))))
        result = fp.simulate(
            game, principal=fp.Principal(fp.rules.Passive()), horizon=horizon, runs=runs, seed=number, keep="agents"
        )
        assert result.agents is not None
        counts = np.array(result.agents["pulls"].to_list(), float).reshape(runs, 2, game.arms)
        fluid = fp.fluid.natural_pulls(game.means, horizon)
        error = counts.std(axis=0, ddof=1) / math.sqrt(runs)
        found += [
            (float(c / f - 1), float(e / f))
            for f, c, e in zip(fluid.ravel(), counts.mean(axis=0).ravel(), error.ravel(), strict=True)
            if f >= 100
        ]
    return found


def main() -> int:
    """Try, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=SETTINGS, help="how many worlds")
    parser.add_argument("--seed", type=int, default=SEED, help="which worlds; another one for tuning")
    parser.add_argument("--docs", type=Path, default=None, help="where to write calibration.md")
    chosen = parser.parse_args()
    console, began = Console(highlight=False), time.perf_counter()
    tried(0, chosen.seed)  # compiles once, for both processes
    with ProcessPoolExecutor(2) as pool:
        work = pool.map(partial(tried, seed=chosen.seed), range(chosen.settings), chunksize=len(FAMILIES))
        rows = list(track(work, "trying plans", total=chosen.settings, disable=not sys.stderr.isatty()))
    found = calibration_page.Found(rows, fluid_errors())
    for line in calibration_page.lines(found):
        console.print(line)
    docs = chosen.docs or (ROOT / "docs" if chosen.settings == SETTINGS and chosen.seed == SEED else None)
    if docs is not None:
        console.print(f"{calibration_page.write(found, docs)}")
    console.print(f"{time.perf_counter() - began:.0f} s")
    return int(not found.met)


if __name__ == "__main__":
    sys.exit(main())
