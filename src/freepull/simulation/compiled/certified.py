"""The certified rule as a kernel; it shares the rounds' mathematics with `freepull.principal.rules.certified`.

No sample has to wait in memory: the reward of a stream's n-th pull is a function of the seed, so the samples of a full
round are drawn again when it is evaluated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.numerics import mix, reward_units
from freepull.principal.rules import Certified
from freepull.principal.rules.certified.books import (
    MARGINS,
    Constants,
    Fill,
    Measure,
    Round,
    Used,
    blank,
    fresh,
    survives,
    worse_by,
)
from freepull.principal.rules.certified.design import design, fill_spreads, prediction
from freepull.principal.rules.certified.evaluation import eliminate, evaluate
from freepull.principal.rules.need import fill_needed
from freepull.principal.rules.window import smallest_gap
from freepull.randomness import ARM as ARM_STEP
from freepull.randomness import STEP
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import act, freeze, global_means, looks
from freepull.simulation.compiled.owing import lacking, plan
from freepull.simulation.compiled.picking import pulls_at
from freepull.simulation.compiled.state import (
    ACTIVE,
    DECIDED_AT,
    KAPPA,
    LANE,
    OPEN,
    PLACE,
    REWARDS,
    Block,
    Floats,
    Ints,
)
from freepull.simulation.experiment import Experiment

_ARM, _STEP = np.uint64(ARM_STEP), np.uint64(STEP)
_11, _W = np.uint64(11), np.uint64(WIDTH)


class Books(NamedTuple):
    """What the rule keeps of all runs of a block."""

    used: Used
    coming: Round
    fill: Fill
    measure: Measure
    targets: Ints
    """N at which a stream has given what the coming round needs, by position; 0 if it owes nothing."""
    owing: Ints
    """Streams of each run that still owe something; the last entry is for lanes that nobody plays."""
    run_of: Ints
    """The run of each lane."""
    most: Ints
    """Per seat, the arm that it owes most of and how much; arm −1 if that has to be found anew."""
    estimates: Floats
    """Rows of numbers by arm: means, spreads, pulls needed."""
    constants: Constants
    smallest: float
    """The smallest gap that an estimate may have."""
    weighted: bool


@jit
def incentivize(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    seats: Any, offers: Any, trials: Any, arms: Any, paid: Any, frozen: Any, answers: Any, tables: Any, words: Any,
    work: Any, targets: Any, owing: Any, run_of: Any, most: Any, books: Any, bonus: float, ban_after: int,
    ban_length: int, affordable: int, each: bool, slack: float, horizon: int, agents: int, K: Any, after: int,
    until: int,
) -> int:  # fmt: skip
    """Play the steps after+1…until under the rule; return the last one played."""
    runs = trials.shape[0]
    for t in range(after + 1, until + 1):
        act(
            mean, root, cells, keys, arm, chunks, settings, laws, deep, seats, offers, trials, paid, answers, tables,
            words, work, None, (targets, owing, run_of, 0), bonus, ban_after, ban_length, agents, K, t,
        )  # fmt: skip
        undecided = 0
        for run in range(runs):
            if trials[run, DECIDED_AT] == 0:
                if owing[run] == 0:
                    close_rounds(cells, keys, laws, seats, trials, arms, frozen, books, run, agents, K, t)
                if slack > 0.0 and t < trials[run, KAPPA] and looks(t, horizon, K):
                    w = missing(mean, cells, laws, seats, books, each, run, agents)
                    trials[run, KAPPA] = t if float(horizon - t) <= slack * w else trials[run, KAPPA]
                if trials[run, DECIDED_AT] == 0:
                    undecided += 1
                    if t >= trials[run, KAPPA]:
                        plan(
                            cells, arm, laws, seats, offers, trials, targets, most, affordable, each, run, agents, K, t
                        )  # fmt: skip
        if undecided == 0:
            return t
    return until


@jit_apart
def close_rounds(
    cells: Any, keys: Any, laws: Any, seats: Any, trials: Any, arms: Any, frozen: Any, books: Any, run: int,
    agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Evaluate every round that is full and design the next, until samples are owed or one arm is left."""
    fill, measure, constants = books.fill, books.measure, books.constants
    targets, owing, most = books.targets, books.owing, books.most
    one = used_of(books, run)
    round = coming_of(books, run)
    for seat in range(run * agents, (run + 1) * agents):
        most[seat, 0] = -1
    while owing[run] == 0:
        draw_again(cells, keys, laws, seats, one, round, fill, run, agents)
        evaluate(one, round, fill, measure, constants)
        left = eliminate(one, round, constants)
        if left == 1:
            for k in range(K):
                arms[np.uint64(run) * K + k, ACTIVE] = one.active[k]
            trials[run, DECIDED_AT] = t
            trials[run, OPEN] = 0
            owing[run] = -1
            freeze(cells, laws, seats, frozen, run, agents, K)
            for seat in range(run * agents, (run + 1) * agents):
                for k in range(K):
                    targets[np.uint64(seats[seat, PLACE]) + k * _W] = 0
            return
        design(one, round, constants)
        set_targets(cells, laws, seats, arms, one, round, targets, owing, run, agents, K)


