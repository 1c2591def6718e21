"""The mechanisms of `freepull.simulation.baselines` as kernels: one call a run, the same operations in one order."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.agents import AlphaUCB, EpsilonGreedy, Thompson
from freepull.compiling import jit
from freepull.game import Game
from freepull.numerics import beta_draw, decision_key, exploration, mix, reward_units, uniform
from freepull.randomness import ARM, CHOICE, CHOICE_ARM, CHOICE_COIN, REWARD, STEP, key
from freepull.simulation.baselines import Compensation, Mechanism, PriceSearch, counted, outcome, recorded
from freepull.simulation.compiled.engine import in_threads
from freepull.simulation.experiment import Experiment
from freepull.simulation.results import Outcome

_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)
_COIN, _WHICH = np.uint64(ARM * CHOICE_COIN % (1 << 64)), np.uint64(ARM * CHOICE_ARM % (1 << 64))
UCB, GREEDY, THOMPSON = 0, 1, 2
POLICIES: dict[type, int] = {AlphaUCB: UCB, EpsilonGreedy: GREEDY, Thompson: THOMPSON}


class Rewards(NamedTuple):
    """What rewards of one run are drawn by."""

    keys: NDArray[np.uint64]
    kind: int
    parameters: NDArray[np.float64]
    levels: NDArray[np.int64]
    values: NDArray[np.float64]


class Book(NamedTuple):
    """Where a run is recorded: the steps, what there is to tell at their ends, and what agents have seen so far."""

    steps: NDArray[np.int64]
    pulls: NDArray[np.int64]
    paid: NDArray[np.int64]
    sums: NDArray[np.int64]
    spent: NDArray[np.int64]
    values: NDArray[np.float64]
    """Work space, two rows of K numbers."""


def unsupported(baseline: Mechanism) -> str | None:
    """Return why a mechanism cannot be played by a kernel, or None."""
    if type(baseline) is PriceSearch:
        return None
    if type(baseline) is not Compensation:
        return f"{type(baseline).__name__} has no kernel"
    if type(baseline.policy) not in POLICIES:
        return f"{type(baseline.policy).__name__} is no policy that the compiled one knows"
    return None


def play(experiment: Experiment, workers: int | None) -> Iterator[Outcome]:
    """Play all runs, on threads; their number changes no bit."""
    for _, found in in_threads(lambda run: _played(experiment, run), experiment.runs, workers or os.cpu_count() or 1):
        yield found


def _played(experiment: Experiment, run: int) -> Outcome:
    game, baseline, steps = experiment.game_of(run), experiment.baseline, recorded(experiment)
    assert baseline is not None
    baseline.check(game, experiment.horizon)
    found = counted(len(steps), game)
    book = Book(np.array(steps, np.int64), *found, np.zeros((2, game.arms)))
    rewards = Rewards(_keys(experiment, run, game, REWARD), *_law(game))
    if isinstance(baseline, Compensation):
        policy: Any = baseline.policy
        setting = {UCB: "alpha", GREEDY: "c"}.get(kind := POLICIES[type(policy)])
        compensate(book, rewards, _keys(experiment, run, game, CHOICE), kind, getattr(policy, setting or "", 0.0))
    else:
        assert isinstance(baseline, PriceSearch)
        low, high = baseline.bracket(game)
        numbers = baseline.searched(game, experiment.horizon), baseline.width(game, experiment.horizon)
        search_prices(book, rewards, np.array(baseline.worths(game)), game.weights, low, high, *numbers)
    return outcome(experiment, game, run, found)


def _keys(experiment: Experiment, run: int, game: Game, purpose: int) -> NDArray[np.uint64]:
    return np.array([key(experiment.seed, run, m, purpose) for m in range(game.agents)], np.uint64)


def _law(game: Game) -> tuple[int, Any, Any, Any]:
    streams = game.streams
    return streams.kind, streams.parameters, streams.levels, streams.values


@jit
def _pull(book: Any, rewards: Any, at: int, m: int, arm: int, price: float) -> Any:
    """Note a pull and what is paid for it; return its reward in units."""
    book.pulls[at, m, arm] += 1
    word = mix(rewards.keys[m] + _ARM * np.uint64(arm) + _STEP * np.uint64(book.pulls[at, m, arm]))
    own = rewards.parameters[m, arm]
    x = np.int64(reward_units(rewards.kind, own, rewards.levels, rewards.values, word))
    paid = np.int64(np.rint(price * 2.0**30))
    book.sums[at, m, arm] += x
    book.spent[at, m, arm] += paid
    book.paid[at, m, arm] += 1 if paid > 0 else 0
    return x


@jit
def _turn(book: Any, at: int, m: int) -> None:
    """Begin the next record of an agent where this one ends."""
    for k in range(book.pulls.shape[2]):
        book.pulls[at + 1, m, k] = book.pulls[at, m, k]
        book.paid[at + 1, m, k] = book.paid[at, m, k]
        book.sums[at + 1, m, k] = book.sums[at, m, k]
        book.spent[at + 1, m, k] = book.spent[at, m, k]


@jit
def _largest(values: Any) -> int:
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


@jit
def _picked(book: Any, at: int, m: int, t: int, key: Any, kind: int, setting: float) -> Any:
    """What a policy picks for one agent, as the agents of its name do; the sample means are in the first row."""
    K, means, values = book.pulls.shape[2], book.values[0], book.values[1]
    if kind == THOMPSON:
        for k in range(K):
            N, S = float(book.pulls[at, m, k]), float(book.sums[at, m, k]) * 2.0**-30
            values[k] = beta_draw(1.0 + S, 1.0 + (N - S), decision_key(key, t, np.uint64(k)))
        return _largest(values)
    for k in range(K):
        if book.pulls[at, m, k] == 0:
            return k
    if kind == GREEDY:
        counter = key + _STEP * np.uint64(t)
        if uniform(mix(counter + _COIN)) < min(1.0, setting * float(K) / float(t)):
            return np.int64(uniform(mix(counter + _WHICH)) * float(K))
        return _largest(means)
    s = exploration(setting, t)
    for k in range(K):
        values[k] = means[k] + s * (1.0 / math.sqrt(float(book.pulls[at, m, k])))
    return _largest(values)


@jit
def compensate(book: Any, rewards: Any, keys: Any, kind: int, setting: float) -> None:
    """Play `Compensation`, place by place."""
    C, M, K = book.pulls.shape
    means = book.values[0]
    for m in range(M):
        at = 0
        for k in range(K):
            means[k] = 0.0
        for t in range(1, book.steps[C - 1] + 1):
            if t > book.steps[at]:
                _turn(book, at, m)
                at += 1
            arm = _picked(book, at, m, t, keys[m], kind, setting)
            _pull(book, rewards, at, m, arm, means[_largest(means)] - means[arm])
            means[arm] = float(book.sums[at, m, arm]) * 2.0**-30 / float(book.pulls[at, m, arm])


@jit
def _wanted(worth: Any, offered: int, price: float) -> int:
    """What an agent pulls who is offered a price for one arm; of equals, the lowest."""
    best, top = 0, -math.inf
    for k in range(len(worth)):
        value = worth[k] + price if k == offered else worth[k]
        if value > top:
            best, top = k, value
    return best


@jit
def search_prices(
    book: Any, rewards: Any, worth: Any, weights: Any, low: Any, high: Any, search: int, width: float
) -> None:
    """Play `PriceSearch`: halve what is known of the prices in ``low`` and ``high``, then offer one arm a step to all.

    The first row of the work space has what was left of rewards, the second how often an arm was offered since.
    """
    C, M, K = book.pulls.shape
    left, times, T = book.values[0], book.values[1], book.steps[C - 1]
    more, at = 1.0 / float(T * T), 0
    for t in range(1, T + 1):
        if t > book.steps[at]:
            for m in range(M):
                _turn(book, at, m)
            at += 1
        if t <= search:
            k = (t - 1) % K
            for m in range(M):
                price = (low[m, k] + high[m, k]) / 2.0
                arm = _wanted(worth[m], k, price)
                _pull(book, rewards, at, m, arm, price if arm == k else 0.0)
                if arm == k:
                    high[m, k] = price
                else:
                    low[m, k] = price
            continue
        k, top = 0, -math.inf
        for i in range(K):
            index = math.inf if times[i] == 0.0 else left[i] / times[i] + width / math.sqrt(times[i])
            if index > top:
                k, top = i, index
        gain = cost = 0.0
        for m in range(M):
            price = high[m, k] + more
            arm = _wanted(worth[m], k, price)
            price = price if arm == k else 0.0
            gain += weights[m] * (float(_pull(book, rewards, at, m, arm, price)) * 2.0**-30)
            cost += price
        left[k] += gain - cost / float(M)
        times[k] += 1.0
