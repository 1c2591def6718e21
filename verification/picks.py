"""How agents pick in our own driver: three built-in strategies, and the freezer, who knows the means.

A freezer stops pulling an arm once its own samples of it mislead: the tested best arm when it looks bad to him, any
other when it looks good (docs/verification.md). No learner is that wicked; a certificate must hold all the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import beta_draw, decision_key, exploration, mix, reward_units, uniform
from freepull.randomness import ARM, CHOICE_ARM, CHOICE_COIN, STEP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

ALPHA_UCB, THOMPSON, EPSILON_GREEDY, FREEZER = range(4)
REWARDS, CHOICES, ANSWERS = range(3)
_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)
_COIN, _WHICH = np.uint64(ARM * CHOICE_COIN % (1 << 64)), np.uint64(ARM * CHOICE_ARM % (1 << 64))
ALPHA, EXPLORES, ENOUGH, MISLED = 2.0, 5.0, 4, 1.0


class World(NamedTuple):
    """The agents and their streams."""

    kinds: Ints
    means: Floats
    """μ_km, arms × agents."""
    spreads: Floats
    """σ_km, arms × agents."""
    law: int
    parameters: Floats
    levels: Ints
    values: Floats
    tested: int
    """The best arm that is watched."""


class Own(NamedTuple):
    """What the agents of one run have seen, arms × agents."""

    pulls: Ints
    sums: Floats
    rewards: Floats
    """The stacks as far as they were drawn: arms × agents × pulls."""
    last: Ints
    """The arm that each agent pulled last."""
    left: Ints
    """1 for agents who no longer act."""


@jit
def draw(world: Any, own: Any, key: Any, m: int, k: int) -> float:
    """Take the next reward from a stack, as the engines do, and learn from it."""
    own.pulls[k, m] += 1
    n = own.pulls[k, m]
    word = mix(key + _ARM * np.uint64(k) + _STEP * np.uint64(n))
    x = float(reward_units(world.law, world.parameters[m, k], world.levels, world.values, word)) * 2.0**-30
    own.rewards[k, m, n - 1] = x
    own.sums[k, m] += x
    own.last[m] = k
    return x


@jit
def pick(world: Any, own: Any, key: Any, m: int, t: int) -> int:
    """The arm that an agent picks for itself at step t."""
    kind = world.kinds[m]
    if kind == FREEZER:
        return int(freeze(world, own, m, t))
    if kind == THOMPSON:
        return int(_thompson(own, key, m, t))
    K = own.pulls.shape[0]
    for k in range(K):
        if own.pulls[k, m] == 0:
            return k
    if kind == EPSILON_GREEDY:
        counter = key + _STEP * np.uint64(t)
        if uniform(mix(counter + _COIN)) < min(1.0, EXPLORES * float(K) / float(t)):
            return int(uniform(mix(counter + _WHICH)) * float(K))
    s = exploration(ALPHA, t) if kind == ALPHA_UCB else 0.0
    top, best = -1.0, 0
    for k in range(K):
        N = float(own.pulls[k, m])
        index = own.sums[k, m] / N + s * (1.0 / math.sqrt(N))
        if index > top:
            top, best = index, k
    return best


@jit
def _thompson(own: Any, key: Any, m: int, t: int) -> int:
    top, best = -1.0, 0
    for k in range(own.pulls.shape[0]):
        S, N = own.sums[k, m], float(own.pulls[k, m])
        x = beta_draw(1.0 + S, 1.0 + (N - S), decision_key(key, t, k))
        if x > top:
            top, best = x, k
    return best


@jit
def misled(world: Any, own: Any, m: int, k: int) -> bool:
    """Whether an agent's samples of an arm mislead by a standard error: the best arm looks bad, another one good."""
    if own.pulls[k, m] < ENOUGH or world.spreads[k, m] == 0.0:
        return False
    N = float(own.pulls[k, m])
    z = (own.sums[k, m] / N - world.means[k, m]) * math.sqrt(N) / world.spreads[k, m]
    return bool(z < -MISLED if k == world.tested else z > MISLED)


@jit
def freeze(world: Any, own: Any, m: int, t: int) -> int:
    """Arms in turn, without those whose samples mislead; if all do, the last one again."""
    K = own.pulls.shape[0]
    for q in range(K):
        k = (t + m + q) % K
        if not misled(world, own, m, k):
            return int(k)
    return int(own.last[m])
