"""How a certified rule bets: its capital over the grid, and what it predicts."""

from __future__ import annotations

import math
from typing import Any

from freepull.compiling import jit
from freepull.numerics import highest_index
from freepull.principal.rules.certified.books import (
    INFORMATION,
    LEVEL,
    MEAN,
    NEAR,
    NOISE,
    ROUNDS,
    STRENGTH,
    VARIANCE,
    leaders,
)

CLEAR = 2.0
"""Standard deviations by which an arm is clearly behind."""


@jit
def rebalance(used: Any, coming: Any, constants: Any, first_arm: int, last_arm: int) -> None:
    """Move capital towards the bets that look best, each account's total unchanged, for a range of arms.

    Capital on eliminated rivals and a share s(η) = 1 − (R/(R+r))^η of the rest, gap by gap, goes to the rivals that
    may be best, P_j; then a share goes to P×Q, Q_i the gaps that fit what was seen. With an ε, a share of what is
    placed is bet on a rival being at most ε worse; it stays with this rival.
    """
    X = constants.margins.shape[0]
    shrunk = used.course[LEVEL] / (used.course[LEVEL] + coming.worth[0])
    from_rivals = 1.0 - math.pow(shrunk, constants.rival_memory)
    from_gaps = 1.0 - math.pow(shrunk, constants.gap_memory)
    first, second = leaders(used)
    for k in range(first_arm, last_arm):
        if used.active[k] == 0:
            continue
        best = second if k == first else first
        _rivals(used, coming, k, best)
        _fits(used, coming.fits, constants, constants.margin, k, best)
        place = used.course[LEVEL] >= constants.held_until or _clearly_behind(used, constants, k, best)
        lent = NEAR if constants.epsilon > 0.0 else 0.0
        if constants.epsilon > 0.0:
            _fits(used, coming.aims, constants, constants.aim, k, best)
            _refit(coming, constants, k, from_gaps)
        for x in range(X):
            if place:
                _place_cash(coming, constants, x, k, lent)
            _move(coming, constants, x, k, from_rivals, from_gaps)


@jit
def _clearly_behind(used: Any, constants: Any, k: int, best: int) -> Any:
    """Whether the arm's used samples lie clearly behind the best rival's: (m_j0 − m_k − aim)⁺ ≥ 2·√(tv_j0 + tv_k)."""
    behind = max(used.arms[best, MEAN] - used.arms[k, MEAN] - constants.aim, 0.0)
    return behind * behind >= CLEAR * CLEAR * (used.arms[best, VARIANCE] + used.arms[k, VARIANCE])


@jit
def _refit(coming: Any, constants: Any, k: int, from_gaps: float) -> None:
    """Move a share of what is bet on each rival being at most ε worse to the gaps that fit."""
    for j in range(coming.near.shape[1]):
        if coming.reached[k, j] >= constants.threshold:
            continue
        total = 0.0
        for i in range(coming.near.shape[2]):
            total += coming.near[k, j, i]
        for i in range(coming.near.shape[2]):
            coming.near[k, j, i] = (1.0 - from_gaps) * coming.near[k, j, i] + from_gaps * total * coming.aims[i]


@jit
def _place_cash(coming: Any, constants: Any, x: int, k: int, lent: float) -> None:
    """Bet what was held back: on the likeliest rivals, in part on the gaps that fit, in part as planned."""
    cash = 0.0
    for i in range(constants.gaps.shape[0]):
        cash += coming.capital[x, k, k, i]
    if cash == 0.0:
        return
    if lent > 0.0:
        for i in range(constants.gaps.shape[0]):
            if x == constants.decides:
                for j in range(coming.rivals.shape[0]):
                    coming.near[k, j, i] += lent * cash * coming.rivals[j] * coming.aims[i]
            coming.capital[x, k, k, i] *= 1.0 - lent
        cash *= 1.0 - lent
    for i in range(constants.gaps.shape[0]):
        share = constants.fitted * cash * coming.fits[i] + (1.0 - constants.fitted) * coming.capital[x, k, k, i]
        for j in range(coming.rivals.shape[0]):
            coming.capital[x, k, j, i] += coming.rivals[j] * share
        coming.capital[x, k, k, i] = 0.0


