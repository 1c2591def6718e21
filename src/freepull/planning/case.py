"""A trial to be forecast. Every run draws the game from what is believed, so that ranges are predictive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np

from freepull.agents import Agent
from freepull.answers import Answer
from freepull.planning.beliefs import Beliefs, Known
from freepull.planning.forecast import Forecast
from freepull.principal import Principal

TOGETHER = 8
"""Runs in which the same agents have the same of several strategies."""
_ASSIGNED = 0x77686F


@dataclass(frozen=True)
class Case:
    """All that a trial to be forecast consists of."""

    beliefs: Beliefs
    agents: int
    arms: int
    principal: Principal
    horizon: int
    strategies: tuple[Agent, ...]
    """How agents pick: one for all, one each, or some, of which every agent has one at random."""
    answers: tuple[Answer, ...]
    seed: int
    workers: int | None

    def sized(self, agents: int) -> Case | None:
        """Return the same with another number of agents; None if nothing is believed of them."""
        beliefs = self.beliefs if agents == self.agents else self.beliefs.sized(agents)
        return None if beliefs is None else replace(self, beliefs=beliefs, agents=agents)

    def forecast(self, runs: Sequence[int]) -> Forecast:
        """Simulate these runs."""
        if all(len(parts) in (1, self.agents) for parts in (self.strategies, self.answers)):
            return self._simulated(runs, 0)
        blocks = groupby(runs, key=lambda run: run // TOGETHER)
        return reduce(Forecast.joined, [self._simulated(list(some), block) for block, some in blocks])

    def _simulated(self, runs: Sequence[int], block: int) -> Forecast:
        from freepull.simulation import simulate

        result = simulate(
            self.beliefs.game if isinstance(self.beliefs, Known) else self.beliefs,
            agents=self._assigned(self.strategies, block, 0),
            answers=self._assigned(self.answers, block, 1),
            principal=self.principal,
            horizon=self.horizon,
            runs=runs,
            seed=self.seed,
            workers=self.workers,
            until="decided",
            progress=False,
        )
        frame = result.frame
        if result.interrupted:
            raise KeyboardInterrupt
        return Forecast(
            frame["paid"].to_numpy().astype(float),
            frame["certified"].to_numpy(),
            frame["decided_at"].cast(float).fill_null(math.nan).to_numpy(),
        )

    def _assigned(self, parts: tuple[Any, ...], block: int, purpose: int) -> Any:
        """Return one for all, or one an agent: as given, or at random, the same for all runs of a block."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) == self.agents:
            return list(parts)
        drawn = np.random.default_rng([self.seed, block, purpose, _ASSIGNED]).integers(len(parts), size=self.agents)
        return [parts[i] for i in drawn.tolist()]
