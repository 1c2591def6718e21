"""The paper's rule, as `rules.Paper` has it, and a plain z-test, on our driver: against freezers and leavers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit

from .driver import act, departs
from .picks import Floats, Ints

ONE = 1 << 40
"""The number 1 in sums over agents, as in the record."""


class Sums(NamedTuple):
    """What the rule looks at, by arm."""

    inverses: Ints
    """Σ⌊2⁴⁰/N⌋."""
    means: Ints
    """Σ⌊2⁴⁰·S/N⌋."""
    variances: Floats
    """Σσ²/N, for the z-test."""
    unpulled: Ints
    active: Ints


@jit
def play_paper(
    world: Any, own: Any, terms: Any, theta: float, z: float, keys: Any, leaves: Any, offers: Any, banned: Any,
    sums: Any, seen: Any,
) -> None:  # fmt: skip
    """Play runs until the tested arm is out, or all others are; θ of the paper's bound, or z > 0 for the z-test."""
    K, M = own.pulls.shape
    for run in range(leaves.shape[0]):
        for m in range(M):
            own.last[m], own.left[m], banned[m], offers[m] = 0, 0, 0, -1
            for k in range(K):
                own.pulls[k, m], own.sums[k, m] = 0, 0.0
        for k in range(K):
            sums.inverses[k], sums.means[k], sums.variances[k] = 0, 0, 0.0
            sums.unpulled[k], sums.active[k] = M, 1
        if terms.kappa == 0:
            _plan(own, terms, sums, offers, banned)
        left = K
        for t in range(1, terms.horizon + 1):
            for m in range(M):
                if own.left[m] == 0:
                    k = act(world, own, terms, keys, offers, banned, seen, run, m, t)
                    _enter(world, own, sums, m, k)
                    if departs(world, own, terms, leaves, run, m, t):
                        own.left[m] = 1
            if t >= terms.kappa:
                left = _eliminate_by_z(sums, z) if z > 0.0 else _eliminate(sums, theta)
                if left == 1 or sums.active[world.tested] == 0:
                    break
                _plan(own, terms, sums, offers, banned)
        seen.gone[run] = 1 - sums.active[world.tested]


@jit
def _enter(world: Any, own: Any, sums: Any, m: int, k: int) -> None:
    """Exchange a stream's share in the sums over agents."""
    n = own.pulls[k, m]
    x = own.rewards[k, m, n - 1]
    units, before = np.int64(own.sums[k, m] * 2.0**30), np.int64((own.sums[k, m] - x) * 2.0**30)
    variance = world.spreads[k, m] * world.spreads[k, m]
    if n == 1:
        sums.unpulled[k] -= 1
    else:
        sums.inverses[k] -= ONE // (n - 1)
        sums.means[k] -= (before << 10) // (n - 1)
        sums.variances[k] -= variance / float(n - 1)
    sums.inverses[k] += ONE // n
    sums.means[k] += (units << 10) // n
    sums.variances[k] += variance / float(n)


@jit
def _width(sums: Any, theta: float, k: int) -> float:
    return math.inf if sums.unpulled[k] > 0 else math.sqrt(float(sums.inverses[k]) / float(ONE) * theta)


@jit
def _eliminate(sums: Any, theta: float) -> int:
    """Eq. (3): keep k while μ̂_k + CB_k ≥ max_j (μ̂_j − CB_j)."""
    highest, left = -math.inf, 0
    for j in range(sums.active.shape[0]):
        if sums.active[j] == 1:
            highest = max(highest, float(sums.means[j]) / float(ONE) - _width(sums, theta, j))
    for k in range(sums.active.shape[0]):
        if sums.active[k] == 1 and not float(sums.means[k]) / float(ONE) + _width(sums, theta, k) >= highest:
            sums.active[k] = 0
        left += sums.active[k]
    return int(left)


@jit
def _eliminate_by_z(sums: Any, z: float) -> int:
    """A z-test of every two arms at every step, with the true variances."""
    K, left = sums.active.shape[0], 0
    for k in range(K):
        for j in range(K):
            if sums.active[k] * sums.active[j] == 1 and sums.unpulled[k] + sums.unpulled[j] == 0:
                ahead = float(sums.means[j] - sums.means[k]) / float(ONE)
                if ahead > 1e-9 and ahead > z * math.sqrt(max(sums.variances[j] + sums.variances[k], 0.0)):
                    sums.active[k] = 0
        left += sums.active[k]
    return int(left)


@jit
def _plan(own: Any, terms: Any, sums: Any, offers: Any, banned: Any) -> None:
    """One: the widest bound, to the agent with fewest pulls. Each: everybody's least pulled active arm."""
    K, M = own.pulls.shape
    for m in range(M):
        offers[m] = -1
        if terms.each and banned[m] == 0 and own.left[m] == 0:
            for k in range(K):
                if sums.active[k] == 1 and (offers[m] < 0 or own.pulls[k, m] < own.pulls[offers[m], m]):
                    offers[m] = k
    if terms.each:
        return
    who, which = -1, -1
    for k in range(K):
        if sums.active[k] == 0:
            continue
        agent = -1
        for m in range(M):
            if banned[m] == 0 and own.left[m] == 0 and (agent < 0 or own.pulls[k, m] < own.pulls[k, agent]):
                agent = m
        if agent < 0 or (own.pulls[k, agent] > 0 and sums.unpulled[k] > 0):
            continue
        wider = which < 0 or (sums.unpulled[which] == 0 and (
            sums.unpulled[k] > 0 or sums.inverses[k] > sums.inverses[which]))  # fmt: skip
        if wider:
            who, which = agent, k
    if who >= 0:
        offers[who] = which
