"""Streams that owe samples to a round: whom to offer what, and how much is missing in all."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import keep_neediest
from freepull.simulation.compiled.picking import pulls_at
from freepull.simulation.compiled.state import ARM, BANNED_UNTIL, LANE, NEED, OPEN, PAID, PLACE, SEAT

_W = np.uint64(WIDTH)


@jit
def plan(
    cells: Any, arm: Any, laws: Any, seats: Any, offers: Any, trials: Any, targets: Any, most: Any, affordable: int,
    each: bool, run: int, agents: int, K: Any, t: int,
) -> None:  # fmt: skip
    """Fix who is offered what in step t + 1: the streams that are furthest below their targets."""
    first = run * agents
    trials[run, OPEN] = 0
    room = affordable - trials[run, PAID]
    if room < 1:
        return
    found = first
    highest, lowest = np.int64(0), np.int64(0)
    for seat in range(first, first + agents):
        if seats[seat, BANNED_UNTIL] <= t:
            own = most[seat, 0]
            if own < 0 or own == arm[seats[seat, LANE]]:
                find_most(cells, laws, seats, targets, most, seat, K)
            owed, own = most[seat, 1], most[seat, 0]
            if each:
                if owed > 0:
                    offers[found, SEAT], offers[found, ARM], offers[found, NEED] = seat, own, owed
                    found += 1
            elif owed > highest or (owed == highest and owed > 0 and own < lowest):
                offers[first, SEAT], offers[first, ARM] = seat, own
                highest, lowest = owed, own
        else:
            most[seat, 0] = -1
    if each:
        trials[run, OPEN] = keep_neediest(offers, first, found, room)
    elif highest > 0:
        trials[run, OPEN] = 1


@jit
def find_most(cells: Any, laws: Any, seats: Any, targets: Any, most: Any, seat: int, K: Any) -> None:
    """Of which arm the agent owes most, and how much; ties: the lowest arm."""
    place = np.uint64(seats[seat, PLACE])
    highest, arm = np.int64(0), np.int64(0)
    for k in range(K):
        owed = targets[place + k * _W] - pulls_at(cells, laws, place + k * _W)
        arm = np.int64(k) if owed > highest else arm
        highest = max(owed, highest)
    most[seat, 0], most[seat, 1] = arm, highest


@jit
def lacking(cells: Any, laws: Any, seats: Any, weights: Any, needed: Any, each: bool, first: int) -> Any:
    """w: Σ (n_k − N_km)⁺ over all agents with a weight ("one"), or the most of one agent ("each")."""
    total, most = 0.0, 0.0
    for m in range(weights.shape[0]):
        own = 0.0
        if weights[m] > 0.0:
            place = np.uint64(seats[first + m, PLACE])
            for k in range(needed.shape[0]):
                own += max(needed[k] - float(pulls_at(cells, laws, place + np.uint64(k) * _W)), 0.0)
        total += own
        most = max(most, own)
    return most if each else total
