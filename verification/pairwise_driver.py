"""The pairwise rule on our driver: freezers and leavers under the functions of `freepull.principal.rules.pairwise`.

Also notes, at every look, whether a displayed bound is wrong: LCB(μ_j − μ_k) for a given pair and for any, and "at
most so much worse than the best" for any arm.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit
from freepull.principal.rules.pairwise.evidence import (
    against,
    block_size,
    compare,
    complete,
    eliminate,
    enter,
    lower,
    prediction,
)

from .driver import act, departs
from .picks import Floats, Ints

PAIR, ANY, WITHIN = range(3)
"""Columns of ``Noted.wrong``."""
TINY = 1e-9


class Streams(NamedTuple):
    """Per stream (arm, agent) how far it is, and the block that is being filled."""

    block: Ints
    """c, the one that is being filled."""
    sizes: Ints
    missing: Ints
    total: Ints
    """Rewards so far in units of 2⁻³⁰."""
    before: Ints
    errors: Floats
    entered: Ints
    """Blocks in each round, by arm."""


class Noted(NamedTuple):
    """What is noted of every run."""

    peaks: Floats
    """The largest log evidence ever held against the tested arm."""
    gone: Ints
    paid: Ints
    rounds: Ints
    wrong: Ints
    """1 where a displayed bound was wrong at any look: a given pair, any pair, any arm's distance to the best."""
    wrong_then: Ints
    """The same at a random step."""


@jit
def play_pairwise(
    world: Any, own: Any, terms: Any, books: Any, constants: Any, streams: Any, keys: Any, leaves: Any, marks: Any,
    truth: Any, checked: bool, offers: Any, banned: Any, noted: Any,
) -> None:  # fmt: skip
    """Play runs one after the other."""
    M = world.kinds.shape[0]
    for run in range(leaves.shape[0]):
        _reset(own, books, constants, streams, banned)
        left = books.active.shape[0]
        _plan(own, books, streams, terms, offers, banned, 0)
        for t in range(1, terms.horizon + 1):
            for m in range(M):
                if own.left[m] == 0:
                    k = act(world, own, terms, keys, offers, banned, noted, run, m, t)
                    _enter(own, books, constants, streams, k, m)
                    if departs(world, own, terms, leaves, run, m, t):
                        own.left[m] = 1
            for k in range(books.active.shape[0]):
                while streams.entered[k, books.rounds[k]] == M:
                    complete(books, k)
            if compare(books, constants):
                left = eliminate(books, constants)
                noted.peaks[run] = max(noted.peaks[run], against(books, world.tested))
                if checked:
                    check_claims(books, constants, truth, world.tested, noted.wrong, run)
            if t == marks[run] and checked:
                check_claims(books, constants, truth, world.tested, noted.wrong_then, run)
            if left == 1 and (t >= marks[run] or not checked):
                break
            _plan(own, books, streams, terms, offers, banned, -1 if left == 1 else t)
        noted.gone[run] = 1 - books.active[world.tested]
        noted.rounds[run] = books.rounds[world.tested]


@jit
def check_claims(books: Any, constants: Any, truth: Any, tested: int, wrong: Any, run: int) -> None:
    """Note which displayed bounds are wrong now."""
    K = truth.shape[0]
    best, other = truth[tested], (tested + 1) % K
    for j in range(K):
        worst = 0.0
        for k in range(K):
            if j != k:
                bound = lower(books, constants, j, k)
                if bound > truth[j] - truth[k] + TINY:
                    wrong[run, ANY] = 1
                    if j == other and k == tested:
                        wrong[run, PAIR] = 1
                if books.active[k] == 1:
                    worst = max(worst, -bound)
        if worst < best - truth[j] - TINY:
            wrong[run, WITHIN] = 1


@jit
def _reset(own: Any, books: Any, constants: Any, streams: Any, banned: Any) -> None:
    """Forget the last run."""
    K, rounds, columns, _ = books.ledger.shape
    for m in range(banned.shape[0]):
        own.last[m], own.left[m], banned[m] = 0, 0, 0
        for k in range(K):
            own.pulls[k, m], own.sums[k, m] = 0, 0.0
            streams.block[k, m], streams.total[k, m], streams.before[k, m] = 0, 0, 0
            streams.sizes[k, m] = streams.missing[k, m] = constants.first_block
            streams.errors[k, m] = 0.0
    for k in range(K):
        books.rounds[k], books.active[k] = 0, 1
        for j in range(K):
            books.evidence[j, k], books.compared[j, k], books.beaten[j, k] = -math.inf, 0, 0
        for c in range(rounds):
            streams.entered[k, c] = 0
            for column in range(columns):
                books.ledger[k, c, column, 0] = books.ledger[k, c, column, 1] = 0


@jit
def _enter(own: Any, books: Any, constants: Any, streams: Any, k: int, m: int) -> None:
    """Put a stream's last sample into its block, as `pairwise.streams.Streams.observe` does."""
    n = own.pulls[k, m]
    x = own.rewards[k, m, n - 1]
    error = x - prediction(streams.total[k, m], n - 1)
    streams.errors[k, m] += error * error
    streams.total[k, m] += np.int64(x * 2.0**30)
    streams.missing[k, m] -= 1
    if streams.missing[k, m] == 0:
        c, total = streams.block[k, m], streams.total[k, m]
        enter(books, constants, k, c, m, streams.sizes[k, m], total - streams.before[k, m], streams.errors[k, m])
        streams.entered[k, c] += 1
        streams.block[k, m], streams.before[k, m], streams.errors[k, m] = c + 1, total, 0.0
        size = block_size(constants.levels[c + 1], total, n, constants.neyman)
        streams.sizes[k, m] = streams.missing[k, m] = size


@jit
def _plan(own: Any, books: Any, streams: Any, terms: Any, offers: Any, banned: Any, t: int) -> None:
    """Of the streams in the lowest round that some active arm has not completed, those that lack most."""
    K = books.active.shape[0]
    lowest, highest, who, which = np.int64(1 << 40), 0, -1, -1
    for k in range(K):
        if books.active[k] == 1:
            lowest = min(lowest, books.rounds[k])
    for m in range(offers.shape[0]):
        offers[m] = -1
        if t < terms.kappa or banned[m] == 1 or own.left[m] == 1:
            continue
        most, arm = 0, -1
        for k in range(K):
            if books.active[k] == 1 and streams.block[k, m] <= lowest and streams.missing[k, m] > most:
                most, arm = streams.missing[k, m], k
        if terms.each:
            offers[m] = arm
        elif most > highest or (most == highest and most > 0 and arm < which):
            highest, who, which = most, m, arm
    if who >= 0:
        offers[who] = which
