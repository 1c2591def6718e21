"""The book of comparisons: what has been opened, what has come, and what that proves (docs/comparisons.md).

A comparison's factor is a product of one function of each arm's sample, so that the evidence for an arm j above an arm
k is made of two sums, one of each arm alone. They are kept for blocks of consecutive comparisons, as whole numbers,
which makes them independent of the order in which samples come; reading up to the end of any block is a running sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import zeros

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.int32]
Shorts = NDArray[np.uint16]
Bytes = NDArray[np.uint8]

BETS = np.array([0.01, 0.02, 0.04, 0.08, 0.16, 0.4])
"""λ_i."""
SHARES = np.array([0.25, 0.25, 0.5, 12.0, 8.0, 4.0]) / 25.0
"""π_i."""
LOG_SHARES = np.log(SHARES)
BLOCKS = 128
"""Blocks in the book; when it is full, neighbours are put together."""
EDITIONS = 64
"""The most that there can be of predictions, which are made anew whenever samples have grown by a third."""
PLANNED = 0.05
"""The gap that offers are planned for; a wrong one costs money or time, never validity."""
LOOKS = 64
"""A look waits until a part of all that was opened, one in so many, is news."""
FINE = 1 << 36
"""The number 1 in sums of logarithms: 10⁸ comparisons then fit, and rounding down loses 0.002 at most."""
WHOLE = 1 << 30
"""The number 1 in weights and rewards."""
OPENED, WIDTH, NEWS, EDITION, SAMPLES, EXPECTED, READ, READERS, MASS, GUESSES, HITS, BLIND, GRADED = range(13)
"""Columns of ``counts``: comparisons opened, comparisons in a block, what came since the last look, the edition of
predictions, samples in all, how many make the next edition; of what the last look has read: the comparisons, the
agents they are of, their Σ w; guesses of what agents will pull, how many were right, and 1 if they are not believed;
samples that were neither 0 nor 1."""
OUT, IN, GOING, WITHDRAWN = range(4)
"""What ``active`` says of an arm; those that go in one look are rivals in it."""
MOST = 10**8
"""Comparisons that may be opened: sums of logarithms cannot overflow then."""
LOW, HIGH, HEADS, TAILS = range(4)
"""What ``logs`` has: ``plus`` and ``minus`` of what is missing, ``plus`` of a reward of 1, ``minus`` of one of 0."""
NONE = -1
UNCOUNTED = 255
"""So many pulls under way are no longer counted: nothing is opened for that agent any more."""


class Book(NamedTuple):
    """Everything that changes. The first axis is the run, or the run's agents one after the other."""

    plus: Ints
    """Σ log a(X; λ_i·w), what is missing at 0, by block, arm and bet."""
    minus: Ints
    """Σ log a(X; −λ_i·w), what is missing at 1."""
    sums: Ints
    """Σ w·X of the samples that are there, by block and arm."""
    came: Ints
    """Σ w of the samples that are there, by block and arm."""
    mass: Ints
    """Σ w of the comparisons opened, by block."""
    newcomers: Ints
    """How many agents had their first comparison in a block."""
    counts: Ints
    place: Words
    """The number of an agent's open comparison, in the order of opening; −1 if none is open."""
    edition: Shorts
    """The edition of the predictions of that comparison."""
    lacks: Bytes
    """1 where that comparison still lacks its sample of an arm, by agent and arm."""
    owed: Bytes
    """How often the agent has asked without being told of: pulls that may be under way; `UNCOUNTED` for ever."""
    openings: Words
    """How many comparisons an agent has had."""
    guessed: Shorts
    """What it was expected to pull when it asked last."""
    wasted: Bytes
    """1 if its last pull was of nothing that its comparison lacked."""
    predictions: Floats
    """x̂_k by edition."""
    logs: Ints
    """log a of what is missing and of coins, by edition and arm, for w = 1."""
    running: Ints
    """Sums over the blocks that a look has read: ``plus`` and ``minus`` by arm and bet."""
    evidence: Floats
    """log E_jk at the last look; of an arm that is out, when it went."""
    active: Bytes
    """Whether an arm is still in."""
    fell: Ints
    """Of every arm that went: to which arm, after how many comparisons, of how many agents; −1 for the others."""
    margins: Floats
    """By how much it is worse than that arm, at least and at most, over these comparisons."""
    under_way: Shorts
    """How many pulls an agent has made whose outcomes are to come, by arm; no rows before the first such pull."""
    barred: Bytes
    """1 where an arm is unavailable to an agent, by agent and arm; no rows before the first is."""
    hope: Floats
    """At the last look: the least that the leader had against a rival, log E with ε granted; how many samples the two
    have, of whom there are fewer; how many would be enough at the planned gap."""


