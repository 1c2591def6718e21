"""Where the capital of every account lies in the next round, from used samples and constants only.

Like `design.py`, of which it is a part: nothing here can see a sample that waits (docs/certified.md, rebalancing).
"""

from __future__ import annotations

import math
from typing import Any

from freepull.compiling import jit
from freepull.principal.rules.certified.books import LEVEL, MEAN, VARIANCE, leaders

CLEAR = 2.0
"""Standard deviations by which an arm is clearly behind."""


@jit
def rebalance(used: Any, coming: Any, constants: Any, first_arm: int, last_arm: int) -> None:
    """Move capital towards the bets that look best, each account's total unchanged, for a range of arms.

    Capital on eliminated rivals and a share s(η) = 1 − (R/(R+r))^η of the rest, gap by gap, goes to the rivals that
    may be best, P_j; then a share goes to P×Q, Q_i the gaps that fit what was seen.
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
        _fits(used, coming, constants, k, best)
        place = used.course[LEVEL] >= constants.held_until or _clearly_behind(used, constants, k, best)
        for x in range(X):
            if place:
                _place_cash(coming, constants, x, k)
            _move(coming, constants, x, k, from_rivals, from_gaps)


@jit
def _clearly_behind(used: Any, constants: Any, k: int, best: int) -> Any:
    """Whether the arm's used samples lie clearly behind the best rival's: (m_j0 − m_k − 2γ)⁺ ≥ 2·√(tv_j0 + tv_k)."""
    behind = max(used.arms[best, MEAN] - used.arms[k, MEAN] - constants.margin, 0.0)
    return behind * behind >= CLEAR * CLEAR * (used.arms[best, VARIANCE] + used.arms[k, VARIANCE])


@jit
def _place_cash(coming: Any, constants: Any, x: int, k: int) -> None:
    """Bet what was held back: on the likeliest rivals, in part on the gaps that fit, in part as planned."""
    cash = 0.0
    for i in range(constants.gaps.shape[0]):
        cash += coming.capital[x, k, k, i]
    if cash == 0.0:
        return
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
def _fits(used: Any, coming: Any, constants: Any, k: int, best: int) -> None:
    """Q_i ∝ exp(−(ℓ_i − (m_j0 − m_k − 2γ)⁺)²/(2(tv_j0 + tv_k))) + 0.001/n."""
    n = constants.gaps.shape[0]
    gap = max(used.arms[best, MEAN] - used.arms[k, MEAN] - constants.margin, 0.0)
    spread = used.arms[best, VARIANCE] + used.arms[k, VARIANCE]
    total = 0.0
    for i in range(n):
        away = constants.gaps[i] - gap
        coming.fits[i] = math.exp(-0.5 * away * away / spread) + 1e-3 / float(n)
        total += coming.fits[i]
    for i in range(n):
        coming.fits[i] /= total
