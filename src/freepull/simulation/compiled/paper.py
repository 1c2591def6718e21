"""The paper's rule as a kernel, the twin of `freepull.principal.rules.paper`; the passive principal's, who is idle.

Where arms and agents are few, sixteen runs are played at once (`play_together`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.principal.rules import Paper
from freepull.principal.rules.rounds import gap_window
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.few import offer_few
from freepull.simulation.compiled.lanes import WIDTH, first_largest
from freepull.simulation.compiled.offering import act, decide, keep_neediest, looks, take_stock_of
from freepull.simulation.compiled.playing import pulls_at, step_at_once
from freepull.simulation.compiled.state import (
    ACTIVE,
    ARM,
    BANNED_UNTIL,
    DECIDED_AT,
    INVERSES,
    KAPPA,
    LANE,
    MEANS,
    MOST_COUNTED,
    NEED,
    NEVER,
    OPEN,
    PAID,
    PLACE,
    QUIET_UNTIL,
    SEAT,
    UNPULLED,
    UNSEEN,
    Block,
    Floats,
)
from freepull.simulation.compiled.world import turn
from freepull.simulation.experiment import Experiment

_FAR = np.int64(1) << np.int64(62)
_ONE = 2.0**-40
_W = np.uint64(WIDTH)


class Numbers(NamedTuple):
    """The rule's settings as numbers."""

    theta: float
    lo: float
    """The smallest gap that an estimate may have."""
    uniform: bool
    """Whether the pulls of all active arms and all agents are paid in turn."""


@jit
def incentivize(
    lanes: Any, strategies: Any, state: Any, terms: Any, sums: Any, numbers: Any, together: Any,
    after: int, until: int, begins: bool,
) -> int:  # fmt: skip
    """Play the steps after+1…until under the rule; return the last one played. First, look at step ``after`` if told.

    The first look is no function of its own, which would have to be compiled as well.
    """
    if together is not None and together.ready:
        return play_together(lanes, strategies, state, terms, sums, numbers.theta, together, after, until)
    for t in range(after if begins else after + 1, until + 1):
        if t > after:
            act(lanes, strategies, state, terms, sums, None, t)
            if terms.slack > 0.0:
                find_kappa(lanes, state, terms, numbers, t)
        if end_steps(lanes, state, terms, numbers, t) == 0:
            return t
    return until


@jit
def end_steps(lanes: Any, state: Any, terms: Any, numbers: Any, t: int) -> int:
    """Evaluate the rule in every run that may be decided, fix the coming offers, and return how many are undecided."""
    undecided, trials = 0, state.trials
    if terms.each and not numbers.uniform:
        find_least(lanes, terms.K)
    for run in range(trials.shape[0]):
        if trials[run, DECIDED_AT] == 0:
            if t >= trials[run, KAPPA]:
                if t >= trials[run, QUIET_UNTIL]:
                    quiet = eliminate(state.arms, numbers.theta, np.uint64(run) * terms.K, terms.K, terms.agents)
                    trials[run, QUIET_UNTIL] = t + quiet
                    if quiet < 0:
                        decide(lanes.told, state, terms, run, t)
                        continue
                choose_offers(lanes, state, terms, numbers.uniform, run, t)
            undecided += 1
    return undecided


@jit
def choose_offers(lanes: Any, state: Any, terms: Any, uniform: bool, run: int, t: int) -> None:
    """Fix who is offered what in step t + 1."""
    trials, arms, K = state.trials, state.arms, terms.K
    row = np.uint64(run) * K
    trials[run, OPEN] = 0
    room = terms.affordable - trials[run, PAID]
    if room < 1:
        return
    if uniform:
        trials[run, OPEN] = pay_in_turn(state, terms, room, run, t, _turn(lanes, state.seats, terms, run, t))
        return
    if terms.each:
        trials[run, OPEN] = _choose_each(lanes, state, terms, room, run, t)
        return
    arm: Any = np.uint64(0)
    widest, seat = np.int64(-1), np.int64(-1)
    for k in range(K):
        wide = arms[row + k, INVERSES] if arms[row + k, ACTIVE] == 1 else np.int64(-1)
        if trials[run, UNSEEN] > 0 and arms[row + k, UNPULLED] > 0:
            wide = np.int64(-1)
        arm = k if wide > widest else arm
        widest = max(wide, widest)
    if trials[run, UNSEEN] > 0:
        for k in range(K):
            if arms[row + k, ACTIVE] == 1 and arms[row + k, UNPULLED] > 0:
                seat = fewest(lanes, state.seats, terms, run, k, t)
                if seat >= 0 and _pulls(lanes, state.seats, seat, k) == 0:
                    arm = k
                    break
                seat = np.int64(-1)
    if seat < 0 and widest >= 0:
        seat = fewest(lanes, state.seats, terms, run, arm, t)
    if seat >= 0:
        first = run * terms.agents
        state.offers[first, SEAT], state.offers[first, ARM] = seat, np.int64(arm)
        trials[run, OPEN] = 1


