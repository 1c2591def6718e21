"""What a principal knows before the first pull: how many arms and agents, how long, and in which manner she offers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput


@dataclass(frozen=True)
class Setting:
    """The frame of one trial."""

    arms: int
    agents: int
    horizon: int | None
    weights: NDArray[np.float64]
    weighted: bool
    offers: str
    kappa: int | None = None
    """κ where the schedule knows it beforehand."""

    def horizon_for(self, who: str) -> int:
        """Return T, or say that ``who`` cannot do without it."""
        if self.horizon is None:
            raise InvalidInput(f"horizon must be a number of steps, because {who} needs it; got None.")
        return self.horizon
