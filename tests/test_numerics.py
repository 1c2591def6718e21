"""The transcendental functions whose bits are promised, against independent ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from freepull import numerics
from freepull.numerics import HALVINGS, kl_budget, kl_index
from freepull.randomness import word
from freepull.simulation.compiled.lanes import kl_indices_about
from support.drive import assert_follows
from support.examples import examples


@pytest.mark.parametrize(("alpha", "t", "expected"), [(2.0, 1, 0.0), (2.0, 2, 1.1774100225), (0.5, 100, 1.5174271294)])
def test_the_exploration_width_is_root_alpha_log_t(alpha: float, t: int, expected: float) -> None:
    assert numerics.exploration(alpha, t) == pytest.approx(expected, abs=1e-10)


def test_bernoulli_kl_by_hand() -> None:
    assert numerics.bernoulli_kl(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-15)
    assert numerics.bernoulli_kl(0.0, 0.5) == pytest.approx(math.log(2))
    assert numerics.bernoulli_kl(1.0, 0.5) == pytest.approx(math.log(2))
    assert numerics.bernoulli_kl(0.3, 0.3) == 0.0
    assert numerics.bernoulli_kl(0.3, 1.0) == math.inf
    assert numerics.bernoulli_kl(0.3, 0.0) == math.inf
    assert numerics.bernoulli_kl(1.0, 1.0) == numerics.bernoulli_kl(0.0, 0.0) == 0.0


def test_the_kl_budget_has_a_log_log_term_from_step_3_on() -> None:
    assert kl_budget(0.0, 100) == math.log(100)
    assert kl_budget(3.0, 1) == 0.0
    assert kl_budget(3.0, 2) == math.log(2)
    assert kl_budget(3.0, 3) == pytest.approx(math.log(3) + 3 * math.log(math.log(3)), abs=1e-15)
    assert kl_budget(3.0, 100) == pytest.approx(4.605170186 + 3 * 1.527179626, abs=1e-8)


@pytest.mark.parametrize("mean", [0.0, 1e-6, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("pulls", [1, 7, 1000])
@pytest.mark.parametrize("t", [2, 50, 100_000])
def test_the_kl_index_is_the_root_that_scipy_finds(mean: float, pulls: int, t: int) -> None:
    budget = math.log(t)

    def excess(q: float) -> float:
        return pulls * float(special.rel_entr(mean, q) + special.rel_entr(1 - mean, 1 - q)) - budget

    top = 1 - 1e-12
    expected = mean if mean == 1.0 else top if excess(top) <= 0 else float(optimize.brentq(excess, mean, top))
    found = kl_index(mean, float(pulls), budget)
    assert found == pytest.approx(expected, abs=(1 - mean) * 2.0**-HALVINGS + 1e-11)
    assert pulls * numerics.bernoulli_kl(mean, found) <= budget
    assert HALVINGS >= 30


@examples(200)
@given(
    mean=st.floats(0.0, 1.0) | st.sampled_from([1e-300, 1e-9, 1 - 1e-9, 1 - 2.0**-53]),
    pulls=st.integers(1, 10**7),
    t=st.integers(1, 2**31),
    c=st.sampled_from([0.0, 3.0]),
)
def test_the_kl_index_is_the_last_halving_point_within_the_budget(mean: float, pulls: int, t: int, c: float) -> None:
    budget, noise = kl_budget(c, t), 4e-16 * pulls
    found, point = kl_index(mean, float(pulls), budget), (1 - mean) * 2.0**-HALVINGS
    assert mean <= found <= 1.0
    assert found == mean or pulls * numerics.bernoulli_kl(mean, found) <= budget + noise
    beyond = found + 2 * point
    assert beyond >= 1 - 1e-15 or pulls * numerics.bernoulli_kl(mean, beyond) > budget - noise


def test_without_a_budget_the_kl_index_is_the_mean() -> None:
    assert kl_index(0.25, 10.0, 0.0) == pytest.approx(0.25, abs=1e-8)


def test_the_normal_quantile_is_scipys() -> None:
    tails = np.logspace(-300, -2, 400)
    for p in (*np.linspace(0.001, 0.999, 1999), *tails, *(1 - tails[tails > 1e-15])):
        assert numerics.normal_quantile(p) == pytest.approx(float(special.ndtri(p)), rel=2e-14, abs=2e-15)


@pytest.mark.parametrize("w", [0, 1, 2047, 2**52, 2**63, 2**64 - 2048, 2**64 - 1])
def test_an_open_uniform_is_strictly_inside(w: int) -> None:
    assert 0.0 < numerics.uniform_open(np.uint64(w)) < 1.0


@pytest.mark.parametrize("shape", [1.0, 1.5, 4.0, 100.0])
def test_gamma_draws_follow_the_gamma_law(shape: float) -> None:
    draws = np.array([numerics.gamma_draw(shape, np.uint64(word(1, 0, n))) for n in range(20_000)])
    assert_follows(draws, stats.gamma(shape).cdf)


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (2.0, 3.0), (1.0, 40.0), (300.5, 20.25), (0.5, 0.5), (0.05, 2.0), (3.0, 0.2)]
)
def test_beta_draws_follow_the_beta_law(a: float, b: float) -> None:
    draws = np.array([numerics.beta_draw(a, b, np.uint64(word(2, 0, n))) for n in range(20_000)])
    assert ((draws >= 0) & (draws <= 1)).all()
    assert_follows(draws, stats.beta(a, b).cdf)


def test_beta_draws_with_tiny_shapes_do_not_underflow() -> None:
    draws = np.array([numerics.beta_draw(1e-3, 1e-3, np.uint64(word(3, 0, n))) for n in range(2_000)])
    assert np.isfinite(draws).all()
    assert 0.4 < draws.mean() < 0.6


def test_decision_keys_differ_by_step_and_arm_and_are_pure() -> None:
    keys = [int(numerics.decision_key(np.uint64(5), t, k)) for t in range(1, 200) for k in range(10)]
    assert len(set(keys)) == len(keys)
    assert int(numerics.decision_key(np.uint64(5), 1, 0)) == keys[0]


def test_sixteen_kl_indices_at_once_are_as_close_as_one() -> None:
    rng, known = np.random.default_rng(4), 0
    for _ in range(60):
        pulls = np.floor(10.0 ** rng.uniform(0, 7, 16))
        means = np.minimum(np.floor(rng.random(16) ** rng.choice([0.25, 1.0, 4.0]) * (pulls + 1.0)), pulls) / pulls
        work, budget = np.concatenate([np.zeros(16), means, pulls]), math.log(float(rng.integers(1, 10**7)))
        kl_indices_about(work, budget)
        for found, mean, n in zip(work, means.tolist(), pulls.tolist(), strict=False):
            known += found == found
            assert not abs(found - kl_index(mean, n, budget)) > 1e-9, "or NaN"
    assert known > 480, "half of them at least"
