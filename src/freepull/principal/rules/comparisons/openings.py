"""For whom comparisons are opened, and which samples are paid for: what costs money, and never validity.

A comparison that stays incomplete counts at its worst, which is about as much as ten complete ones bring. So one is
opened only for who will probably complete it, and a bonus is offered only where the person would do something else.
How these choices were measured stands in docs/comparisons.md, comparisons_choices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.numerics import exploration
from freepull.principal.rules.comparisons.book import (
    BLIND,
    GUESSES,
    HITS,
    IN,
    MOST,
    NONE,
    OPENED,
    UNCOUNTED,
    WITHDRAWN,
    open_comparison,
)

AHEAD = 2.0
"""A comparison is opened where the agent is expected to act at least so many times for each of its arms."""
ENOUGH = 1.5
"""Nothing is paid while evidence that goes on growing as it did would reach so many times what is needed."""
LATE = 0.7
"""Before this share of the horizon, nothing is paid either while samples that go on coming would suffice as planned."""
TRIED = 200
"""So many guesses are made before they are judged."""


@jit
def guess(book: Any, run: int, seat: Any, pulls: Any, sums: Any) -> int:
    """The arm that an agent will pull of its own accord, if it is an α-UCB learner with α = 2 and its own clock.

    Arms that are out are still pulled, those that were withdrawn or are unavailable to it are not. A pull whose outcome
    is to come is one; where nothing else is known of an arm, its mean is taken for ½.
    """
    active, acts = book.active[run], 0
    for k in range(pulls.shape[0]):
        made = np.int64(pulls[k]) + coming(book, seat, k)
        if made == 0 and active[k] != WITHDRAWN and not is_barred(book, seat, k):
            return k
        acts += made
    s, best, found = exploration(2.0, acts + 1), -math.inf, 0
    for k in range(pulls.shape[0]):
        if active[k] != WITHDRAWN and not is_barred(book, seat, k):
            N = float(np.int64(pulls[k]) + coming(book, seat, k))
            mean = float(sums[k]) * 2.0**-30 / float(pulls[k]) if pulls[k] > 0 else 0.5
            index = mean + s * (1.0 / math.sqrt(N))
            if index > best:
                best, found = index, k
    return found


@jit
def coming(book: Any, seat: Any, k: int) -> Any:
    """How many pulls of an arm an agent has made whose outcomes are to come."""
    return np.int64(book.under_way[seat, k]) if book.under_way.shape[0] > 0 else np.int64(0)


@jit
def is_barred(book: Any, seat: Any, k: Any) -> bool:
    """Whether an arm is unavailable to an agent."""
    return bool(book.barred[seat, k] == 1) if book.barred.shape[0] > 0 else False


@jit
def judge_guesses(book: Any, run: int) -> None:
    """Believe guesses as long as half of them are right."""
    guesses, hits = book.counts[run, GUESSES], book.counts[run, HITS]
    book.counts[run, BLIND] = np.int64(guesses >= TRIED and 2 * hits < guesses)


@jit
def hear(book: Any, constants: Any, run: int, m: Any, seat: Any, pulls: Any, sums: Any, step: int) -> None:
    """Note that an agent asks, and open a comparison if none of its own is open and it will probably complete one.

    Nothing is opened while a pull may be under way, that is if it has asked before and was not told of since. Where
    outcomes come late, that also ends its comparison, because a later report might be of either pull. Nor is anything
    opened while an arm that is still in is unavailable to the agent, who could not complete it.
    """
    if book.owed[seat] > 0:
        if constants.late:
            book.owed[seat] = min(book.owed[seat] + 1, UNCOUNTED)
            book.place[seat] = NONE
        return
    book.owed[seat] = 1
    own = guess(book, run, seat, pulls, sums)
    book.guessed[seat] = own
    if is_open(book, run, seat):
        return
    book.place[seat] = NONE
    if constants.weights[m] == 0 or book.openings[seat] >= constants.cap or book.counts[run, OPENED] >= MOST:
        return
    if book.active[run, own] != IN and book.counts[run, BLIND] == 0:
        return
    acts, arms = 0.0, 0.0
    for k in range(pulls.shape[0]):
        acts += float(pulls[k])
        arms += 1.0 if book.active[run, k] == IN else 0.0
        if book.active[run, k] == IN and is_barred(book, seat, k):
            return
    if arms < 2.0:
        return
    if constants.horizon > 0:
        left = 1.0 + (acts + 1.0) * float(constants.horizon - 1 - step) / float(step + 1)
        if left < AHEAD * arms:
            return
    open_comparison(book, constants, run, m, seat)


@jit
def pass_over(book: Any, seat: Any) -> None:
    """Note that an agent who has asked made no pull, so that one less may be under way."""
    owed = book.owed[seat]
    if owed > 0 and owed < UNCOUNTED:
        book.owed[seat] = owed - 1


@jit
def is_open(book: Any, run: int, seat: Any) -> bool:
    """Whether the agent's comparison lacks a sample of an active arm."""
    if book.place[seat] != NONE:
        for k in range(book.lacks.shape[1]):
            if is_lacking(book, run, seat, k):
                return True
    return False


@jit
def is_lacking(book: Any, run: int, seat: Any, k: Any) -> bool:
    """Whether the agent's comparison lacks its sample of an arm that is still in."""
    return bool(book.lacks[seat, k] == 1 and book.active[run, k] == IN)


@jit
def wanted(book: Any, run: int, seat: Any, pulls: Any, sums: Any) -> int:
    """The arm to pay an agent for, −1 for none: of those that its comparison lacks and it can have, the least pulled.

    Nothing is paid if it will probably pull one of them anyway; after a pull that was of no use, that is not believed.
    """
    if not is_open(book, run, seat):
        return NONE
    likely = book.counts[run, BLIND] == 1 or is_lacking(book, run, seat, guess(book, run, seat, pulls, sums))
    if likely and book.wasted[seat] == 0:
        return NONE
    found = NONE
    for k in range(pulls.shape[0]):
        wants = is_lacking(book, run, seat, k) and not is_barred(book, seat, k)
        if wants and (found == NONE or pulls[k] < pulls[found]):
            found = k
    return found


@jit
def worth_paying(book: Any, constants: Any, run: int, step: int) -> bool:
    """Whether what comes for free, at the pace so far, will not be enough (docs/comparisons.md)."""
    if constants.horizon == 0:
        return True
    evidence, samples, enough = book.hope[run]
    growth = float(constants.horizon) / float(max(step, 1))
    if max(evidence + 1.0, 0.0) * growth - 1.0 >= ENOUGH * constants.threshold:
        return False
    return bool(float(step) >= LATE * float(constants.horizon) or samples * growth < enough)
