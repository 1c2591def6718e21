"""The books of the checks of assumptions: pairs opened before their pulls, and the evidence in them (docs/checks.md).

Rewards enter rounded down to a 250th, and logarithms rounded down to multiples of 2⁻³⁶, so that all sums are of whole
numbers and the order of reports within a round cannot matter.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit, jit_apart
from freepull.numerics import zeros
from freepull.principal.rules.base import PASSED
from freepull.rewards import UNITS

FINE = 250
"""Into how many parts the unit of reward is cut, for pairs."""
SLOTS = 2
"""So many pairs, and so many blocks, may be open for one agent."""
BLOCK = 4
"""The most pairs in one block of the drift check."""
WINDOW = 256
"""So many rounds of pairs are kept; older ones are closed as they are."""
BLOCK_ROUNDS = 64
"""The same for blocks."""
LAST_ROUND = 65_000
"""No blocks are opened after that many rounds."""
RHOS = np.array([0.1, 0.3, 0.9])
"""ρ: the bets of the check for common shocks."""
BETS = np.array([0.24, 0.12, 0.06])
"""λ of the drift check, in both signs; BLOCK·λ < 1."""
STAKES = np.array([0.6, 0.3, 0.1])
"""λ of the payment check, in both signs, as shares of min(q, 1 − q)."""
ONE = 2.0**36
"""The number 1 in sums of logarithms."""
LOGS = np.array(
    [[math.floor(math.log(1.0 + bet * d / FINE) * ONE) for d in range(-BLOCK * FINE, BLOCK * FINE + 1)] for bet in BETS]
)
"""log(1 + λ·ΣD) of every bet and every sum that a block can have, in whole units."""
OPEN = 255
"""Stands for the first reward of a pair until it is told."""
PERIOD, GROUP, GROUPS, GAP, LENGTH, COIN, ARMS = range(7)
"""The frame: steps a period, pairs a group, groups a period; steps from early to late, a round of blocks; 10⁶·q; K."""
(
    ASKS, REPORTS, UNASKED, IN_STEP, SLOWEST, REPEATED, PAIRS, PAIRED, PLACES, OLDEST_PAIRS, EARLY, LATE, OLDEST_BLOCKS,
    COINS, OUTCOMES, BONUSES,
) = range(16)  # fmt: skip
"""What is counted."""
SHOCK, DRIFT, PAYMENT = range(3)
"""The tests, in the order of their peaks."""


class Books(NamedTuple):
    """All arrays; those of agents come first, 36 bytes each, and 39 where payment is tested."""

    asked: Any
    """The step of an ask that no report has answered, plus 1, negative if no pull was made since; 0: none."""
    pair_place: Any
    """The place of an open pair, plus 1: its period times GROUPS, plus its group; 0: free."""
    pair_arm: Any
    pair_early: Any
    block_round: Any
    """The round in which an open block began, plus 1; 0: free."""
    block_arm: Any
    block_counts: Any
    """16 times the number of early pulls, plus that of late ones; 0 until the first is told."""
    block_early: Any
    block_late: Any
    coin_arm: Any
    coin_state: Any
    """1 + 2·(prediction in 100ths) + coin of a free choice whose outcome is not told; 0: none."""
    groups: Any
    """Per round and group: ΣD, the least and the most that missing D may add to it, and ΣD² at its worst."""
    blocks: Any
    """Per round: the logarithms of both signs and all bets, the number of early pulls, and that of late ones."""
    folded_pairs: Any
    folded_blocks: Any
    shares: Any
    """Room for adding up."""
    coins: Any
    """Logarithms of both signs and all stakes."""
    arms: Any
    """Per arm: how many rewards, and their sum, for predictions."""
    counts: Any
    peaks: Any
    """The largest evidence of each test so far."""
    frame: Any


AGENTS = Books._fields[:11]
"""The books that have a row an agent."""


def books(agents: int, arms: int, frame: NDArray[np.int64], paying: bool) -> Books:
    """Return empty books."""
    M, kept = agents, 2 * len(BETS) + 2
    tested = M if paying else 0
    return Books(
        zeros((M,), np.int32),
        zeros((M, SLOTS), np.int32), zeros((M, SLOTS), np.uint16), zeros((M, SLOTS), np.uint8),
        zeros((M, SLOTS), np.uint16), zeros((M, SLOTS), np.uint16), zeros((M, SLOTS), np.uint8),
        zeros((M, SLOTS), np.uint16), zeros((M, SLOTS), np.uint16),
        zeros((tested,), np.uint16), zeros((tested,), np.uint8),
        zeros((WINDOW, int(frame[GROUPS]), 4), np.int64), zeros((BLOCK_ROUNDS, kept), np.int64),
        zeros((len(RHOS),), np.int64), zeros((kept,), np.int64), zeros((kept,), np.int64),
        zeros((2 * len(STAKES),), np.int64),
        zeros((arms if paying else 0, 2), np.int64), zeros((16,), np.int64), np.ones(3), frame,
    )  # fmt: skip


@jit
def _log(factor: float) -> Any:
    """A logarithm in whole units, rounded down: evidence can only get smaller."""
    return np.int64(math.floor(math.log(factor) * ONE))


@jit_apart
def ask(b: Any, m: int, step: int) -> None:
    """Open a pair and a block for an agent who asks, if it has room for them and no pull of it is under way."""
    if b.asked[m] != 0:  # the same question again
        b.asked[m] = abs(b.asked[m])
        return
    b.asked[m] = step + 1
    b.counts[ASKS] += 1
    pair = _free(b.pair_place[m], b.counts[OLDEST_PAIRS] * b.frame[GROUPS])
    places = b.counts[PLACES]
    if pair >= 0 and places < b.frame[GROUP] * b.frame[GROUPS]:
        period, group = step // b.frame[PERIOD], places // b.frame[GROUP]
        b.counts[PLACES] += 1
        b.counts[PAIRS] += 1
        b.pair_place[m, pair] = period * b.frame[GROUPS] + group + 1
        b.pair_early[m, pair] = OPEN
        _missing(b.groups[period % WINDOW, group], 1, -FINE, FINE)
    _ask_blocks(b, m, step // b.frame[LENGTH])


@jit
def pass_over(b: Any, m: int) -> None:
    """See that an agent who asked made no pull: what was opened waits for its next ask, and no report answers it."""
    b.asked[m] = -abs(b.asked[m])


@jit
def _ask_blocks(b: Any, m: int, now: int) -> None:
    """A pull under way may be an early one of an open block, or the first of a new one: it stands at its worst."""
    row = b.blocks[now % BLOCK_ROUNDS]
    for i in range(SLOTS):
        early = np.int64(b.block_counts[m, i]) // 16
        if np.int64(b.block_round[m, i]) - 1 == now and early < BLOCK:
            first = np.int64(b.block_early[m, i])
            _book(row, -1, early, 0, first, first, 0)
            _book(row, 1, early + 1, 0, first, first + FINE, 0)
    block = _free(b.block_round[m], b.counts[OLDEST_BLOCKS])
    if block >= 0 and now < LAST_ROUND:
        b.block_round[m, block] = now + 1
        b.block_counts[m, block] = b.block_early[m, block] = b.block_late[m, block] = 0
        row[-2] += 1
        _book(row, 1, 1, 0, 0, FINE, 0)


@jit
def _free(slots: Any, oldest: int) -> int:
    """Return a slot that is free, or whose round is no longer kept; −1 if there is none."""
    for i in range(SLOTS):
        if slots[i] <= oldest:
            return i
    return -1


@jit
def _missing(group: Any, sign: int, low: Any, high: Any) -> None:
    """Enter a missing D between two numbers into a group, or take it out again."""
    group[1] += sign * low
    group[2] += sign * high
    group[3] += sign * max(low * low, high * high)


@jit
def _book(row: Any, sign: int, early: Any, late: Any, least: Any, most: Any, late_sum: Any) -> None:
    """Enter a block into its round, or take it out again: both signs, what is missing at its worst.

    ``least`` and ``most`` are what the early rewards may add up to.
    """
    rise, fall = late_sum - most, least - late_sum - (early - late) * FINE
    for i in range(BETS.shape[0]):
        row[i] += sign * LOGS[i, BLOCK * FINE + rise]
        row[BETS.shape[0] + i] += sign * LOGS[i, BLOCK * FINE + fall]


@jit_apart
def tell(b: Any, m: int, arm: int, reward: Any, step: int) -> None:
    """See one report, its reward in units of 2⁻³⁰: it counts for what was open at the ask that it answers."""
    b.counts[REPORTS] += 1
    if b.arms.shape[0] > 0:
        b.arms[arm, 0] += 1
        b.arms[arm, 1] += np.int64(reward)
        _outcome(b, m, arm, reward)
    if b.asked[m] <= 0:
        b.counts[UNASKED] += 1
        return
    asked = np.int64(b.asked[m]) - 1
    b.asked[m] = 0
    b.counts[IN_STEP] += asked == step
    b.counts[SLOWEST] = max(b.counts[SLOWEST], step - asked)
    x = np.int64(reward) * FINE // UNITS
    _tell_pairs(b, m, arm, x, asked, step)
    _tell_blocks(b, m, arm, x, asked, step)


@jit
def _tell_pairs(b: Any, m: int, arm: int, x: Any, asked: Any, step: int) -> None:
    """The first pull of a pair fixes its arm; the next one of that arm, asked for in a later period, is its second."""
    groups, period, oldest = b.frame[GROUPS], asked // b.frame[PERIOD], b.counts[OLDEST_PAIRS]
    opened, held = -1, False
    for i in range(SLOTS):
        place = np.int64(b.pair_place[m, i]) - 1
        if place < oldest * groups:
            continue
        if b.pair_early[m, i] == OPEN:
            opened = i
        elif b.pair_arm[m, i] == arm:
            held = True
            if period > place // groups:
                first = np.int64(b.pair_early[m, i])
                group = b.groups[place // groups % WINDOW, place % groups]
                _missing(group, -1, first - FINE, first)
                group[0] += first - x
                group[3] += (first - x) ** 2
                b.pair_place[m, i] = 0
                b.counts[PAIRED] += 1
    if opened < 0:
        return
    place = np.int64(b.pair_place[m, opened]) - 1
    if step // b.frame[PERIOD] > place // groups:  # what it chose may depend on later pulls: missing for ever
        b.pair_place[m, opened] = 0
        return
    group = b.groups[place // groups % WINDOW, place % groups]
    _missing(group, -1, -FINE, FINE)
    if held:  # this arm has a pair already: the place stays empty
        b.pair_place[m, opened] = 0
        b.counts[PAIRS] -= 1
        return
    b.pair_arm[m, opened], b.pair_early[m, opened] = arm, x
    _missing(group, 1, x - FINE, x)


@jit
def _tell_blocks(b: Any, m: int, arm: int, x: Any, asked: Any, step: int) -> None:
    """The first pull of a block fixes its arm; early ones follow in the same round, and later as many late ones."""
    length, now = b.frame[LENGTH], asked // b.frame[LENGTH]
    opened, held = -1, False
    for i in range(SLOTS):
        began = np.int64(b.block_round[m, i]) - 1
        if began < b.counts[OLDEST_BLOCKS]:
            continue
        early, late = np.int64(b.block_counts[m, i]) // 16, np.int64(b.block_counts[m, i]) % 16
        if early == 0:
            opened = i
            continue
        mine, row = b.block_arm[m, i] == arm, b.blocks[began % BLOCK_ROUNDS]
        first, second = np.int64(b.block_early[m, i]), np.int64(b.block_late[m, i])
        held = held or mine
        if now == began and early < BLOCK:
            if step // length > began:  # an early pull that was told too late: the block stays at its worst
                b.block_round[m, i] = 0
                continue
            _book(row, -1, early + 1, 0, first, first + FINE, 0)
            if mine:
                early, first = early + 1, first + x
                row[-2] += 1
        elif mine and late < early and asked >= (began + 1) * length + b.frame[GAP]:
            _book(row, -1, early, late, first, first, second)
            late, second = late + 1, second + x
            row[-1] += 1
        else:
            continue
        _book(row, 1, early, late, first, first, second)
        b.block_counts[m, i], b.block_early[m, i], b.block_late[m, i] = 16 * early + late, first, second
        if late == early:
            b.block_round[m, i] = 0
    if opened < 0:
        return
    began = np.int64(b.block_round[m, opened]) - 1
    if step // length > began:
        b.block_round[m, opened] = 0
        return
    row = b.blocks[began % BLOCK_ROUNDS]
    _book(row, -1, 1, 0, 0, FINE, 0)
    if held:
        b.block_round[m, opened] = 0
        row[-2] -= 1
        return
    b.block_arm[m, opened], b.block_counts[m, opened], b.block_early[m, opened] = arm, 16, x
    _book(row, 1, 1, 0, x, x, 0)


@jit_apart
def toss(b: Any, m: int, arm: int, coin: int) -> None:
    """Enter the coin of a free choice, its outcome at its worst until it is told."""
    pulls, q = b.arms[arm, 0], b.frame[COIN] / 1e6
    hundredths = 50 if pulls == 0 else int(b.arms[arm, 1] / (pulls * 1.0) * (100.0 / UNITS))
    b.coin_arm[m], b.coin_state[m] = arm, 1 + 2 * hundredths + coin
    b.counts[COINS] += 1
    b.counts[BONUSES] += coin
    weight = 1.0 / q if coin else -1.0 / (1.0 - q)
    for i in range(STAKES.shape[0]):
        bet = STAKES[i] * min(q, 1.0 - q) * weight
        b.coins[i] += _log(_worst(bet, hundredths))
        b.coins[STAKES.shape[0] + i] += _log(_worst(-bet, hundredths))
    _look_at_coins(b)


@jit
def _worst(bet: float, hundredths: Any) -> Any:
    """The least of 1 + bet·(x − x̂) over x in [0, 1]."""
    return 1.0 + min(bet * (0.0 - hundredths / 100.0), bet * (1.0 - hundredths / 100.0))


@jit
def _outcome(b: Any, m: int, arm: int, reward: Any) -> None:
    """Replace the worst by what the free choice brought, if it is the arm that was chosen."""
    state = np.int64(b.coin_state[m])
    b.coin_state[m] = 0
    if state == 0 or b.coin_arm[m] != arm:
        return
    b.counts[OUTCOMES] += 1
    hundredths, q = (state - 1) // 2, b.frame[COIN] / 1e6
    weight = 1.0 / q if (state - 1) % 2 else -1.0 / (1.0 - q)
    for i in range(STAKES.shape[0]):
        bet = STAKES[i] * min(q, 1.0 - q) * weight
        gain = bet * (np.int64(reward) / (1.0 * UNITS) - hundredths / 100.0)
        b.coins[i] += _log(1.0 + gain) - _log(_worst(bet, hundredths))
        b.coins[STAKES.shape[0] + i] += _log(1.0 - gain) - _log(_worst(-bet, hundredths))
    _look_at_coins(b)


@jit
def _look_at_coins(b: Any) -> None:
    """The evidence of the payment check: at any time, over all coins."""
    total = 0.0
    for i in range(b.coins.shape[0]):
        total += math.exp(min(b.coins[i] / ONE, 700.0))
    b.peaks[PAYMENT] = max(b.peaks[PAYMENT], total / b.coins.shape[0])


@jit_apart
def end_step(b: Any, step: int) -> None:
    """Look at every prefix of whole rounds, and begin a new round, if one has ended with this step (counted from 1)."""
    if step % b.frame[PERIOD] == 0:
        _look_at_pairs(b, step // b.frame[PERIOD])
    if step % b.frame[LENGTH] == 0:
        _look_at_blocks(b, step // b.frame[LENGTH])


@jit
def _look_at_pairs(b: Any, rounds: int) -> None:
    """The evidence for common shocks after each number of rounds, averaged over the bets; then make room."""
    oldest, size = b.counts[OLDEST_PAIRS], b.frame[GROUP] * float(FINE * FINE)
    for i in range(RHOS.shape[0]):  # the sums of logarithms go through a column of their own, for no array is made here
        b.shares[i] = b.folded_pairs[i]
    for r in range(oldest, rounds):
        total = 0.0
        for i in range(RHOS.shape[0]):
            for j in range(b.groups.shape[1]):
                b.shares[i] += _log(1.0 + RHOS[i] * (_excess(b.groups[r % WINDOW, j]) / size))
            total += math.exp(min(b.shares[i] / ONE, 700.0))
        b.peaks[SHOCK] = max(b.peaks[SHOCK], total / RHOS.shape[0])
    if rounds - oldest == WINDOW:
        for i in range(RHOS.shape[0]):
            for j in range(b.groups.shape[1]):
                b.folded_pairs[i] += _log(1.0 + RHOS[i] * (_excess(b.groups[oldest % WINDOW, j]) / size))
        b.counts[OLDEST_PAIRS] += 1
    b.groups[rounds % WINDOW] = 0
    b.counts[PLACES] = 0


@jit
def _excess(group: Any) -> float:
    """(ΣD)² − ΣD² at its worst, in units of FINE⁻²: (ΣD)² as small as what is missing can make it, ΣD² as large."""
    low, high = group[0] + group[1], group[0] + group[2]
    nearest = max(low, np.int64(0)) + min(high, np.int64(0))
    return float(nearest * nearest - group[3])


@jit
def _look_at_blocks(b: Any, rounds: int) -> None:
    """The evidence for drift after each number of rounds, averaged over signs and bets; then make room."""
    oldest, bets = b.counts[OLDEST_BLOCKS], 2 * BETS.shape[0]
    due = rounds - 2 - b.frame[GAP] // b.frame[LENGTH]  # late pulls have had a round of time for those before
    for i in range(b.blocks.shape[1]):
        b.shares[i] = b.folded_blocks[i]
    for r in range(oldest, rounds):
        total = 0.0
        for i in range(b.blocks.shape[1]):
            b.shares[i] += b.blocks[r % BLOCK_ROUNDS, i]
            total += math.exp(min(b.shares[i] / ONE, 700.0)) if i < bets else 0.0
        b.peaks[DRIFT] = max(b.peaks[DRIFT], total / bets)
        if r < due:
            b.counts[EARLY], b.counts[LATE] = b.shares[bets], b.shares[bets + 1]
    if rounds - oldest == BLOCK_ROUNDS:
        for i in range(b.blocks.shape[1]):
            b.folded_blocks[i] += b.blocks[oldest % BLOCK_ROUNDS, i]
        b.counts[OLDEST_BLOCKS] += 1
    b.blocks[rounds % BLOCK_ROUNDS] = 0


@jit_apart
def tell_many(b: Any, streams: Any, rewards: Any, step: int) -> None:
    """See reports and asks in their order; a stream is agent·K + arm, and a reward above UNITS is an ask, or none."""
    K = b.frame[ARMS]
    for i in range(streams.shape[0]):
        if rewards[i] == PASSED:
            pass_over(b, np.int64(streams[i]) // K)
        elif np.int64(rewards[i]) > UNITS:
            ask(b, np.int64(streams[i]) // K, step)
        else:
            tell(b, np.int64(streams[i]) // K, np.int64(streams[i]) % K, rewards[i], step)
