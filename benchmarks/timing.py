"""Repetitions in turn (ours, theirs, ours, theirs, …), so that whatever else the machine does slows both alike.

One thread is timed by its own processor time, which other programs disturb less; two at once by the clock on the wall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

Measure = Callable[[], float]
"""Returns ns per agent-step."""
Clock = Callable[[], float]
Gate = Callable[[], object]
"""Called when all is prepared, right before the clock starts: threads and processes wait here for each other."""


def no_gate() -> None:
    """Do not wait."""


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.values, [0.25, 0.75])
        return float(low), float(high)

    def ratio(self, other: Sample) -> float:
        """The median of the ratios of what was measured side by side."""
        return median(a / b for a, b in zip(self.values, other.values, strict=True))


def in_turn(measures: Sequence[Measure], times: int, warm_up: bool = True) -> list[Sample]:
    """Measure each in turn, so many times; a first round, which compiles and warms up, does not count."""
    if warm_up:
        for measure in measures:
            measure()
    rounds = [[measure() for measure in measures] for _ in range(times)]
    return [Sample(values) for values in zip(*rounds, strict=True)]
