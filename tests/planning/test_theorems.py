"""The theorems as functions: the paper's formulas written out again, and their conditions at the border."""

from __future__ import annotations

import math

import numpy as np
import pytest

import freepull as fp
from freepull import theory as theorems
from freepull.errors import InvalidInput
from freepull.principal.rules import paper as bounds

EASY = fp.Game([[0.9, 0.2], [0.3, 0.6]])
TABLES = {
    "easy": [[0.9, 0.2], [0.3, 0.6]],
    "toy": [[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]],
    "alike": [[0.7, 0.3, 0.5], [0.8, 0.2, 0.4], [0.75, 0.35, 0.1]],
}


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


def own_gaps(means: list[float]) -> list[float]:
    """The paper's Δ_km: of the agent's best arm it is the smallest of the others."""
    best = max(range(len(means)), key=lambda k: means[k])
    others = [means[best] - mean for k, mean in enumerate(means) if k != best]
    return [min(others) if k == best else means[best] - mean for k, mean in enumerate(means)]


def lemma_4(means: list[float], steps: float, alpha: float) -> list[float]:
    """(√α − √1.5)²·log(Λ/2)/(4Δ_km²), for every arm."""
    factor = (alpha**0.5 - 1.5**0.5) ** 2 * math.log(steps / 2) / 4
    return [factor / gap**2 for gap in own_gaps(means)]


def theorem_2(table: list[list[float]], T: int, delta: float, alpha: float) -> float:
    """The proof of Theorem 1 with Lemma 4 in place of Eq. (1), as the appendix has it."""
    M, K = len(table), len(table[0])
    gaps = own_gaps([sum(row[k] for row in table) / M for k in range(K)])
    L = math.log(K * T / delta)
    total = 0.0
    for row in table:
        free = lemma_4(row, T / 2, alpha)
        for k in range(K):
            total += max(16 * (L + 4 * M * math.log(L)) / (M * gaps[k] ** 2) - free[k], 0.0)
    return total


@pytest.mark.parametrize("alpha", [1.5, 2.0, 40.0])
@pytest.mark.parametrize("name", TABLES)
def test_lemma_4_and_theorem_2_are_the_papers_of_every_arm(name: str, alpha: float) -> None:
    table, T, delta = TABLES[name], 200_000, 0.03
    for row in table:
        claim = theorems.ucb_pulls(row, T, alpha)
        assert claim.value.tolist() == pytest.approx(lemma_4(row, T, alpha), rel=1e-9)
        assert claim.probability == 1 - 2 * len(row) / T
    claim = theorems.ucb_incentives(fp.Game(table), T, delta, alpha)
    assert claim.value == pytest.approx(theorem_2(table, T, delta, alpha), rel=1e-9)
    assert claim.probability == pytest.approx(1 - delta - 4 * len(table) * len(table[0]) / T)


def test_theorem_2_on_the_easy_game_is_31508() -> None:
    claim = theorems.ucb_incentives(EASY, 100_000, 0.01)
    assert round(claim.value) == 31_508
    assert claim.holds
    assert claim.condition == "Lemma 2 and Lemma 4 apply, on the event H and on the events G_m of all 2 agents."


def test_lemma_4_says_nothing_of_arms_that_tie_for_an_agents_best() -> None:
    claim = theorems.ucb_pulls([0.7, 0.2, 0.7], 100_000)
    assert np.isnan(claim.value).tolist() == [True, False, True]
    assert not claim.holds
    assert claim.condition == "the agent must have one best arm: it has 2."
    tied = theorems.ucb_incentives(fp.Game([[0.7, 0.2, 0.7], [0.7, 0.2, 0.1]]), 100_000, 0.01)
    assert not tied.holds
    assert math.isfinite(tied.value)


def test_lemma_4_holds_from_its_condition_on() -> None:
    means = [0.89, 0.47, 0.01]
    border = 4 * 3 * 0.5**2 / 0.42**4
    first = next(n for n in range(8, 10**6) if n / math.log(n) ** 2 > border)
    assert theorems.ucb_pulls(means, first).holds
    below = theorems.ucb_pulls(means, first - 1)
    assert not below.holds
    assert below.condition == (
        f"on the event G_m it needs a horizon above {first - 1:,} here, and has {first - 1:,}: it does not apply."
    )


def test_a_long_horizon_is_told_in_powers_of_ten() -> None:
    told = theorems.ucb_pulls([0.5, 0.49], 1000).condition
    assert told.startswith("on the event G_m it needs a horizon above 1.")
    assert "·10^11 here" in told


def test_lemma_4_asks_nothing_at_the_smallest_alpha() -> None:
    claim = theorems.ucb_pulls([0.5, 0.4], 100, alpha=1.5)
    assert claim.holds
    assert claim.value.tolist() == [0.0, 0.0]


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
    assert "up to δ·T/2 = 500 more" in claim.condition


def test_theorem_1_has_the_divergences_of_the_games_own_law() -> None:
    T, delta, table = 10**6, 0.01, [[0.6, 0.4], [0.5, 0.3]]
    needed = theorems.sufficient_pulls(0.2, 2, 2, T, delta).value
    values = {}
    for law in (fp.rewards.Bernoulli(), fp.rewards.Beta(3.0), fp.rewards.TruncatedNormal(0.2)):
        game = fp.Game(table, rewards=law)
        apart = law.divergences(game.means, game.local_best)
        free = [min(T / 2, math.log(T / 2) / d) if d else T / 2 for d in apart.ravel()]
        values[type(law).__name__] = theorems.expected_incentives(game, T, delta).value
        assert values[type(law).__name__] == pytest.approx(sum(max(needed - x, 0) for x in free), rel=1e-12)
    assert values["Bernoulli"] < values["Beta"] < values["TruncatedNormal"]  # a narrower law gives fewer free pulls


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
