"""Paying for the pulls of all active arms and all agents in turn; the twin of `Paper(pay="uniform")`."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.simulation.compiled.offering import keep_neediest
from freepull.simulation.compiled.state import ACTIVE, ARM, BANNED_UNTIL, NEED, SEAT


@jit_apart
def plan_in_turn(
    seats: Any, offers: Any, arms: Any, room: int, each: bool, first: int, row: Any, agents: int, K: Any, t: int
) -> int:
    """Fix the offers of step t + 1, and return how many there are."""
    active = 0
    for k in range(K):
        active += arms[row + k, ACTIVE]
    payable = 0
    for seat in range(first, first + agents):
        payable += int(seats[seat, BANNED_UNTIL] <= t)
    if payable == 0:
        return 0
    found, skip = first, t // active % payable
    for seat in range(first, first + agents):
        if seats[seat, BANNED_UNTIL] <= t:
            if each:
                _offer(offers, arms, found, seat, (t + seat - first) % active, row, K)
                found += 1
            elif skip == 0:
                _offer(offers, arms, first, seat, t % active, row, K)
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
