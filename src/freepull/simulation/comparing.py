"""`fp.compare`: several principals on the same luck, and what one does better than another, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull import showing, validation
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.panels import Panel
from freepull.principal import Principal
from freepull.simulation.experiment import GameMaker
from freepull.simulation.facade import simulate
from freepull.simulation.results import MEANS, RATES, Result, interval

DIFFERENCES = {
    "quantity": pl.String, "principal": pl.String, "against": pl.String, "difference": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "width": pl.Float64, "runs": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found: the result of every principal, and the differences between them, run by run."""

    results: Mapping[str, Result]
    """By name; run 17 of one met the same game, agents and rewards as run 17 of another."""
    against: str
    """Whom the others are compared with."""

    def differences(self, against: str | None = None) -> pl.DataFrame:
        """Return how much more of everything each principal has than one of them, with paired 95 % intervals.

        ``width`` is the standard error as a share of what it would be without pairs, from as many runs with luck of
        their own. ``decided_at`` is over the runs that both have decided. All intervals are Student's: those of rates
        need many runs, and are points where no run differs.
        """
        other = self.against if against is None else validation.one_of("against", against, self.results)
        rows = []
        for name in self.results:
            if name != other:
                for quantity in (*RATES, *MEANS, "decided_at"):
                    one, two = self._paired(name, other, quantity)
                    rows.append((quantity, name, other, *interval(one - two), _narrower(one, two), len(one)))
        return pl.DataFrame(rows, schema=DIFFERENCES, orient="row")

    def _paired(self, one: str, two: str, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a quantity of the runs that both have."""
        frames = [self.results[name].frame.select("run", pl.col(quantity).cast(pl.Float64)) for name in (one, two)]
        both = frames[0].join(frames[1], on="run", suffix="_other").drop_nulls().sort("run")
        return both[quantity].to_numpy(), both[f"{quantity}_other"].to_numpy()

    def summary(self) -> pl.DataFrame:
        """Return what each principal has by itself, as `Result.summary`, with a column for its name."""
        each = [result.summary().with_columns(pl.lit(name).alias("principal")) for name, result in self.results.items()]
        return pl.concat(each).select("principal", pl.exclude("principal"))

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=-1):
            return f"Comparison({', '.join(self.results)})\n{self.summary()}\n{self.differences()}"

    def _repr_html_(self) -> str:
        """Return tables for a notebook."""
        own, between = self.summary(), self.differences()
        runs = max(result.frame.height for result in self.results.values())
        return showing.table(f"{runs:,} runs, the same luck for all", own.columns, own.rows()) + showing.table(
            f"differences from {self.against}, in pairs", between.columns, between.rows()
        )


def _narrower(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the standard error of pairs as a share of that without pairs; NaN where both are 0."""
    if len(one) < 2:
        return math.nan
    apart = math.sqrt(float(np.var(one, ddof=1) + np.var(two, ddof=1)))
    return float(np.std(one - two, ddof=1)) / apart if apart > 0 else math.nan


def compare(
    principals: Mapping[str, Principal],
    game: Game | GameMaker | Panel,
    *,
    against: str | None = None,
    **settings: Any,
) -> Comparison:
    """Simulate several principals on the same luck: run by run the same game, agents, rewards, coins and absences.

    What they have in common cancels in the differences of pairs, so that fewer runs say as much.

    Parameters
    ----------
    principals
        At least two of them, by name.
    game
        As for `simulate`; a function that draws one draws the same for all in a run.
    against
        Whom the others are compared with: the first, unless another is named.
    settings
        All else that `simulate` takes: horizon, agents, answers, runs, seed, trace …

    >>> import freepull as fp
    >>> rules = {"sure": fp.Principal(fp.rules.Certified(0.01)), "passive": fp.Principal(fp.rules.Passive())}
    >>> found = compare(rules, fp.instances.toy(), horizon=400, runs=5, progress=False)
    >>> found.differences().filter(quantity="offered")["difference"].to_list()[0] < 0
    True
    """
    if not isinstance(principals, Mapping) or len(principals) < 2:
        raise InvalidInput(f"principals must be two or more, by name, got {validation.shown(principals)}.")
    first = next(iter(principals))
    other = first if against is None else validation.one_of("against", against, principals)
    results = {str(name): simulate(game, principal=it, **settings) for name, it in principals.items()}
    return Comparison(results, str(other))
