"""The population rule as a kernel; it shares the mathematics with `freepull.principal.rules.population`.

A look draws the rewards that it needs again. Before every agent could have given the first look's, and before anybody
is paid, nothing has to be watched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Population
from freepull.principal.rules.population import BETS, against, eliminate, look, winner
from freepull.principal.rules.rounds import fill_needed, smallest_gap
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import decide
from freepull.simulation.compiled.playing import pulls_at, reward_at
from freepull.simulation.compiled.rounds import Owed, RoundsKernel, global_means, lacking, rounds_stepper
from freepull.simulation.compiled.state import ACTIVE, LANE, PLACE, Block, Floats, Ints
from freepull.simulation.experiment import Experiment

_W = np.uint64(WIDTH)


class Looks(NamedTuple):
    """What the rule keeps of all runs of a block."""

    owed: Owed
    """A run owes −1 after its last look."""
    coming: Ints
    """n of the next look by run and arm; 0 for arms that are out."""
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


@jit_apart
def look_on(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> None:
    """Look at every n that all streams have given, until one is owed, one arm is left or there is no second look."""
    sums, coming, evidence = own.sums[run], own.coming[run], own.evidence[run]
    owed, K = own.owed, terms.K
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        owed.most[seat, 0] = -1
    while owed.owing[run] == 0:
        n = draw_again(streams, state.seats, own, run, terms.agents)
        look(evidence, own.rows, sums, coming, own.weights, n, own.once)
        if own.once:
            keep_winner(coming, winner(evidence, own.threshold))
        else:
            eliminate(evidence, coming, own.threshold)
        left = 0
        for k in range(K):
            state.arms[np.uint64(run) * K + k, ACTIVE] = np.int64(coming[k] > 0)
            left += coming[k] > 0
        if left == 1:
            decide(streams, state, terms, run, t)
        if left == 1 or own.once:
            coming[:] = 0
        set_targets(streams, state.seats, own, run, terms.agents, K)
        if left == 1 or own.once:
            owed.owing[run] = -1


@jit
def keep_winner(coming: Any, found: int) -> None:
    """Leave the arm that the one look has found, or all if it has found none."""
    for k in range(coming.shape[0]):
        if found >= 0 and k != found:
            coming[k] = 0


@jit
def draw_again(streams: Any, seats: Any, own: Any, run: int, agents: int) -> Any:
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
                    own.sums[run, k, m] += reward_at(streams, position, lane, k, i)
    return n


@jit
def set_targets(streams: Any, seats: Any, own: Any, run: int, agents: int, K: Any) -> None:
    """Note at which count every stream has given what the coming look needs, and how many have not."""
    owed = own.owed
    owed.owing[run] = 0
    for m in range(agents):
        place = np.uint64(seats[run * agents + m, PLACE])
        for k in range(K):
            position = place + k * _W
            owed.targets[position] = own.coming[run, k] if own.weights[m] > 0.0 else 0
            if pulls_at(streams, position) < owed.targets[position]:
                owed.owing[run] += 1


@jit_apart
def first_looks(streams: Any, state: Any, terms: Any, own: Any) -> None:
    """Note what every run's first look needs."""
    for run in range(own.coming.shape[0]):
        set_targets(streams, state.seats, own, run, terms.agents, terms.K)


@jit_apart
def missing(streams: Any, state: Any, terms: Any, own: Any, run: int) -> Any:
    """w of an adaptive schedule, as in `PopulationState.missing`."""
    means, spreads, needed, first = own.estimates[0], own.estimates[1], own.estimates[2], run * terms.agents
    if not own.once:
        global_means(streams, state.seats, means, own.weights, own.weighted, first)
        fill_needed(needed, means, own.coming[run], spreads, own.threshold + 2.0, own.smallest)
    return lacking(streams, state.seats, own.weights, needed, terms.each, first)


step = rounds_stepper("population", first_looks, look_on, missing)


class PopulationKernel(RoundsKernel):
    """The rule's settings as numbers, and how a block is driven under it."""

    rule: Population
    step = staticmethod(step)

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        super().__init__(experiment, coded)
        kappa, T = experiment.setting.kappa, experiment.horizon
        paying = (T - 1) // 10 if kappa is None else kappa
        self.silent_until = min(paying, experiment.shape[1] * (self.rule.pulls or 1) - 1, T)

    def books(self, block: Block, owed: Owed) -> Looks:
        """No look has been taken yet."""
        (M, K), B, setting, pulls = block.experiment.shape, len(block.runs), block.setting, self.rule.pulls
        estimates = np.zeros((3, K))
        estimates[1], estimates[2] = 0.25 * float((setting.weights**2).sum()), float(pulls or 0)
        return Looks(
            owed, coming=np.full((B, K), pulls or 1), evidence=np.full((B, K, K), -np.inf),
            sums=np.zeros((B, K, M), np.int64), rows=np.zeros((1 + 2 * len(BETS), K)), estimates=estimates,
            weights=np.ascontiguousarray(setting.weights), threshold=self.rule.threshold(K),
            smallest=smallest_gap(setting, self.rule.delta), once=pulls is not None, weighted=setting.weighted,
        )  # fmt: skip

    def bounds(self, block: Block) -> Floats:
        """The largest evidence per (run, arm) at the last look; 0 before it, and where no arm did better."""
        if block.own is None:
            return np.zeros((len(block.runs), int(self.terms.K)))
        return np.asarray([against(evidence) for evidence in block.own.evidence])