class Constants(NamedTuple):
    """What is fixed before the first pull."""

    weights: Ints
    """w_m in units of 2⁻³⁰, 1 for the heaviest agent; 0: no comparison is opened for it."""
    threshold: float
    """log θ."""
    epsilon: float
    cap: int
    """The most comparisons that an agent may have."""
    late: bool
    """Whether an agent may ask again before its last pull is told."""
    horizon: int
    """0 where there is none."""


def fresh(runs: int, agents: int, arms: int) -> Book:
    """Return an empty book; a million agents and four arms take 40 MB."""
    book = Book(
        plus=zeros((runs, BLOCKS, arms, len(BETS)), np.int64),
        minus=zeros((runs, BLOCKS, arms, len(BETS)), np.int64),
        sums=zeros((runs, BLOCKS, arms), np.int64),
        came=zeros((runs, BLOCKS, arms), np.int64),
        mass=zeros((runs, BLOCKS), np.int64),
        newcomers=zeros((runs, BLOCKS), np.int64),
        counts=zeros((runs, 13), np.int64),
        place=np.full(runs * agents, NONE, np.int32),
        edition=zeros((runs * agents,), np.uint16),
        lacks=zeros((runs * agents, arms), np.uint8),
        owed=zeros((runs * agents,), np.uint8),
        openings=zeros((runs * agents,), np.int32),
        guessed=zeros((runs * agents,), np.uint16),
        wasted=zeros((runs * agents,), np.uint8),
        predictions=zeros((runs, EDITIONS, arms), np.float64),
        logs=zeros((runs, EDITIONS, arms, 4, len(BETS)), np.int64),
        running=zeros((runs, 2, arms, len(BETS)), np.int64),
        evidence=np.full((runs, arms, arms), -np.inf),
        active=np.ones((runs, arms), np.uint8),
        fell=np.full((runs, arms, 3), NONE),
        margins=zeros((runs, arms, 2), np.float64),
        under_way=zeros((0, arms), np.uint16),
        barred=zeros((0, arms), np.uint8),
        hope=zeros((runs, 3), np.float64),
    )
    book.counts[:, WIDTH] = book.counts[:, EXPECTED] = 1
    for run in range(runs):
        for k in range(arms):
            predict(book, run, 0, k, 0.5)
    return book


@jit
def log_factor(x: float, v: float, prediction: float) -> Any:
    """log a(X; v, x̂) = v·x̂ + log(1 + v·(X − x̂)), rounded down to a multiple of 2⁻³⁶ (docs/comparisons.md, tangent)."""
    return np.int64(math.floor((v * prediction + math.log1p(v * (x - prediction))) * float(FINE)))


@jit
def predict(book: Any, run: int, edition: int, k: int, prediction: float) -> None:
    """Write down x̂_k of an edition, with what it makes of missing samples and of coins."""
    book.predictions[run, edition, k] = prediction
    for i in range(BETS.shape[0]):
        logs, bet = book.logs[run, edition, k], BETS[i]
        logs[LOW, i], logs[HIGH, i] = log_factor(0.0, bet, prediction), log_factor(1.0, -bet, prediction)
        logs[HEADS, i], logs[TAILS, i] = log_factor(1.0, bet, prediction), log_factor(0.0, -bet, prediction)


@jit
def open_comparison(book: Any, constants: Any, run: int, m: int, seat: int) -> None:
    """Open a comparison of all active arms for agent m, all of it missing and so at its worst."""
    counts = book.counts
    if counts[run, OPENED] == BLOCKS * counts[run, WIDTH]:
        put_together(book, run)
    c, edition, w = counts[run, OPENED], counts[run, EDITION], constants.weights[m]
    block = c // counts[run, WIDTH]
    counts[run, OPENED] += 1
    counts[run, NEWS] += 1
    book.newcomers[run, block] += book.openings[seat] == 0
    book.openings[seat] += 1
    book.place[seat], book.edition[seat], book.wasted[seat] = c, edition, 0
    book.mass[run, block] += w
    for k in range(book.lacks.shape[1]):
        book.lacks[seat, k] = np.uint8(book.active[run, k] == IN)
        if book.active[run, k] == IN:
            for i in range(BETS.shape[0]):
                low, high = worst(book, run, edition, k, i, w)
                book.plus[run, block, k, i] += low
                book.minus[run, block, k, i] += high


