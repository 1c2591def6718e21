"""The game: M agents' local bandits over the same K arms, and the global arms they average to."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import registry, validation
from freepull.errors import InvalidInput
from freepull.rewards import Bernoulli, Law, Streams

Array = NDArray[np.float64]
TIE = 1e-12
"""Global means closer than this are one and the same."""


class Game:
    """Local means μ_km of M agents (rows) and K arms (columns), and the reward laws behind them.

    The global mean of arm k is μ_k = Σ_m p_m·μ_km, with p_m = 1/M unless ``weights`` are given.

    >>> game = Game([[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]])
    >>> game.global_means
    array([0.45, 0.47, 0.45])
    >>> game.best, round(game.minimum_gap, 3)
    (1, 0.02)
    """

    def __init__(self, means: Any = None, *, rewards: Law | None = None, weights: Any = None) -> None:
        law = Bernoulli() if rewards is None else rewards
        validation.instance("rewards", law, Law, "a reward law such as freepull.rewards.Beta(10)")
        self.rewards: Law = law
        self.means: Array = _means(means, law)
        self.means.flags.writeable = False
        self.agents, self.arms = self.means.shape
        self.weights: Array = normalised(weights, self.agents)
        self.weighted: bool = weights is not None and bool(np.ptp(self.weights) > TIE)

    @cached_property
    def global_means(self) -> Array:
        """μ_k, correctly rounded, so that arms that tie on paper tie here."""
        if not self.weighted:
            return np.array([math.fsum(column) / self.agents for column in self.means.T.tolist()])
        return np.array([math.fsum(column) for column in (self.weights[:, None] * self.means).T.tolist()])

    @cached_property
    def best(self) -> int:
        """``k_*``: the best global arm (the lowest, if several tie)."""
        return int(np.argmax(self.global_means >= self.global_means.max() - TIE))

    def is_best(self, arm: int) -> bool:
        """Say whether no arm is better than this one."""
        return bool(self.global_means[arm] >= self.global_means.max() - TIE)

    @cached_property
    def gaps(self) -> Array:
        """``Δ_k = μ_* − μ_k``, and Δ_min for the best arm itself; 0 for arms that tie."""
        gaps = _gaps(self.global_means)
        return np.asarray(np.where(gaps < TIE, 0.0, gaps))

    @property
    def minimum_gap(self) -> float:
        """Δ_min; 0 if two arms tie for best."""
        return float(self.gaps[self.best])

    @cached_property
    def local_best(self) -> NDArray[np.int64]:
        """``k_{*,m}``: every agent's own best arm."""
        return np.asarray(np.argmax(self.means, axis=1), np.int64)

    @cached_property
    def losses(self) -> Array:
        """``μ_{*,m} − μ_{k,m}``: what a pull of every arm costs every agent on average, 0 for its best one."""
        return np.asarray(self.means.max(axis=1, keepdims=True) - self.means)

    @cached_property
    def local_gaps(self) -> Array:
        """``Δ_{k,m} = μ_{*,m} − μ_{k,m}``, and Δ_{min,m} for the agent's best arm."""
        return np.array([_gaps(row) for row in self.means])

    @cached_property
    def variances(self) -> Array:
        """σ²_km of single rewards."""
        return self.rewards.variances(self.means)

    @cached_property
    def streams(self) -> Streams:
        """How random words become rewards."""
        return self.rewards.streams(self.means)

    @classmethod
    def from_log(cls, log: Any, *, weights: Any = None, scale: str | None = None, columns: Any = None) -> Game:
        """Estimate a game from past observations: a CSV or Parquet file, or a polars frame (docs/planning.md, past).

        The columns are agent, arm and reward; ``columns`` says what the log calls them, such as
        "agent=user_id,reward=stars", and ``scale`` from what to what rewards run, such as "1..5". Agents with few pulls
        of an arm are drawn to what others have of it. Rows that cannot be used are left out, and a warning
        (`errors.UnusableRows`) says which. Agents and arms stand in the order of their names.

        >>> import polars as pl
        >>> rows = {"agent": ["ann", "ann", "bob", "bob"], "arm": ["x", "y", "x", "y"], "reward": [1, 0, 1, 1]}
        >>> Game.from_log(pl.DataFrame(rows))
        Game(2 agents × 2 arms, gap 0.5)
        """
        from freepull.data import Posterior, read

        posterior = Posterior(read(log, scale, columns))
        return cls(posterior.means(), rewards=posterior.law, weights=weights)

    def __repr__(self) -> str:
        law = "" if isinstance(self.rewards, Bernoulli) else f", {type(self.rewards).__name__} rewards"
        return f"Game({self.agents} agents × {self.arms} arms, gap {self.minimum_gap:.4g}{law})"

    def describe(self) -> dict[str, Any]:
        """Return what provenance records of this game."""
        law = registry.brief(registry.encode(self.rewards))
        told: dict[str, Any] = {"agents": self.agents, "arms": self.arms, "rewards": law}
        if self.means.size <= registry.MOST_TOLD:
            told["means"] = self.means.tolist()
        if self.weighted:
            told["weights"] = self.weights.tolist()
        return told


def normalised(weights: Any, agents: int) -> Array:
    """Return p_m: the weights divided by their sum, or 1/M each; what sums to 1 already is left alone, to the bit."""
    if weights is None:
        return np.full(agents, 1.0 / agents)
    p = validation.numbers("weights", weights)
    if p.shape != (agents,) or not np.isfinite(p).all() or (p < 0).any() or not 0 < p.sum() < np.inf:
        raise InvalidInput(
            f"weights must be {agents} numbers of at least 0, one per agent and not all 0, got "
            f"{validation.shown(weights)}."
        )
    total = p.sum()
    return np.array(p) if abs(total - 1.0) <= TIE else np.asarray(p / total)


def _means(means: Any, law: Law) -> Array:
    fixed = law.means()
    if fixed is not None and means is not None:
        raise InvalidInput(f"means must be left out with {type(law).__name__} rewards, which fix them.")
    if fixed is None and means is None:
        raise InvalidInput("means must be a table of agents × arms, got None.")
    table = validation.numbers("means", means if fixed is None else fixed).copy()
    if table.ndim != 2:
        raise InvalidInput(f"means must be a table of agents × arms, one row per agent, got {table.ndim} dimension(s).")
    agents, arms = table.shape
    if agents < 1 or arms < 2:
        raise InvalidInput(f"means must have at least 1 agent (row) and 2 arms (columns), got {agents} × {arms}.")
    wrong = ~((table >= 0) & (table <= 1))
    if wrong.any():
        m, k = (int(i[0]) for i in np.nonzero(wrong))
        raise InvalidInput(f"means must lie in [0, 1], got {table[m, k]:g} for agent {m} and arm {k}.")
    return table


def _gaps(means: Array) -> Array:
    gaps = means.max() - means
    best = int(np.argmax(means))
    gaps[best] = np.delete(gaps, best).min()
    return np.asarray(gaps)
