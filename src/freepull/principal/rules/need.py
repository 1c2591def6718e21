"""How many pulls of every arm a certificate is likely to need: an estimate (docs/statistics.md, need)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.principal.rules.base import Floats, RuleState
from freepull.principal.work import STREAMS, Work, finish, pieces

MARGIN = 1.05


class NeedingState(RuleState):
    """A rule that can tell how many pulls of an arm it needs of every agent."""

    @abstractmethod
    def needed(self) -> Work[Floats]:
        """Find n_k in slices, 0 for arms that are not active."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The agents whose pulls are needed."""
        return np.asarray(self.setting.weights > 0)

    def missing(self) -> list[list[float]]:
        """(n_k − N_km)⁺."""
        lacks = np.maximum(finish(self.needed()) - self.record.pulls, 0.0)
        lacks[~self.counted] = 0.0
        rows: list[list[float]] = lacks.tolist()
        return rows

    def lacking(self) -> Work[tuple[float, float]]:
        """Σ (n_k − N_km)⁺ over all, and the most of one agent."""
        needed, counted, found = (yield from self.needed()), self.counted, np.zeros(2)
        for first, last in pieces(self.setting.agents, STREAMS // self.setting.arms):
            add_lacks(found, needed, self.record.pulls, counted, first, last)
            yield
        return float(found[0]), float(found[1])


@jit
def add_lacks(found: Any, needed: Any, pulls: Any, counted: Any, first: int, last: int) -> None:
    """Add what some agents miss to the total, and to the most of one agent."""
    for m in range(first, last):
        own = 0.0
        if counted[m]:
            for k in range(needed.shape[0]):
                own += max(needed[k] - float(pulls[m, k]), 0.0)
        found[0] += own
        found[1] = max(found[1], own)


@jit
def fill_needed(
    needed: Any, means: Any, active: Any, spreads: Any, beta: float, smallest: float, margin: float = 0.0
) -> None:
    """Fill in n_k (docs/statistics.md, need), gaps less the margin that has to be shown, and at least ``smallest``.

    0 for arms that are not active.
    """
    leader, most = -1, 0.0
    for k in range(means.shape[0]):
        if active[k] and (leader < 0 or means[k] > means[leader]):
            leader = k
    for j in range(means.shape[0]):
        needed[j] = 0.0
        if active[j] and j != leader:
            gap = max(means[leader] - means[j] - margin, smallest)
            needed[j] = MARGIN * 2.0 * beta * (spreads[leader] + spreads[j]) / (gap * gap)
            most = max(most, needed[j])
    needed[leader] = most