@jit
def used_of(books: Any, run: int) -> Any:
    """G_c of one run."""
    used = books.used
    return Used(
        used.pulls[run], used.sums[run], used.errors[run], used.arms[run], used.active[run], used.course[run]
    )  # fmt: skip


@jit
def coming_of(books: Any, run: int) -> Any:
    """The coming round of one run."""
    coming = books.coming
    return Round(
        coming.blocks[run], coming.worth[run], coming.capital[run], coming.peaks[run], coming.rivals, coming.fits,
        coming.lengths, coming.scratch,
    )  # fmt: skip


@jit_apart
def first_rounds(cells: Any, laws: Any, seats: Any, arms: Any, books: Any, agents: int, K: Any) -> None:
    """Design the first round of every run."""
    for run in range(books.owing.shape[0] - 1):
        used, coming = used_of(books, run), coming_of(books, run)
        design(used, coming, books.constants)
        set_targets(cells, laws, seats, arms, used, coming, books.targets, books.owing, run, agents, K)


@jit
def set_targets(
    cells: Any, laws: Any, seats: Any, arms: Any, used: Any, coming: Any, targets: Any, owing: Any, run: int,
    agents: int, K: Any,
) -> None:  # fmt: skip
    """Note for every stream at which count it has given its block, and how many streams still owe something."""
    owing[run] = 0
    for k in range(K):
        arms[np.uint64(run) * K + k, ACTIVE] = used.active[k]
    for m in range(agents):
        place = np.uint64(seats[run * agents + m, PLACE])
        for k in range(K):
            block = coming.blocks[k, m]
            target = used.pulls[k, m] + block if block > 0 else 0
            targets[place + k * _W] = target
            if target > pulls_at(cells, laws, place + k * _W):
                owing[run] += 1


@jit
def draw_again(
    cells: Any, keys: Any, laws: Any, seats: Any, used: Any, coming: Any, fill: Any, run: int, agents: int
) -> None:
    """Draw the samples of the coming round again, stream by stream: their sum, and Σ(X − x̂)²."""
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            for m in range(agents):
                if coming.blocks[k, m] > 0:
                    seat = run * agents + m
                    lane = np.uint64(seats[seat, LANE])
                    key = keys[REWARDS, lane] + _ARM * np.uint64(k)
                    expected = prediction(used, k, m)
                    total, errors = 0.0, 0.0
                    first = used.pulls[k, m] + 1
                    for n in range(first, first + coming.blocks[k, m]):
                        word = mix(key + _STEP * np.uint64(n))
                        if laws is None:
                            at = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
                            x = 1.0 if (word >> _11) < cells[at + at + np.uint64(1)] else 0.0
                        else:
                            law, parameters, levels, values = laws
                            x = float(reward_units(law, parameters[lane, k], levels, values, word)) * 2.0**-30
                        error = x - expected
                        total += x
                        errors += error * error
                    fill.sums[k, m], fill.errors[k, m] = total, errors


