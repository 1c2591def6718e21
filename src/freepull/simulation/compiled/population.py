"""The population rule as a kernel; it shares the mathematics with `freepull.principal.rules.population`.

A look draws the rewards that it needs again. Before every agent could have given the first look's, and before anybody
is paid, nothing has to be watched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Population
from freepull.principal.rules.need import fill_needed
from freepull.principal.rules.population import BETS, against, eliminate, look, winner
from freepull.principal.rules.window import smallest_gap
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import act, freeze, global_means, looks
from freepull.simulation.compiled.owing import lacking, plan
from freepull.simulation.compiled.picking import pulls_at
from freepull.simulation.compiled.pulling import reward_at
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

_W = np.uint64(WIDTH)


class Looks(NamedTuple):
    """What the rule keeps of all runs of a block."""

    targets: Ints
    """n of the next look, by position; 0 for arms that are out and agents without weight."""
    coming: Ints
    """The same by run and arm."""
    owing: Ints
    """Streams of each run that are below n; −1 after its last look. The last entry is for lanes that nobody plays."""
    run_of: Ints
    most: Ints
    evidence: Floats
    """By run, arm and arm."""
    sums: Ints
    """Sums of first rewards up to the last look, by run, arm and agent."""
    rows: Floats
    """To work in while looking."""
    estimates: Floats
    """Rows of numbers by arm: means, spreads, pulls needed."""
    weights: Floats
    threshold: float
    smallest: float
    """The smallest gap that an estimate may have."""
    once: bool
    weighted: bool


@jit
def incentivize(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    seats: Any, offers: Any, trials: Any, arms: Any, paid: Any, frozen: Any, answers: Any, tables: Any, words: Any,
    work: Any, targets: Any, owing: Any, run_of: Any, most: Any, own: Any, bonus: float, ban_after: int,
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
                    look_on(cells, keys, laws, seats, trials, arms, frozen, own, run, agents, K, t)
                if slack > 0.0 and t < trials[run, KAPPA] and looks(t, horizon, K):
                    w = missing(mean, cells, laws, seats, own, each, run, agents)
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
def look_on(
    cells: Any, keys: Any, laws: Any, seats: Any, trials: Any, arms: Any, frozen: Any, own: Any, run: int,
    agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Look at every n that all streams have given, until one is owed, one arm is left or there is no second look."""
    sums, coming, evidence = own.sums[run], own.coming[run], own.evidence[run]
    for seat in range(run * agents, (run + 1) * agents):
        own.most[seat, 0] = -1
    while own.owing[run] == 0:
        n = draw_again(cells, keys, laws, seats, own, run, agents)
        look(evidence, own.rows, sums, coming, own.weights, n, own.once)
        if own.once:
            keep_winner(coming, winner(evidence, own.threshold))
        else:
            eliminate(evidence, coming, own.threshold)
        left = 0
        for k in range(K):
            arms[np.uint64(run) * K + k, ACTIVE] = np.int64(coming[k] > 0)
            left += coming[k] > 0
        if left == 1:
            trials[run, DECIDED_AT] = t
            trials[run, OPEN] = 0
            freeze(cells, laws, seats, frozen, run, agents, K)
        if left == 1 or own.once:
            coming[:] = 0
        set_targets(cells, laws, seats, own, run, agents, K)
        if left == 1 or own.once:
            own.owing[run] = -1


@jit
def keep_winner(coming: Any, found: int) -> None:
    """Leave the arm that the one look has found, or all if it has found none."""
    for k in range(coming.shape[0]):
        if found >= 0 and k != found:
            coming[k] = 0


@jit
def draw_again(cells: Any, keys: Any, laws: Any, seats: Any, own: Any, run: int, agents: int) -> Any:
    """Add the rewards that the coming look has beyond the last one; return its n."""
    n = np.int64(0)
    for k in range(own.coming.shape[1]):
        n = max(n, own.coming[run, k])
    for m in range(agents):
        seat = run * agents + m
        lane = np.uint64(seats[seat, LANE])
        for k in range(own.coming.shape[1]):
            if own.weights[m] > 0.0 and own.coming[run, k] > 0:
                position = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
                for i in range(1 if own.once else n, n + 1):
                    own.sums[run, k, m] += reward_at(cells, laws, position, lane, k, keys[REWARDS, lane], i)
    return n


