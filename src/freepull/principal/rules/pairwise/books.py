"""What the pairwise rule writes down: constants, and per pair of arm and round exact sums over agents.

Agents complete their blocks in any order, and a stream may run far ahead of others. So that the order of tells cannot
matter and nothing has to wait for it in memory, sums are integers: a number x ≥ 0 is entered as ⌊2⁴⁶·x⌋ in two machine
words, whole parts of 2⁻¹⁶ and the rest. A round's sum is off by less than 2⁻⁴⁶ an agent, far below what a float's own
rounding makes of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HIGH, LOW = range(2)
"""The two words of a sum: units of 2⁻¹⁶, and of 2⁻⁴⁶."""
SUM, WORST, SPREAD, ERRORS = range(4)
"""Columns of ``Books.ledger``: S_k, what leavers may have added to it at most, Σ q²·r·(errors a sample), and from
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
    """Return empty books, for one trial or for several side by side, with room for so many rounds."""
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