@jit
def worst(book: Any, run: int, edition: Any, k: int, i: int, w: Any) -> Any:
    """The two logarithms of a sample that is missing."""
    if w == WHOLE:
        return book.logs[run, edition, k, LOW, i], book.logs[run, edition, k, HIGH, i]
    v, prediction = BETS[i] * (float(w) / float(WHOLE)), book.predictions[run, edition, k]
    return log_factor(0.0, v, prediction), log_factor(1.0, -v, prediction)


@jit
def put_together(book: Any, run: int) -> None:
    """Make one block of every two."""
    book.counts[run, WIDTH] *= 2
    for to in range(BLOCKS):
        first, second = 2 * to, 2 * to + 1
        whole = second < BLOCKS
        book.mass[run, to] = book.mass[run, first] + book.mass[run, second] if whole else 0
        book.newcomers[run, to] = book.newcomers[run, first] + book.newcomers[run, second] if whole else 0
        for k in range(book.lacks.shape[1]):
            book.sums[run, to, k] = book.sums[run, first, k] + book.sums[run, second, k] if whole else 0
            book.came[run, to, k] = book.came[run, first, k] + book.came[run, second, k] if whole else 0
            for i in range(BETS.shape[0]):
                book.plus[run, to, k, i] = book.plus[run, first, k, i] + book.plus[run, second, k, i] if whole else 0
                book.minus[run, to, k, i] = book.minus[run, first, k, i] + book.minus[run, second, k, i] if whole else 0


@jit
def fill(book: Any, constants: Any, run: int, m: Any, seat: Any, k: Any, reward: Any) -> None:
    """Count a pull, its reward in units of 2⁻³⁰, as the sample that the agent's open comparison lacks, if it does."""
    if designate(book, constants, run, seat, k):
        settle(book, constants, run, m, np.int64(book.place[seat]), np.int64(book.edition[seat]), k, reward)


@jit
def designate(book: Any, constants: Any, run: int, seat: Any, k: Any) -> bool:
    """Note that an agent pulls an arm; say whether that is the sample which its open comparison lacked until now."""
    own, owed = book.guessed[seat], book.owed[seat]
    if owed == 0:  # nobody asked for it
        return False
    if owed < UNCOUNTED:
        book.owed[seat] = owed - 1 if constants.late else 0
    if book.place[seat] == NONE or (book.wasted[seat] == 0 and book.lacks[seat, own] == 1):
        book.counts[run, GUESSES] += 1  # nothing was offered, so the guess is put to the test
        book.counts[run, HITS] += own == k
    if book.place[seat] == NONE:
        return False
    book.wasted[seat] = 1 - book.lacks[seat, k]
    if book.lacks[seat, k] == 0:
        return False
    book.lacks[seat, k] = 0
    return True


@jit
def settle(book: Any, constants: Any, run: int, m: Any, place: Any, edition: Any, k: Any, reward: Any) -> None:
    """Put a sample, its reward in units of 2⁻³⁰, where it was missing: in a comparison, by an edition's predictions."""
    w, block = constants.weights[m], place // book.counts[run, WIDTH]
    logs = book.logs[run, edition, k]
    for i in range(BETS.shape[0]):
        low, high = worst(book, run, edition, k, i, w)
        if w == WHOLE and (reward == 0 or reward == WHOLE):
            if reward == 0:
                book.minus[run, block, k, i] += logs[TAILS, i] - high
            else:
                book.plus[run, block, k, i] += logs[HEADS, i] - low
        else:
            v, x = BETS[i] * (float(w) / float(WHOLE)), float(reward) / float(WHOLE)
            prediction = book.predictions[run, edition, k]
            book.plus[run, block, k, i] += log_factor(x, v, prediction) - low
            book.minus[run, block, k, i] += log_factor(x, -v, prediction) - high
    book.sums[run, block, k] += np.int64(float(reward) / float(WHOLE) * float(w))
    book.came[run, block, k] += w
    book.counts[run, GRADED] += reward > 0 and reward < WHOLE
    book.counts[run, NEWS] += 1
    book.counts[run, SAMPLES] += 1


