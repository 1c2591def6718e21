"""The pairwise rule's settings (docs/certified.md, pairwise)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freepull import validation
from freepull.errors import InvalidInput
from freepull.principal.record import Record
from freepull.principal.rules.base import SMALLEST, Rule, Setting
from freepull.principal.rules.pairwise.evidence import Blocks, Constants, Floats, auto
from freepull.principal.rules.pairwise.state import PairwiseState
from freepull.registry import part

LARGEST, RATIO, BETS = 0.6, 1.5, 20
TYPICAL = 0.48
"""The spread of rewards for which a planned gap is turned into a bet."""


@part("rule", "pairwise", nested=("blocks",), kernel=1, most_arms=5_000, late_joiners=True)
@dataclass(frozen=True)
class Pairwise(Rule):
    """An e-process for every pair of arms: **proven** at any time, for any adaptive sampling, in O(KM) of memory.

    An arm goes when the evidence that some arm is better reaches (K−1)/δ. A best arm is ever eliminated with
    probability at most δ, whatever the agents, offers, bans and the horizon do; agents may even leave, and arms be
    withdrawn, where that was provided for. Dearer than `Certified`, but it also says how much better every arm is.

    Parameters
    ----------
    delta
        The most that the probability of a wrong certified verdict may be, in (0, 1).
    epsilon
        Stop as soon as the leader is proven to be at most this much worse than the best; 0: when one arm is left.
    gap
        A planned gap between the best arm and the next, if there is a guess; a wrong one costs money, never validity.
    blocks
        "auto", or `Blocks`: how streams are cut.

    >>> Pairwise(delta=0.05, epsilon=0.01)
    Pairwise(delta=0.05, epsilon=0.01)
    """

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent", "worst_case")
    withdrawals: ClassVar[bool] = True

    delta: float = 0.05
    epsilon: float = 0.0
    gap: float | None = None
    blocks: Blocks | str = "auto"

    def __post_init__(self) -> None:
        validation.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        validation.keep_real(self, "epsilon", 0.0, 1.0)
        if self.gap is not None:
            validation.keep_real(self, "gap", 1e-6, 1.0)
        if self.blocks != "auto" and not isinstance(self.blocks, Blocks):
            raise InvalidInput(f"blocks must be 'auto' or a rules.Blocks, got {validation.shown(self.blocks)}.")

    def __repr__(self) -> str:
        shown = [f"delta={self.delta!r}"]
        shown += [f"epsilon={self.epsilon!r}"] if self.epsilon > 0 else []
        shown += [f"gap={self.gap!r}"] if self.gap is not None else []
        shown += [f"blocks={self.blocks!r}"] if self.blocks != "auto" else []
        return f"Pairwise({', '.join(shown)})"

    def constants(self, setting: Setting) -> Constants:
        """Return all that is fixed before the first sample."""
        blocks = self.blocks if isinstance(self.blocks, Blocks) else auto(setting)
        K, M = setting.arms, int((setting.weights > 0).sum())
        weights = np.ascontiguousarray(M * setting.weights, np.float64)
        bets = LARGEST / max(1.0, float(weights.max())) * RATIO ** -np.arange(BETS, dtype=float)
        claims = K * (K - 1) / 2 if setting.withdrawal else K - 1
        levels, reached = blocks.levels()
        return Constants(
            weights=weights,
            agents=float(M),
            bets=bets,
            prior=_prior(bets, self.gap, blocks.neyman),
            threshold=math.log(claims / self.delta),
            epsilon=float(self.epsilon),
            levels=levels,
            reached=reached,
            first_block=int(blocks.first_block),
            neyman=float(blocks.neyman or 0.0),
        )

    def start(self, setting: Setting, record: Record) -> PairwiseState:
        """Begin a trial."""
        return PairwiseState(self, setting, record)


def _prior(bets: Floats, gap: float | None, neyman: float | None) -> Floats:
    """Return log π_i: even, or falling off to both sides of the bet that suits a planned gap best."""
    if gap is None:
        return np.full(len(bets), -math.log(len(bets)))
    best = gap / (2 * TYPICAL * (neyman or TYPICAL))
    prior = np.exp(-np.abs(np.log(bets / best)) / math.log(RATIO) / 3)
    return np.asarray(np.log(prior / prior.sum()))
