"""What the paper's rule estimates to be missing, and the window of gaps behind it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from freepull.principal.record import UNITS, Record
from freepull.principal.rules.base import Setting
from freepull.principal.rules.paper import Paper, Passive
from freepull.principal.rules.rounds import gap_window


def setting(K: int, M: int, T: int, offers: str = "one") -> Setting:
    return Setting(K, M, T, np.full(M, 1 / M), False, offers)


def record_of(means: list[list[float]], n: int) -> Record:
    record = Record(len(means), len(means[0]))
    for m, row in enumerate(means):
        for k, mean in enumerate(row):
            for _ in range(n):
                record.add(m, k, round(mean * UNITS))
    return record


def test_the_window_on_the_toy_by_hand() -> None:
    # β = log 100 + 2.5 = 7.10517; R_f = min(2·log 50000/.16, 50000/6) = 135.247;
    # "one": n_m = 135.247 + 50000/6 = 8468.58, "each": 135.247 + 50000/3 = 16801.9
    lo, hi = gap_window(3, 2, 100_000, 50_000, 0.01, "one")
    assert hi == pytest.approx(1.5 * math.sqrt(7.105170186 / (135.2472278 * 2)), rel=1e-8)
    assert lo == pytest.approx(math.sqrt(7.105170186 / (8468.580561 * 2)), rel=1e-8)
    lo, hi_each = gap_window(3, 2, 100_000, 50_000, 0.01, "each")
    assert hi_each == hi
    assert lo == pytest.approx(math.sqrt(7.105170186 / (16801.913895 * 2)), rel=1e-8)


def test_the_windows_limits() -> None:
    assert gap_window(2, 1, 10, 5, 0.5, "one")[1] == 0.4  # hi is at most .4
    assert gap_window(2, 1, 10, 5, 0.5, "one")[0] == 0.2  # lo is at most hi/2
    # R_f is at least 1: κ/2K = 0.5 here, so hi = 1.5·√(β/50)
    beta = math.log(1 / 0.9) + 2.5
    assert gap_window(4, 50, 400, 4, 0.9, "each")[1] == pytest.approx(1.5 * math.sqrt(beta / 50), rel=1e-12)
    # κ = 0 and 1 count as 2 in the logarithm
    assert gap_window(4, 50, 400, 0, 0.9, "each")[1] == gap_window(4, 50, 400, 1, 0.9, "each")[1]


@pytest.mark.parametrize("offers", ["one", "each"])
def test_missing_pulls_by_hand(offers: str) -> None:
    rule = Paper(0.5, "simplified").start(
        setting(3, 2, 1000, offers), record_of([[0.9, 0.5, 0.1], [0.5, 0.5, 0.5]], 10)
    )
    rule.theta = 2.0
    # global means .7, .5, .3: Δ̂ = .2, .2, .4; n_k = 4·2/(2·Δ̂²) = 100, 100, 25
    assert np.array(rule.missing()) == pytest.approx(np.array([[90.0, 90.0, 15.0]] * 2), rel=1e-6)


def test_nothing_is_missing_of_eliminated_arms_and_they_are_no_rivals() -> None:
    rule = Paper(0.5, "simplified").start(setting(3, 2, 1000), record_of([[0.9, 0.5, 0.1], [0.5, 0.5, 0.5]], 10))
    rule.theta, rule.active = 2.0, [True, False, True]
    assert np.array(rule.missing()) == pytest.approx(np.array([[15.0, 0.0, 15.0]] * 2), rel=1e-6)


def test_what_is_there_already_is_not_missing() -> None:
    rule = Paper(0.5, "simplified").start(setting(2, 1, 1000), record_of([[1.0, 0.0]], 10))
    rule.theta = 1.0  # n_k = 4
    assert rule.missing() == [[0.0, 0.0]]


@pytest.mark.parametrize("delta", [0.5, 1.0])
def test_a_gap_counts_as_at_least_the_windows_lo_at_half_the_horizon(delta: float) -> None:
    rule = Paper(delta, "simplified").start(setting(2, 1, 1000), record_of([[0.5, 0.5]], 1))
    rule.theta = 1.0
    # β = log(1/δ) + 2.5, R_f = 2·log 500/.16 = 77.6826, n_m = 77.6826 + 500/2
    lo_squared = (math.log(1 / delta) + 2.5) / (2 * math.log(500) / 0.16 + 250)
    assert np.array(rule.missing()) == pytest.approx(np.full((1, 2), 4 / lo_squared - 1), rel=1e-9)


def test_the_passive_principal_misses_nothing() -> None:
    rule = Passive().start(setting(2, 3, 10), Record(3, 2))
    assert rule.missing() == [[0.0, 0.0]] * 3
    assert rule.bounds() == [math.inf, math.inf]
    assert rule.wants([True] * 3) == []
    rule.evaluate(incentivizing=True)
    assert not rule.decided
    assert not rule.proven
