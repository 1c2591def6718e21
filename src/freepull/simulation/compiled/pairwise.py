"""The pairwise rule as a kernel; it shares the mathematics with `freepull.principal.rules.pairwise`.

Streams run ahead, and an arm's round is closed when the last agent is there. A stream's later blocks need no counting
before that: the samples of a block are drawn again when its round is closed, and only then is the next block sized,
which its own samples alone decide.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Pairwise
from freepull.principal.rules.pairwise.evidence import (
    Books,
    Constants,
    against,
    block_size,
    compare,
    complete,
    eliminate,
    enter,
    fill_spreads,
    fresh,
    nearly_best,
    prediction,
)
from freepull.principal.rules.pairwise.state import MOST
from freepull.principal.rules.rounds import fill_needed, smallest_gap
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import Owed, RoundsKernel, decide, global_means, lacking, rounds_stepper
from freepull.simulation.compiled.playing import pulls_at, reward_at
from freepull.simulation.compiled.state import ACTIVE, DECLARED, LANE, PLACE, Block, Floats, Ints

_W = np.uint64(WIDTH)


class Rounds(NamedTuple):
    """What the rule keeps of all runs of a block."""

    books: Books
    constants: Constants
    owed: Owed
    before: Ints
    """Samples of each stream (run, arm, agent) before its arm's open round."""
    sums: Ints
    """Their sum, in units of 2⁻³⁰."""
    blocks: Ints
    """b of the open round."""
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


@jit_apart
def first_rounds(streams: Any, state: Any, terms: Any, own: Any) -> None:
    """Open the first round of every arm in every run."""
    own.blocks[...] = own.constants.first_block
    for run in range(own.blocks.shape[0]):
        for k in range(own.blocks.shape[1]):
            _open_round(streams, state.seats, terms, own, run, k)
        _set_goals(state.seats, terms, own, run)


