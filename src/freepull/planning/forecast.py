"""A forecast: what runs of a trial came to, with its error; and how far the simulation is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freepull import validation


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


Array = NDArray[np.float64]
SHARES = (0.5, 0.9, 0.95)
"""The ranges that are shown."""
TIGHT = 0.1
"""A range is tight when the 95 % limits of both its ends are closer than this share of its upper end…"""
FEW = 2.0
"""…or than this many bonuses."""


@dataclass(frozen=True)
class Forecast:
    """What trials pay, whether they end with a certified answer, and when: one entry per run."""

    paid: Array
    """Numbers of bonuses; with a pricing, what they cost in units of reward."""
    certified: NDArray[np.bool_]
    decided_at: Array
    """The step of the decision; NaN where there was none."""

    @property
    def runs(self) -> int:
        """How many runs were simulated."""
        return len(self.paid)

    @property
    def source(self) -> str:
        """Where the figures come from."""
        return f"simulation, {self.runs:,} runs"

    @cached_property
    def mean(self) -> float:
        """The expected spend."""
        return float(self.paid.mean())

    @cached_property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the expected spend."""
        return _margin(self.paid)

    def against(self, plan: Forecast) -> tuple[float, float]:
        """How much more is paid than in the plan's runs with the same numbers, and half the width of its 95 % interval.

        Runs with the same number have the same luck as far as it goes, so this is sharper than both means.
        """
        runs = min(self.runs, plan.runs)
        more = self.paid[:runs] - plan.paid[:runs]
        return float(more.mean()), _margin(more)

    def quantile(self, p: float) -> float:
        """The spend that a trial stays below with probability p."""
        return float(np.quantile(self.paid, p, method="weibull"))

    def range(self, share: float) -> tuple[float, float]:
        """The range that holds the spend of a single trial with this probability, as much below as above.

        Its ends are order statistics at (n+1)·p, so the probability is right on average for every number of runs from
        39 on (95 %; 19 for 90 %).
        """
        validation.real("share", share, 0.0, 1.0, open_low=True, open_high=True)
        return self.quantile((1 - share) / 2), self.quantile((1 + share) / 2)

    def end(self, p: float) -> tuple[float, float]:
        """The spend that a trial stays below with probability p, and about its standard error."""
        width = self._limits(p)
        reach = width if math.isfinite(width) else self.quantile(0.95) - self.quantile(0.05)
        return self.quantile(p), reach / (2 * 1.96)

    def position(self, paid: float, luck: float) -> float:
        """Where a spend lies among the runs, in [0, 1]; ``luck`` in [0, 1] places it among those that equal it."""
        below, equal = int((self.paid < paid).sum()), int((self.paid == paid).sum())
        return (below + luck * (equal + 1)) / (self.runs + 1)

    @cached_property
    def chance(self) -> tuple[float, float, float]:
        """The probability of a certified answer within the horizon, with Wilson's 95 % interval."""
        from freepull.simulation.results import wilson

        return wilson(int(self.certified.sum()), self.runs)

    @cached_property
    def free(self) -> float:
        """The probability of a certified answer for nothing."""
        return float((self.certified & (self.paid == 0)).mean())

    def within(self, budget: float) -> float:
        """The probability of a certified answer for at most this many bonuses."""
        return float((self.certified & (self.paid <= budget)).mean())

    def budget(self, chance: float) -> float | None:
        """The least number of bonuses with which a certified answer has this probability; None if no number has."""
        sorted_costs = np.sort(np.where(self.certified, self.paid, np.inf))
        needed = float(sorted_costs[min(math.ceil(chance * (self.runs + 1)), self.runs) - 1])
        return needed if math.isfinite(needed) else None

    @property
    def decisions(self) -> int:
        """How many of the runs were decided."""
        return int((~np.isnan(self.decided_at)).sum())

    def decided(self, p: float) -> float | None:
        """The step before which a share p of the decided trials is decided; None if none is."""
        known = self.decided_at[~np.isnan(self.decided_at)]
        return float(np.quantile(known, p, method="inverted_cdf")) if len(known) else None

    @property
    def tight(self) -> bool:
        """Whether more runs would hardly move the ends of the 90 % range."""
        allowed = max(TIGHT * self.quantile(0.95), FEW)
        return all(self._limits(p) <= allowed for p in (0.05, 0.95))

    def _limits(self, p: float) -> float:
        """The width of the distribution-free 95 % interval of a quantile."""
        reach = 1.96 * math.sqrt(p * (1 - p) / self.runs)
        if p - reach <= 0 or p + reach >= 1:
            return math.inf
        return self.quantile(p + reach) - self.quantile(p - reach)

    def joined(self, other: Forecast) -> Forecast:
        """Return all runs of both."""
        return Forecast(
            np.concatenate([self.paid, other.paid]),
            np.concatenate([self.certified, other.certified]),
            np.concatenate([self.decided_at, other.decided_at]),
        )


def _margin(values: Array) -> float:
    return 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
