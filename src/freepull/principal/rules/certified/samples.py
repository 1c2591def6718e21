"""Samples on their way into the books: waiting in queues, and entering by rounds."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import zeros
from freepull.principal.record import Words, enter
from freepull.principal.rules.certified.books import Counts, Floats
from freepull.principal.rules.certified.design import prediction

Ints = NDArray[np.int64]
OWING, FREE, TOP = range(3)
"""Entries of ``Queues.tally``: streams that owe something to the coming round, the first node that was given back, and
the first that was never used."""
RESERVE = 3
"""Nodes that one sample may take: its own, and two for the sum before it."""
LEAST, MOST = 1 << 10, 1 << 20
"""Nodes that are added at once: an eighth of what there is, within these limits."""
MARK, DIGIT = 1 << 31, (1 << 31) - 1
"""Of a word that is part of a sum: its mark, and its 31 bits. A reward is at most 2³⁰, so it has no mark."""


class Queues(NamedTuple):
    """What compiled functions see."""

    tails: Words
    """The last node of every stream's queue, by arm and agent."""
    words: Words
    """Rewards in units of 2⁻³⁰, or parts of a sum."""
    links: Words
    tally: Ints


class Waiting:
    """The pool, which grows in place: a large array of this kind is moved by the system, not copied."""

    def __init__(self, arms: int, agents: int) -> None:
        self.tails: Words = zeros((arms, agents), np.uint32)
        self._empty()

    def _empty(self) -> None:
        self.tally: Ints = np.array([0, 0, 1], np.int64)
        self.words, self.links = array("I", bytes(4 * LEAST)), array("I", bytes(4 * LEAST))
        self._queues: Queues | None = None

    def end(self) -> None:
        """Let everything go, for good: the new tails take no memory as long as nobody writes to them."""
        self.tails = np.zeros_like(self.tails)
        self._empty()

    @property
    def queues(self) -> Queues:
        """The pool as it is now; take it anew after it has grown, and let go of the old one before."""
        if self._queues is None:
            words, links = np.frombuffer(self.words, np.uint32), np.frombuffer(self.links, np.uint32)
            self._queues = Queues(self.tails, words, links, self.tally)
        return self._queues

    def make_room(self) -> None:
        """Add nodes if few are left."""
        if self.tally[TOP] + RESERVE <= len(self.links):
            return
        self._queues = None
        more = bytes(4 * min(max(LEAST, len(self.links) // 8), MOST))
        self.words.frombytes(more)
        self.links.frombytes(more)

    def restore(self, tails: Words, words: Words, links: Words, tally: Ints) -> None:
        """Go on from queues that were saved."""
        self.words, self.links = array("I", words.tobytes()), array("I", links.tobytes())
        self._queues = None
        np.copyto(self.tails, tails)
        np.copyto(self.tally, tally)

    def streams(self) -> dict[tuple[int, int], array[int]]:
        """Return what waits by arm and agent, in its order."""
        found = {}
        for k, m in np.argwhere(self.tails).tolist():
            tail, words = int(self.tails[k, m]), array("I")
            node = 0
            while node != tail:
                node = self.links[node or tail]
                if self.words[node] < MARK:
                    words.append(self.words[node])
            found[k, m] = words
        return found


@jit
def is_full(queues: Any) -> Any:
    """Whether the next sample might find no node."""
    return queues.tally[TOP] + RESERVE > queues.links.shape[0]


@jit
def _node(queues: Any, word: Any) -> Any:
    """Take a node for a word."""
    node = queues.tally[FREE]
    if node > 0:
        queues.tally[FREE] = np.int64(queues.links[node])
    else:
        node = queues.tally[TOP]
        queues.tally[TOP] += 1
    queues.words[node] = word
    return node


@jit
def push(queues: Any, k: int, m: int, word: Any) -> None:
    """Put a word behind all others of its stream."""
    node, tail = _node(queues, word), np.int64(queues.tails[k, m])
    if tail == 0:
        queues.links[node] = node
    else:
        queues.links[node], queues.links[tail] = queues.links[tail], node
    queues.tails[k, m] = node


@jit
def _push_first(queues: Any, k: int, m: int, word: Any) -> None:
    """Put a word before all others of its stream."""
    tail = np.int64(queues.tails[k, m])
    push(queues, k, m, word)
    if tail > 0:
        queues.tails[k, m] = tail


@jit
def pop(queues: Any, k: int, m: int) -> Any:
    """Take a stream's first word; there must be one."""
    tail = np.int64(queues.tails[k, m])
    head = np.int64(queues.links[tail])
    if head == tail:
        queues.tails[k, m] = 0
    else:
        queues.links[tail] = queues.links[head]
    queues.links[head] = queues.tally[FREE]
    queues.tally[FREE] = head
    return np.int64(queues.words[head])


@jit
def drop(queues: Any, k: int, m: int) -> None:
    """Let a whole queue go; there must be one."""
    tail = np.int64(queues.tails[k, m])
    head = np.int64(queues.links[tail])
    queues.links[tail] = queues.tally[FREE]
    queues.tally[FREE] = head
    queues.tails[k, m] = 0


@jit
def put_sum(queues: Any, k: int, m: int, total: Any) -> None:
    """Put the sum of a full block, below 2⁶², before all samples of its stream."""
    if total > DIGIT:
        _push_first(queues, k, m, MARK | (total >> 31))
    _push_first(queues, k, m, MARK | (total & DIGIT))


@jit
def sum_before(queues: Any, k: int, m: int) -> Any:
    """The sum of the full block of a stream whose samples wait."""
    head = np.int64(queues.links[queues.tails[k, m]])
    second = np.int64(queues.links[head])
    total = np.int64(queues.words[head]) & DIGIT
    if queues.words[second] >= MARK and second != head:
        total |= (np.int64(queues.words[second]) & DIGIT) << 31
    return total


@jit
def take_sum(queues: Any, k: int, m: int) -> None:
    """Take the sum away that stands before the samples of a stream."""
    while queues.tails[k, m] > 0 and queues.words[queues.links[queues.tails[k, m]]] >= MARK:
        pop(queues, k, m)


class Stage(NamedTuple):
    """What a sample meets when it comes in; `prediction` reads the first three as it reads `Used`."""

    pulls: Counts
    sums: Floats
    arms: Floats
    blocks: Counts
    errors: Floats
    """Σ(X − x̂)² of the block that is being filled, by arm and agent."""
    queues: Queues
    recorded: Words
    """N_km of the record, by agent and arm."""
    totals: NDArray[np.int64]
    """S_km of the record."""


@jit
def take(stage: Any, changes: Any, streams: Any, rewards: Any) -> int:
    """Enter pulls into the record and see them, in their order, until the pool is full; return how many."""
    K = stage.recorded.shape[1]
    for i in range(streams.shape[0]):
        if is_full(stage.queues):
            return i
        m, k = streams[i] // K, streams[i] % K
        enter(stage.recorded, stage.totals, changes, m, k, rewards[i])
        see(stage, m, k, rewards[i])
    return len(streams)


@jit
def see(stage: Any, m: int, k: int, reward: Any) -> None:
    """Put a sample that is in the record already into the coming round, or let it wait; the pool must not be full."""
    block = np.int64(stage.blocks[k, m])
    if block == 0:
        return
    before = np.int64(stage.recorded[m, k]) - 1 - np.int64(stage.pulls[k, m])
    if before < block:
        _put(stage, k, m, reward)
        if before + 1 == block:
            stage.queues.tally[OWING] -= 1
        return
    if stage.queues.tails[k, m] == 0:
        put_sum(stage.queues, k, m, stage.totals[m, k] - np.int64(reward) - _used_sum(stage, k, m))
    push(stage.queues, k, m, reward)


@jit
def _put(stage: Any, k: int, m: int, reward: Any) -> None:
    """Add a sample's squared error to those of its block."""
    error = float(reward) * 2.0**-30 - prediction(stage, k, m)
    stage.errors[k, m] += error * error


@jit
def _used_sum(stage: Any, k: int, m: int) -> Any:
    """The sum of the used samples in units of 2⁻³⁰, exact as long as there are fewer than 2²³."""
    return np.int64(stage.sums[k, m] * 2.0**30)


@jit
def fill_sums(sums: Any, stage: Any, tile: Any) -> None:
    """Write down the sums of full blocks, for a tile of streams (first arm, last, first agent, last)."""
    for k in range(tile[0], tile[1]):
        for m in range(tile[2], tile[3]):
            total = np.int64(0)
            if stage.queues.tails[k, m] > 0:
                total = sum_before(stage.queues, k, m)
            elif stage.blocks[k, m] > 0:
                total = stage.totals[m, k] - _used_sum(stage, k, m)
            sums[k - tile[0], m - tile[2]] = float(total) * 2.0**-30


@jit
def fill_owed(owed: Any, blocks: Any, recorded: Any, used: Any) -> None:
    """Write down what streams owe to the coming round, by agent and arm."""
    for m in range(owed.shape[0]):
        for k in range(owed.shape[1]):
            block, have = np.int64(blocks[k, m]), np.int64(recorded[m, k]) - np.int64(used[k, m])
            if have < block:
                owed[m, k] = block - have


@jit
def fill_most_owed(
    most: Any, arms: Any, blocks: Any, recorded: Any, used: Any, payable: Any, first: int, last: int
) -> None:
    """Write down how much payable agents owe of the arm they owe most of, and that arm (the lowest), or −1."""
    for m in range(first, last):
        most[m], arms[m] = 0, -1
        if payable[m]:
            for k in range(recorded.shape[1]):
                owed = np.int64(blocks[k, m]) - (np.int64(recorded[m, k]) - np.int64(used[k, m]))
                if owed > most[m]:
                    most[m], arms[m] = owed, k


@jit
def refill(stage: Any, tile: Any) -> None:
    """Begin the blocks of a tile of streams with what has waited for them, and count those that owe more."""
    queues = stage.queues
    for k in range(tile[0], tile[1]):
        for m in range(tile[2], tile[3]):
            stage.errors[k, m] = 0.0
            block, have, total = np.int64(stage.blocks[k, m]), 0, np.int64(0)
            if queues.tails[k, m] > 0:
                if block == 0:
                    drop(queues, k, m)
                    continue
                take_sum(queues, k, m)
                while have < block and queues.tails[k, m] > 0:
                    reward = pop(queues, k, m)
                    _put(stage, k, m, reward)
                    have, total = have + 1, total + reward
                if queues.tails[k, m] > 0:
                    put_sum(queues, k, m, total)
            if have < block:
                queues.tally[OWING] += 1
