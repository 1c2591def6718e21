"""The paper's rule as a kernel; the twin of `freepull.principal.rules.paper`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.principal.rules import Paper
from freepull.principal.rules.window import gap_window
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import act, freeze, keep_neediest, looks
from freepull.simulation.compiled.picking import pulls_at
from freepull.simulation.compiled.state import (
    ACTIVE,
    ARM,
    BANNED_UNTIL,
    DECIDED_AT,
    INVERSES,
    KAPPA,
    MEANS,
    NEED,
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
from freepull.simulation.compiled.turns import plan_in_turn
from freepull.simulation.experiment import Experiment

_FAR = np.int64(1) << np.int64(62)
_ONE = 2.0**-40
_W = np.uint64(WIDTH)


@jit
def incentivize(
    mean: Any, root: Any, cells: Any, fixed: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    seats: Any, offers: Any, trials: Any, arms: Any, paid: Any, frozen: Any, answers: Any, tables: Any,
    words: Any, work: Any, owner: Any, inverses: Any, bonus: float, ban_after: int, ban_length: int,
    affordable: int, each: bool, uniform: bool, theta: float, slack: float, lo: float, horizon: int, agents: int,
    K: Any, after: int, until: int,
) -> int:  # fmt: skip
    """Play the steps after+1…until under the rule; return the last one played."""
    for t in range(after + 1, until + 1):
        act(
            mean, root, cells, keys, arm, chunks, settings, laws, deep, seats, offers, trials, paid, answers, tables,
            words, work, (fixed, arms, trials, owner, inverses), None, bonus, ban_after, ban_length, agents, K, t,
        )  # fmt: skip
        if slack > 0.0:
            find_kappa(cells, laws, seats, trials, arms, each, theta, slack, lo, horizon, agents, K, t)
        left = end_steps(
            cells, laws, seats, offers, trials, arms, frozen, affordable, each, uniform, theta, agents, K, t
        )
        if left == 0:
            return t
    return until


@jit
def end_steps(
    cells: Any, laws: Any, seats: Any, offers: Any, trials: Any, arms: Any, frozen: Any, affordable: int, each: bool,
    uniform: bool, theta: float, agents: int, K: Any, t: int,
) -> int:  # fmt: skip
    """Evaluate the rule in every run that may be decided, fix the coming offers, and return how many are undecided."""
    undecided = 0
    for run in range(trials.shape[0]):
        if trials[run, DECIDED_AT] == 0:
            if t >= trials[run, KAPPA]:
                if t >= trials[run, QUIET_UNTIL]:
                    quiet = eliminate(arms, theta, np.uint64(run) * K, K, agents)
                    trials[run, QUIET_UNTIL] = t + quiet
                    if quiet < 0:
                        trials[run, DECIDED_AT] = t
                        trials[run, OPEN] = 0
                        freeze(cells, laws, seats, frozen, run, agents, K)
                        continue
                plan(cells, laws, seats, offers, trials, arms, affordable, each, uniform, run, agents, K, t)
            undecided += 1
    return undecided


@jit
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


@jit
def plan(
    cells: Any, laws: Any, seats: Any, offers: Any, trials: Any, arms: Any, affordable: int, each: bool,
    uniform: bool, run: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Fix who is offered what in step t + 1."""
    first, row = run * agents, np.uint64(run) * K
    trials[run, OPEN] = 0
    room = affordable - trials[run, PAID]
    if room < 1:
        return
    if uniform:
        trials[run, OPEN] = plan_in_turn(seats, offers, arms, room, each, first, row, agents, K, t)
        return
    if each:
        trials[run, OPEN] = _plan_each(cells, laws, seats, offers, arms, room, first, row, agents, K, t)
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
                seat = fewest(cells, laws, seats, first, agents, k, K, t)
                if seat >= 0 and _pulls(cells, laws, seats, seat, k, K) == 0:
                    arm = k
                    break
                seat = np.int64(-1)
    if seat < 0 and widest >= 0:
        seat = fewest(cells, laws, seats, first, agents, arm, K, t)
    if seat >= 0:
        offers[first, SEAT], offers[first, ARM] = seat, np.int64(arm)
        trials[run, OPEN] = 1


@jit
def _pulls(cells: Any, laws: Any, seats: Any, seat: int, arm: Any, K: Any) -> Any:
    """N_km."""
    return pulls_at(cells, laws, np.uint64(seats[seat, PLACE]) + arm * _W)


