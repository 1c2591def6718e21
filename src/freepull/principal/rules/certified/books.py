"""What the certified rule writes down, in three kinds of books that never mix.

`Used` is G_c: the samples of the rounds that were evaluated, and nothing else. `Round` is the coming round, designed
from `Used` alone. `Fill` holds the fresh samples of that round. The design functions (`design.py`) take `Used` and
`Round`; they have no way to a `Fill`, to samples that wait, to real counts or to times: that is what the proof needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import zeros

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.integer[Any]]
"""What is counted per stream: 64 bits in simulations, which is faster, 32 in a trial, which is smaller."""

MEAN, VARIANCE, NOISE, STRENGTH, INFORMATION = range(5)
"""Columns of ``Used.arms``: the arm's mean m_k, its variance tv_k, Q̄_k (squared prediction errors per sample, pooled),
ν_k (how strongly predictions are drawn to m_k), I_k (information against the leader)."""
LEVEL, ROUNDS = range(2)
"""Entries of ``Used.course``: R, the level reached, and how many rounds were evaluated."""
MARGINS = np.concatenate([[0.0], np.round(0.4 * 1.25 ** -np.arange(24.0), 5)[::-1]])
"""The x for which W_k(x) is kept."""
NEAR = 0.9
"""The share of what is bet that is bet on rivals being at most ε worse, where there is an ε."""
VALUES = 13
"""Columns of ``Measure.values``."""
RIVAL, TESTED = range(2)
"""The two parts that an arm plays in bets: what is ahead, and what is behind."""


class Constants(NamedTuple):
    """What is fixed before the first sample."""

    weights: Floats
    """p_m."""
    gaps: Floats
    """ℓ_i, the candidate gaps."""
    margins: Floats
    """x of W_k(x), rising."""
    decides: int
    """Which of them eliminates."""
    margin: float
    """That one: 2γ, 0 if nothing else is asked for."""
    epsilon: float
    """How much worse than the best the arm may be that is named; 0: not at all."""
    aim: float
    """2γ − ε: by how much an arm has to be behind another so that this one may be named in its stead."""
    rules: int
    """Under version 1, a is 1, sums are plain, and a bet is given up only where it is negligible at every margin."""
    threshold: float
    """1/δ."""
    confidence: float
    """log(1/δ)."""
    growth: float
    first_block: float
    first_level: float
    neyman: float
    """The σ that counts as 1 for Neyman blocks; 0 for equal blocks."""
    stretch: float
    held_back: float
    held_until: float
    fitted: float
    rival_memory: float
    gap_memory: float
    shrink: bool
    kappa: float
    """κ, for the forecast of natural pulls; 0 for none."""
    phi: float
    z: float
    cap: float
    gamma: float
    shortest: float
    longest: float


class Used(NamedTuple):
    """G_c: all samples used in the rounds so far, per arm and agent, and what follows from them."""

    pulls: Counts
    sums: Floats
    errors: Floats
    """Q_km, squared prediction errors summed."""
    arms: Floats
    active: Ints
    course: Floats


class Round(NamedTuple):
    """The coming round: fixed before its first sample."""

    blocks: Counts
    """b_km, 0 for eliminated arms and for agents without weight."""
    worth: Floats
    """r, the levels that it counts for (one entry)."""
    capital: Floats
    """C_k[j, i] for each margin x, rebalanced: indices x, k, j, i. What lies on j = k is cash: it is not bet."""
    peaks: Floats
    """The most that each account ever held at the end of a round: indices x, k."""
    rivals: Floats
    """P_j for the arm at hand."""
    fits: Floats
    """Q_i for the arm at hand."""
    lengths: Floats
    """h for every arm."""
    scratch: Floats
    near: Floats
    """E_k[l, i], capital on l being at most ε worse than k: indices k, l, i; nothing without an ε."""
    reached: Floats
    """The most that the evidence against k and E_k[l] together ever were at the end of a round: indices k, l."""
    aims: Floats
    """Q_i for the arm at hand, where it is to be shown that another is at most ε worse."""


class Fill(NamedTuple):
    """The fresh samples of the round, per arm and agent: their sum, and Σ(X − x̂)²."""

    sums: Floats
    errors: Floats


class Measure(NamedTuple):
    """A filled round in the numbers that the bets need, per arm."""

    values: Floats
    """Y_k, V_k, the largest a_km·u_km, and sums over agents from which the next design is drawn (`evaluation.py`)."""
    powers: Floats
    """Σ_m B_km·a_km^{q−2}·u_km^q as a rival and as the tested arm, for q = 2…9: indices k, part, q."""
    lost: Floats
    """What rounding took from these sums, and, at q = 0, from Y_k; 0 under version 1 of the rules."""
    totals: Floats
    """What the account at hand held before the round, by margin."""


def blank(arms: int, constants: Constants) -> Measure:
    """Return a measure to be written to."""
    return Measure(
        np.zeros((arms, VALUES)), np.zeros((arms, 2, 10)), np.zeros((arms, 2, 10)), np.zeros(len(constants.margins))
    )


def fresh(
    arms: int, agents: int, constants: Constants, prior: Floats, runs: int | None = None, counts: Any = np.int64
) -> tuple[Used, Round]:
    """Return empty books, for one trial or for several side by side, before the first round is designed.

    ``counts`` is the type of what is counted per stream.
    """
    lead = () if runs is None else (runs,)
    K, M, X = arms, agents, len(constants.margins)
    used = Used(
        pulls=zeros((*lead, K, M), counts),
        sums=zeros((*lead, K, M), np.float64),
        errors=zeros((*lead, K, M), np.float64),
        arms=np.zeros((*lead, K, 5)),
        active=np.ones((*lead, K), np.int64),
        course=np.zeros((*lead, 2)),
    )
    used.arms[..., MEAN], used.arms[..., NOISE], used.arms[..., STRENGTH] = 0.5, 0.25, 1.0
    capital = np.zeros((*lead, X, K, K, len(constants.gaps)))
    cash, near = constants.held_back, K if constants.epsilon > 0 else 0
    own, bet = np.eye(K, dtype=bool)[:, :, None], (1.0 - cash) * prior / (K - 1)
    capital[...] = np.where(own, cash * prior, bet if near == 0 else (1.0 - NEAR) * bet)
    coming = Round(
        blocks=np.zeros((*lead, K, M), counts),
        worth=np.zeros((*lead, 1)),
        capital=capital,
        peaks=np.ones((*lead, X, K)),
        rivals=np.zeros(K),
        fits=np.zeros(len(constants.gaps)),
        lengths=np.zeros(K),
        scratch=np.zeros(K),
        near=np.broadcast_to(np.where(own, 0.0, NEAR * bet)[:near, :near], (*lead, near, near, len(bet))).copy(),
        reached=np.ones((*lead, near, near)),
        aims=np.zeros(len(constants.gaps)),
    )
    return used, coming


def worse_by(peaks: Floats, constants: Constants) -> list[float]:
    """Return for every arm the largest x at which W_k(x) has reached 1/δ, 0 if none has."""
    reached = peaks >= constants.threshold
    return [float(constants.margins[column].max(initial=0.0)) for column in reached.T]


def survives(worse_by: Sequence[float], active: Sequence[bool]) -> float:
    """Return γ* of a trial that is decided: half of the least `worse_by` of the arms that are out."""
    return min(x for x, alive in zip(worse_by, active, strict=True) if not alive) / 2


@jit
def leaders(used: Any) -> Any:
    """The active arm with the largest m_k and the one after it; ties: the lowest arm."""
    first, second = -1, -1
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            if first < 0 or used.arms[k, MEAN] > used.arms[first, MEAN]:
                first, second = k, first
            elif second < 0 or used.arms[k, MEAN] > used.arms[second, MEAN]:
                second = k
    return first, second
