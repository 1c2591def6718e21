"""What the sums prove: the evidence that one arm is better than another, and by how much (docs/certified.md, pairwise).

All claims rest on the same threshold. Let b be a best arm: with probability at least 1 − δ, for every arm j and at all
times, E_jb(c; μ_j − μ_b) stays below it. Then b is never eliminated, and every LCB(μ_l − μ_b) holds.
"""

from __future__ import annotations

import math
from typing import Any

from freepull.compiling import jit
from freepull.principal.rules.pairwise.books import ERRORS, SPREAD, SUM, WORST, value

HALVINGS = 50


@jit
def log_evidence(books: Any, constants: Any, j: int, k: int, x: float) -> Any:
    """log E_jk(c; x), c the last round complete on both arms: the evidence against μ_j − μ_k ≤ x.

    E = Σ_i π_i·exp(ℓ_i·(S_j − S_k − R_c·M·x) − A_j,i − A_k,i); leavers' missing rewards count 0 for j and 1 for k.
    """
    c = min(books.rounds[j], books.rounds[k]) - 1
    if c < 0:
        return -math.inf
    ledger = books.ledger
    ahead = value(ledger, j, c, SUM) - value(ledger, k, c, SUM) - value(ledger, k, c, WORST)
    ahead -= float(constants.reached[c]) * constants.agents * x
    most, total = -math.inf, 0.0
    for i in range(constants.bets.shape[0]):
        errors = value(ledger, j, c, ERRORS + i) + value(ledger, k, c, ERRORS + i)
        term = constants.prior[i] + constants.bets[i] * ahead - errors
        if term > most:
            total = total * math.exp(most - term) + 1.0
            most = term
        else:
            total += math.exp(term - most)
    return most + math.log(total)


@jit
def lower(books: Any, constants: Any, j: int, k: int) -> float:
    """LCB of μ_j − μ_k: the largest x in [−1, 1] with E_jk(c; x) at the threshold, −1 if there is none."""
    low, high = -1.0, 1.0
    if log_evidence(books, constants, j, k, low) < constants.threshold:
        return -1.0
    for _ in range(HALVINGS):
        x = 0.5 * (low + high)
        if log_evidence(books, constants, j, k, x) >= constants.threshold:
            low = x
        else:
            high = x
    return low


@jit
def compare(books: Any, constants: Any) -> bool:
    """Bring the evidence of all pairs up to date; say whether some pair had a new round."""
    K, changed = books.rounds.shape[0], False
    for j in range(K):
        for k in range(K):
            together = min(books.rounds[j], books.rounds[k])
            if j != k and books.compared[j, k] < together:
                books.compared[j, k], changed = together, True
                books.evidence[j, k] = log_evidence(books, constants, j, k, 0.0)
                if books.evidence[j, k] >= constants.threshold:
                    books.beaten[j, k] = 1
    return changed


@jit
def against(books: Any, k: int) -> float:
    """The largest log evidence of any arm that was not withdrawn against an arm."""
    most = -math.inf
    for j in range(books.rounds.shape[0]):
        if j != k and books.withdrawn[j] == 0:
            most = max(most, books.evidence[j, k])
    return most


@jit
def eliminate(books: Any, constants: Any) -> int:
    """Let go the arms that some arm has enough against, if all have the one with least stays; count the rest."""
    left, least, lowest = 0, -1, math.inf
    for k in range(books.active.shape[0]):
        if books.active[k] == 1:
            most = against(books, k)
            if most < lowest:
                least, lowest = k, most
            if most < constants.threshold:
                left += 1
    for k in range(books.active.shape[0]):
        if books.active[k] == 1 and against(books, k) >= constants.threshold and (left > 0 or k != least):
            books.active[k] = 0
    return max(left, 1)


@jit
def nearly_best(books: Any, constants: Any, leader: int) -> bool:
    """Whether LCB(μ_l − μ_j) ≥ −ε for all active j, which is whether E_lj(c; −ε) is at the threshold."""
    found = True
    for j in range(books.active.shape[0]):
        if books.active[j] == 1 and j != leader:
            found = found and log_evidence(books, constants, leader, j, -constants.epsilon) >= constants.threshold
    return found


@jit
def fill_spreads(books: Any, constants: Any, spreads: Any) -> None:
    """s_k = Σ_m p_m²·σ²_km, σ² the mean squared prediction error of complete rounds and of one level of ¼ before."""
    squares = 0.0
    for m in range(constants.weights.shape[0]):
        squares += constants.weights[m] * constants.weights[m]
    for k in range(books.rounds.shape[0]):
        known, levels, c = 0.0, 0.0, books.rounds[k] - 1
        if c >= 0:
            known, levels = value(books.ledger, k, c, SPREAD), float(constants.reached[c])
        spreads[k] = (known + 0.25 * squares) / (levels + 1.0) / (constants.agents * constants.agents)
