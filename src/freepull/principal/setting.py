"""What a principal knows before the first pull: how many arms and agents, how long, and in which manner she offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput

RULES = 2
"""The version of what decides, which trials and campaigns keep: rules, offers, bans, people who leave.

Under version 1 the certified rule had the ψ without a, as `Pairwise` has it. In campaigns, agents who let offers lapse
had left, all who left within one step counted as one, and joining brought withdrawn arms back. That breaks the proofs;
replay does it again, and then the verdict is not certified.
"""


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
    leavers: str = "wait"
    """What becomes of agents who leave: wait, independent or worst_case."""
    withdrawal: bool = False
    """Whether arms may be withdrawn."""
    rules: int = RULES
    """The version under which the trial began."""

    @property
    def expected_kappa(self) -> int | None:
        """κ, or half the horizon where the schedule finds it on the way; None without both."""
        return self.kappa if self.kappa is not None or self.horizon is None else self.horizon // 2

    def without(self, agents: Sequence[int]) -> Setting:
        """Return the panel without some agents: weight 0, and the others' weights in proportion."""
        rest = self.weights.copy()
        rest[list(agents)] = 0.0
        if not rest.sum() > 0:
            raise InvalidInput("the last agent with a weight cannot leave; end the trial.")
        return replace(self, weights=rest / rest.sum(), weighted=True)

    def horizon_for(self, who: str) -> int:
        """Return T, or say that ``who`` cannot do without it."""
        if self.horizon is None:
            raise InvalidInput(
                f"horizon must be a number of steps, because {who} needs it, got None; give one, or take "
                "observe.Steps(n) and a rule that does without."
            )
        return self.horizon
