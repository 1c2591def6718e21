"""The rounds of the pairwise rule in a kernel: streams run ahead, a round is closed when the last agent is there.

A stream's later blocks need no counting before that: the samples of a block are drawn again when its round is closed,
and only then is the next block sized, which its own samples alone decide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules.pairwise.blocks import block_size, prediction
from freepull.principal.rules.pairwise.books import Books, Constants, complete, enter
from freepull.principal.rules.pairwise.evidence import compare, eliminate, nearly_best
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import freeze, global_means
from freepull.simulation.compiled.picking import pulls_at
from freepull.simulation.compiled.pulling import reward_at
from freepull.simulation.compiled.state import (
    ACTIVE,
    DECIDED_AT,
    DECLARED,
    LANE,
    OPEN,
    PLACE,
    REWARDS,
    Floats,
    Ints,
)

_W = np.uint64(WIDTH)


class Rounds(NamedTuple):
    """What the rule keeps of all runs of a block."""

    books: Books
    constants: Constants
    before: Ints
    """Samples of each stream (run, arm, agent) before its arm's open round."""
    sums: Ints
    """Their sum, in units of 2⁻³⁰."""
    blocks: Ints
    """b of the open round."""
    targets: Ints
    """N at which a stream has given its block of the open round, by position; 0 for agents without weight."""
    goals: Ints
    """The same where the stream is wanted, 0 elsewhere."""
    owing: Ints
    """Streams that owe something to the open round, by run and arm; the last K are for lanes that nobody plays."""
    run_of: Ints
    """The first entry of a lane's run in ``owing``."""
    most: Ints
    """Per seat, the arm that it owes most of and how much; arm −1 if that has to be found anew."""
    estimates: Floats
    """Rows of numbers by arm: means, spreads, pulls needed."""
    p: Floats
    """p_m."""
    smallest: float
    """The smallest gap that an estimate may have."""
    weighted: bool


@jit
def books_of(own: Any, run: int) -> Any:
    """The books of one run."""
    books = own.books
    return Books(
        books.ledger[run], books.rounds[run], books.evidence[run], books.compared[run], books.beaten[run],
        books.active[run], books.withdrawn[run], books.bounds,
    )  # fmt: skip


@jit
def some_round_is_full(owing: Any, run: int, K: Any) -> bool:
    """Whether all agents have given what the open round of some arm needs."""
    full = False
    for k in range(np.uint64(run) * K, np.uint64(run) * K + K):
        full = full or owing[k] == 0
    return full


@jit_apart
def first_rounds(cells: Any, laws: Any, seats: Any, own: Any, agents: int, K: Any) -> None:
    """Open the first round of every arm in every run."""
    own.blocks[...] = own.constants.first_block
    for run in range(own.blocks.shape[0]):
        for k in range(own.blocks.shape[1]):
            _open_round(cells, laws, seats, own, run, k, agents, K)
        _set_goals(seats, own, run, agents, K)


@jit_apart
def close_rounds(
    mean: Any, cells: Any, keys: Any, laws: Any, seats: Any, trials: Any, arms: Any, frozen: Any, own: Any, run: int,
    agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Close every round that is full and open the next, and look at what they prove."""
    one, constants = books_of(own, run), own.constants
    for k in range(own.blocks.shape[1]):
        while own.owing[np.uint64(run) * K + np.uint64(k)] == 0:
            _draw_again(cells, keys, laws, seats, one, own, run, k, agents)
            complete(one, k)
            _open_round(cells, laws, seats, own, run, k, agents, K)
    if compare(one, constants):
        left = eliminate(one, constants)
        for k in range(K):
            arms[np.uint64(run) * K + k, ACTIVE] = one.active[k]
        if left > 1 and constants.epsilon > 0.0:
            leader = _leader(mean, cells, laws, seats, one, own, run * agents)
            if nearly_best(one, constants, leader):
                trials[run, DECLARED] = leader
        if left == 1 or trials[run, DECLARED] >= 0:
            trials[run, DECIDED_AT] = t
            trials[run, OPEN] = 0
            freeze(cells, laws, seats, frozen, run, agents, K)
            return
    _set_goals(seats, own, run, agents, K)


@jit
def _draw_again(
    cells: Any, keys: Any, laws: Any, seats: Any, one: Any, own: Any, run: int, k: int, agents: int
) -> None:
    """Draw the blocks of an arm's open round again, enter them, and size the next ones."""
    c, constants = one.rounds[k], own.constants
    for m in range(agents):
        if constants.weights[m] > 0.0:
            seat = run * agents + m
            lane, position = np.uint64(seats[seat, LANE]), np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            first, total, errors = own.before[run, k, m], own.sums[run, k, m], 0.0
            last = first + own.blocks[run, k, m]
            for n in range(first, last):
                reward = reward_at(cells, laws, position, lane, k, keys[REWARDS, lane], n + 1)
                error = float(reward) * 2.0**-30 - prediction(total, n)
                errors += error * error
                total += reward
            enter(one, constants, k, c, m, last - first, total - own.sums[run, k, m], errors)
            own.before[run, k, m], own.sums[run, k, m] = last, total
            own.blocks[run, k, m] = block_size(constants.levels[c + 1], total, last, constants.neyman)


@jit
def _open_round(cells: Any, laws: Any, seats: Any, own: Any, run: int, k: int, agents: int, K: Any) -> None:
    """Note at which count every stream has given its block, and how many still owe something."""
    owing = 0
    for m in range(agents):
        if own.constants.weights[m] > 0.0:
            position = np.uint64(seats[run * agents + m, PLACE]) + np.uint64(k) * _W
            own.targets[position] = own.before[run, k, m] + own.blocks[run, k, m]
            if own.targets[position] > pulls_at(cells, laws, position):
                owing += 1
    own.owing[np.uint64(run) * K + np.uint64(k)] = owing


@jit
def _set_goals(seats: Any, own: Any, run: int, agents: int, K: Any) -> None:
    """Want the streams of active arms that have completed fewest rounds."""
    rounds, active = own.books.rounds[run], own.books.active[run]
    lowest = np.int64(1) << np.int64(62)
    for k in range(K):
        if active[k] == 1:
            lowest = min(lowest, rounds[k])
    for seat in range(run * agents, (run + 1) * agents):
        own.most[seat, 0] = -1
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + k * _W
            wanted = active[k] == 1 and rounds[k] == lowest
            own.goals[position] = own.targets[position] if wanted else 0


@jit
def _leader(mean: Any, cells: Any, laws: Any, seats: Any, one: Any, own: Any, first: int) -> int:
    """The active arm with the largest global sample mean; ties: the lowest."""
    means, leader = own.estimates[0], -1
    global_means(mean, cells, laws, seats, means, own.p, own.weighted, first)
    for k in range(means.shape[0]):
        if one.active[k] == 1 and (leader < 0 or means[k] > means[leader]):
            leader = k
    return leader
