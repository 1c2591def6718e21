"""For whom comparisons are opened, and which samples are paid for: what costs money, and never validity.

A comparison that stays incomplete counts at its worst, which is about as much as ten complete ones bring. So one is
opened only for who will probably complete it, and a bonus is offered only where the person would do something else.
How these choices were measured stands in docs/comparisons.md (choices).
"""

from __future__ import annotations

import math
from typing import Any

from freepull.compiling import jit
from freepull.numerics import exploration
from freepull.principal.rules.comparisons.book import NONE, open_comparison

AHEAD = 2.0
"""A comparison is opened where the agent is expected to act at least so many times for each of its arms."""
ENOUGH = 1.5
"""Nothing is paid while evidence that goes on growing as it did would reach so many times what is needed."""


@jit
def guess(pulls: Any, sums: Any) -> int:
    """The arm that an agent will pull of its own accord, if it is an α-UCB learner with α = 2 and its own clock."""
    acts = 0
    for k in range(pulls.shape[0]):
        if pulls[k] == 0:
            return k
        acts += pulls[k]
    s, best, found = exploration(2.0, acts + 1), -math.inf, 0
    for k in range(pulls.shape[0]):
        N = float(pulls[k])
        index = float(sums[k]) * 2.0**-30 / N + s * (1.0 / math.sqrt(N))
        if index > best:
            best, found = index, k
    return found


@jit
def hear(book: Any, constants: Any, run: int, m: Any, seat: Any, pulls: Any, sums: Any, step: int) -> None:
    """Note that an agent asks, and open a comparison if none of its own is open and it will probably complete one.

    Nothing is opened while a pull may be under way, that is if it has asked before and was not told of since.
    """
    if book.asked[seat] == 1:
        return
    book.asked[seat] = 1
    if is_open(book, run, seat) or constants.weights[m] == 0 or book.openings[seat] >= constants.cap:
        return
    if book.active[run, guess(pulls, sums)] == 0:
        return
    acts, arms = 0.0, 0.0
    for k in range(pulls.shape[0]):
        acts += float(pulls[k])
        arms += float(book.active[run, k])
    if arms < 2.0:
        return
    if constants.horizon > 0:
        left = 1.0 + (acts + 1.0) * float(constants.horizon - 1 - step) / float(step + 1)
        if left < AHEAD * arms:
            return
    open_comparison(book, constants, run, m, seat)


@jit
def is_open(book: Any, run: int, seat: int) -> bool:
    """Whether the agent's comparison lacks a sample of an active arm."""
    if book.place[seat] != NONE:
        for k in range(book.lacks.shape[1]):
            if book.lacks[seat, k] == 1 and book.active[run, k] == 1:
                return True
    return False


@jit
def wanted(book: Any, run: int, seat: int, pulls: Any, sums: Any) -> int:
    """The arm to pay an agent for, −1 for none: what its comparison lacks and it has pulled least, unless it will pull
    something that is lacking anyway."""
    if not is_open(book, run, seat):
        return NONE
    own = guess(pulls, sums)
    if book.lacks[seat, own] == 1 and book.active[run, own] == 1:
        return NONE
    found = NONE
    for k in range(pulls.shape[0]):
        if book.lacks[seat, k] == 1 and book.active[run, k] == 1 and (found == NONE or pulls[k] < pulls[found]):
            found = k
    return found


@jit
def worth_paying(hope: float, constants: Any, step: int) -> bool:
    """Whether the evidence of the leader, if it grows on as it did, will not be enough without offers."""
    if constants.horizon == 0:
        return True
    forecast = max(hope + 1.0, 0.0) * float(constants.horizon) / float(max(step, 1)) - 1.0
    return bool(forecast < ENOUGH * constants.threshold)