@jit
def set_targets(cells: Any, laws: Any, seats: Any, own: Any, run: int, agents: int, K: Any) -> None:
    """Note at which count every stream has given what the coming look needs, and how many have not."""
    own.owing[run] = 0
    for m in range(agents):
        place = np.uint64(seats[run * agents + m, PLACE])
        for k in range(K):
            position = place + k * _W
            own.targets[position] = own.coming[run, k] if own.weights[m] > 0.0 else 0
            if pulls_at(cells, laws, position) < own.targets[position]:
                own.owing[run] += 1


@jit_apart
def first_looks(cells: Any, laws: Any, seats: Any, own: Any, agents: int, K: Any) -> None:
    """Note what every run's first look needs."""
    for run in range(own.coming.shape[0]):
        set_targets(cells, laws, seats, own, run, agents, K)


@jit_apart
def missing(mean: Any, cells: Any, laws: Any, seats: Any, own: Any, each: bool, run: int, agents: int) -> Any:
    """w: Σ (n_k − N_km)⁺ over all ("one"), or the most of one agent ("each"), as in `PopulationState.missing`."""
    means, spreads, needed = own.estimates[0], own.estimates[1], own.estimates[2]
    if not own.once:
        global_means(mean, cells, laws, seats, means, own.weights, own.weighted, run * agents)
        fill_needed(needed, means, own.coming[run], spreads, own.threshold + 2.0, own.smallest)
    return lacking(cells, laws, seats, own.weights, needed, each, run * agents)


class PopulationKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    proven = True

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule, (M, K), T = experiment.principal.rule, experiment.shape, experiment.horizon
        assert isinstance(rule, Population)
        self.rule, self.coded, self.agents, self.arms = rule, coded, M, np.uint64(K)
        self.bonus, self.horizon = float(experiment.principal.bonus), T
        paying = (T - 1) // 10 if coded.kappa is None else coded.kappa
        self.silent_until = min(paying, K * (rule.pulls or 1) - 1, T)

    def begin(self, block: Block) -> None:
        """Count what is missing, and fix the first offers if the time has come."""
        b, M, K, pulls = block, self.agents, int(self.arms), self.rule.pulls
        B = len(b.runs)
        frame = replace(self.coded.frame, weights=b.games[0].weights, weighted=b.games[0].weighted)
        run_of = np.full(len(b.arm), B, np.int64)
        run_of[b.seats[:, LANE]] = np.repeat(np.arange(B), M)
        estimates = np.zeros((3, K))
        estimates[1], estimates[2] = 0.25 * float((frame.weights**2).sum()), float(pulls or 0)
        b.own = own = Looks(
            targets=np.zeros(len(b.arm) * K, np.int64), coming=np.full((B, K), pulls or 1),
            owing=np.zeros(B + 1, np.int64), run_of=run_of, most=np.full((B * M, 2), -1, np.int64),
            evidence=np.full((B, K, K), -np.inf), sums=np.zeros((B, K, M), np.int64),
            rows=np.zeros((1 + len(BETS), K)), estimates=estimates, weights=np.ascontiguousarray(frame.weights),
            threshold=self.rule.threshold(K), smallest=smallest_gap(frame, self.rule.delta), once=pulls is not None,
            weighted=frame.weighted,
        )  # fmt: skip
        first_looks(b.cells, b.laws, b.seats, own, M, self.arms)
        for run in range(B):
            if self.coded.kappa is not None and b.t >= self.coded.kappa:
                plan(
                    b.cells, b.arm, b.laws, b.seats, b.offers, b.trials, own.targets, own.most,
                    self.coded.affordable, self.coded.each, run, M, self.arms, b.t,
                )  # fmt: skip

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        b, c, own = block, self.coded, block.own
        return int(
            incentivize(
                b.mean, b.root, b.cells, b.keys, b.arm, b.chunks, b.settings, b.laws, b.deep, b.seats, b.offers,
                b.trials, b.arms, b.paid, b.frozen, c.answers, c.tables, b.words, b.work, own.targets, own.owing,
                own.run_of, own.most, own, self.bonus, c.ban_after, c.ban_length, c.affordable, c.each, c.adaptive,
                self.horizon, self.agents, self.arms, b.t, until,
            )
        )  # fmt: skip

    def bounds(self, block: Block) -> Floats:
        """The largest evidence per (run, arm) at the last look; 0 before it, and where no arm did better."""
        if block.own is None:
            return np.zeros((len(block.runs), int(self.arms)))
        return np.asarray([against(evidence) for evidence in block.own.evidence])
