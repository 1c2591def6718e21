"""The passive principal: no rule ever looks."""

from __future__ import annotations

import numpy as np

from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.state import Block, Floats
from freepull.simulation.experiment import Experiment


class PassiveKernel:
    """Nothing to drive."""

    proven = False

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        self.silent_until = experiment.horizon

    def begin(self, block: Block) -> None:
        """Do nothing."""

    def advance(self, block: Block, until: int) -> int:
        """Never needed: every step is silent."""
        return until

    def bounds(self, block: Block) -> Floats:
        """No bound is used."""
        return np.full((len(block.runs), block.experiment.shape[1]), np.inf)