@jit_apart
def close_rounds(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> None:
    """Close every round that is full and open the next, and look at what they prove."""
    one, owed, constants, K = books_of(own, run), own.owed, own.constants, terms.K
    for k in range(own.blocks.shape[1]):
        while owed.owing[np.uint64(run) * K + np.uint64(k)] == 0:
            _draw_again(streams, state.seats, one, own, run, k)
            complete(one, k)
            _open_round(streams, state.seats, terms, own, run, k)
    if compare(one, constants):
        left = eliminate(one, constants)
        for k in range(K):
            state.arms[np.uint64(run) * K + k, ACTIVE] = one.active[k]
        if left > 1 and constants.epsilon > 0.0:
            leader = _leader(streams, state.seats, one, own, run * terms.agents)
            if nearly_best(one, constants, leader):
                state.trials[run, DECLARED] = leader
        if left == 1 or state.trials[run, DECLARED] >= 0:
            decide(streams, state, terms, run, t)
            return
    _set_goals(state.seats, terms, own, run)


@jit
def _draw_again(streams: Any, seats: Any, one: Any, own: Any, run: int, k: int) -> None:
    """Draw the blocks of an arm's open round again, enter them, and size the next ones."""
    c, constants, agents = one.rounds[k], own.constants, own.p.shape[0]
    for m in range(agents):
        if constants.weights[m] > 0.0:
            seat = run * agents + m
            lane, position = np.uint64(seats[seat, LANE]), np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            first, total, errors = own.before[run, k, m], own.sums[run, k, m], 0.0
            last = first + own.blocks[run, k, m]
            for n in range(first, last):
                reward = reward_at(streams, position, lane, k, n + 1)
                error = float(reward) * 2.0**-30 - prediction(total, n)
                errors += error * error
                total += reward
            enter(one, constants, k, c, m, last - first, total - own.sums[run, k, m], errors)
            own.before[run, k, m], own.sums[run, k, m] = last, total
            own.blocks[run, k, m] = block_size(constants.levels[c + 1], total, last, constants.neyman)


@jit
def _open_round(streams: Any, seats: Any, terms: Any, own: Any, run: int, k: int) -> None:
    """Note at which count every stream has given its block, and how many still owe something."""
    owed, owing = own.owed, 0
    for m in range(terms.agents):
        if own.constants.weights[m] > 0.0:
            position = np.uint64(seats[run * terms.agents + m, PLACE]) + np.uint64(k) * _W
            owed.targets[position] = own.before[run, k, m] + own.blocks[run, k, m]
            if owed.targets[position] > pulls_at(streams, position):
                owing += 1
    owed.owing[np.uint64(run) * terms.K + np.uint64(k)] = owing


@jit
def _set_goals(seats: Any, terms: Any, own: Any, run: int) -> None:
    """Want the streams of active arms that have completed fewest rounds."""
    owed, rounds, active, K = own.owed, own.books.rounds[run], own.books.active[run], terms.K
    lowest = np.int64(1) << np.int64(62)
    for k in range(K):
        if active[k] == 1:
            lowest = min(lowest, rounds[k])
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        owed.most[seat, 0] = -1
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + k * _W
            wanted = active[k] == 1 and rounds[k] == lowest
            owed.goals[position] = owed.targets[position] if wanted else 0


@jit
def _leader(streams: Any, seats: Any, one: Any, own: Any, first: int) -> int:
    """The active arm with the largest global sample mean; ties: the lowest."""
    means, leader = own.estimates[0], -1
    global_means(streams, seats, means, own.p, own.weighted, first)
    for k in range(means.shape[0]):
        if one.active[k] == 1 and (leader < 0 or means[k] > means[leader]):
            leader = k
    return leader


@jit_apart
def missing(streams: Any, state: Any, terms: Any, own: Any, run: int) -> Any:
    """w of an adaptive schedule, as in `PairwiseState.missing`."""
    one, means, spreads, needed = books_of(own, run), own.estimates[0], own.estimates[1], own.estimates[2]
    global_means(streams, state.seats, means, own.p, own.weighted, run * terms.agents)
    fill_spreads(one, own.constants, spreads)
    fill_needed(needed, means, one.active, spreads, own.constants.threshold + 2.0, own.smallest)
    return lacking(streams, state.seats, own.p, needed, terms.each, run * terms.agents)


step = rounds_stepper("pairwise", first_rounds, close_rounds, missing, each_arm=True)


@jit_apart
def fill_against(own: Any, logs: Any) -> None:
    """The largest log evidence against every arm of every run."""
    for run in range(logs.shape[0]):
        one = books_of(own, run)
        for k in range(logs.shape[1]):
            logs[run, k] = against(one, k)


class PairwiseKernel(RoundsKernel):
    """The rule's settings as numbers, and how a block is driven under it."""

    rule: Pairwise
    each_arm = True
    step = staticmethod(step)

    def books(self, block: Block, owed: Owed) -> Rounds:
        """No round is complete yet."""
        (M, K), B, setting = block.experiment.shape, len(block.runs), block.setting
        constants = self.rule.constants(setting)
        rounds = 1 + int(np.searchsorted(constants.reached, self.terms.horizon, side="right"))
        before, sums, blocks = np.zeros((3, B, K, M), np.int64)
        return Rounds(
            fresh(K, rounds, constants, B), constants, owed, before, sums, blocks, estimates=np.zeros((3, K)),
            p=np.ascontiguousarray(setting.weights), smallest=smallest_gap(setting, self.rule.delta),
            weighted=setting.weighted,
        )  # fmt: skip

    def bounds(self, block: Block) -> Floats:
        """The largest evidence per (run, arm), as a finite number."""
        logs = np.zeros((len(block.runs), int(self.terms.K)))
        fill_against(block.own, logs)
        return np.asarray([[math.exp(min(log, MOST)) for log in row] for row in logs.tolist()])