@jit
def _move(coming: Any, constants: Any, x: int, k: int, from_rivals: float, from_gaps: float) -> None:
    """Move a share of what is bet, gap by gap, to the likeliest rivals, then a share of all of it to P×Q."""
    K, n = coming.rivals.shape[0], constants.gaps.shape[0]
    account = 0.0
    for i in range(n):
        total, kept = 0.0, 0.0
        for j in range(K):
            if j != k:
                total += coming.capital[x, k, j, i]
            if coming.rivals[j] > 0.0:
                kept += coming.capital[x, k, j, i] * (1.0 - from_rivals)
        account += total
        for j in range(K):
            if j != k:
                moved = coming.rivals[j] * (total - kept)
                if coming.rivals[j] > 0.0:
                    moved += coming.capital[x, k, j, i] * (1.0 - from_rivals)
                coming.capital[x, k, j, i] = moved
    for j in range(K):
        if j != k:
            for i in range(n):
                target = account * coming.rivals[j] * coming.fits[i]
                coming.capital[x, k, j, i] = (1.0 - from_gaps) * coming.capital[x, k, j, i] + from_gaps * target


@jit
def _rivals(used: Any, coming: Any, k: int, best: int) -> None:
    """P_j ∝ exp(−2(m_j0 − m_j)²/(tv_j0 + tv_j)) over the active rivals of k, j0 the one with the largest mean."""
    total = 0.0
    for j in range(used.active.shape[0]):
        coming.rivals[j] = 0.0
        if used.active[j] == 1 and j != k:
            apart = used.arms[best, MEAN] - used.arms[j, MEAN]
            spread = used.arms[best, VARIANCE] + used.arms[j, VARIANCE]
            coming.rivals[j] = max(math.exp(-2.0 * apart * apart / spread), 1e-300)
            total += coming.rivals[j]
    for j in range(used.active.shape[0]):
        coming.rivals[j] /= total


@jit
def _fits(used: Any, fits: Any, constants: Any, margin: float, k: int, best: int) -> None:
    """Q_i ∝ exp(−(ℓ_i − (m_j0 − m_k − margin)⁺)²/(2(tv_j0 + tv_k))) + 0.001/n."""
    n = constants.gaps.shape[0]
    gap = max(used.arms[best, MEAN] - used.arms[k, MEAN] - margin, 0.0)
    spread = used.arms[best, VARIANCE] + used.arms[k, VARIANCE]
    total = 0.0
    for i in range(n):
        away = constants.gaps[i] - gap
        fits[i] = math.exp(-0.5 * away * away / spread) + 1e-3 / float(n)
        total += fits[i]
    for i in range(n):
        fits[i] /= total


PULLED_TO_THE_ARM = 25.0
"""Samples that the arm's mean counts for where an agent's natural pulls are forecast."""
LARGEST_BLOCK = 2**31 - 1
"""No block is larger, so that 32 bits can count it."""


@jit
def noise(used: Any, k: int, m: int) -> Any:
    """σ̂²_km = clip((Q_km + 3·Q̄_k)/(n + 3), 10⁻⁴, ¼)."""
    estimate = (used.errors[k, m] + 3.0 * used.arms[k, NOISE]) / (float(used.pulls[k, m]) + 3.0)
    return min(max(estimate, 1e-4), 0.25)


@jit
def prediction(used: Any, k: int, m: int) -> Any:
    """x̂_km = (ν_k·m_k + own sum)/(ν_k + own n), the same for all samples of the block."""
    strength = used.arms[k, STRENGTH]
    return (strength * used.arms[k, MEAN] + used.sums[k, m]) / (strength + float(used.pulls[k, m]))


@jit
def add_spreads(used: Any, constants: Any, spreads: Any, tile: Any) -> None:
    """Add to s_k = Σ_m p_m²·σ̂²_km, for estimates of what is still missing, a tile of streams (first arm, last, first
    agent, last).
    """
    for k in range(tile[0], tile[1]):
        total = spreads[k]
        for m in range(tile[2], tile[3]):
            total += constants.weights[m] * constants.weights[m] * noise(used, k, m)
        spreads[k] = total


