"""The paper's rule for sixteen runs at once, where arms and agents are few; what `paper` does run by run otherwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.simulation.compiled.few import offer_few
from freepull.simulation.compiled.offering import decide, take_stock_of
from freepull.simulation.compiled.playing import step_at_once
from freepull.simulation.compiled.state import (
    ACTIVE,
    DECIDED_AT,
    INVERSES,
    MEANS,
    NEVER,
    PLACE,
    QUIET_UNTIL,
    UNPULLED,
)
from freepull.simulation.compiled.vectors import WIDTH

_ONE = 2.0**-40
_W = np.uint64(WIDTH)


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