@jit
def renew_predictions(book: Any, run: int) -> None:
    """Begin a new edition of predictions when samples have grown by a third: every arm's mean, with half a one of ½."""
    counts = book.counts
    if counts[run, SAMPLES] < counts[run, EXPECTED] or counts[run, EDITION] == EDITIONS - 1:
        return
    counts[run, EXPECTED] = counts[run, SAMPLES] + counts[run, SAMPLES] // 3 + 1
    counts[run, EDITION] += 1
    for k in range(book.lacks.shape[1]):
        total, came = total_of(book, run, k)
        half = float(WHOLE) / 2.0
        predict(book, run, counts[run, EDITION], k, (total + half / 2.0) / (came + half))


@jit
def total_of(book: Any, run: int, k: int) -> Any:
    """Σ w·X and Σ w of an arm's samples, in units of 2⁻³⁰."""
    total, came = 0.0, 0.0
    for block in range(BLOCKS):
        total += float(book.sums[run, block, k])
        came += float(book.came[run, block, k])
    return total, came


@jit
def is_due(book: Any, run: int) -> bool:
    """Whether enough is news for another look."""
    return bool(book.counts[run, NEWS] > 0 and book.counts[run, NEWS] * LOOKS >= book.counts[run, OPENED])


@jit
def look(book: Any, constants: Any, run: int) -> int:
    """Read one prefix of the comparisons, let arms go; return the arm that is best up to ε, −1 if none is proven."""
    book.counts[run, NEWS] = 0
    leader = leading(book, run)
    read(book, run, best_prefix(book, constants, run, leader))
    active, K = book.active[run], book.lacks.shape[1]
    for k in range(K):
        if active[k] == IN:
            for j in range(K):
                rival = j != k and active[j] == IN
                book.evidence[run, j, k] = log_evidence(book, run, j, k, 0.0) if rival else -math.inf
    for k in range(K):
        if active[k] == IN:
            j = strongest(book, run, k)
            if book.evidence[run, j, k] >= constants.threshold:
                active[k] = GOING
                book.fell[run, k, 0], book.margins[run, k, 0] = j, lower_bound(book, constants, run, j, k)
                book.margins[run, k, 1] = -lower_bound(book, constants, run, k, j)
                book.fell[run, k, 1], book.fell[run, k, 2] = book.counts[run, READ], book.counts[run, READERS]
    for k in range(K):
        active[k] = OUT if active[k] == GOING else active[k]
    leader = leading(book, run)
    forecast(book, constants, run, leader)
    if constants.epsilon > 0.0:
        for arm in range(-1, K):
            found = leader if arm < 0 else arm
            if active[found] == IN and least(book, constants, run, found) >= constants.threshold:
                return found
    return NONE


@jit
def forecast(book: Any, constants: Any, run: int, leader: int) -> None:
    """Note how far the leader is from its nearest rival, in evidence and in samples (docs/comparisons.md)."""
    hope, rival = math.inf, leader
    for k in range(book.lacks.shape[1]):
        if k != leader and book.active[run, k] == IN:
            log = log_evidence(book, run, leader, k, -constants.epsilon)
            if log < hope:
                hope, rival = log, k
    spread, fewest = 0.0, math.inf
    for k in (leader, rival):
        total, came = total_of(book, run, k)
        mean = total / came if came > 0.0 else 0.5
        spread += mean * (1.0 - mean)
        fewest = min(fewest, came / float(WHOLE))
    gap = PLANNED + constants.epsilon
    book.hope[run, 0], book.hope[run, 1] = hope, fewest
    book.hope[run, 2] = 2.0 * 2.0 * spread * (constants.threshold + 1.0) / (gap * gap)


@jit
def strongest(book: Any, run: int, k: int) -> int:
    """The arm that has most evidence for itself above arm k; ties: the lowest."""
    found = 0
    for j in range(book.lacks.shape[1]):
        if book.evidence[run, j, k] > book.evidence[run, found, k]:
            found = j
    return found


@jit
def least(book: Any, constants: Any, run: int, j: int) -> float:
    """The least that arm j has against another active arm: log E_jk(n; −ε)."""
    found = math.inf
    for k in range(book.lacks.shape[1]):
        if k != j and book.active[run, k] == IN:
            found = min(found, log_evidence(book, run, j, k, -constants.epsilon))
    return found


