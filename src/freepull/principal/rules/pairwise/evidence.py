"""The evidence of `Pairwise` between two arms: its blocks, its books, and what they prove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.principal.rules.base import Setting
from freepull.registry import part

LONG = 30
"""Pulls of an arm by an agent from which a first block of 30 is a small part."""
ENOUGH = 1 << 40
"""Levels are laid out up to here; no stream gets so long."""


@part("blocks", "blocks")
@dataclass(frozen=True)
class Blocks:
    """How streams are cut.

    Parameters
    ----------
    first_block, first_level
        Samples of every stream in the first block, and the levels r_0 that it counts for, at most as many.
    growth
        r_c is this share of all levels before it, at least 1.
    neyman
        A block has samples in proportion to the spread of its stream, √(p̂(1−p̂)) = ``neyman`` counting 1 and nothing
        below 1; None: one sample per level.
    """

    first_block: int = 1
    first_level: int = 1
    growth: float = 0.1
    neyman: float | None = None

    def __post_init__(self) -> None:
        validation.keep_whole(self, "first_block", 1, 1 << 30)
        validation.keep_whole(self, "first_level", 1, 1 << 30)
        validation.keep_real(self, "growth", 0.02, 10.0)
        if self.neyman is not None:
            validation.keep_real(self, "neyman", 0.01, 0.5)
        if self.first_level > self.first_block:
            raise InvalidInput(
                f"first_level must be at most first_block = {self.first_block}, got "
                f"{validation.shown(self.first_level)}."
            )

    def levels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return r_c and R_c, their sums, for c = 0, 1, …"""
        found, reached = [int(self.first_level)], [int(self.first_level)]
        while reached[-1] < ENOUGH:
            found.append(max(1, math.ceil(self.growth * reached[-1])))
            reached.append(reached[-1] + found[-1])
        return np.array(found, np.int64), np.array(reached, np.int64)


def auto(setting: Setting) -> Blocks:
    """Choose from K and κ: where an agent acts only a few dozen times, a first block of 30 is useless."""
    if (setting.expected_kappa or 0) < 10 * LONG * setting.arms:
        return Blocks()
    return Blocks(first_block=30, first_level=6, neyman=0.1)


@jit
def prediction(total: int, pulls: int) -> Any:
    """x̂ = (½ + own sum)/(own n + 1), from a stream's samples so far, their sum in units of 2⁻³⁰."""
    return (0.5 + float(total) * 2.0**-30) / (float(pulls) + 1.0)


@jit
def block_size(level: int, total: int, pulls: int, neyman: float) -> Any:
    """b ≥ r: r·clip(√(p̂(1−p̂))/neyman, 1, ½/neyman), p̂ = (own sum + 1)/(own n + 2); r where neyman is 0."""
    if neyman == 0.0:
        return np.int64(level)
    p = (float(total) * 2.0**-30 + 1.0) / (float(pulls) + 2.0)
    return np.int64(math.ceil(float(level) * min(max(math.sqrt(p * (1.0 - p)) / neyman, 1.0), 0.5 / neyman)))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HIGH, LOW = range(2)
"""The two words of a sum: units of 2⁻¹⁶, and of 2⁻⁴⁶."""
SUM, WORST, SPREAD, ERRORS = range(4)
"""Columns of ``Books.ledger``: S_k, what leavers may have added to it at most, Σ q²·r·(errors per sample), and from
ERRORS on A_k,i."""
_REST = (1 << 30) - 1


class Constants(NamedTuple):
    """What is fixed before the first sample."""

    weights: Floats
    """q_m = M·p_m, M the agents of the panel; 0 for agents who are no part of it."""
    agents: float
    """M."""
    bets: Floats
    """ℓ_i."""
    prior: Floats
    """log π_i."""
    threshold: float
    """log((K−1)/δ), or log(K(K−1)/(2δ)) where arms may be withdrawn."""
    epsilon: float
    levels: Ints
    """r_c."""
    reached: Ints
    """R_c."""
    first_block: int
    neyman: float


