"""The pairwise rule as a kernel; it shares the mathematics with `freepull.principal.rules.pairwise`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Pairwise
from freepull.principal.rules.need import fill_needed
from freepull.principal.rules.pairwise.books import fresh
from freepull.principal.rules.pairwise.evidence import against, fill_spreads
from freepull.principal.rules.pairwise.state import MOST
from freepull.principal.rules.window import smallest_gap
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.offering import act, global_means, looks
from freepull.simulation.compiled.owing import lacking, plan
from freepull.simulation.compiled.pairwise_rounds import (
    Rounds,
    books_of,
    close_rounds,
    first_rounds,
    some_round_is_full,
)
from freepull.simulation.compiled.state import DECIDED_AT, KAPPA, LANE, Block, Floats
from freepull.simulation.experiment import Experiment


@jit
def incentivize(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    seats: Any, offers: Any, trials: Any, arms: Any, paid: Any, frozen: Any, answers: Any, tables: Any, words: Any,
    work: Any, targets: Any, goals: Any, owing: Any, run_of: Any, most: Any, own: Any, bonus: float, ban_after: int,
    ban_length: int, affordable: int, each: bool, slack: float, horizon: int, agents: int, K: Any, after: int,
    until: int,
) -> int:  # fmt: skip
    """Play the steps after+1…until under the rule; return the last one played."""
    runs = trials.shape[0]
    for t in range(after + 1, until + 1):
        act(
            mean, root, cells, keys, arm, chunks, settings, laws, deep, seats, offers, trials, paid, answers, tables,
            words, work, None, (targets, owing, run_of, 1), bonus, ban_after, ban_length, agents, K, t,
        )  # fmt: skip
        undecided = 0
        for run in range(runs):
            if trials[run, DECIDED_AT] == 0:
                if some_round_is_full(owing, run, K):
                    close_rounds(mean, cells, keys, laws, seats, trials, arms, frozen, own, run, agents, K, t)
                if slack > 0.0 and t < trials[run, KAPPA] and looks(t, horizon, K):
                    w = missing(mean, cells, laws, seats, own, each, run, agents)
                    trials[run, KAPPA] = t if float(horizon - t) <= slack * w else trials[run, KAPPA]
                if trials[run, DECIDED_AT] == 0:
                    undecided += 1
                    if t >= trials[run, KAPPA]:
                        plan(
                            cells, arm, laws, seats, offers, trials, goals, most, affordable, each, run, agents, K, t
                        )  # fmt: skip
        if undecided == 0:
            return t
    return until


@jit_apart
def missing(mean: Any, cells: Any, laws: Any, seats: Any, own: Any, each: bool, run: int, agents: int) -> Any:
    """w of an adaptive schedule, as in `PairwiseState.missing`."""
    one, means, spreads, needed = books_of(own, run), own.estimates[0], own.estimates[1], own.estimates[2]
    global_means(mean, cells, laws, seats, means, own.p, own.weighted, run * agents)
    fill_spreads(one, own.constants, spreads)
    fill_needed(needed, means, one.active, spreads, own.constants.threshold + 2.0, own.smallest)
    return lacking(cells, laws, seats, own.p, needed, each, run * agents)


@jit_apart
def fill_against(own: Any, logs: Any) -> None:
    """The largest log evidence against every arm of every run."""
    for run in range(logs.shape[0]):
        one = books_of(own, run)
        for k in range(logs.shape[1]):
            logs[run, k] = against(one, k)


class PairwiseKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    proven = True
    silent_until = 0

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule = experiment.principal.rule
        assert isinstance(rule, Pairwise)
        self.rule, self.coded = rule, coded
        self.agents, self.arms = experiment.shape[0], np.uint64(experiment.shape[1])
        self.bonus, self.horizon = float(experiment.principal.bonus), experiment.horizon

    def begin(self, block: Block) -> None:
        """Open every arm's first round, and fix the first offers if κ = 0."""
        b, M, K = block, self.agents, int(self.arms)
        B = len(block.runs)
        frame = replace(self.coded.frame, weights=b.games[0].weights, weighted=b.games[0].weighted)
        constants = self.rule.constants(frame)
        rounds = 1 + int(np.searchsorted(constants.reached, self.horizon, side="right"))
        run_of = np.full(len(b.arm), B * K, np.int64)
        run_of[b.seats[:, LANE]] = np.repeat(np.arange(B) * K, M)
        b.own = own = Rounds(
            fresh(K, rounds, constants, B), constants, before=np.zeros((B, K, M), np.int64),
            sums=np.zeros((B, K, M), np.int64), blocks=np.zeros((B, K, M), np.int64),
            targets=np.zeros(len(b.arm) * K, np.int64), goals=np.zeros(len(b.arm) * K, np.int64),
            owing=np.zeros(B * K + K, np.int64), run_of=run_of, most=np.full((B * M, 2), -1, np.int64),
            estimates=np.zeros((3, K)), p=np.ascontiguousarray(frame.weights),
            smallest=smallest_gap(frame, self.rule.delta), weighted=frame.weighted,
        )  # fmt: skip
        first_rounds(b.cells, b.laws, b.seats, own, M, self.arms)
        for run in range(B):
            if self.coded.kappa == 0:
                plan(
                    b.cells, b.arm, b.laws, b.seats, b.offers, b.trials, own.goals, own.most, self.coded.affordable,
                    self.coded.each, run, M, self.arms, 0,
                )  # fmt: skip

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        b, c, own = block, self.coded, block.own
        return int(
            incentivize(
                b.mean, b.root, b.cells, b.keys, b.arm, b.chunks, b.settings, b.laws, b.deep, b.seats, b.offers,
                b.trials, b.arms, b.paid, b.frozen, c.answers, c.tables, b.words, b.work, own.targets, own.goals,
                own.owing, own.run_of, own.most, own, self.bonus, c.ban_after, c.ban_length, c.affordable, c.each,
                c.adaptive, self.horizon, self.agents, self.arms, b.t, until,
            )
        )  # fmt: skip

    def bounds(self, block: Block) -> Floats:
        """The largest evidence per (run, arm), as a finite number."""
        logs = np.zeros((len(block.runs), int(self.arms)))
        fill_against(block.own, logs)
        return np.asarray([[math.exp(min(log, MOST)) for log in row] for row in logs.tolist()])
