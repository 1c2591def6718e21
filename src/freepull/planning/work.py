"""How many runs a plan affords: until the range is tight, within the seconds that it may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from freepull.planning.case import Case
from freepull.planning.forecast import Forecast

FIRST, MOST = 40, 4096
"""Runs of the trial itself: in its first batch, with which a 95 % range has ends, and at most."""
LEAST, POINT = 32, 256
"""Runs of a variant: so many at least, or none, and at most."""
STEPS, DEARER = 30_000_000, 8
"""With a fixed number of runs, a variant may take so many steps of agents, or so many times those of the trial."""
HASTE = 3.0
"""A variant whose first runs seem to take so many times its share of the time is left out."""


@dataclass
class Work:
    """A clock, and what a run has cost so far."""

    seconds: float
    runs: int | None
    """So many runs, whatever they take; None: as many as are needed and fit."""
    tell: Callable[[str], None] = lambda _: None
    """Told what is being done."""
    began: float = field(default_factory=time.perf_counter)
    cost: float = 0.0
    """Seconds that one step of one agent takes."""
    interrupted: bool = False
    """Whether the runs of the trial itself were cut short by Ctrl-C."""
    own: int = 0
    """Steps that a variant may take with a fixed number of runs."""
    ready: set[type] = field(default_factory=set)
    """Rules whose kernels have been compiled and loaded; that is not part of the time."""

    def trial(self, case: Case, share: float) -> Forecast:
        """Simulate the trial itself, until its range is tight or its share of the time is over."""
        if self.runs is not None:
            self.own = DEARER * self.runs * case.agents * case.horizon
            return self._batch(case, 0, self.runs)
        found = self._batch(case, 0, FIRST)
        while not found.tight and found.runs < MOST:
            self.tell(f"the trial itself, {found.runs:,} runs so far")
            left = share * self.seconds - (time.perf_counter() - self.began)
            more = min(found.runs, MOST - found.runs, max(FIRST, int(left / self._price(case))))
            if left <= 0:
                break
            try:
                found = found.joined(self._batch(case, found.runs, more))
            except KeyboardInterrupt:
                self.interrupted = True
                break
        return found

    def point(self, case: Case, seconds: float) -> Forecast | None:
        """Simulate a variant for about so many seconds; None if that is far too short."""
        if self.runs is not None:
            runs = min(self.runs, POINT, max(self.own, STEPS) // (case.agents * case.horizon))
            return self._batch(case, 0, runs) if runs >= min(self.runs, LEAST) else None
        if type(case.principal.rule) in self.ready and LEAST * self._price(case) > HASTE * seconds:
            return None
        began = time.perf_counter()
        found = self._batch(case, 0, LEAST)
        while found.runs < POINT and 2 * (time.perf_counter() - began) < seconds:
            found = found.joined(self._batch(case, found.runs, min(found.runs, POINT - found.runs)))
        return found

    def left(self, share: float) -> float:
        """Seconds that are left until this share of the time is over."""
        return self.began + share * self.seconds - time.perf_counter()

    def _price(self, case: Case) -> float:
        return max(self.cost * case.agents * case.horizon, 1e-9)

    def _batch(self, case: Case, start: int, runs: int) -> Forecast:
        began, kind = time.perf_counter(), type(case.principal.rule)
        if kind not in self.ready:
            case.forecast([start])
            self.ready.add(kind)
            self.began += time.perf_counter() - began
            began = time.perf_counter()
        found = case.forecast(range(start, start + runs))
        self.cost = (time.perf_counter() - began) / (runs * case.agents * case.horizon)
        return found
