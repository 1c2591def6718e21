"""How samples come in: they fill the coming round, or wait for a later one.

A stream's samples are used, in the coming round, or waiting, and all of them are in the record. So how many it has in
the coming round need not be kept: it is what the record has beyond the used ones, up to its block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.numerics import jit
from freepull.principal.record import enter
from freepull.principal.rules.certified.books import Counts, Fill, Floats
from freepull.principal.rules.certified.design import prediction
from freepull.principal.rules.certified.waiting import OWING, Queues, drop, is_full, pop, push


class Stage(NamedTuple):
    """What a sample meets when it comes in; `prediction` reads the first three as it reads `Used`."""

    pulls: Counts
    sums: Floats
    arms: Floats
    blocks: Counts
    fill: Fill
    queues: Queues


@jit
def take(pulls: Any, sums: Any, changes: Any, stage: Any, streams: Any, rewards: Any) -> int:
    """Enter pulls into the record and see them, in their order, until the pool is full; return how many."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        if is_full(stage.queues):
            return i
        m, k = streams[i] // K, streams[i] % K
        enter(pulls, sums, changes, m, k, rewards[i])
        see(pulls, stage, m, k, rewards[i])
    return len(streams)


@jit
def see(pulls: Any, stage: Any, m: int, k: int, reward: Any) -> None:
    """Put a sample that is in the record already into the coming round, or let it wait; there must be a free node."""
    block = np.int64(stage.blocks[k, m])
    if block == 0:
        return
    before = np.int64(pulls[m, k]) - 1 - np.int64(stage.pulls[k, m])
    if before < block:
        put(stage, stage.fill, k, m, reward)
        if before + 1 == block:
            stage.queues.tally[OWING] -= 1
    else:
        push(stage.queues, k, m, reward)


@jit
def put(used: Any, fill: Any, k: int, m: int, reward: Any) -> None:
    """Add a sample to its block: the sum, and Σ(X − x̂)²."""
    x = float(reward) * 2.0**-30
    error = x - prediction(used, k, m)
    fill.sums[k, m] += x
    fill.errors[k, m] += error * error


@jit
def refill(stage: Any, first: int, last: int) -> None:
    """Begin the blocks of a range of streams k·M + m with what has waited for them, and count those that owe more."""
    M, fill, queues = stage.pulls.shape[1], stage.fill, stage.queues
    for k in range(first // M, (last + M - 1) // M):
        for m in range(max(first - k * M, 0), min(last - k * M, M)):
            fill.sums[k, m], fill.errors[k, m] = 0.0, 0.0
            block, have = np.int64(stage.blocks[k, m]), 0
            if block == 0:
                if queues.tails[k, m] > 0:
                    drop(queues, k, m)
                continue
            while have < block and queues.tails[k, m] > 0:
                put(stage, fill, k, m, pop(queues, k, m))
                have += 1
            if have < block:
                queues.tally[OWING] += 1
