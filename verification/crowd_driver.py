"""People whom the engine cannot play, under the rule for people as they are, on the functions that trials call.

Every look is held against the truth, which is the average over the comparisons that were opened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import randomness
from freepull.compiling import jit, jit_apart
from freepull.numerics import mix, uniform
from freepull.principal.rules.comparisons.book import (
    IN,
    NONE,
    OPENED,
    READ,
    WHOLE,
    Constants,
    fill,
    fresh,
    is_due,
    log_evidence,
    look,
    renew_predictions,
)
from freepull.principal.rules.comparisons.openings import hear, is_lacking, judge_guesses
from freepull.principal.rules.comparisons.rule import UNLIMITED

from .picks import Floats, Ints

DELTA, ARMS, PLACES, STEPS, SEED = 0.05, 4, 20, 500, 9_000
"""At a time there are so many people, who act so often, one after the other, between two looks."""
SLOTS = 8
"""The most reports that a person can be late with."""
TAKES = 0.7
"""With this probability people pull what their comparison lacks, else their favourite."""
LONG, ROUND = 12_000, 0.12
"""Comparisons of the adversary, and how far its last rewards are from ½."""
PLEASED, ANGRY, REFUSING, HELD, WAITS, BUSY, BROUGHT = range(7)
ABOUT_TO_FALL, SUM_ZERO = 1, 2
_STEP = np.uint64(randomness.STEP)


@dataclass(frozen=True)
class Crowd:
    """What people do; a probability is one of each act."""

    name: str
    differ: bool = False
    """Whether people disagree: an arm at .8, the next one at .2, drawn for each person; else all are at ½."""
    pleased: float = 0.0
    """After a reward of 1 a person leaves for good, and a new one comes."""
    angry: float = 0.0
    """The same after a reward of 0."""
    refusing: float = 0.0
    """After a reward of 0 a person never pulls that arm again."""
    silent: float = 0.0
    """The share of people who never act; then the others are log-normal, with σ = .8."""
    held: float = 0.0
    """A report that speaks for some arms comes late."""
    waits: bool = False
    """Whether its person does nothing until then; some reports never come. Else the rule has `late`, unless…"""
    unaware: bool = False
    """…it is not told."""
    busy: bool = False
    """One person has 90 % of all acts."""
    brought: int = 0
    """Who comes next is chosen by the evidence."""
    uneven: bool = False
    """Whether people have weights."""
    epsilon: float = 0.0

    def numbers(self) -> Floats:
        """Its numbers, in the order that the driver knows."""
        numbers = (self.pleased, self.angry, self.refusing, self.held, self.waits, self.busy, self.brought)
        return np.array(numbers, float)

    @property
    def people(self) -> int:
        """How many there are in all."""
        return 600 if self.pleased or self.angry or self.refusing else PLACES


_KINDS = [
    Crowd("leave when pleased", pleased=0.02), Crowd("leave when angry", angry=0.02),
    Crowd("refuse what disappointed them", refusing=0.005), Crowd("silent and seldom", silent=0.3),
    Crowd("late reports, by outcome and arm", held=0.01),
    Crowd("reports held back, some for ever", held=0.3, waits=True),
    Crowd("one person has 90 % of all acts", busy=True),
]  # fmt: skip
CROWDS = [
    *_KINDS,
    *(replace(kind, name=f"{kind.name}; people differ", differ=True) for kind in _KINDS),
    Crowd("uneven weights; people differ", differ=True, uneven=True),
    Crowd("others brought in when an arm is about to fall", differ=True, brought=ABOUT_TO_FALL),
    Crowd("others brought in when an arm is about to fall, ε = .1", differ=True, brought=ABOUT_TO_FALL, epsilon=0.1),
    Crowd("others brought in so that nothing is better", differ=True, brought=SUM_ZERO),
]
UNAWARE = Crowd("late reports, by outcome and arm, without `late=True`", held=0.5, unaware=True)
"""Breaks an assumption, and must be seen to."""


class Own(NamedTuple):
    """What the driver keeps of a run."""

    means: Floats
    rates: Floats
    places: Ints
    """Who is there; −1 for nobody."""
    pulls: Ints
    sums: Ints
    """As reported."""
    refuses: NDArray[np.uint8]
    arm: Ints
    reward: Ints
    due: Ints
    """Reports that are late, by person and slot; an arm of −1: none."""
    truth: Floats
    """Σ w·μ_k over the first n comparisons, by n and arm, and Σ w."""
    was: NDArray[np.uint8]
    found: Ints
    """Whether anything was false, and how many arms fell."""
    state: NDArray[np.uint64]


@jit
def _draw(state: Any) -> float:
    state[0] += _STEP
    return uniform(mix(state[0]))


@jit_apart
def play(book: Any, constants: Any, world: Any, own: Any, steps: int) -> None:
    """One run: reports, asks, pulls and leaving, and a look at the end of every step."""
    places, newest = own.places.shape[0], own.places.shape[0]
    for t in range(steps):
        for at in range(places):
            if own.places[at] != NONE:
                _report(book, constants, own, own.places[at], t)
        for _ in range(places):
            at = _place(book, constants, world, own)
            m = own.places[at]
            if m == NONE or _draw(own.state) >= own.rates[m] or (world[WAITS] > 0.0 and own.arm[m, 0] != NONE):
                continue
            before = book.counts[0, OPENED]
            hear(book, constants, 0, m, m, own.pulls[m], own.sums[m], t)
            if book.counts[0, OPENED] > before:
                _enter(constants, own, m, before)
            k = _pick(book, own, m)
            if k == NONE:
                continue
            x = int(_draw(own.state) < own.means[m, k])
            if not _holds(world, own, m, k, x, t):
                _tell(book, constants, own, m, k, x)
            if x == 0 and _draw(own.state) < world[REFUSING]:
                own.refuses[m, k] = 1
            if _draw(own.state) < (world[PLEASED] if x == 1 else world[ANGRY]):
                own.places[at] = newest if newest < own.means.shape[0] else NONE
                newest += 1
        renew_predictions(book, 0)
        judge_guesses(book, 0)
        if is_due(book, 0) and _judge(book, constants, own) < 2:
            break


@jit
def _place(book: Any, constants: Any, world: Any, own: Any) -> int:
    """Where somebody acts next."""
    places = own.places.shape[0]
    at = int(_draw(own.state) * places)
    if world[BUSY] > 0.0 and _draw(own.state) < 0.9:
        return 0
    if world[BROUGHT] > 0.0:
        n, for_first = book.counts[0, OPENED], at % 2 == 0
        if world[BROUGHT] == ABOUT_TO_FALL:
            for_first = book.evidence[0, 0, 1] <= 0.5 * constants.threshold
        elif book.evidence[0, 0, 1] > 0.0:
            for_first = own.truth[n, 0] - own.truth[n, 1] < -1e-9
        at = at - at % 2 + (0 if for_first else 1)
    return at


@jit
def _enter(constants: Any, own: Any, m: int, n: int) -> None:
    """Note the truth of a comparison that was opened."""
    K, w = own.means.shape[1], float(constants.weights[m]) / float(WHOLE)
    for k in range(K):
        own.truth[n + 1, k] = own.truth[n, k] + w * own.means[m, k]
    own.truth[n + 1, K] = own.truth[n, K] + w


@jit
def _pick(book: Any, own: Any, m: int) -> int:
    """What is lacking, or the favourite: the arm with the best mean so far, and before that all in turn."""
    K, found, best = own.means.shape[1], NONE, -1.0
    lacking = _draw(own.state) < TAKES
    for k in range(K):
        if own.refuses[m, k] == 1:
            continue
        value = 2.0 if own.pulls[m, k] == 0 else float(own.sums[m, k]) / float(own.pulls[m, k]) / float(WHOLE)
        if lacking and book.place[m] != NONE and is_lacking(book, 0, m, k):
            value = 3.0 + _draw(own.state)
        if value > best:
            best, found = value, k
    return found


@jit
def _holds(world: Any, own: Any, m: int, k: int, x: int, t: int) -> bool:
    """Whether the report comes later: successes of even arms and failures of odd ones; of those who wait, bad news."""
    bad = x == (0 if k > 0 else 1)
    slow = bad if world[WAITS] > 0.0 else (x == 1) == (k % 2 == 0)
    if not slow or _draw(own.state) >= world[HELD]:
        return False
    for slot in range(SLOTS):
        if own.arm[m, slot] == NONE:
            own.arm[m, slot], own.reward[m, slot] = k, x
            own.due[m, slot] = t + 1 + int(_draw(own.state) * 7.0)
            if world[WAITS] > 0.0 and _draw(own.state) < 0.002:
                own.due[m, slot] = 1 << 40
            return True
    return False


@jit
def _report(book: Any, constants: Any, own: Any, m: int, t: int) -> None:
    for slot in range(SLOTS):
        if own.arm[m, slot] != NONE and own.due[m, slot] <= t:
            _tell(book, constants, own, m, own.arm[m, slot], own.reward[m, slot])
            own.arm[m, slot] = NONE


@jit
def _tell(book: Any, constants: Any, own: Any, m: int, k: int, x: int) -> None:
    own.pulls[m, k] += 1
    own.sums[m, k] += x * WHOLE
    fill(book, constants, 0, m, m, k, x * WHOLE)


@jit
def _judge(book: Any, constants: Any, own: Any) -> int:
    """Look, and hold all that is said against the truth; return how many arms are left, 1 if one is named."""
    K, active = own.means.shape[1], book.active[0]
    for k in range(K):
        own.was[k] = active[k]
    named = look(book, constants, 0)
    n, left = book.counts[0, READ], 0
    for k in range(K):
        left += active[k] == IN
        for j in range(K):
            if j == k or own.was[j] != IN or own.was[k] != IN:
                continue
            true = (own.truth[n, j] - own.truth[n, k]) / own.truth[n, K]
            if log_evidence(book, 0, j, k, true) >= constants.threshold:
                own.found[0] = 1
            if active[k] != IN and book.fell[0, k, 0] == j:
                own.found[1] += 1
                if true <= 0.0 or true <= book.margins[0, k, 0] or true > book.margins[0, k, 1]:
                    own.found[0] = 1
            if named == j and active[k] == IN and true <= -constants.epsilon:
                own.found[0] = 1
    return 1 if named != NONE else left


@jit_apart
def play_sharp(book: Any, constants: Any, own: Any, most: int) -> None:
    """Two arms that tie; who acts next and what is chosen by the evidence, so that it meets θ with little to spare.

    Person 0 has coins, person 1 rewards near ½ of the same mean. Every comparison is complete.
    """
    best = 0.0
    for _ in range(most):
        m = 0 if best < constants.threshold - 1.0 else 1
        for k in range(2):
            hear(book, constants, 0, m, m, own.pulls[m], own.sums[m], 0)
            away = 0.5 if m == 0 else ROUND
            reward = int((0.5 + (away if _draw(own.state) < 0.5 else -away)) * WHOLE)
            own.pulls[m, k] += 1
            own.sums[m, k] += reward
            fill(book, constants, 0, m, m, k, reward)
        renew_predictions(book, 0)
        judge_guesses(book, 0)
        if is_due(book, 0):
            look(book, constants, 0)
            if book.active[0, 0] != IN or book.active[0, 1] != IN:
                own.found[0] = own.found[1] = 1
                return
            best = max(book.evidence[0, 0, 1], book.evidence[0, 1, 0])


def _own(people: int, arms: int, most: int, seed: int, run: int) -> Own:
    shape, late = (people, arms), (people, SLOTS)
    return Own(
        np.full(shape, 0.5), np.ones(people), np.arange(min(people, PLACES)), np.zeros(shape, np.int64),
        np.zeros(shape, np.int64), np.zeros(shape, np.uint8), np.full(late, NONE), np.zeros(late, np.int64),
        np.zeros(late, np.int64), np.zeros((most + 1, arms + 1)), np.zeros(arms, np.uint8), np.zeros(2, np.int64),
        np.array([randomness.key(seed, run, 0, 0)], np.uint64),
    )  # fmt: skip


def _constants(weights: Floats, arms: int, epsilon: float = 0.0, late: bool = False) -> Constants:
    units = np.rint(weights / weights.max() * WHOLE).astype(np.int64)
    return Constants(units, math.log(arms * (arms - 1) / DELTA), epsilon, UNLIMITED, late, 0)


def run(crowd: Crowd, seed: int, number: int, steps: int = STEPS) -> Ints:
    """Play one run; return whether anything was false, and how many arms fell."""
    people, rng = crowd.people, np.random.default_rng([seed, number])
    own = _own(people, ARMS, steps * PLACES, seed, number)
    if crowd.differ:
        who = np.arange(people)
        first = who % 2 if crowd.brought else rng.integers(0, ARMS, people)
        second = 1 - first if crowd.brought else (first + 1) % ARMS
        own.means[who, first], own.means[who, second] = 0.8, 0.2
    if crowd.silent:
        rates = np.minimum(1.0, 0.5 * np.exp(0.8 * rng.standard_normal(people)))
        own.rates[:] = np.where(rng.random(people) < crowd.silent, 0.0, rates)
    weights = rng.random(people) ** 2 if crowd.uneven else np.ones(people)
    constants = _constants(weights, ARMS, crowd.epsilon, crowd.held > 0 and not crowd.waits and not crowd.unaware)
    play(fresh(1, people, ARMS), constants, crowd.numbers(), own, steps)
    return own.found


def run_sharp(seed: int, number: int, most: int = LONG) -> Ints:
    """The same for the adversary who sees all evidence."""
    own = _own(2, 2, 0, seed, number)
    play_sharp(fresh(1, 2, 2), _constants(np.ones(2), 2), own, most)
    return own.found