class Books(NamedTuple):
    """The sums of one trial, and what was concluded from them at its looks."""

    ledger: Ints
    """Indices arm, round, column, word; summed up over rounds where a round is complete."""
    rounds: Ints
    """C_k: rounds that all agents have completed."""
    evidence: Floats
    """log E_jk(c; 0) at the last round complete on both arms."""
    compared: Ints
    """How many rounds that comparison has."""
    beaten: Ints
    """1 where j (row) ever had enough against k (column)."""
    active: Ints
    withdrawn: Ints
    bounds: Floats
    """ψ(ℓ_i·w), and last the w that they are for."""


def fresh(arms: int, rounds: int, constants: Constants, runs: int | None = None) -> Books:
    """Return empty books, for one trial or for several side by side, with room for this many rounds."""
    lead = () if runs is None else (runs,)
    K, n = arms, len(constants.bets)
    return Books(
        ledger=np.zeros((*lead, K, rounds, ERRORS + n, 2), np.int64),
        rounds=np.zeros((*lead, K), np.int64),
        evidence=np.full((*lead, K, K), -np.inf),
        compared=np.zeros((*lead, K, K), np.int64),
        beaten=np.zeros((*lead, K, K), np.int64),
        active=np.ones((*lead, K), np.int64),
        withdrawn=np.zeros((*lead, K), np.int64),
        bounds=np.full(n + 1, -1.0),
    )


@jit
def add(ledger: Any, k: int, c: int, column: int, x: float) -> None:
    """Enter a number of at least 0."""
    whole = math.floor(x * 65536.0)
    ledger[k, c, column, HIGH] += np.int64(whole)
    ledger[k, c, column, LOW] += np.int64((x * 65536.0 - float(whole)) * 2.0**30)


@jit
def value(ledger: Any, k: int, c: int, column: int) -> Any:
    """Read a sum."""
    high, low = ledger[k, c, column, HIGH], ledger[k, c, column, LOW]
    return float(high + (low >> 30)) * 2.0**-16 + float(low & _REST) * 2.0**-46


@jit
def enter(books: Any, constants: Any, k: int, c: int, m: int, block: int, total: int, errors: float) -> None:
    """Add an agent's block to its round: ``total`` in units of 2⁻³⁰, ``errors`` = Σ(X − x̂)²; w = q_m·r_c/b."""
    q, r, b = constants.weights[m], float(constants.levels[c]), float(block)
    w = q * r / b
    set_bounds(books, constants, w)
    add(books.ledger, k, c, SUM, w * (float(total) * 2.0**-30))
    add(books.ledger, k, c, SPREAD, q * q * r * errors / b)
    for i in range(constants.bets.shape[0]):
        add(books.ledger, k, c, ERRORS + i, books.bounds[i] * errors)


@jit
def enter_worst(books: Any, constants: Any, k: int, c: int, m: int, block: int) -> None:
    """Add a block that will never come: 0 to S_k, q_m·r_c to what it might have been, ψ(ℓ_i·w)·b to A_k,i."""
    q, r, b = constants.weights[m], float(constants.levels[c]), float(block)
    set_bounds(books, constants, q * r / b)
    add(books.ledger, k, c, WORST, q * r)
    for i in range(constants.bets.shape[0]):
        add(books.ledger, k, c, ERRORS + i, books.bounds[i] * b)


@jit
def set_bounds(books: Any, constants: Any, w: float) -> None:
    """ψ(ℓ_i·w) = −log(1 − ℓ_i·w) − ℓ_i·w."""
    n = constants.bets.shape[0]
    if books.bounds[n] != w:
        for i in range(n):
            u = constants.bets[i] * w
            books.bounds[i] = -math.log1p(-u) - u
        books.bounds[n] = w


@jit
def complete(books: Any, k: int) -> None:
    """Note that an arm's next round is complete: from now on its sums are those of all rounds up to it."""
    c = books.rounds[k]
    if c > 0:
        for column in range(books.ledger.shape[2]):
            for word in range(2):
                books.ledger[k, c, column, word] += books.ledger[k, c - 1, column, word]
    books.rounds[k] = c + 1


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
