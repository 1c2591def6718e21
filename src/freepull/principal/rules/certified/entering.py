"""How samples come in: they fill the coming round, or wait for a later one.

A stream's samples are used, in the coming round, or waiting, and all of them are in the record. So how many it has in
the coming round, and their sum, need not be kept: they are what the record has beyond the used ones. Where samples
wait, the block is full, and its sum is noted before them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.principal.record import Words, enter
from freepull.principal.rules.certified.books import Counts, Floats
from freepull.principal.rules.certified.design import prediction
from freepull.principal.rules.certified.waiting import (
    OWING,
    Queues,
    drop,
    is_full,
    pop,
    push,
    put_sum,
    sum_before,
    take_sum,
)


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
