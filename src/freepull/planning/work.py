"""How many runs a plan affords: until the range is tight, within the seconds that it may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from freepull.planning.forecast import Case, Forecast

FIRST, MOST = 8, 4096
"""Runs of the first batch, which is not timed because it may have to compile, and of all batches of the trial itself."""
POINT, LEAST = 256, 24
"""Runs of a point of a curve, and the fewest that are worth a point."""
OWN = 0.35
"""The share of the time that the trial itself may take."""


@dataclass
class Work:
    """A clock, and what one agent's step has cost so far."""

    seconds: float
    runs: int | None
    """So many runs, whatever they take; None: as many as are needed and fit."""
    tell: Callable[[str], None] = lambda _: None
    """Told what is being done."""
    began: float = field(default_factory=time.perf_counter)
    cost: float = 0.0
    """Seconds that a step of an agent takes."""

    def left(self) -> float:
        """Seconds that are left."""
        return self.began + self.seconds - time.perf_counter()

    def trial(self, case: Case) -> Forecast:
        """Simulate the trial itself."""
        if self.runs is not None:
            return self._timed(case, range(self.runs))
        found = self._timed(case, range(FIRST))
        self.began, more = time.perf_counter(), FIRST
        while not found.tight and found.runs < MOST:
            self.tell(f"the trial itself, {found.runs:,} runs so far")
            found = found.joined(self._timed(case, range(found.runs, found.runs + more)))
            more = min(found.runs, MOST - found.runs)
            while more > 1 and more * self._price(case) > self._own():
                more //= 2
            if more * self._price(case) > self._own():
                break
        return found

    def point(self, case: Case, share: float) -> Forecast | None:
        """Simulate a variant in at most this share of the time that is left; None if that is too short."""
        runs = min(self.runs or POINT, POINT)
        if self.runs is None:
            runs = min(runs, int(share * self.left() / max(self._price(case), 1e-9)))
        return self._timed(case, range(runs)) if runs >= min(LEAST, self.runs or LEAST) else None

    def _own(self) -> float:
        return OWN * self.seconds - (self.seconds - self.left())

    def _price(self, case: Case) -> float:
        return self.cost * case.agents * case.horizon

    def _timed(self, case: Case, runs: range) -> Forecast:
        began = time.perf_counter()
        found = case.forecast(runs)
        self.cost = (time.perf_counter() - began) / (len(runs) * case.agents * case.horizon)
        return found
