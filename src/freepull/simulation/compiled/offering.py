"""The step around a rule: offers are answered, pulls recorded, refusals become bans. Every rule's kernel uses these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.numerics import jit, mix, uniform
from freepull.randomness import STEP
from freepull.simulation.compiled.coding import ALWAYS, HOLD_OUT, IF_WORTH_IT, WITH_PROBABILITY
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.picking import pick_chunk, pulls_at, units_at
from freepull.simulation.compiled.pulling import pull_chunk
from freepull.simulation.compiled.state import (
    ANSWERS,
    ARM,
    BANNED_UNTIL,
    INVERSES,
    KIND,
    LANE,
    MEANS,
    OFFERED,
    OFFERS,
    OPEN,
    PAID,
    REFUSALS,
    REFUSED,
    ROW,
    SEAT,
    UNPULLED,
)

_W, _STEP = np.uint64(WIDTH), np.uint64(STEP)


@jit
def position_of(lane: Any, arm: Any, K: Any) -> Any:
    """Where the stream of a lane and an arm lies."""
    return ((lane // _W) * K + arm) * _W + lane % _W


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
    mean: Any, keys: Any, arm: Any, seats: Any, offers: Any, trials: Any, paid: Any, answer_kind: Any,
    answer_setting: Any, bonus: float, ban_after: int, ban_length: int, run: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Let the agents of a run answer their offers; a refusal whose own pick is the offered arm counts as taken.

    A refusal bans from the ``ban_after``-th on, for ``ban_length`` steps.
    """
    first = run * agents
    for at in range(first, first + trials[run, OPEN]):
        seat, offer = offers[at, SEAT], offers[at, ARM]
        lane = np.uint64(seats[seat, LANE])
        seats[seat, OFFERS] += 1
        kind = answer_kind[seat - first]
        takes = kind == ALWAYS
        if not takes:
            setting = answer_setting[seat - first]
            if kind == WITH_PROBABILITY:
                takes = uniform(mix(keys[ANSWERS, lane] + _STEP * np.uint64(t))) < setting
            elif kind == HOLD_OUT:
                takes = float(seats[seat, OFFERS]) > setting
            elif kind == IF_WORTH_IT:
                takes = bonus >= _expected_loss(mean, lane, offer, K)
        if takes or arm[lane] == offer:
            arm[lane] = offer
            paid[seat, offer] += 1
            trials[run, PAID] += 1
        else:
            trials[run, REFUSED] += 1
            seats[seat, REFUSALS] += 1
            if seats[seat, REFUSALS] >= ban_after:
                seats[seat, BANNED_UNTIL] = t + ban_length
    trials[run, OFFERED] += trials[run, OPEN]


@jit
def _expected_loss(mean: Any, lane: Any, offer: int, K: Any) -> float:
    """max_j μ̂_j − μ̂_k as the agent sees it; an unpulled arm counts as ½."""
    top, here = -1.0, 0.0
    for k in range(K):
        own = mean[position_of(lane, k, K)]
        if own == math.inf:
            own = 0.5
        top = max(top, own)
        if np.int64(k) == offer:
            here = own
    return top - here


@jit
def fixed_mean(mean: Any, cells: Any, laws: Any, position: Any, N: Any) -> Any:
    """⌊2⁴⁰·S/N⌋, from the rounded quotient and its exact remainder."""
    quotient = np.int64(mean[position] * 2.0**40)
    rest = (units_at(cells, laws, position) << 10) - quotient * N
    return quotient + np.int64(rest >= N) - np.int64(rest < 0)


@jit
def pull_all(
    mean: Any, root: Any, cells: Any, fixed: Any, keys: Any, arm: Any, laws: Any, seats: Any, arms: Any, roots: Any,
    work: Any, inverses: Any, runs: Any, agents: Any, K: Any,
) -> None:  # fmt: skip
    """Pull what every lane has chosen, and keep the sums over agents up to date."""
    for chunk in range(np.uint64(arm.shape[0]) // _W):
        pull_chunk(mean, root, cells, keys, arm, laws, roots, work, chunk, K)
    seat = np.uint64(0)
    for run in range(runs):
        for _ in range(agents):
            lane = np.uint64(seats[seat, LANE])
            own = np.uint64(arm[lane])
            position = position_of(lane, own, K)
            N = np.uint64(pulls_at(cells, laws, position))
            now = fixed_mean(mean, cells, laws, position, np.int64(N))
            row = run * K + own
            arms[row, MEANS] += now - fixed[position]
            arms[row, INVERSES] += inverses[N] - inverses[N - np.uint64(1)]
            arms[row, UNPULLED] -= np.int64(np.uint64(1) == N)
            fixed[position] = now
            seat += np.uint64(1)


@jit
def take_stock(mean: Any, cells: Any, fixed: Any, laws: Any, seats: Any, arms: Any, inverses: Any, runs: int) -> None:
    """Compute the sums over agents afresh from the record, where nobody kept them while observing."""
    K, agents = arms.shape[0] // runs, seats.shape[0] // runs
    arms[:, :UNPULLED] = 0
    arms[:, UNPULLED] = agents
    for seat in range(seats.shape[0]):
        for k in range(K):
            position = position_of(np.uint64(seats[seat, LANE]), np.uint64(k), np.uint64(K))
            N = pulls_at(cells, laws, position)
            if N > 0:
                row = seat // agents * K + k
                fixed[position] = fixed_mean(mean, cells, laws, position, N)
                arms[row, MEANS] += fixed[position]
                arms[row, INVERSES] += inverses[N]
                arms[row, UNPULLED] -= 1


@jit
def freeze(cells: Any, laws: Any, seats: Any, frozen: Any, run: int, agents: int, K: Any) -> None:
    """Keep the run's record as it is now, if runs end here; its lanes play on only because their neighbours do."""
    if frozen.shape[0] == 0:
        return
    for seat in range(run * agents, (run + 1) * agents):
        for k in range(K):
            position = position_of(np.uint64(seats[seat, LANE]), k, K)
            frozen[seat, k, 0] = pulls_at(cells, laws, position)
            frozen[seat, k, 1] = units_at(cells, laws, position)
