"""The theorems as functions: the paper's formulas written out again, and their conditions at the border."""

from __future__ import annotations

import math

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.planning import theorems
from freepull.principal.rules import bounds

EASY = fp.Game([[0.9, 0.2], [0.3, 0.6]])


def kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_lemma_3_is_the_papers_formula() -> None:
    L = math.log(5 * 40_000 / 0.1)
    expected = 16 * L / (7 * 0.3**2) + 64 * math.log(L) / 0.3**2
    claim = theorems.sufficient_pulls(0.3, arms=5, agents=7, horizon=40_000, delta=0.1)
    assert claim.value == pytest.approx(expected, rel=1e-12)
    assert claim.holds
    assert claim.probability == 0.9


def test_lemma_3_makes_the_band_a_quarter_of_the_gap() -> None:
    value = theorems.sufficient_pulls(0.1, arms=5, agents=7, horizon=10**7, delta=0.1).value
    width = math.sqrt(7 / value * bounds.equation(5, 7, 10**7, 0.1)) / 7
    assert width == pytest.approx(0.1 / 4, rel=1e-12)


def test_lemma_2_needs_the_bound_that_is_proven_for_every_horizon() -> None:
    claim = theorems.confidence(3, 2, 100_000, 0.01)
    assert claim.value == pytest.approx(40.0, abs=0.05)
    assert claim.holds
    assert not theorems.confidence(2, 1000, 10, 0.1).holds


def test_lemma_4_is_the_papers_formula_and_says_nothing_of_the_best_arm() -> None:
    claim = theorems.ucb_pulls([0.89, 0.47, 0.01], 100_000)
    factor = (math.sqrt(2) - math.sqrt(1.5)) ** 2 * math.log(50_000) / 4
    assert np.isnan(claim.value[0])
    assert claim.value[1:] == pytest.approx([factor / 0.42**2, factor / 0.88**2], rel=1e-12)
    assert claim.probability == 1 - 6 / 100_000


def test_lemma_4_holds_from_its_condition_on() -> None:
    means = [0.89, 0.47, 0.01]
    border = 4 * 3 * 0.5**2 / 0.42**4
    first = next(n for n in range(8, 10**6) if n / math.log(n) ** 2 > border)
    assert theorems.ucb_pulls(means, first).holds
    below = theorems.ucb_pulls(means, first - 1)
    assert not below.holds
    assert below.condition == (
        f"it needs a horizon above {first - 1:,} here, and has {first - 1:,}: it does not apply."
    )


def test_a_long_horizon_is_told_in_powers_of_ten() -> None:
    told = theorems.ucb_pulls([0.5, 0.49], 1000).condition
    assert told.startswith("it needs a horizon above 1.")
    assert "·10^11 here" in told


def test_lemma_4_asks_nothing_at_the_smallest_alpha() -> None:
    claim = theorems.ucb_pulls([0.5, 0.4], 100, alpha=1.5)
    assert claim.holds
    assert claim.value[1] == 0.0


def test_theorem_1_written_out() -> None:
    T, delta = 100_000, 0.01
    L = math.log(2 * T / delta)
    needed = 16 * L / (2 * 0.2**2) + 64 * math.log(L) / 0.2**2
    free = [[T / 2, math.log(T / 2) / kl(0.2, 0.9)], [math.log(T / 2) / kl(0.3, 0.6), T / 2]]
    expected = sum(max(needed - x, 0.0) for row in free for x in row)
    claim = theorems.expected_incentives(EASY, T, delta)
    assert claim.value == pytest.approx(expected, rel=1e-9)
    assert claim.probability is None
    assert not claim.holds


def test_theorem_2_written_out() -> None:
    T, delta = 100_000, 0.01
    needed = theorems.sufficient_pulls(0.2, 2, 2, T, delta).value
    factor = (math.sqrt(2) - math.sqrt(1.5)) ** 2 * math.log(T / 4) / 4
    expected = (needed - factor / 0.7**2) + (needed - factor / 0.3**2)
    claim = theorems.ucb_incentives(EASY, T, delta)
    assert claim.value == pytest.approx(expected, rel=1e-9)
    assert claim.holds
    assert claim.probability == pytest.approx(1 - delta - 4 * 4 / T)


def test_theorem_2_tells_the_condition_that_fails() -> None:
    claim = theorems.ucb_incentives(fp.Game([[0.5, 0.49], [0.3, 0.6]]), 100_000, 0.01)
    assert not claim.holds
    assert "it does not apply" in claim.condition


def test_ties_cost_without_end_and_weights_are_refused() -> None:
    assert theorems.expected_incentives(fp.Game([[0.5, 0.5], [0.4, 0.4]]), 1000, 0.1).value == math.inf
    with pytest.raises(InvalidInput, match="equal weights"):
        theorems.ucb_incentives(fp.Game([[0.5, 0.6], [0.4, 0.4]], weights=[1, 2]), 1000, 0.1)


def test_the_bounds_hold_where_they_apply() -> None:
    result = fp.simulate(EASY, principal=fp.Principal(fp.rules.Paper(0.01)), horizon=100_000, runs=20, seed=3,
                         until="decided", progress=False)  # fmt: skip
    assert result.frame["decided"].all()
    assert result.frame["paid"].max() <= theorems.ucb_incentives(EASY, 100_000, 0.01).value


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: theorems.sufficient_pulls(0.0, 3, 2, 100, 0.1), "gap"),
        (lambda: theorems.sufficient_pulls(0.1, 1, 2, 100, 0.1), "arms"),
        (lambda: theorems.confidence(3, 0, 100, 0.1), "agents"),
        (lambda: theorems.confidence(3, 2, 100, 0.0), "delta"),
        (lambda: theorems.ucb_pulls([[0.1, 0.2]], 100), "means"),
        (lambda: theorems.ucb_pulls([0.1, 0.2], 100, alpha=1.0), "alpha"),
    ],
)
def test_bad_input_is_refused(call: object, word: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{word} must"):
        call()  # type: ignore[operator]