@jit_apart
def missing(mean: Any, cells: Any, laws: Any, seats: Any, books: Any, each: bool, run: int, agents: int) -> Any:
    """w: Σ (n_k − N_km)⁺ over all ("one"), or the most of one agent ("each"), as in `CertifiedState.missing`."""
    used, weights = used_of(books, run), books.constants.weights
    means, spreads, needed = books.estimates[0], books.estimates[1], books.estimates[2]
    global_means(mean, cells, laws, seats, means, weights, books.weighted, run * agents)
    fill_spreads(used, books.constants, spreads)
    beta, margin = books.constants.confidence + 3.0, books.constants.margin
    fill_needed(needed, means, used.active, spreads, beta, books.smallest, margin)
    return lacking(cells, laws, seats, weights, needed, each, run * agents)


class CertifiedKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    proven = True
    silent_until = 0

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule = experiment.principal.rule
        assert isinstance(rule, Certified)
        self.rule, self.coded = rule, coded
        self.margins: Floats = MARGINS if experiment.margins else np.zeros(0)
        """The x that are kept beside the one that decides."""
        self.agents, self.arms = experiment.shape[0], np.uint64(experiment.shape[1])
        self.bonus, self.horizon = float(experiment.principal.bonus), experiment.horizon

    def begin(self, block: Block) -> None:
        """Design every run's first round, and fix the first offers if κ = 0."""
        b, M, K = block, self.agents, int(self.arms)
        B = len(block.runs)
        frame = replace(self.coded.frame, weights=b.games[0].weights, weighted=b.games[0].weighted)
        constants, prior = self.rule.constants(frame, self.margins)
        used, coming = fresh(K, M, constants, prior, B)
        run_of = np.full(len(b.arm), B, np.int64)
        run_of[b.seats[:, LANE]] = np.repeat(np.arange(B), M)
        books = Books(
            used, coming, Fill(np.zeros((K, M)), np.zeros((K, M))), blank(K, constants),
            targets=np.zeros(len(b.arm) * K, np.int64), owing=np.zeros(B + 1, np.int64), run_of=run_of,
            most=np.full((B * M, 2), -1, np.int64), estimates=np.zeros((3, K)), constants=constants,
            smallest=smallest_gap(frame, self.rule.delta), weighted=frame.weighted,
        )  # fmt: skip
        block.own = books
        first_rounds(b.cells, b.laws, b.seats, b.arms, books, M, self.arms)
        for run in range(B):
            if self.coded.kappa == 0:
                plan(
                    b.cells, b.arm, b.laws, b.seats, b.offers, b.trials, books.targets, books.most,
                    self.coded.affordable, self.coded.each, run, M, self.arms, 0,
                )  # fmt: skip

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        b, c, books = block, self.coded, block.own
        return int(
            incentivize(
                b.mean, b.root, b.cells, b.keys, b.arm, b.chunks, b.settings, b.laws, b.deep, b.seats, b.offers,
                b.trials, b.arms, b.paid, b.frozen, c.answers, c.tables, b.words, b.work, books.targets, books.owing,
                books.run_of, books.most, books, self.bonus, c.ban_after, c.ban_length, c.affordable, c.each,
                c.adaptive, self.horizon, self.agents, self.arms, b.t, until,
            )
        )  # fmt: skip

    def survives(self, block: Block, run: int) -> float:
        """γ* of a run that is decided."""
        books = block.own
        return survives(worse_by(books.coming.peaks[run], books.constants), books.used.active[run] == 1)

    def bounds(self, block: Block) -> Floats:
        """W_k(2γ) per (run, arm)."""
        capital = block.own.coming.capital[:, block.own.constants.decides]
        return np.asarray([[_total(capital[run, k]) for k in range(capital.shape[1])] for run in range(len(capital))])


def _total(account: Floats) -> float:
    """Add up one account in the order of `evidence`."""
    total = 0.0
    for held in account.ravel():
        total += float(held)
    return total
