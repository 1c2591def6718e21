"""What one run leaves behind, whichever engine ran it. Every column of a result follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from freepull.game import Game
from freepull.principal.record import UNITS

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Checkpoint:
    """One arm at the end of one traced step."""

    step: int
    arm: int
    active: bool
    mean: float
    bound: float
    paid: int


@dataclass
class Outcome:
    """The raw end of a run: counts are exact, so both engines agree to the last bit."""

    run: int
    game: Game
    arm: int
    correct: bool
    decided: bool
    certified: bool
    decided_at: int | None
    offered: int
    refused: int
    banned: int
    pulls: Counts
    """N_km."""
    sums: Counts
    """Rewards S_km in units of 2⁻³⁰."""
    paid: Counts
    """Bonuses paid per agent and arm."""
    trace: list[Checkpoint] = field(default_factory=list)
    survives: float | None = None
    """γ* of the verdict, if margins are kept."""

    def rewards(self) -> NDArray[np.float64]:
        """ΣX of every agent, bonuses not counted."""
        return np.asarray(self.sums.sum(axis=1) / UNITS)

    def regrets(self) -> NDArray[np.float64]:
        """Σ_t (μ_{*,m} − μ_{π_m(t),m}) of every agent, from the true means."""
        loss = self.game.means.max(axis=1, keepdims=True) - self.game.means
        return np.asarray((self.pulls * loss).sum(axis=1))