@jit
def leading(book: Any, run: int) -> int:
    """The active arm whose samples have the largest mean; ties: the lowest."""
    best, leader = -1.0, NONE
    for k in range(book.lacks.shape[1]):
        if book.active[run, k] == IN:
            total, came = total_of(book, run, k)
            mean = total / came if came > 0.0 else 0.0
            if mean > best:
                best, leader = mean, k
    return leader


@jit
def best_prefix(book: Any, constants: Any, run: int, leader: int) -> int:
    """After how many blocks the leader has most against its rivals, each counted up to θ, with ε granted."""
    for sign in range(2):
        book.running[run, sign, :, :] = 0
    blocks = (book.counts[run, OPENED] - 1) // book.counts[run, WIDTH] + 1
    best, found, mass = -math.inf, 1, 0.0
    for block in range(blocks):
        mass += float(book.mass[run, block])
        score = 0.0
        for i in range(BETS.shape[0]):
            book.running[run, 0, leader, i] += book.plus[run, block, leader, i]
        for k in range(book.lacks.shape[1]):
            if k != leader and book.active[run, k] == IN:
                most = -math.inf
                for i in range(BETS.shape[0]):
                    book.running[run, 1, k, i] += book.minus[run, block, k, i]
                    log = float(book.running[run, 0, leader, i] + book.running[run, 1, k, i]) / float(FINE)
                    most = max(most, log + LOG_SHARES[i] + BETS[i] * constants.epsilon * (mass / float(WHOLE)))
                score += min(most, constants.threshold)
        if score > best:
            best, found = score, block + 1
    return found


@jit
def read(book: Any, run: int, blocks: int) -> None:
    """Add up the first blocks."""
    counts, people, mass = book.counts, np.int64(0), np.int64(0)
    for block in range(blocks):
        people += book.newcomers[run, block]
        mass += book.mass[run, block]
    counts[run, READ] = min(blocks * counts[run, WIDTH], counts[run, OPENED])
    counts[run, READERS], counts[run, MASS] = people, mass
    for k in range(book.lacks.shape[1]):
        for i in range(BETS.shape[0]):
            plus, minus = np.int64(0), np.int64(0)
            for block in range(blocks):
                plus += book.plus[run, block, k, i]
                minus += book.minus[run, block, k, i]
            book.running[run, 0, k, i], book.running[run, 1, k, i] = plus, minus


@jit
def log_evidence(book: Any, run: int, j: int, k: int, margin: float) -> float:
    """log E_jk(n; x) of what was read."""
    most = -math.inf
    for i in range(BETS.shape[0]):
        most = max(most, _log_account(book, run, j, k, i, margin))
    total = 0.0
    for i in range(BETS.shape[0]):
        total += math.exp(_log_account(book, run, j, k, i, margin) - most)
    return most + math.log(total)


@jit
def _log_account(book: Any, run: int, j: int, k: int, i: int, margin: float) -> float:
    log = float(book.running[run, 0, j, i] + book.running[run, 1, k, i]) / float(FINE)
    return float(log + LOG_SHARES[i] - BETS[i] * margin * (float(book.counts[run, MASS]) / float(WHOLE)))


@jit
def lower_bound(book: Any, constants: Any, run: int, j: int, k: int) -> float:
    """The largest x with E_jk(n; x) ≥ θ over what was read, rounded down to 10⁻⁵: j is better than k by more."""
    low, high = -1.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2.0
        if log_evidence(book, run, j, k, middle) >= constants.threshold:
            low = middle
        else:
            high = middle
    return low


def tipping_point(book: Book, constants: Constants, run: int, named: int) -> float | None:
    """γ* of a decided trial: half of the smallest margin that is proven (docs/comparisons.md, comparisons_tipping).

    Known for rewards of 0 and 1 only.
    """
    if book.counts[run, GRADED] > 0:
        return None
    fallen = np.flatnonzero(book.fell[run, :, 0] != NONE).tolist()
    others = [k for k in np.flatnonzero(book.active[run] == IN).tolist() if k != named]
    margins = [float(book.margins[run, k, 0]) for k in fallen]
    margins += [lower_bound(book, constants, run, named, k) + constants.epsilon for k in others]
    return max(0.0, min(margins) / 2) if margins else None