@jit
def _pulls(lanes: Any, seats: Any, seat: int, arm: Any) -> Any:
    """N_km."""
    return pulls_at(lanes.told, np.uint64(seats[seat, PLACE]) + arm * _W)


@jit
def fewest(lanes: Any, seats: Any, terms: Any, run: int, arm: Any, t: int) -> Any:
    """The seat of the payable agent with the fewest pulls of the arm; −1 if nobody may be paid."""
    first = run * terms.agents
    least, found = _FAR, np.int64(-1)
    for seat in range(first, first + terms.agents):
        N = _pulls(lanes, seats, seat, arm) if seats[seat, BANNED_UNTIL] <= t else _FAR
        found = np.int64(seat) if least > N else found
        least = min(N, least)
    return found


@jit
def find_least(lanes: Any, K: Any) -> None:
    """Of which arm every lane has the fewest pulls, the lowest of several; sixteen lanes at once.

    That has the largest 1/√N, beside which a mean is nothing if 1/√N is multiplied by a number that is large enough; an
    unpulled arm's mean is infinite.
    """
    for chunk in range(np.uint64(lanes.arm.shape[0]) // _W):
        first_largest(lanes.told.mean, lanes.told_root, chunk * K * _W, K, 1e300, lanes.wanted, chunk * _W)


@jit
def _choose_each(lanes: Any, state: Any, terms: Any, room: int, run: int, t: int) -> int:
    """To every payable agent the active arm it has pulled least; short of money, the neediest first."""
    seats, offers, arms = state.seats, state.offers, state.arms
    first, row = run * terms.agents, np.uint64(run) * terms.K
    found, active = first, np.uint64(0)
    for k in range(row, row + terms.K):
        active += np.uint64(arms[k, ACTIVE])
    for seat in range(first, first + terms.agents):
        if seats[seat, BANNED_UNTIL] <= t:
            arm = np.uint64(lanes.wanted[seats[seat, LANE]])
            if active < terms.K:
                arm = _least_active(lanes, seats, arms, seat, row, terms.K)
            offers[found, SEAT], offers[found, ARM] = seat, np.int64(arm)
            offers[found, NEED] = -_pulls(lanes, seats, seat, arm)
            found += 1
    return int(keep_neediest(offers, first, found, room))


@jit
def _least_active(lanes: Any, seats: Any, arms: Any, seat: int, row: Any, K: Any) -> Any:
    """The active arm that an agent has pulled least."""
    least, found = _FAR, np.uint64(0)
    for k in range(K):
        if arms[row + k, ACTIVE] == 1:
            N = _pulls(lanes, seats, seat, k)
            found = np.uint64(k) if least > N else found
            least = min(N, least)
    return found


@jit
def _turn(lanes: Any, seats: Any, terms: Any, run: int, t: int) -> Any:
    """How often everybody was told of, on average and rounded down."""
    if lanes.world.defers == 0:
        return turn(lanes.there, run, terms.agents, t)
    told = np.int64(0)
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        for k in range(terms.K):
            told += _pulls(lanes, seats, seat, k)
    return told // terms.agents


@jit_apart
def pay_in_turn(state: Any, terms: Any, room: int, run: int, t: int, turn: int) -> int:
    """Pay for the pulls of all active arms and all agents in turn; return how many offers step t + 1 has."""
    seats, offers, arms = state.seats, state.offers, state.arms
    first, row = run * terms.agents, np.uint64(run) * terms.K
    active = 0
    for k in range(terms.K):
        active += arms[row + k, ACTIVE]
    payable = 0
    for seat in range(first, first + terms.agents):
        payable += int(seats[seat, BANNED_UNTIL] <= t)
    if payable == 0:
        return 0
    found, skip = first, turn // active % payable
    for seat in range(first, first + terms.agents):
        if seats[seat, BANNED_UNTIL] <= t:
            if terms.each:
                _offer(offers, arms, found, seat, (turn + seat - first) % active, row, terms.K)
                found += 1
            elif skip == 0:
                _offer(offers, arms, first, seat, turn % active, row, terms.K)
                return 1
            skip -= 1
    return int(keep_neediest(offers, first, found, room))


@jit
def _offer(offers: Any, arms: Any, place: int, seat: int, nth: int, row: Any, K: Any) -> None:
    """Offer the nth active arm, counted from 0."""
    for k in range(K):
        if arms[row + k, ACTIVE] == 1:
            if nth == 0:
                offers[place, ARM] = np.int64(k)
            nth -= 1
    offers[place, SEAT], offers[place, NEED] = seat, 0


@jit
def find_kappa(lanes: Any, state: Any, terms: Any, numbers: Any, t: int) -> None:
    """`Adaptive`: a run that still observes starts here if the time left falls to slack × what is missing."""
    if not looks(terms, t):
        return
    for run in range(state.trials.shape[0]):
        if t < state.trials[run, KAPPA]:
            w = _missing(lanes, state, terms, numbers, run)
            if float(terms.horizon - t) <= terms.slack * w:
                state.trials[run, KAPPA] = t


@jit
def _missing(lanes: Any, state: Any, terms: Any, numbers: Any, run: int) -> float:
    """w: Σ (n_k − N_km)⁺ over all ("one"), or the most of one agent ("each"), as in `PaperState.missing`."""
    arms, agents, K = state.arms, terms.agents, terms.K
    first, row = run * agents, np.uint64(run) * K
    leader: Any = np.uint64(0)
    nearest = math.inf
    for k in range(K):
        if arms[row + k, MEANS] * _ONE / float(agents) > arms[row + leader, MEANS] * _ONE / float(agents):
            leader = k
    top = arms[row + leader, MEANS] * _ONE / float(agents)
    for k in range(K):
        if k != leader:
            nearest = min(nearest, top - arms[row + k, MEANS] * _ONE / float(agents))
    total, most = 0.0, 0.0
    for seat in range(first, first + agents):
        own = 0.0
        for k in range(K):
            gap = max(nearest if k == leader else top - arms[row + k, MEANS] * _ONE / float(agents), numbers.lo)
            needed = 4.0 * numbers.theta / (float(agents) * (gap * gap))
            own += max(needed - float(_pulls(lanes, state.seats, seat, k)), 0.0)
        total += own
        most = max(most, own)
    return most if terms.each else total


class PaperKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule, (M, K), T = experiment.principal.rule, experiment.shape, experiment.horizon
        assert isinstance(rule, Paper)
        self.terms, self.kappa, self.proven = coded.terms, experiment.setting.kappa, rule.proven(K, M, T)
        lo = gap_window(K, M, T, T // 2, rule.delta, experiment.principal.offers)[0]
        self.numbers = Numbers(rule.theta(K, M, T), lo, rule.pay == "uniform")
        every = max(1, T // 1000)
        first_look = every * -(-max(K, -(-T // 10)) // every)
        self.silent_until = min(T, first_look) - 1 if self.kappa is None else self.kappa

    def begin(self, block: Block) -> None:
        """Look at the end of step κ; if that is 0, the offers of the first step follow from nothing."""
        if self.kappa is not None:
            self._play(block, block.t, begins=True)

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        return self._play(block, until, begins=False)

    def _play(self, block: Block, until: int, begins: bool) -> int:
        b, together = block, block.together
        if together is not None and len(together.due) and not begins:
            together = together._replace(ready=not b.state.trials[:, UNSEEN].any())
            until = min(until, b.t + (MOST_COUNTED if together.ready else WIDTH))
        ready = together is not None and together.ready
        if ready:
            b.begin_together()
        played = incentivize(
            b.lanes, b.strategies, b.state, self.terms, b.sums, self.numbers, together, b.t, until, begins
        )
        if ready:
            b.end_together()
        return int(played)

    def bounds(self, block: Block) -> Floats:
        """CB_k per (run, arm)."""
        (M, K), arms = block.experiment.shape, block.state.arms
        width = np.sqrt(arms[:-K, INVERSES] * _ONE * self.numbers.theta) / M
        return np.where(arms[:-K, UNPULLED] > 0, np.inf, width).reshape(-1, K)


class PassiveKernel:
    """Nothing to drive: the passive principal's rule never looks."""

    proven = False

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        self.silent_until = experiment.horizon

    def begin(self, block: Block) -> None:
        """Do nothing."""

    def advance(self, block: Block, until: int) -> int:
        """Never needed: every step is silent."""
        return until

    def bounds(self, block: Block) -> Floats:
        """No bound is used."""
        return np.full((len(block.runs), block.experiment.shape[1]), np.inf)


@jit
def play_together(
    lanes: Any, strategies: Any, state: Any, terms: Any, sums: Any, theta: float, together: Any, after: int, until: int
) -> int:
    """Play the steps after+1…until, but none after the last decision; return the last one played.

    Offers are chosen at the beginning of a step, from what the end of the one before has left. Sums over agents are
    computed afresh for runs that have to be evaluated.
    """
    K, agents = terms.K, np.uint64(terms.agents)
    groups, undecided = np.uint64(together.due.shape[0]), 0
    for run in range(state.trials.shape[0]):
        undecided += int(state.trials[run, DECIDED_AT] == 0)
    for t in range(after + 1, until + 1):
        for group in range(groups):
            first, row, place = group * agents, group * K * _W, group * _W
            offer_few(lanes.root, together.barred, together.arm, together.agent, first * K * _W, K, row, place, agents)
            for m in range(agents):
                step_at_once(lanes, strategies, together, first + m, place, m, K, t)
        for group in range(groups):
            if t >= together.due[group]:
                undecided -= _evaluate(lanes, state, terms, sums, theta, together, group, t)
        if undecided == 0:
            return t
    return until


@jit
def _evaluate(lanes: Any, state: Any, terms: Any, sums: Any, theta: float, together: Any, group: Any, t: int) -> int:
    """Evaluate those runs of a group for which it is time; return how many are decided by that."""
    trials, seats, arms, K, decided, due = state.trials, state.seats, state.arms, terms.K, 0, np.int64(NEVER)
    for run in range(np.int64(group * _W), min(np.int64(group * _W + _W), trials.shape[0])):
        if trials[run, DECIDED_AT] == 0:
            if t >= trials[run, QUIET_UNTIL]:
                for seat in range(run * terms.agents, (run + 1) * terms.agents):
                    for k in range(K):
                        position = np.uint64(seats[seat, PLACE]) + k * _W
                        lanes.streams.cells[position + position] = lanes.desk[position // _W * _W + position]
                take_stock_of(lanes.streams, seats, sums, run)
                quiet = eliminate(arms, theta, np.uint64(run) * K, K, terms.agents)
                trials[run, QUIET_UNTIL] = t + quiet
                if quiet < 0:
                    decide(lanes.streams, state, terms, run, t)
                    decided += 1
                for k in range(K):
                    out = quiet < 0 or arms[np.uint64(run) * K + k, ACTIVE] == 0
                    together.barred[(group * K + k) * _W + np.uint64(run) % _W] = -math.inf if out else 0.0
            due = min(due, trials[run, QUIET_UNTIL] if trials[run, DECIDED_AT] == 0 else np.int64(NEVER))
    together.due[group] = due
    return decided


@jit_apart
def eliminate(arms: Any, theta: float, row: Any, K: Any, agents: int) -> int:
    """Eq. (3), both sides times M; return −1 if one arm is left, else in how many steps the next one could go.

    A pull moves its agent's mean by at most 1/N and Σ1/N by at most 1/N², an agent pulls one arm a step, and
    1/N ≤ Σ1/N = R. So in a step the totals and widths of any two arms come closer by at most M·(R + √θ·R^{3/2}),
    R the largest of the active arms.
    """
    highest, lowest, largest = -math.inf, math.inf, 0.0
    active = 0
    for k in range(row, row + K):
        if arms[k, ACTIVE] == 1:
            active += 1
            if arms[k, UNPULLED] > 0:
                largest = math.inf
            else:
                R = arms[k, INVERSES] * _ONE
                width = math.sqrt(R * theta)
                highest = max(highest, arms[k, MEANS] * _ONE - width)
                lowest = min(lowest, arms[k, MEANS] * _ONE + width)
                largest = max(largest, R)
    if largest == math.inf and lowest >= highest:
        return 1 if active > 1 else -1
    if lowest >= highest:
        closer = float(agents) * (largest + math.sqrt(theta * largest) * largest + 1e-9)
        return max(1, int(0.99 * min((lowest - highest) / closer, 1e6))) if active > 1 else -1
    for k in range(row, row + K):
        upper = arms[k, MEANS] * _ONE + math.sqrt(arms[k, INVERSES] * _ONE * theta)
        if arms[k, ACTIVE] == 1 and arms[k, UNPULLED] == 0 and upper < highest:
            arms[k, ACTIVE] = 0
            active -= 1
    return 1 if active > 1 else -1
