"""Plays a case under the pairwise rule on our driver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

import freepull as fp
from freepull.principal.rules.pairwise.evidence import fresh

from .by_driver import _keys, _leaving, _own, _terms, _world
from .covered import Case
from .found import THREADS, Found
from .pairwise_driver import Noted, Streams, play_pairwise
from .picks import Ints


@dataclass(frozen=True)
class Claims:
    """How many runs displayed a wrong bound: at any look, and at a random step."""

    runs: int
    ever: Ints
    then: Ints
    """By kind: a given pair, any pair, any arm's distance to the best."""


def by_pairwise(case: Case, rule: fp.rules.Pairwise, runs: int, seed: int) -> Found:
    """Play; ``peaks`` is the largest evidence against the tested arm, divided by K − 1."""
    noted = _spread(case, rule, runs, seed, checked=False)
    peaks = np.exp(np.minimum(noted.peaks, 700.0)) / (case.arms - 1)
    return Found(peaks, noted.gone, float(noted.rounds.mean()), float(noted.paid.mean()))


def claims_of(case: Case, rule: fp.rules.Pairwise, runs: int, seed: int) -> Claims:
    """Play, and look at all displayed bounds."""
    noted = _spread(case, rule, runs, seed, checked=True)
    return Claims(runs, noted.wrong.sum(axis=0), noted.wrong_then.sum(axis=0))


def _spread(case: Case, rule: fp.rules.Pairwise, runs: int, seed: int, checked: bool) -> Noted:
    parts = [np.arange(runs)[at::THREADS] for at in range(min(THREADS, runs))]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda part: _drive(case, rule, part, seed, checked), parts))
    order = np.argsort(np.concatenate(parts), kind="stable")
    return Noted(*(np.concatenate(column)[order] for column in zip(*found, strict=True)))


def _drive(case: Case, rule: fp.rules.Pairwise, numbers: Ints, seed: int, checked: bool) -> Noted:
    game, K, M, runs = case.game(), case.arms, case.agents, len(numbers)
    weights = game.weights if game.weighted else None
    trial = case.principal(rule).start(arms=K, agents=M, horizon=case.horizon, weights=weights)
    constants = rule.constants(trial.setting)
    rounds = 2 + int(np.searchsorted(constants.reached, case.horizon, side="right"))

    def streams(*shape: int) -> Any:
        return np.zeros(shape, np.int64)

    books = fresh(K, rounds, constants)
    block, sizes, missing, total, before = streams(5, K, M)
    each = Streams(block, sizes, missing, total, before, np.zeros((K, M)), streams(K, rounds))
    noted = Noted(
        np.full(runs, -np.inf), streams(runs), streams(runs), streams(runs), streams(runs, 3), streams(runs, 3)
    )
    marks = np.array([np.random.default_rng([seed, int(n), 1]).integers(1, case.horizon + 1) for n in numbers])
    play_pairwise(
        _world(case), _own(case), _terms(case), books, constants, each, _keys(case, numbers, seed),
        _leaving(case, numbers, seed), marks, np.ascontiguousarray(game.global_means), checked, streams(M), streams(M),
        noted,
    )  # fmt: skip
    return noted
