"""Rules that go by rounds: streams owe samples to a round, and whoever owes most is paid first.

`rounds_stepper` makes a rule's kernel of the rule's own functions, `RoundsKernel` drives a block under it. The
population rule, whose rounds are its looks, is the plainest of them; it shares the mathematics with
`freepull.principal.rules.population`. A look draws the rewards that it needs again. Before every agent could have given
the first look's, and before anybody is paid, nothing has to be watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Population
from freepull.principal.rules.population import BETS, against, eliminate, look, winner
from freepull.principal.rules.rounds import fill_needed, smallest_gap
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH, most_owed
from freepull.simulation.compiled.offering import act, decide, keep_neediest, looks
from freepull.simulation.compiled.playing import fixed_mean, pulls_at, reward_at
from freepull.simulation.compiled.state import (
    ACTIVE,
    ARM,
    BANNED_UNTIL,
    DECIDED_AT,
    FUTILE,
    KAPPA,
    LANE,
    NEED,
    OPEN,
    PAID,
    PLACE,
    SEAT,
    WAITS,
    Block,
    Floats,
    Ints,
)
from freepull.simulation.experiment import Experiment

_W = np.uint64(WIDTH)


class Owed(NamedTuple):
    """What streams owe to the rounds that are open."""

    targets: Ints
    """N at which a stream has given what the open round needs, by position; 0 if it owes nothing."""
    owing: Ints
    """Streams that still owe something, by run; the last is for lanes that nobody plays."""
    run_of: Ints
    """The place of a lane's run in ``owing``."""
    most: Ints
    """Per seat, the arm that it owes most of and how much; arm −1 if that has to be found anew."""


