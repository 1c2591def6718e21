"""Our own compiled driver: agents that the engines do not have, under the rule's own functions.

It plays freezers and leavers, lets a rule wait before it looks, and keeps what is claimed about margins. The rounds
are designed and evaluated by the functions of `freepull.principal.rules.certified`, the same that both engines call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit
from freepull.numerics import mix, uniform
from freepull.principal.rules.certified.books import MEAN
from freepull.principal.rules.certified.design import design, prediction
from freepull.principal.rules.certified.evaluation import best_up_to, eliminate, evaluate
from freepull.randomness import STEP

from .peeking_adversary import peek
from .picks import ANSWERS, CHOICES, REWARDS, Floats, Ints, draw, misled, pick

_STEP = np.uint64(STEP)
STAYS, IN_ANGER = 0, -1
"""When an agent leaves: never, in the second half when the tested arm looks bad to it, or else at a given step."""


class Terms(NamedTuple):
    """How a trial is run."""

    horizon: int
    kappa: int
    each: bool
    takes: float
    """The probability with which an offer is taken; a refusal bans for ever."""
    first_look: int
    """The first step at whose end full rounds are evaluated."""
    peeks: int
    """Which forbidden look a design takes (`peeking_adversary`); 0 for none."""
    gamma: float
    """How far the mean of every sample is moved: the tested arm's down, the others' up."""
    follows: bool
    """Whether a round is moved the other way where the tested arm was ahead in the rounds before."""


class Seen(NamedTuple):
    """What is noted of every run."""

    peaks: Floats
    """The most that each account held: runs × margins × arms."""
    halfway: Floats
    """The same at a random step."""
    rounds: Ints
    paid: Ints
    gone: Ints
    """1 if the tested arm was eliminated."""


@jit
def play(
    world: Any, own: Any, terms: Any, books: Any, start: Any, keys: Any, leaves: Any, marks: Any, offers: Any,
    banned: Any, seen: Any,
) -> None:  # fmt: skip
    """Play runs one after the other; ``books`` are the rule's, ``start`` the capital before the first round."""
    used, coming, constants = books[0], books[1], books[4]
    M = world.kinds.shape[0]
    for run in range(leaves.shape[0]):
        _reset(world, own, used, coming, start, banned)
        design(used, coming, constants)
        owing, decided = _owing(own, used, coming), False
        _plan(own, used, coming, terms, offers, banned, 0)
        for t in range(1, terms.horizon + 1):
            for m in range(M):
                if own.left[m] == 0:
                    k = act(world, own, terms, keys, offers, banned, seen, run, m, t)
                    owing -= own.pulls[k, m] == used.pulls[k, m] + coming.blocks[k, m]
                    if departs(world, own, terms, leaves, run, m, t):
                        own.left[m] = 1
            if owing == 0 and not decided and t >= terms.first_look:
                decided = _close(world, own, books, terms, seen, run)
                owing = _owing(own, used, coming)
            _plan(own, used, coming, terms, offers, banned, -1 if decided else t)
            if t == marks[run]:
                _note(coming, seen.halfway, run)
            if decided and t >= marks[run]:
                break
        _note(coming, seen.peaks, run)
        seen.gone[run] = 1 - used.active[world.tested]


@jit
def _reset(world: Any, own: Any, used: Any, coming: Any, start: Any, banned: Any) -> None:
    """Forget the last run."""
    X, K, _, n = coming.capital.shape
    for m in range(banned.shape[0]):
        own.last[m], own.left[m], banned[m] = 0, 0, 0
        for k in range(K):
            own.pulls[k, m], own.sums[k, m] = 0, 0.0
            used.pulls[k, m], used.sums[k, m], used.errors[k, m] = 0, 0.0, 0.0
    used.course[0], used.course[1] = 0.0, 0.0
    for k in range(K):
        used.active[k] = 1
        for column in range(used.arms.shape[1]):
            used.arms[k, column] = start.arms[k, column]
        for x in range(X):
            coming.peaks[x, k] = 1.0
            for j in range(K):
                for i in range(n):
                    coming.capital[x, k, j, i] = start.capital[x, k, j, i]
    for k in range(coming.reached.shape[0]):
        for j in range(K):
            coming.reached[k, j] = 1.0
            for i in range(n):
                coming.near[k, j, i] = start.near[k, j, i]


