"""θ of the three bounds, and which of them is proven."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from freepull.errors import InvalidInput, UnknownName
from freepull.principal.rules.paper import Paper, equation, finite_time, simplified
from support.drive import assert_sentence

TOY = {"arms": 3, "agents": 2, "horizon": 100_000}
SIZES = [
    (3, 2, 100_000, 0.01),
    (2, 1, 2, 1 - 1e-9),
    (2, 1, 10, 0.5),
    (2, 1, 100, 0.05),
    (5, 3, 1_000, 0.1),
    (30, 30, 1_000_000, 0.01),
    (4, 100, 60, 0.05),
    (2, 7, 12_345, 1e-9),
]


def last_failure(K: int, M: int, T: int, delta: float) -> float:
    """The largest θ' at which the condition fails, on a fine grid and just beside every jump of ⌈θ'·log T⌉."""
    top, log_T = 25.0 * (M + 2 + math.log(K * T / delta)), math.log(T)
    jumps = np.arange(1, math.ceil(top * log_T)) / log_T
    grid = np.concatenate([np.linspace(M + 1, top, 1_000_001), np.nextafter(jumps, np.inf), jumps * (1 + 1e-12)])
    grid = grid[grid >= M + 1]
    left = (M + 1) + M * np.log((grid - 1) * np.ceil(grid * log_T) / M) - grid
    fails = grid[left > math.log(delta / (K * T))]
    return float(fails.max()) if len(fails) else M + 1.0


def test_theta_on_the_papers_toy() -> None:
    assert Paper(0.01, "equation").theta(**TOY) == pytest.approx(40.0, abs=0.05)
    assert Paper(0.01, "finite_time").theta(**TOY) == pytest.approx(19.1, abs=0.05)
    assert Paper(0.01, "simplified").theta(**TOY) == pytest.approx(17.2, abs=0.05)


@pytest.mark.parametrize(
    ("size", "expected", "short"),
    [
        ((3, 2, 100_000, 0.01), 39.983750372925745, 17.216707939626429),
        ((2, 1, 100, 0.05), 16.756203027574083, 8.294049640102028),
    ],
)
def test_equation_and_simplified_by_hand(size: tuple[int, int, int, float], expected: float, short: float) -> None:
    assert equation(*size) == pytest.approx(expected, rel=1e-14)
    assert simplified(*size, 1.0) == pytest.approx(short, rel=1e-14)
    assert simplified(*size, 0.1) == pytest.approx(short / 10, rel=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_finite_time_is_half_the_smallest_theta_of_its_definition(size: tuple[int, int, int, float]) -> None:
    K, M, T, delta = size
    found, failing = 2 * finite_time(*size), last_failure(*size)
    width = 25.0 * (M + 2 + math.log(K * T / delta)) / 1_000_000
    assert failing * (1 - 1e-12) <= found <= failing + width


@pytest.mark.parametrize("size", SIZES)
def test_finite_time_holds_from_its_theta_on(size: tuple[int, int, int, float]) -> None:
    K, M, T, delta = size
    theta = 2 * finite_time(*size) * (1 + 1e-9) + np.linspace(0, 50, 200_001)
    left = (M + 1) + M * np.log((theta - 1) * np.ceil(theta * math.log(T)) / M) - theta
    assert (left <= math.log(delta / (K * T))).all()


def test_finite_time_grows_when_more_is_asked() -> None:
    base = finite_time(3, 2, 100_000, 0.01)
    assert finite_time(3, 2, 100_000, 0.001) > base
    assert finite_time(30, 2, 100_000, 0.01) > base
    assert finite_time(3, 2, 1_000_000, 0.01) > base
    assert finite_time(3, 4, 100_000, 0.01) > base


@pytest.mark.parametrize("M", [2, 10, 100, 1000])
@pytest.mark.parametrize("T", [10, 10_000, 1_000_000])
def test_equation_is_proven_at_the_sizes_that_the_docs_name(M: int, T: int) -> None:
    rule = Paper(0.01, "equation")
    assert rule.theta(3, M, T) >= finite_time(3, M, T, 0.01)
    assert rule.proven(3, M, T)


def test_finite_time_is_always_proven_and_simplified_never() -> None:
    assert Paper(0.01, "finite_time").proven(**TOY)
    assert not Paper(0.01, "simplified").proven(**TOY)
    assert not Paper(0.01, "simplified", scale=100.0).proven(**TOY)


def test_equation_is_not_proven_below_finite_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from freepull.principal.rules import paper as bounds

    monkeypatch.setattr(bounds, "finite_time", lambda *_: 39.99)
    assert not Paper(0.01, "equation").proven(**TOY)
    monkeypatch.setattr(bounds, "finite_time", lambda *_: 39.98)
    assert Paper(0.01, "equation").proven(**TOY)


def test_a_delta_of_1_claims_nothing() -> None:
    assert not Paper(1.0, "equation").proven(**TOY)
    with pytest.raises(InvalidInput, match=r"delta must be a number in \[1e-100, 1\), got 1\.0\."):
        Paper(1.0, "finite_time")


@pytest.mark.parametrize("delta", [0.0, 5e-324, 9e-101, -0.1, 1.1, float("nan"), "0.01", None])
def test_delta_must_be_a_probability(delta: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        Paper(delta)
    assert assert_sentence(problem).startswith("delta must be a number in [1e-100, 1]")


def test_a_misspelt_bound_is_guessed() -> None:
    with pytest.raises(UnknownName) as problem:
        Paper(0.01, "finite-time")
    assert assert_sentence(problem).endswith("did you mean 'finite_time'?")


@pytest.mark.parametrize(("bound", "scale"), [("simplified", 0.0), ("simplified", -1.0), ("equation", 0.1)])
def test_a_scale_must_be_positive_and_is_for_the_simplified_bound(bound: str, scale: float) -> None:
    with pytest.raises(InvalidInput) as problem:
        Paper(0.01, bound, scale)
    assert assert_sentence(problem).startswith("scale must be ")
