"""What was paid: one entry a bonus, and the table that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freepull.principal.record import Words


@dataclass(frozen=True)
class Payments:
    """Bonuses that were paid, in their order."""

    streams: Words
    """agent·K + arm of each."""
    agents: int
    arms: int

    def table(self) -> NDArray[np.int64]:
        """Return how many were paid, by agent and arm."""
        counts = np.bincount(self.streams, minlength=self.agents * self.arms)
        return counts.reshape(self.agents, self.arms)
