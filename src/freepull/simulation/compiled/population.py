"""The population rule as a kernel; it shares the mathematics with `freepull.principal.rules.population`.

The look draws the first rewards of every stream again. Before every agent could have given them, and before anybody is
paid, nothing has to be watched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Population
from freepull.principal.rules.population import against, fill_evidence, winner
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import act, freeze, looks
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
    """n, by position; 0 for agents without weight."""
    owing: Ints
    """Streams of each run that are below n; −1 after the look. The last entry is for lanes that nobody plays."""
    run_of: Ints
    most: Ints
    evidence: Floats
    """By run, arm and arm."""
    sums: Ints
    """Sums of first rewards by arm and agent, of the run at hand."""
    needed: Floats
    weights: Floats
    pulls: int
    threshold: float


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
                    look(cells, keys, laws, seats, trials, arms, frozen, own, run, agents, K, t)
                if slack > 0.0 and t < trials[run, KAPPA] and looks(t, horizon, K):
                    w = lacking(cells, laws, seats, own.weights, own.needed, each, run * agents)
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
def look(
    cells: Any, keys: Any, laws: Any, seats: Any, trials: Any, arms: Any, frozen: Any, own: Any, run: int,
    agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Draw the first rewards again, and see whether one arm is claimed above all others."""
    own.owing[run] = -1
    for m in range(agents):
        seat = run * agents + m
        lane = np.uint64(seats[seat, LANE])
        for k in range(own.sums.shape[0]):
            position = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            total = np.int64(0)
            if own.weights[m] > 0.0:
                for n in range(1, own.pulls + 1):
                    total += reward_at(cells, laws, position, lane, k, keys[REWARDS, lane], n)
            own.sums[k, m] = total
    fill_evidence(own.evidence[run], own.sums, own.weights, own.pulls)
    found = winner(own.evidence[run], own.threshold)
    if found >= 0:
        for k in range(K):
            arms[np.uint64(run) * K + k, ACTIVE] = np.int64(np.int64(k) == found)
        trials[run, DECIDED_AT] = t
        trials[run, OPEN] = 0
        freeze(cells, laws, seats, frozen, run, agents, K)


@jit_apart
def set_targets(cells: Any, laws: Any, seats: Any, own: Any, agents: int, K: Any) -> None:
    """Note which streams are still below n."""
    for seat in range(seats.shape[0]):
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + k * _W
            if own.weights[seat % agents] > 0.0:
                own.targets[position] = own.pulls
                if pulls_at(cells, laws, position) < own.pulls:
                    own.owing[seat // agents] += 1


class PopulationKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    proven = True

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule, (M, K), T = experiment.principal.rule, experiment.shape, experiment.horizon
        assert isinstance(rule, Population)
        self.rule, self.coded, self.agents, self.arms = rule, coded, M, np.uint64(K)
        self.bonus, self.horizon = float(experiment.principal.bonus), T
        paying = (T - 1) // 10 if coded.kappa is None else coded.kappa
        self.silent_until = min(paying, K * int(rule.pulls) - 1, T)

    def begin(self, block: Block) -> None:
        """Count what is missing, and fix the first offers if the time has come."""
        b, M, K = block, self.agents, int(self.arms)
        B = len(b.runs)
        run_of = np.full(len(b.arm), B, np.int64)
        run_of[b.seats[:, LANE]] = np.repeat(np.arange(B), M)
        b.own = own = Looks(
            targets=np.zeros(len(b.arm) * K, np.int64), owing=np.zeros(B + 1, np.int64), run_of=run_of,
            most=np.full((B * M, 2), -1, np.int64), evidence=np.full((B, K, K), -np.inf),
            sums=np.zeros((K, M), np.int64), needed=np.full(K, float(self.rule.pulls)),
            weights=np.ascontiguousarray(b.games[0].weights), pulls=int(self.rule.pulls),
            threshold=self.rule.threshold(K),
        )  # fmt: skip
        set_targets(b.cells, b.laws, b.seats, own, M, self.arms)
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
        """The largest evidence per (run, arm), 0 before the look."""
        if block.own is None:
            return np.zeros((len(block.runs), int(self.arms)))
        return np.asarray([against(evidence) for evidence in block.own.evidence])
