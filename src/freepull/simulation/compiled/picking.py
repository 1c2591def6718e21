"""What the sixteen lanes of a chunk pick for themselves, strategy by strategy; the twin of `freepull.agents`.

``laws`` is None where rewards are coins, ``deep`` is None where nobody plays KL-UCB or Thompson sampling: Numba then
leaves out, and does not compile, what is not needed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.numerics import beta_draw, decision_key, exploration, kl_budget, kl_index, mix, uniform
from freepull.randomness import ARM, CHOICE_ARM, CHOICE_COIN, STEP
from freepull.simulation.compiled.coding import ALPHA_UCB, EPSILON_GREEDY, GREEDY, KL_UCB, ROUND_ROBIN
from freepull.simulation.compiled.lanes import WIDTH, first_largest
from freepull.simulation.compiled.state import CHOICES

_LOW, _32, _ONE, _W = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1), np.uint64(WIDTH)
_STEP = np.uint64(STEP)
_COIN, _WHICH = np.uint64(ARM * CHOICE_COIN % (1 << 64)), np.uint64(ARM * CHOICE_ARM % (1 << 64))
_LIFT = 1e-8


@jit
def pulls_at(cells: Any, laws: Any, position: Any) -> Any:
    """N of the stream at a position."""
    word = cells[position + position]
    if laws is None:
        return np.int64(word & _LOW)
    return np.int64(word)


@jit
def units_at(cells: Any, laws: Any, position: Any) -> Any:
    """S of the stream at a position, in units of 2⁻³⁰."""
    at = position + position
    if laws is None:
        return np.int64(cells[at] >> _32) << 30
    return np.int64(cells[at + _ONE])


@jit
def pick_chunk(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, laws: Any, deep: Any, tables: Any, kind: int, row: int,
    setting: float, chunk: Any, K: Any, t: int,
) -> None:  # fmt: skip
    """Write what every lane of the chunk picks at step t."""
    base, first = chunk * K * _W, chunk * _W
    if kind == ALPHA_UCB:
        s = tables[row, t] if row >= 0 else exploration(setting, t)
        first_largest(mean, root, base, K, s, arm, first)
    elif kind in (GREEDY, EPSILON_GREEDY):
        first_largest(mean, root, base, K, 0.0, arm, first)
        if kind == EPSILON_GREEDY:
            epsilon = min(1.0, setting * float(K) / float(t))
            for lane in range(_W):
                if mean[base + np.uint64(arm[first + lane]) * _W + lane] < math.inf:
                    counter = keys[CHOICES, first + lane] + _STEP * np.uint64(t)
                    if uniform(mix(counter + _COIN)) < epsilon:
                        arm[first + lane] = np.int64(uniform(mix(counter + _WHICH)) * float(K))
    elif kind == ROUND_ROBIN:
        for lane in range(_W):
            arm[first + lane] = (t - 1) % np.int64(K)
    elif deep is not None:
        if kind == KL_UCB:
            _kl_ucb_chunk(mean, cells, arm, laws, deep, base, first, K, kl_budget(setting, t))
        else:
            for lane in range(_W):
                arm[first + lane] = _thompson(cells, laws, base + lane, K, keys[CHOICES, first + lane], t)


@jit
def _kl_ucb_chunk(
    mean: Any, cells: Any, arm: Any, laws: Any, deep: Any, base: Any, first: Any, K: Any, budget: float
) -> None:
    """KL-UCB for the lanes of a chunk.

    ``deep`` keeps for every stream a line above its index as a function of the budget: the index is concave in it, so
    its tangent is one until the arm is pulled again. Only the arm pulled last has no line yet; an unpulled arm's is
    infinitely high. The highest line is where to look first.
    """
    for lane in range(_W):
        position = base + np.uint64(arm[first + lane]) * _W + lane
        if mean[position] < math.inf:
            _kl_line(mean, cells, laws, deep, position, budget)
    first_largest(deep[0], deep[1], base, K, budget, arm, first)
    for lane in range(_W):
        arm[first + lane] = _kl_ucb(mean, cells, laws, deep, base + lane, K, budget, np.uint64(arm[first + lane]))


@jit
def _kl_ucb(mean: Any, cells: Any, laws: Any, deep: Any, at: Any, K: Any, budget: float, best: Any) -> Any:
    """The arm with the largest KL index, computed only for arms that could have it; ``best`` has the highest line."""
    heights, slopes = deep
    if mean[at + best * _W] == math.inf:
        return np.int64(best)
    top = _kl_line(mean, cells, laws, deep, at + best * _W, budget)
    tried = best
    for k in range(K):
        if k != tried and heights[at + k * _W] + slopes[at + k * _W] * budget >= top:
            index = _kl_line(mean, cells, laws, deep, at + k * _W, budget)
            if index > top or (index == top and k < best):
                top, best = index, k
    return np.int64(best)


@jit
def _kl_line(mean: Any, cells: Any, laws: Any, deep: Any, position: Any, budget: float) -> float:
    """The stream's KL index at this budget; its tangent, lifted by more than any rounding, is kept as the line."""
    heights, slopes = deep
    own, pulls = mean[position], float(pulls_at(cells, laws, position))
    index = kl_index(own, pulls, budget)
    slope = index * (1.0 - index) / (pulls * (index - own)) if index > own else 0.0
    heights[position] = index + _LIFT - slope * budget if index > own or own == 1.0 else 1.0
    slopes[position] = slope
    return index


@jit
def _thompson(cells: Any, laws: Any, at: Any, K: Any, key: Any, t: int) -> Any:
    """The largest draw from the arms' Beta beliefs."""
    top, best = -1.0, np.int64(0)
    for k in range(K):
        S = float(units_at(cells, laws, at + k * _W)) * 2.0**-30
        N = float(pulls_at(cells, laws, at + k * _W))
        draw = beta_draw(1.0 + S, 1.0 + (N - S), decision_key(key, t, np.int64(k)))
        if draw > top:
            top, best = draw, np.int64(k)
    return best