@jit
def design(used: Any, coming: Any, constants: Any) -> None:
    """Fix the coming round: its levels, its blocks, and the capital on every bet."""
    K, M = used.pulls.shape
    set_worth(used, coming, constants)
    if used.course[ROUNDS] > 0.0:
        rebalance(used, coming, constants, 0, K)
    size(used, coming, constants, 0, M)


@jit
def set_worth(used: Any, coming: Any, constants: Any) -> None:
    """r: the levels that the coming round counts for."""
    if used.course[ROUNDS] == 0.0:
        coming.worth[0] = constants.first_level
    else:
        coming.worth[0] = max(1.0, math.ceil(constants.growth * used.course[LEVEL]))


@jit
def size(used: Any, coming: Any, constants: Any, first: int, last: int) -> None:
    """b_km of a range of agents: ⌈r·f⌉, more for the leader, and more where the agent is expected to pull anyway."""
    K = used.pulls.shape[0]
    r, rounds = coming.worth[0], used.course[ROUNDS]
    leader, second = leaders(used)
    rivals = -1.0
    for k in range(K):
        rivals += float(used.active[k])
    stretch = math.pow(rivals, constants.stretch)
    forecast = rounds > 0.0 and constants.kappa >= 2.0 * float(K)
    for k in range(K):
        coming.lengths[k] = _stretch_to_come(used, constants, k, leader, second)
    for m in range(first, last):
        if constants.weights[m] <= 0.0:
            for k in range(K):
                coming.blocks[k, m] = 0
            continue
        level = 0.0
        if forecast:
            for k in range(K):
                coming.scratch[k] = _expected(used, k, m)
            level = highest_index(coming.scratch, 2.0 * math.log(constants.kappa), constants.kappa)
        for k in range(K):
            if used.active[k] == 0:
                coming.blocks[k, m] = 0
                continue
            x = r
            if rounds == 0.0:
                x = constants.first_block
            elif constants.neyman > 0.0:
                x *= min(max(math.sqrt(noise(used, k, m)) / constants.neyman, 1.0), 0.5 / constants.neyman)
            if rounds > 0.0 and k == leader:
                x *= stretch
            b = math.ceil(x)
            if forecast:
                spare = constants.phi * _forecast(used, constants, k, m, level) - float(used.pulls[k, m])
                levels = (coming.lengths[k] - 1.0) * used.course[LEVEL] + r
                b = max(b, math.floor(min(constants.cap * x, spare * r / levels)))
            coming.blocks[k, m] = int(min(b, LARGEST_BLOCK))


@jit
def _expected(used: Any, k: int, m: int) -> Any:
    """μ̃_km: the agent's own mean, drawn to the arm's."""
    own = used.sums[k, m] + PULLED_TO_THE_ARM * used.arms[k, MEAN]
    return own / (float(used.pulls[k, m]) + PULLED_TO_THE_ARM)


@jit
def _forecast(used: Any, constants: Any, k: int, m: int, level: float) -> Any:
    """F_km, the natural pulls up to κ, on the low side by z standard deviations of what is known of the mean."""
    away = level - _expected(used, k, m)
    away += constants.z / (2.0 * math.sqrt(float(used.pulls[k, m]) + PULLED_TO_THE_ARM))
    return 2.0 * math.log(constants.kappa) / (away * away)


@jit
def _stretch_to_come(used: Any, constants: Any, k: int, leader: int, second: int) -> Any:
    """h: how many times the level so far the arm is likely to need, from its gap and the information about it."""
    rival = second if k == leader else k
    information = max(used.arms[k, INFORMATION], 1e-9)
    gap = max(used.arms[leader, MEAN] - used.arms[rival, MEAN] - constants.aim, 1.0 / math.sqrt(information))
    h = constants.gamma * 2.0 * (constants.confidence + 1.5) / (gap * gap) / information
    return min(max(h, constants.shortest), constants.longest)
