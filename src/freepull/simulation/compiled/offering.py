"""The step around a rule: offers are answered, pulls recorded, refusals become bans. Every rule's kernel uses these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.numerics import mix, uniform
from freepull.randomness import STEP
from freepull.simulation.compiled.coding import ALWAYS, HOLD_OUT, IF_WORTH_IT, WITH_PROBABILITY
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.picking import pick_chunk, pulls_at, units_at
from freepull.simulation.compiled.pulling import fixed_mean, pull_chunk
from freepull.simulation.compiled.state import (
    ANSWERS,
    ARM,
    BANNED_UNTIL,
    INVERSES,
    KIND,
    LANE,
    MEANS,
    NEED,
    OFFERS,
    OPEN,
    PAID,
    PLACE,
    REFUSALS,
    REFUSED,
    ROW,
    SEAT,
    UNPULLED,
    UNSEEN,
)

_W, _STEP = np.uint64(WIDTH), np.uint64(STEP)


@jit
def act(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    seats: Any, offers: Any, trials: Any, paid: Any, answers: Any, tables: Any, words: Any, work: Any, sums: Any,
    rounds: Any, bonus: float, ban_after: int, ban_length: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Everybody's part of a step: pick, answer, pull. The rule looks afterwards."""
    pick_all(mean, root, cells, keys, arm, chunks, settings, laws, deep, tables, K, t)
    for run in range(trials.shape[0]):
        settle(
            mean, keys, arm, seats, offers, trials, paid, answers, bonus, ban_after, ban_length, run, agents, K, t
        )  # fmt: skip
    pull_all(mean, root, cells, keys, arm, laws, words, work, sums, rounds, K)


@jit
def pick_all(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    tables: Any, K: Any, t: int,
) -> None:  # fmt: skip
    """Let every lane pick for itself; who takes an offer will not follow it."""
    for chunk in range(np.uint64(chunks.shape[0])):
        kind, row, setting = chunks[chunk, KIND], chunks[chunk, ROW], settings[chunk]
        pick_chunk(mean, root, cells, keys, arm, laws, deep, tables, kind, row, setting, chunk, K, t)