@jit
def no_forecast(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> float:
    """The chance of a verdict under a rule that has no forecast."""
    return 1.0


def rounds_stepper(
    rule: str,
    begin: Callable[..., None],
    close: Callable[..., None],
    missing: Callable[..., Any],
    chance: Any = no_forecast,
) -> Any:
    """Return the kernel of a rule that goes by rounds, made of the rule's own functions.

    ``begin(streams, state, terms, own)`` opens the first round of every run, ``close(streams, state, terms, own, run,
    t)`` closes the rounds of a run that are full, ``missing(streams, state, terms, own, run)`` is w of an adaptive
    schedule, and ``chance(…, t)`` how likely a verdict in time is, where the rule forecasts that; ``own`` is what the
    rule keeps of all runs of a block, its `Owed` as ``own.owed``.
    """
    forecasts = chance is not no_forecast

    def step(
        lanes: Any, strategies: Any, state: Any, terms: Any, own: Any, after: int, until: int, begins: bool
    ) -> int:
        """Play the steps after+1…until under the rule; return the last one played. If told, open the first rounds.

        That is no function of its own, which would have to be compiled as well.
        """
        trials, slack, owed = state.trials, terms.slack, own.owed
        for t in range(after if begins else after + 1, until + 1):
            if t > after:
                act(lanes, strategies, state, terms, None, owed, t)
                if terms.each:
                    find_most_of_all(lanes, owed.targets, terms.K)
            else:
                begin(lanes.told, state, terms, own)
            undecided = 0
            for run in range(trials.shape[0]):
                if trials[run, DECIDED_AT] == 0:
                    if t > after:
                        if owed.owing[run] == 0:
                            close(lanes.told, state, terms, own, run, t)
                        if slack > 0.0 and (forecasts or t < trials[run, KAPPA]) and looks(terms, t):
                            w = missing(lanes.told, state, terms, own, run)
                            due = float(terms.horizon - t) <= slack * w
                            if forecasts:
                                due = due and 2 * t >= terms.horizon
                                trials[run, WAITS] = 0 if due else 1
                            trials[run, KAPPA] = min(t, trials[run, KAPPA]) if due else trials[run, KAPPA]
                        if terms.futility > 0.0 and t >= trials[run, KAPPA] and looks(terms, t):
                            hope = chance(lanes.told, state, terms, own, run, t)
                            trials[run, FUTILE] = 1 if hope < terms.futility else 0
                    if trials[run, DECIDED_AT] == 0:
                        undecided += 1
                        if t >= trials[run, KAPPA]:
                            if trials[run, WAITS] + trials[run, FUTILE] == 0:
                                choose_offers(lanes, state, terms, owed, run, t)
                            else:
                                hold(state, owed, run, terms.agents)
            if undecided == 0:
                return t
        return until

    step.__qualname__ = f"{rule}_step"
    return jit(step)


@jit
def hold(state: Any, owed: Any, run: int, agents: int) -> None:
    """Offer nothing in the coming step."""
    state.trials[run, OPEN] = 0
    for seat in range(run * agents, (run + 1) * agents):
        owed.most[seat, 0] = -1


@jit
def choose_offers(lanes: Any, state: Any, terms: Any, owed: Any, run: int, t: int) -> None:
    """Fix who is offered what in step t + 1: the streams that are furthest below their targets."""
    seats, offers, trials, most, agents = state.seats, state.offers, state.trials, owed.most, terms.agents
    first = run * agents
    trials[run, OPEN] = 0
    room = terms.affordable - trials[run, PAID]
    if room < 1:
        return
    found = first
    highest, lowest = np.int64(0), np.int64(0)
    for seat in range(first, first + agents):
        if seats[seat, BANNED_UNTIL] <= t:
            own, lane = most[seat, 0], seats[seat, LANE]
            if own < 0 or lanes.world.defers == 1 or (lanes.there is None and own == lanes.arm[lane]):
                if terms.each and own >= 0 and lanes.there is None:
                    most[seat, 0], most[seat, 1] = lanes.wanted[lane], lanes.lacks[lane]
                else:
                    find_most(lanes.told, seats, owed.targets, most, seat, terms.K)
            amount, own = most[seat, 1], most[seat, 0]
            if terms.each:
                if amount > 0:
                    offers[found, SEAT], offers[found, ARM], offers[found, NEED] = seat, own, amount
                    found += 1
            elif amount > highest or (amount == highest and amount > 0 and own < lowest):
                offers[first, SEAT], offers[first, ARM] = seat, own
                highest, lowest = amount, own
        else:
            most[seat, 0] = -1
    if terms.each:
        trials[run, OPEN] = keep_neediest(offers, first, found, room)
    elif highest > 0:
        trials[run, OPEN] = 1


@jit
def find_most_of_all(lanes: Any, targets: Any, K: Any) -> None:
    """Of which arm every lane owes most, and how much, sixteen lanes at once; ties: the lowest arm."""
    if lanes.there is None:
        for chunk in range(np.uint64(lanes.arm.shape[0]) // _W):
            most_owed(targets, lanes.told.cells, chunk * K * _W, K, lanes.wanted, lanes.lacks, chunk * _W)


@jit
def find_most(streams: Any, seats: Any, targets: Any, most: Any, seat: int, K: Any) -> None:
    """Of which arm the agent owes most, and how much; ties: the lowest arm."""
    place = np.uint64(seats[seat, PLACE])
    highest, arm = np.int64(0), np.int64(0)
    for k in range(K):
        amount = targets[place + k * _W] - pulls_at(streams, place + k * _W)
        arm = np.int64(k) if amount > highest else arm
        highest = max(amount, highest)
    most[seat, 0], most[seat, 1] = arm, highest


@jit
def global_means(streams: Any, seats: Any, means: Any, weights: Any, weighted: bool, first: int) -> None:
    """The global sample means of a run afresh from its record, as `RuleState.mean` has them."""
    agents = weights.shape[0]
    for k in range(means.shape[0]):
        fixed, total = np.int64(0), 0.0
        for m in range(agents):
            position = np.uint64(seats[first + m, PLACE]) + np.uint64(k) * _W
            N = pulls_at(streams, position)
            if N > 0:
                fixed += fixed_mean(streams, position, N)
                total += weights[m] * streams.mean[position]
        means[k] = total if weighted else float(fixed) * 2.0**-40 / float(agents)


@jit
def lacking(streams: Any, seats: Any, weights: Any, needed: Any, each: bool, first: int) -> Any:
    """w: Σ (n_k − N_km)⁺ over all agents with a weight ("one"), or the most of one agent ("each")."""
    total, most = 0.0, 0.0
    for m in range(weights.shape[0]):
        own = 0.0
        if weights[m] > 0.0:
            place = np.uint64(seats[first + m, PLACE])
            for k in range(needed.shape[0]):
                own += max(needed[k] - float(pulls_at(streams, place + np.uint64(k) * _W)), 0.0)
        total += own
        most = max(most, own)
    return most if each else total


class RoundsKernel:
    """How a block is driven under a rule that goes by rounds; a rule adds its books and its own compiled functions."""

    proven = True
    silent_until = 0
    step: Any
    """What `rounds_stepper` made."""

    rule: Any

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        self.rule, self.terms = experiment.principal.rule, coded.terms

    def books(self, block: Block, owed: Owed) -> Any:
        """Return what the rule keeps of all runs of a block."""
        raise NotImplementedError

    def begin(self, block: Block) -> None:
        """Open the first rounds, and fix the first offers if the time for them has come."""
        block.own = self.books(block, self._owed(block))
        self._play(block, block.t, begins=True)

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        return self._play(block, until, begins=False)

    def _play(self, block: Block, until: int, begins: bool) -> int:
        b = block
        return int(self.step(b.lanes, b.strategies, b.state, self.terms, b.own, b.t, until, begins))

    def _owed(self, block: Block) -> Owed:
        """Return what is owed before any round is open."""
        M, B = block.experiment.shape[0], len(block.runs)
        targets: Ints = np.zeros(len(block.lanes.streams.mean), np.int64)
        owing: Ints = np.zeros(B + 1, np.int64)
        return Owed(targets, owing, block.by_lane(np.arange(B), B), most=np.full((B * M, 2), -1))


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
