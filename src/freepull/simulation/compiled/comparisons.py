"""The rule for people as they are as a kernel; it shares the book and all choices with the rule itself.

Whoever acts is heard first, so agents are played one by one here, also where everybody acts in every step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit
from freepull.principal.rules import Comparisons
from freepull.principal.rules.comparisons import book as books
from freepull.principal.rules.comparisons.openings import hear, judge_guesses, wanted, worth_paying
from freepull.simulation.compiled.coding import Coded
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import act_one, decide, post_prices
from freepull.simulation.compiled.playing import deliver, pulls_at, units_at
from freepull.simulation.compiled.state import (
    ACTIVE,
    BANNED_UNTIL,
    DECIDED_AT,
    DECLARED,
    KAPPA,
    LANE,
    OFFER,
    PAID,
    PLACE,
    Block,
    Floats,
    Ints,
)
from freepull.simulation.compiled.world import arm_of, list_acting, reward_of
from freepull.simulation.experiment import Experiment

_W = np.uint64(WIDTH)
MOST = 700.0


class Own(NamedTuple):
    """What the rule keeps of all runs of a block."""

    book: books.Book
    constants: books.Constants
    pulls: Ints
    """The pulls of the agent who asks, by arm."""
    sums: Ints
    """And its sums of rewards."""
    chosen: Ints
    """The seat that the one offer of a step goes to, and its arm, by run; −1 for none."""
    counts_asks: bool
    """Whether the rule hears an agent who has asked before and was not told of since."""


@jit
def step(lanes: Any, strategies: Any, state: Any, terms: Any, own: Any, after: int, until: int) -> int:
    """Play the steps after+1…until under the rule; return the last one played."""
    trials, agents = state.trials, terms.agents
    for t in range(after + 1, until + 1):
        undecided = 0
        post_prices(state.priced, terms, t)
        for run in range(trials.shape[0]):
            going = trials[run, DECIDED_AT] == 0
            room = terms.affordable - trials[run, PAID] if going and t > trials[run, KAPPA] else 0
            if room > 0 and not worth_paying(own.book, own.constants, run, t - 1):
                room = 0
            first = run * agents
            for at in range(first, last_acting(lanes.there, first, first + agents, t)):
                seat = acting(lanes.there, at)
                state.seats[seat, OFFER] = books.NONE
                if going:
                    note(lanes.told, state.seats, own, seat, terms.K)
                    lane = state.seats[seat, LANE]
                    if lanes.world.asking[lane] == 0 or own.counts_asks:
                        hear(own.book, own.constants, run, seat - first, seat, own.pulls, own.sums, t - 1)
                        lanes.world.asking[lane] = lanes.world.defers
                    if room > 0 and state.seats[seat, BANNED_UNTIL] < t:
                        arm = choose(own, terms.each, run, seat)
                        state.seats[seat, OFFER] = arm
                        room -= arm != books.NONE
                reward = act_one(lanes, strategies, state, terms, None, None, seat, t)
                state.seats[seat, OFFER] = books.NONE
                arm = lanes.arm[state.seats[seat, LANE]]
                if going and (lanes.world.defers == 0 or lanes.world.spoke[state.seats[seat, LANE]] == t):
                    books.fill(own.book, own.constants, run, seat - first, seat, arm, reward)
            if lanes.world.defers == 1:
                fill_late(lanes, state.seats, own, run, first, agents, terms.K, going, t)
            if going:
                evaluate(lanes.told, state, terms, own, run, t)
                if trials[run, DECIDED_AT] == 0:
                    undecided += 1
                    if not terms.each:
                        choose_one(lanes.told, state, terms, own, run, t)
        if undecided == 0:
            return t
    return until


@jit
def fill_late(lanes: Any, seats: Any, own: Any, run: int, first: int, agents: int, K: Any, going: bool, t: int) -> None:
    """Let the reports of a run that are due in step t come."""
    for seat in range(first, first + agents):
        report = deliver(lanes, None, None, np.uint64(seats[seat, LANE]), K, t)
        if going and report != 0:
            arm, reward = np.int64(arm_of(report)), reward_of(report)
            books.fill(own.book, own.constants, run, seat - first, seat, arm, reward)


@jit
def last_acting(there: Any, first: int, last: int, t: int) -> Any:
    """One past the last place in the list of who acts in step t; everybody where nobody is ever idle."""
    if there is None:
        return last
    return list_acting(there, first, last, t)


@jit
def acting(there: Any, at: int) -> Any:
    """The seat at a place of that list."""
    if there is None:
        return at
    return there.acting[at]


@jit
def note(streams: Any, seats: Any, own: Any, seat: int, K: Any) -> None:
    """Write down the pulls and sums of one agent."""
    place = np.uint64(seats[seat, PLACE])
    for k in range(K):
        own.pulls[k] = pulls_at(streams, place + k * _W)
        own.sums[k] = units_at(streams, place + k * _W)


@jit
def choose(own: Any, each: bool, run: int, seat: int) -> int:
    """The arm that this agent is offered a bonus for, −1 for none."""
    if each:
        return wanted(own.book, run, seat, own.pulls, own.sums)
    return int(own.chosen[run, 1]) if own.chosen[run, 0] == seat else books.NONE


@jit
def choose_one(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> None:
    """Choose the one offer of the next step: the oldest comparison that lacks something its agent would not pull."""
    own.chosen[run, 0] = books.NONE
    oldest = np.int64(1) << 62
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        place = np.int64(own.book.place[seat])
        if place != books.NONE and place < oldest and state.seats[seat, BANNED_UNTIL] <= t:
            note(streams, state.seats, own, seat, terms.K)
            arm = wanted(own.book, run, seat, own.pulls, own.sums)
            if arm != books.NONE:
                own.chosen[run, 0], own.chosen[run, 1], oldest = seat, arm, place


@jit
def evaluate(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> None:
    """Look, if there is news enough, and decide."""
    books.renew_predictions(own.book, run)
    judge_guesses(own.book, run)
    if books.is_due(own.book, run):
        found, left = books.look(own.book, own.constants, run), 0
        for k in range(terms.K):
            state.arms[np.uint64(run) * terms.K + k, ACTIVE] = np.int64(own.book.active[run, k] == books.IN)
            left += own.book.active[run, k] == books.IN
        state.trials[run, DECLARED] = books.leading(own.book, run) if found == books.NONE else found
        if left == 1 or found != books.NONE:
            decide(streams, state, terms, run, t)


class ComparisonsKernel:
    """The rule's settings as numbers, and how a block is driven under it."""

    proven = True
    silent_until = 0

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        self.rule, self.terms = experiment.principal.rule, coded.terms
        assert isinstance(self.rule, Comparisons)

    def begin(self, block: Block) -> None:
        """Open an empty book."""
        (M, K), B = block.experiment.shape, len(block.runs)
        assert isinstance(self.rule, Comparisons)
        pulls, sums = np.zeros((2, K), np.int64)
        block.own = Own(
            books.fresh(B, M, K),
            self.rule.constants(block.setting),
            pulls,
            sums,
            np.full((B, 2), books.NONE),
            self.rule.late,
        )
        block.state.trials[:, DECLARED] = 0

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        b = block
        return int(step(b.lanes, b.strategies, b.state, self.terms, b.own, b.t, until))

    def bounds(self, block: Block) -> Floats:
        """The largest evidence per (run, arm) at the last look, as a finite number."""
        book: books.Book = block.own.book
        runs, arms = book.active.shape
        logs = [[float(book.evidence[r, books.strongest(book, r, k), k]) for k in range(arms)] for r in range(runs)]
        return np.array([[math.exp(min(log, MOST)) for log in row] for row in logs])

    def survives(self, block: Block, run: int) -> float | None:
        """γ* of a run that is decided, where rewards are 0 and 1."""
        return books.tipping_point(block.own.book, block.own.constants, run, int(block.state.trials[run, DECLARED]))