@jit
def settle(
    mean: Any, keys: Any, arm: Any, seats: Any, offers: Any, trials: Any, paid: Any, answers: Any, bonus: float,
    ban_after: int, ban_length: int, run: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Let the agents of a run answer their offers; a refusal whose own pick is the offered arm counts as taken.

    ``answers`` is None where everybody takes every offer. A refusal bans from the ``ban_after``-th on, for
    ``ban_length`` steps.
    """
    first = np.uint64(run * agents)
    for at in range(first, first + np.uint64(trials[run, OPEN])):
        seat, offer = np.uint64(offers[at, SEAT]), np.uint64(offers[at, ARM])
        lane = np.uint64(seats[seat, LANE])
        if answers is None or _takes(mean, keys, seats, answers, bonus, seat, seat - first, lane, offer, K, t):
            arm[lane] = np.int64(offer)
        if answers is None or arm[lane] == np.int64(offer):
            paid[seat, offer] += 1
            trials[run, PAID] += 1
        else:
            trials[run, REFUSED] += 1
            seats[seat, REFUSALS] += 1
            if seats[seat, REFUSALS] >= ban_after:
                seats[seat, BANNED_UNTIL] = t + ban_length


@jit
def _takes(
    mean: Any, keys: Any, seats: Any, answers: Any, bonus: float, seat: Any, m: Any, lane: Any, offer: Any, K: Any,
    t: int,
) -> bool:  # fmt: skip
    """Whether the agent takes the offer; the twin of `freepull.answers`."""
    kinds, settings = answers
    seats[seat, OFFERS] += 1
    takes = kinds[m] == ALWAYS
    if kinds[m] == WITH_PROBABILITY:
        takes = uniform(mix(keys[ANSWERS, lane] + _STEP * np.uint64(t))) < settings[m]
    elif kinds[m] == HOLD_OUT:
        takes = float(seats[seat, OFFERS]) > settings[m]
    elif kinds[m] == IF_WORTH_IT:
        takes = bonus >= _expected_loss(mean, np.uint64(seats[seat, PLACE]), offer, K)
    return bool(takes)


@jit
def _expected_loss(mean: Any, place: Any, offer: Any, K: Any) -> float:
    """max_j μ̂_j − μ̂_k as the agent sees it; an unpulled arm counts as ½."""
    top, here = -1.0, 0.0
    for k in range(K):
        own = mean[place + k * _W]
        if own == math.inf:
            own = 0.5
        top = max(top, own)
        if k == offer:
            here = own
    return top - here


@jit
def pull_all(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, laws: Any, words: Any, work: Any, sums: Any,
    rounds: Any, K: Any,
) -> None:  # fmt: skip
    """Pull what every lane has chosen, and keep up to date what the rule looks at."""
    for chunk in range(np.uint64(arm.shape[0]) // _W):
        pull_chunk(mean, root, cells, keys, arm, laws, words, work, sums, rounds, chunk, K)


@jit
def keep_neediest(offers: Any, first: int, found: int, room: int) -> int:
    """Of the offers in rows first…found−1 keep as many as there is room for, the neediest; return how many."""
    if found - first <= room:
        return found - first
    for place in range(first, first + room):
        neediest = place
        for at in range(place + 1, found):
            if _needier(offers, at, neediest):
                neediest = at
        for column in range(3):
            offers[place, column], offers[neediest, column] = offers[neediest, column], offers[place, column]
    return room


@jit
def _needier(offers: Any, a: int, b: int) -> Any:
    """Whether one offer goes before another: more need, then lower arm, then lower agent."""
    if offers[a, NEED] != offers[b, NEED]:
        return offers[a, NEED] > offers[b, NEED]
    if offers[a, ARM] != offers[b, ARM]:
        return offers[a, ARM] < offers[b, ARM]
    return offers[a, SEAT] < offers[b, SEAT]


@jit
def looks(t: int, horizon: int, K: Any) -> Any:
    """Whether an adaptive schedule looks at the end of step t (`schedules.Adaptive.looks`)."""
    return t == horizon or (t % max(1, horizon // 1000) == 0 and t >= np.int64(K) and 10 * t >= horizon)


@jit
def global_means(
    mean: Any, cells: Any, laws: Any, seats: Any, means: Any, weights: Any, weighted: bool, first: int
) -> None:
    """The global sample means of a run afresh from its record, as `RuleState.mean` has them."""
    agents = weights.shape[0]
    for k in range(means.shape[0]):
        fixed, total = np.int64(0), 0.0
        for m in range(agents):
            position = np.uint64(seats[first + m, PLACE]) + np.uint64(k) * _W
            N = pulls_at(cells, laws, position)
            if N > 0:
                fixed += fixed_mean(cells, laws, position, N, mean[position])
                total += weights[m] * mean[position]
        means[k] = total if weighted else float(fixed) * 2.0**-40 / float(agents)


@jit
def take_stock(mean: Any, cells: Any, fixed: Any, laws: Any, seats: Any, trials: Any, arms: Any, inverses: Any) -> None:
    """Compute the sums over agents afresh from the record, where nobody kept them while observing."""
    runs = trials.shape[0]
    K, agents = arms.shape[0] // (runs + 1), seats.shape[0] // runs
    arms[:, :UNPULLED] = 0
    arms[:, UNPULLED] = agents
    trials[:, UNSEEN] = agents * K
    for seat in range(seats.shape[0]):
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            N = pulls_at(cells, laws, position)
            if N > 0:
                row = seat // agents * K + k
                fixed[position] = fixed_mean(cells, laws, position, N, mean[position])
                arms[row, MEANS] += fixed[position]
                arms[row, INVERSES] += inverses[N]
                arms[row, UNPULLED] -= 1
                trials[seat // agents, UNSEEN] -= 1


@jit
def freeze(cells: Any, laws: Any, seats: Any, frozen: Any, run: int, agents: int, K: Any) -> None:
    """Keep the run's record as it is now, if runs end here; its lanes play on only because their neighbours do."""
    if frozen.shape[0] == 0:
        return
    for seat in range(run * agents, (run + 1) * agents):
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + k * _W
            frozen[seat, k, 0] = pulls_at(cells, laws, position)
            frozen[seat, k, 1] = units_at(cells, laws, position)