@jit
def fewest(cells: Any, laws: Any, seats: Any, first: int, agents: int, arm: Any, K: Any, t: int) -> Any:
    """The seat of the payable agent with the fewest pulls of the arm; −1 if nobody may be paid."""
    least, found = _FAR, np.int64(-1)
    for seat in range(first, first + agents):
        N = _pulls(cells, laws, seats, seat, arm, K) if seats[seat, BANNED_UNTIL] <= t else _FAR
        found = np.int64(seat) if least > N else found
        least = min(N, least)
    return found


@jit
def _plan_each(
    cells: Any, laws: Any, seats: Any, offers: Any, arms: Any, room: int, first: int, row: Any, agents: int, K: Any,
    t: int,
) -> int:  # fmt: skip
    """To every payable agent the active arm it has pulled least; short of money, the neediest first."""
    found = first
    for seat in range(first, first + agents):
        if seats[seat, BANNED_UNTIL] <= t:
            least = _FAR
            for k in range(K):
                if arms[row + k, ACTIVE] == 1:
                    N = _pulls(cells, laws, seats, seat, k, K)
                    if least > N:
                        least = N
                        offers[found, ARM] = np.int64(k)
            offers[found, SEAT], offers[found, NEED] = seat, -least
            found += 1
    return int(keep_neediest(offers, first, found, room))


@jit
def find_kappa(
    cells: Any, laws: Any, seats: Any, trials: Any, arms: Any, each: bool, theta: float, slack: float, lo: float,
    horizon: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """`Adaptive`: a run that still observes starts here if the time left falls to slack × what is missing."""
    if not looks(t, horizon, K):
        return
    for run in range(trials.shape[0]):
        if t < trials[run, KAPPA]:
            w = _missing(cells, laws, seats, arms, theta, lo, each, run * agents, np.uint64(run) * K, agents, K)
            if float(horizon - t) <= slack * w:
                trials[run, KAPPA] = t


@jit
def _missing(
    cells: Any, laws: Any, seats: Any, arms: Any, theta: float, lo: float, each: bool, first: int, row: Any,
    agents: int, K: Any,
) -> float:  # fmt: skip
    """w: Σ (n_k − N_km)⁺ over all ("one"), or the most of one agent ("each"), as in `PaperState.missing`."""
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
            gap = max(nearest if k == leader else top - arms[row + k, MEANS] * _ONE / float(agents), lo)
            needed = 4.0 * theta / (float(agents) * (gap * gap))
            own += max(needed - float(_pulls(cells, laws, seats, seat, k, K)), 0.0)
        total += own
        most = max(most, own)
    return most if each else total


class PaperKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        rule, (M, K), T = experiment.principal.rule, experiment.shape, experiment.horizon
        assert isinstance(rule, Paper)
        self.theta, self.proven = rule.theta(K, M, T), rule.proven(K, M, T)
        self.uniform = rule.pay == "uniform"
        self.lo = gap_window(K, M, T, T // 2, rule.delta, experiment.principal.offers)[0]
        self.bonus, self.horizon, self.agents, self.arms = float(experiment.principal.bonus), T, M, np.uint64(K)
        self.coded = coded
        every = max(1, T // 1000)
        first_look = every * -(-max(K, -(-T // 10)) // every)
        self.silent_until = min(T, first_look) - 1 if coded.kappa is None else coded.kappa

    def begin(self, block: Block) -> None:
        """Look at the end of step κ, unless κ = 0, where the offers of the first step follow from nothing."""
        b, c, M, K = block, self.coded, self.agents, self.arms
        state = (b.cells, b.laws, b.seats, b.offers, b.trials, b.arms)
        if c.kappa is not None and b.t > 0:
            end_steps(*state, b.frozen, c.affordable, c.each, self.uniform, self.theta, M, K, b.t)
        elif c.kappa is not None:
            for run in range(len(b.runs)):
                plan(*state, c.affordable, c.each, self.uniform, run, M, K, 0)

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        b, c = block, self.coded
        return int(
            incentivize(
                b.mean, b.root, b.cells, b.fixed, b.keys, b.arm, b.chunks, b.settings, b.laws, b.deep, b.seats,
                b.offers, b.trials, b.arms, b.paid, b.frozen, c.answers, c.tables, b.words,
                b.work, b.owner, c.inverses, self.bonus, c.ban_after, c.ban_length, c.affordable, c.each, self.uniform,
                self.theta, c.adaptive, self.lo, self.horizon, self.agents, self.arms, b.t, until,
            )
        )  # fmt: skip

    def bounds(self, block: Block) -> Floats:
        """CB_k per (run, arm)."""
        M, K = block.experiment.shape
        width = np.sqrt(block.arms[:-K, INVERSES] * _ONE * self.theta) / M
        return np.where(block.arms[:-K, UNPULLED] > 0, np.inf, width).reshape(-1, K)