@jit
def _note(coming: Any, noted: Any, run: int) -> None:
    """Copy the peaks of all accounts; with an ε and one margin, with what was bet on some arm being near."""
    for x in range(coming.peaks.shape[0]):
        for k in range(coming.peaks.shape[1]):
            noted[run, x, k] = coming.peaks[x, k]
    for k in range(coming.reached.shape[0] if coming.peaks.shape[0] == 1 else 0):
        for j in range(coming.reached.shape[0]):
            noted[run, 0, k] = max(noted[run, 0, k], coming.reached[k, j])


@jit
def act(
    world: Any, own: Any, terms: Any, keys: Any, offers: Any, banned: Any, seen: Any, run: int, m: int, t: int
) -> int:
    """Answer an offer or pick for oneself, and pull; return the arm."""
    offer, lane = offers[m], run * offers.shape[0] + m
    if offer >= 0 and uniform(mix(keys[ANSWERS, lane] + _STEP * np.uint64(t))) < terms.takes:
        k = offer
    else:
        k = pick(world, own, keys[CHOICES, lane], m, t)
    if offer >= 0:
        if k == offer:
            seen.paid[run] += 1
        else:
            banned[m] = 1
    draw(world, own, keys[REWARDS, lane], m, k)
    return int(k)


@jit
def departs(world: Any, own: Any, terms: Any, leaves: Any, run: int, m: int, t: int) -> bool:
    """Whether an agent has acted for the last time."""
    angry = leaves[run, m] == IN_ANGER and t > terms.horizon // 2
    return bool(leaves[run, m] == t or (angry and misled(world, own, m, world.tested)))


@jit
def _close(world: Any, own: Any, books: Any, terms: Any, seen: Any, run: int) -> bool:
    """Evaluate every round that is full; say whether one arm is left, or best up to ε."""
    used, coming, fill, measure, constants = books
    while _owing(own, used, coming) == 0:
        for k in range(used.active.shape[0]):
            for m in range(used.pulls.shape[1]):
                expected, mean, shift = prediction(used, k, m), world.means[k, m], _shift(used, terms, world.tested, k)
                total, errors = 0.0, 0.0
                for n in range(used.pulls[k, m], used.pulls[k, m] + coming.blocks[k, m]):
                    x = own.rewards[k, m, n]
                    if shift != 0.0:
                        x += shift * ((1.0 - x) / (1.0 - mean) if shift > 0.0 else x / mean)
                    error = x - expected
                    total += x
                    errors += error * error
                fill.sums[k, m], fill.errors[k, m] = total, errors
        evaluate(used, coming, fill, measure, constants)
        seen.rounds[run] += 1
        if eliminate(used, coming, constants) == 1 or best_up_to(used, coming, constants) >= 0:
            return True
        design(used, coming, constants)
        if terms.peeks > 0:
            peek(terms.peeks, own, used, coming, world.tested)
    return False


@jit
def _shift(used: Any, terms: Any, tested: int, k: int) -> float:
    """How far an arm's samples of the coming round are moved, given the rounds before."""
    ahead = terms.follows
    for j in range(used.active.shape[0]):
        ahead = ahead and (j == tested or used.arms[j, MEAN] < used.arms[tested, MEAN])
    return float(terms.gamma if (k == tested) == ahead else -terms.gamma)


@jit
def _owing(own: Any, used: Any, coming: Any) -> int:
    """How many streams have not given their block."""
    owing = 0
    for k in range(used.active.shape[0]):
        for m in range(used.pulls.shape[1]):
            owing += own.pulls[k, m] < used.pulls[k, m] + coming.blocks[k, m]
    return int(owing)


@jit
def _plan(own: Any, used: Any, coming: Any, terms: Any, offers: Any, banned: Any, t: int) -> None:
    """The streams that owe most: of every payable agent ("each"), or of all ("one"); ties: lowest arm, then agent."""
    for m in range(offers.shape[0]):
        offers[m] = -1
    if t < terms.kappa:
        return
    highest, who, which = 0, -1, -1
    for m in range(offers.shape[0]):
        if banned[m] == 1 or own.left[m] == 1:
            continue
        most, arm = 0, -1
        for k in range(used.active.shape[0]):
            owed = used.pulls[k, m] + coming.blocks[k, m] - own.pulls[k, m] if coming.blocks[k, m] > 0 else 0
            if owed > most:
                most, arm = owed, k
        if terms.each:
            offers[m] = arm
        elif most > highest or (most == highest and most > 0 and arm < which):
            highest, who, which = most, m, arm
    if who >= 0:
        offers[who] = which
