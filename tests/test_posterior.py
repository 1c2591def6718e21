"""Estimates from a log: the formula of the page, the posterior against brute force, and rewards other than coins."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from freepull.data import Past, Posterior, read
from freepull.rewards import Bernoulli, Beta


def past_of(pulls: Any, successes: Any) -> Past:
    n, s = np.array(pulls), np.array(successes, float)
    names = tuple(map(str, range(n.shape[0]))), tuple(map(str, range(n.shape[1])))
    return Past(*names, n, s, s, True, int(n.sum()), ())


SMALL = past_of([[30, 4], [2, 12], [6, 0]], [[24, 1], [0, 9], [3, 0]])


def test_means_are_drawn_to_the_arm_by_the_formula_of_the_page() -> None:
    posterior = Posterior(SMALL)
    tau, W, n = posterior.spread, posterior.noise, SMALL.pulls
    own = np.divide(SMALL.sums, n, where=n > 0, out=np.zeros(n.shape))
    for k in range(2):
        w = np.array([1 / (W[k] / n[m, k] + tau**2) if n[m, k] else 0.0 for m in range(3)])
        arm = (w * own[:, k]).sum() / w.sum()
        expected = (SMALL.sums[:, k] + W[k] / tau**2 * arm) / (n[:, k] + W[k] / tau**2)
        assert posterior.means()[:, k] == pytest.approx(expected)
    assert abs(posterior.means()[0, 0] - own[0, 0]) < abs(posterior.means()[1, 0] - own[1, 0])


def test_variances_within_streams_are_pooled_over_agents() -> None:
    rows = {"agent": [0, 0, 1, 1] * 50, "arm": [0] * 100 + [1] * 100, "reward": [0.2, 0.4, 0.7, 0.9] * 50}
    posterior = Posterior(read(pl.DataFrame(rows)))
    squares, freedom, mean = 100 * 0.01, 98, 0.55
    pooled = (2 * squares + 3 * mean * (1 - mean)) / (2 * freedom + 3)
    assert posterior.noise == pytest.approx(np.full(2, (squares + 3 * pooled) / (freedom + 3)))


def test_how_much_agents_and_arms_differ_is_the_posterior_mean() -> None:
    """Against the normal likelihood of all sample means at once, written with its covariance matrix, on a fine grid."""
    posterior = Posterior(SMALL)
    agent, arm = np.nonzero(SMALL.pulls)
    n = SMALL.pulls[agent, arm]
    y, noise, same = SMALL.sums[agent, arm] / n, posterior.noise[arm] / n, arm[:, None] == arm
    fine = (np.arange(100) + 0.5) / 200
    fit = np.zeros((100, 100))
    for i, tau in enumerate(fine):
        for j, omega in enumerate(fine):
            inverse = np.linalg.inv(np.diag(noise + tau**2) + omega**2 * same)
            total = inverse.sum()
            away = y - (inverse @ y).sum() / total
            fit[i, j] = 0.5 * (np.linalg.slogdet(inverse)[1] - np.log(total) - away @ inverse @ away)
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    assert posterior.spread == pytest.approx(fine @ weight.sum(axis=1), rel=0.02)
    assert posterior.arms_spread == pytest.approx(fine @ weight.sum(axis=0), rel=0.02)


@pytest.mark.slow
def test_draws_are_those_of_the_posterior() -> None:
    """Against importance sampling from the prior, which shares no formula with it."""
    posterior, rng, size = Posterior(SMALL), np.random.default_rng(5), 1_500_000
    tau, omega = rng.uniform(0, 0.5, size), rng.uniform(0, 0.5, size)
    arms = rng.normal(rng.uniform(-1.5, 2.5, size)[:, None], omega[:, None], (size, 2))
    log, everybody = np.zeros(size), []
    for m in range(3):
        mu = rng.normal(arms, tau[:, None])
        everybody.append(np.clip(mu, 0, 1))
        log -= 0.5 * ((SMALL.pulls[m] * mu**2 - 2 * SMALL.sums[m] * mu) / posterior.noise).sum(axis=1)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    effective = 1 / (weight**2).sum()
    assert effective > 2_000
    draws = 20_000
    drawn = np.array([posterior.draw(rng) for _ in range(draws)])
    first, last = everybody[0], everybody[2]
    for found, true in (
        (drawn[:, 0, 0], first[:, 0]),
        (drawn[:, 0, 1], first[:, 1]),
        (drawn[:, 0, 1] ** 2, first[:, 1] ** 2),
        (drawn[:, 0, 0] * drawn[:, 0, 1], first.prod(axis=1)),
        (drawn[:, 2, 1], last[:, 1]),  # an arm that this agent never pulled
        ((drawn[:, 2, 1] - drawn[:, 2, 0]) ** 2, (last[:, 1] - last[:, 0]) ** 2),
    ):
        mean = (weight * true).sum()
        error = np.sqrt((weight * (true - mean) ** 2).sum() / effective + found.var() / draws)
        assert abs(found.mean() - mean) < 5.5 * error + 0.003  # the grid's own error


def test_other_agents_are_drawn_around_the_arms() -> None:
    rng = np.random.default_rng(3)
    means = np.clip(rng.normal([0.7, 0.4], 0.1, (200, 2)), 0, 1)
    posterior = Posterior(past_of(np.full((200, 2), 400), rng.binomial(400, means)))
    drawn = np.array([posterior.draw(rng, 50) for _ in range(400)])
    assert drawn.shape == (400, 50, 2)
    centre = posterior.means().mean(axis=0)
    assert np.abs(drawn.mean(axis=(0, 1)) - centre).max() < 0.01
    assert drawn.std(axis=1, ddof=1).mean() == pytest.approx(posterior.spread, rel=0.03)
    assert posterior.spread == pytest.approx(0.1, rel=5.5 / np.sqrt(2 * 400))


def test_arms_that_only_look_different_are_drawn_together() -> None:
    """With few pulls the apparent gap is mostly chance, and gaps that are drawn are smaller on average."""
    rng, apparent, drawn = np.random.default_rng(4), [], []
    for _ in range(60):
        past = past_of(np.full((10, 5), 6), rng.binomial(6, 0.5, (10, 5)))
        arms = (past.sums / past.pulls).mean(axis=0)
        posterior = Posterior(past)
        draws = np.array([posterior.draw(rng, 10_000).mean(axis=0) for _ in range(8)])
        apparent.append(np.ptp(arms))
        drawn.append(np.ptp(draws, axis=1).mean())
    assert np.mean(drawn) < np.mean(apparent)


def test_rewards_between_zero_and_one_get_a_beta_law_of_their_variance() -> None:
    rng = np.random.default_rng(6)
    means = rng.uniform(0.3, 0.7, (40, 2))
    rows = [
        (m, k, x) for m in range(40) for k in range(2) for x in rng.beta(8 * means[m, k], 8 * (1 - means[m, k]), 100)
    ]
    posterior = Posterior(read(pl.DataFrame(rows, schema=["agent", "arm", "reward"], orient="row")))
    assert isinstance(posterior.law, Beta)
    assert posterior.law.concentration == pytest.approx(8.0, rel=0.1)
    assert isinstance(Posterior(SMALL).law, Bernoulli)


def test_a_log_of_single_pulls_can_be_used() -> None:
    posterior = Posterior(past_of([[1, 0], [0, 1]], [[1, 0], [0, 0]]))
    assert np.isfinite(posterior.means()).all()
    assert np.isfinite(posterior.draw(np.random.default_rng(0))).all()
    assert (posterior.noise <= 0.25).all()
