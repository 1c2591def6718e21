"""Plays a case on our own driver: freezers, leavers, forbidden looks, margins; the certified rule or the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

import freepull as fp
from freepull.numerics import fill_keys
from freepull.principal.rules.certified.books import Fill, blank, fresh

from .covered import Case
from .driver import IN_ANGER, Seen, Terms, play
from .found import THREADS, Found
from .paper_driver import Sums, play_paper
from .picks import ALPHA_UCB, EPSILON_GREEDY, FREEZER, THOMPSON, Floats, Ints, Own, World

KINDS = {"α-UCB": ALPHA_UCB, "Thompson": THOMPSON, "ε-greedy": EPSILON_GREEDY, "freezers": FREEZER}
LEAVERS = 3
"""How many agents leave, at most."""


class Start(NamedTuple):
    """The books before the first round."""

    arms: Floats
    capital: Floats
    near: Floats


def by_driver(
    case: Case, rule: fp.rules.Certified, runs: int, seed: int, first_look: int = 0, peeks: int = 0,
    margins: Floats | None = None, gamma: float = 0.0, follows: bool = False,
) -> Found:  # fmt: skip
    """Play under the certified rule."""
    terms = _terms(case)._replace(first_look=first_look, peeks=peeks, gamma=gamma, follows=follows)
    return _spread(case, runs, lambda part: _drive(case, rule, part, seed, terms, margins))


def paper_by_driver(case: Case, rule: fp.rules.Paper, runs: int, seed: int) -> Found:
    """Play under the paper's rule."""
    theta = rule.theta(case.arms, case.agents, case.horizon)
    return _spread(case, runs, lambda part: _drive_paper(case, part, seed, theta, 0.0))


def z_test_by_driver(case: Case, delta: float, runs: int, seed: int) -> Found:
    """Play with a z-test at every step, at δ/(K−1) a pair."""
    z = float(ndtri(1 - delta / (case.arms - 1)))
    return _spread(case, runs, lambda part: _drive_paper(case, part, seed, 0.0, z))


def _spread(case: Case, runs: int, drive: Callable[[Ints], Seen]) -> Found:
    """Share the runs among threads, and put them in order again."""
    parts = [np.arange(runs)[at::THREADS] for at in range(min(THREADS, runs))]
    with ThreadPoolExecutor(THREADS) as pool:
        seen = list(pool.map(drive, parts))
    order = np.argsort(np.concatenate(parts), kind="stable")
    peaks, halfway, rounds, paid, gone = (np.concatenate(column)[order] for column in zip(*seen, strict=True))
    return Found(peaks[:, 0, case.tested], gone, float(rounds.mean()), float(paid.mean()), peaks, halfway)


def _leaving(case: Case, numbers: Ints, seed: int) -> Ints:
    """When every agent of every run leaves; 0 for never."""
    leaves = np.zeros((len(numbers), case.agents), np.int64)
    if case.leavers == "none":
        return leaves
    for row, number in zip(leaves, numbers, strict=True):
        rng = np.random.default_rng([seed, int(number)])
        who = rng.choice(case.agents, size=min(LEAVERS, case.agents // 2), replace=False)
        late = rng.integers(case.horizon // 2, case.horizon + 1, size=len(who))
        row[who] = IN_ANGER if case.leavers == "in anger" else late
    return leaves


def _world(case: Case) -> World:
    game = case.game()
    streams = game.streams
    return World(
        np.array([KINDS[name] for name in case.strategies()]), np.ascontiguousarray(game.means.T),
        np.sqrt(np.ascontiguousarray(game.variances.T)), streams.kind, streams.parameters, streams.levels,
        streams.values, case.tested,
    )  # fmt: skip


def _own(case: Case) -> Own:
    K, M = case.arms, case.agents
    pulls = np.zeros((K, M), np.int64)
    return Own(pulls, np.zeros((K, M)), np.zeros((K, M, case.horizon)), np.zeros(M, np.int64), np.zeros(M, np.int64))


def _keys(case: Case, numbers: Ints, seed: int) -> Any:
    """The engines' keys for these runs, by purpose and (run, agent)."""
    keys = np.zeros((3, len(numbers) * case.agents), np.uint64)
    fill_keys(keys, np.uint64(seed), numbers.astype(np.uint64), np.arange(keys.shape[1]))
    return keys


def _terms(case: Case) -> Terms:
    kappa = math.floor(case.watched * case.horizon + 1e-9)
    take = 1.0 if case.answers == "take" else 0.7
    return Terms(case.horizon, kappa, case.offers == "each", take, first_look=0, peeks=0, gamma=0.0, follows=False)


def _seen(runs: int, margins: int, arms: int) -> Seen:
    shape = (runs, margins, arms)
    return Seen(np.ones(shape), np.ones(shape), *(np.zeros(runs, np.int64) for _ in range(3)))


def _drive(
    case: Case, rule: fp.rules.Certified, numbers: Ints, seed: int, terms: Terms, margins: Floats | None
) -> Seen:
    game, K, M, runs = case.game(), case.arms, case.agents, len(numbers)
    weights = game.weights if game.weighted else None
    trial = case.principal(rule).start(arms=K, agents=M, horizon=case.horizon, weights=weights)
    constants, prior = rule.constants(trial.setting, np.zeros(0) if margins is None else margins)
    used, coming = fresh(K, M, constants, prior)
    books = (used, coming, Fill(np.zeros((K, M)), np.zeros((K, M))), blank(K, constants), constants)
    seen = _seen(runs, len(constants.margins), K)
    marks = np.array([np.random.default_rng([seed, int(n), 1]).integers(1, case.horizon + 1) for n in numbers])
    assert trial.kappa == terms.kappa
    play(
        _world(case), _own(case), terms, books, Start(used.arms.copy(), coming.capital.copy(), coming.near.copy()),
        _keys(case, numbers, seed), _leaving(case, numbers, seed), marks, np.zeros(M, np.int64),
        np.zeros(M, np.int64), seen,
    )  # fmt: skip
    return seen


def _drive_paper(case: Case, numbers: Ints, seed: int, theta: float, z: float) -> Seen:
    K, M = case.arms, case.agents
    inverses, means, unpulled, active = np.zeros((4, K), np.int64)
    sums = Sums(inverses, means, np.zeros(K), unpulled, active)
    seen = _seen(len(numbers), 1, K)
    play_paper(
        _world(case), _own(case), _terms(case), theta, z, _keys(case, numbers, seed), _leaving(case, numbers, seed),
        np.zeros(M, np.int64), np.zeros(M, np.int64), sums, seen,
    )  # fmt: skip
    return seen
