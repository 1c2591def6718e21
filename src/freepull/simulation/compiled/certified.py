"""The certified rule as a kernel; it shares the rounds' mathematics with `freepull.principal.rules.certified`.

No sample has to wait in memory: the reward of a stream's n-th pull is a function of the seed, so the samples of a full
round are drawn again when it is evaluated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit, jit_apart
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
from freepull.principal.rules.certified.design import design, prediction
from freepull.principal.rules.certified.evaluation import best_up_to, eliminate, evaluate, look_ahead
from freepull.principal.rules.rounds import HALVINGS, MOST_RATIO, chance_of, fill_ratios, still_owed
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import bonuses_left, decide
from freepull.simulation.compiled.playing import pulls_at, reward_at
from freepull.simulation.compiled.rounds import Owed, RoundsKernel, rounds_stepper
from freepull.simulation.compiled.state import ACTIVE, DECLARED, LANE, PAID, PLACE, Block, Floats

_W = np.uint64(WIDTH)


class Books(NamedTuple):
    """What the rule keeps of all runs of a block."""

    used: Used
    coming: Round
    fill: Fill
    measure: Measure
    owed: Owed
    estimates: Floats
    """Rows of numbers by arm: what is still needed."""
    outlook: Floats
    constants: Constants


@jit_apart
def close_rounds(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> None:
    """Evaluate every round that is full and design the next, until samples are owed or one arm is left."""
    fill, measure, owed, constants = own.fill, own.measure, own.owed, own.constants
    agents, K = terms.agents, terms.K
    one = used_of(own, run)
    round = coming_of(own, run)
    for seat in range(run * agents, (run + 1) * agents):
        owed.most[seat, 0] = -1
    while owed.owing[run] == 0:
        draw_again(streams, state.seats, one, round, fill, run, agents)
        evaluate(one, round, fill, measure, constants)
        left = eliminate(one, round, constants)
        named = best_up_to(one, round, constants)
        if left == 1 or named >= 0:
            state.trials[run, DECLARED] = named
            for k in range(K):
                state.arms[np.uint64(run) * K + k, ACTIVE] = one.active[k]
            owed.owing[run] = -1
            decide(streams, state, terms, run, t)
            for seat in range(run * agents, (run + 1) * agents):
                for k in range(K):
                    owed.targets[np.uint64(state.seats[seat, PLACE]) + k * _W] = 0
            return
        design(one, round, constants)
        set_targets(streams, state, owed, one, round, run, agents, K)


@jit
def used_of(own: Any, run: int) -> Any:
    """G_c of one run."""
    used = own.used
    return Used(
        used.pulls[run], used.sums[run], used.errors[run], used.arms[run], used.active[run], used.course[run]
    )  # fmt: skip


@jit
def coming_of(own: Any, run: int) -> Any:
    """The coming round of one run."""
    coming = own.coming
    return Round(
        coming.blocks[run], coming.worth[run], coming.capital[run], coming.peaks[run], coming.rivals, coming.fits,
        coming.lengths, coming.scratch, coming.near[run], coming.reached[run], coming.aims,
    )  # fmt: skip


@jit_apart
def first_rounds(streams: Any, state: Any, terms: Any, own: Any) -> None:
    """Design the first round of every run."""
    for run in range(state.trials.shape[0]):
        used, coming = used_of(own, run), coming_of(own, run)
        design(used, coming, own.constants)
        set_targets(streams, state, own.owed, used, coming, run, terms.agents, terms.K)


@jit
def set_targets(streams: Any, state: Any, owed: Any, used: Any, coming: Any, run: int, agents: int, K: Any) -> None:
    """Note for every stream at which count it has given its block, and how many streams still owe something."""
    owed.owing[run] = 0
    for k in range(K):
        state.arms[np.uint64(run) * K + k, ACTIVE] = used.active[k]
    for m in range(agents):
        place = np.uint64(state.seats[run * agents + m, PLACE])
        for k in range(K):
            block = coming.blocks[k, m]
            target = used.pulls[k, m] + block if block > 0 else 0
            owed.targets[place + k * _W] = target
            if target > pulls_at(streams, place + k * _W):
                owed.owing[run] += 1


@jit
def draw_again(streams: Any, seats: Any, used: Any, coming: Any, fill: Any, run: int, agents: int) -> None:
    """Draw the samples of the coming round again, stream by stream: their sum, and Σ(X − x̂)²."""
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            for m in range(agents):
                if coming.blocks[k, m] > 0:
                    seat = run * agents + m
                    lane, position = np.uint64(seats[seat, LANE]), np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
                    expected = prediction(used, k, m)
                    total, errors = 0.0, 0.0
                    first = used.pulls[k, m] + 1
                    for n in range(first, first + coming.blocks[k, m]):
                        x = float(reward_at(streams, position, lane, k, n)) * 2.0**-30
                        error = x - expected
                        total += x
                        errors += error * error
                    fill.sums[k, m], fill.errors[k, m] = total, errors


@jit_apart
def forecast(streams: Any, state: Any, terms: Any, own: Any, run: int) -> Any:
    """w of an adaptive schedule, as in `CertifiedState.still_owed`."""
    used, coming, outlook, ratios = used_of(own, run), coming_of(own, run), own.outlook, own.estimates[0]
    look_ahead(used, coming, own.constants, outlook)
    fill_ratios(ratios, outlook, used.active)
    return owed_in_all(streams, state.seats, used, coming, ratios, 0.0, terms.each, run * terms.agents)[0]


@jit
def owed_in_all(
    streams: Any, seats: Any, used: Any, coming: Any, ratios: Any, pace: float, each: bool, first: int
) -> tuple[float, float]:
    """What all agents still owe together ("one"), or the one who owes most ("each"); and what has to be paid of it."""
    total, most, to_pay = 0.0, 0.0, 0.0
    for m in range(used.pulls.shape[1]):
        own, unpaid, place = 0.0, 0.0, np.uint64(seats[first + m, PLACE])
        for k in range(ratios.shape[0]):
            if coming.blocks[k, m] > 0:
                pulls = pulls_at(streams, place + np.uint64(k) * _W)
                owed = max(still_owed(ratios[k], used.pulls[k, m], coming.blocks[k, m], pulls), 0.0)
                own += owed
                unpaid += max(owed - pace * float(pulls), 0.0)
        total += own
        most = max(most, own)
        to_pay += unpaid
    return (most if each else total), to_pay


@jit_apart
def chance(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> float:
    """The forecast chance of a verdict in time, as in `CertifiedState.chance`."""
    used, coming, outlook, ratios = used_of(own, run), coming_of(own, run), own.outlook, own.estimates[0]
    look_ahead(used, coming, own.constants, outlook)
    bonuses = bonuses_left(state.priced, terms, run, state.trials[run, PAID])
    left = float(terms.horizon - t)
    least, most, pace = 0.0, MOST_RATIO, left / float(t)
    for _ in range(HALVINGS):
        middle = 0.5 * (least + most)
        ratios[:] = middle
        owed, unpaid = owed_in_all(streams, state.seats, used, coming, ratios, pace, terms.each, run * terms.agents)
        if owed <= left and unpaid <= bonuses:
            least = middle
        else:
            most = middle
    return chance_of(outlook, used.active, least)


step = rounds_stepper("certified", first_rounds, close_rounds, forecast, chance)


class CertifiedKernel(RoundsKernel):
    """The rule's settings as numbers, and how a block is driven under it."""

    rule: Certified
    step = staticmethod(step)

    def books(self, block: Block, owed: Owed) -> Books:
        """Nothing is used yet."""
        (M, K), setting = block.experiment.shape, block.setting
        margins: Floats = MARGINS if block.experiment.margins else np.zeros(0)
        constants, prior = self.rule.constants(setting, margins)
        used, coming = fresh(K, M, constants, prior, len(block.runs))
        return Books(
            used, coming, Fill(np.zeros((K, M)), np.zeros((K, M))), blank(K, constants), owed,
            estimates=np.zeros((1, K)), outlook=np.zeros((K, 2)), constants=constants,
        )  # fmt: skip

    def survives(self, block: Block, run: int) -> float:
        """γ* of a run that is decided."""
        books = block.own
        if (books.used.active[run] == 1).sum() > 1:
            return float(books.constants.margin / 2)
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
