"""Reward laws: the stated mean and variance, the exact borders, and the rounding to 2⁻³⁰."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, stats

import freepull as fp
from freepull import rewards
from freepull.errors import InvalidInput
from freepull.numerics import reward_units
from freepull.principal.record import units
from freepull.randomness import word
from freepull.theory import expected_incentives
from support.drive import assert_average, assert_follows, assert_sentence

UNIT = 2.0**-30
GAMES = {
    "Bernoulli": fp.Game([[0.0, 0.3], [0.91, 1.0]]),
    "Beta(10)": fp.Game([[0.0, 0.3], [0.91, 1.0]], rewards=rewards.Beta(10)),
    "Beta(0.5)": fp.Game([[0.02, 0.3], [0.91, 0.5]], rewards=rewards.Beta(0.5)),
    "TruncatedNormal(0.1)": fp.Game([[0.03, 0.3], [0.91, 0.5]], rewards=rewards.TruncatedNormal(0.1)),
    "TruncatedNormal(2)": fp.Game([[0.45, 0.55]], rewards=rewards.TruncatedNormal(2.0)),
    "Categorical": fp.Game(
        rewards=rewards.Categorical(
            [0.0, 0.25, 1.0], [[[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]], [[1, 0, 0], [0.1, 0.1, 0.8]]]
        )
    ),
    "Empirical": fp.Game(rewards=rewards.Empirical([[[0.1, 0.9, 0.9], [0.5]], [[0, 1], [0.2, 0.3, 0.4, 0.7]]])),
}
STREAMS = [(name, m, k) for name, game in GAMES.items() for m in range(game.agents) for k in range(game.arms)]


def draws_of(game: fp.Game, agent: int, arm: int, n: int = 20_000) -> NDArray[np.float64]:
    return np.array([game.streams.draw(agent, arm, word(11, 3 * agent + arm, i)) for i in range(1, n + 1)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "agent", "arm"), STREAMS)
def test_draws_have_the_stated_mean_and_variance(name: str, agent: int, arm: int) -> None:
    game = GAMES[name]
    mean, variance = float(game.means[agent, arm]), float(game.variances[agent, arm])
    draws = draws_of(game, agent, arm)
    assert ((draws >= 0) & (draws <= 1)).all()
    assert (draws / UNIT == np.rint(draws / UNIT)).all()
    assert_average(draws, mean, variance)
    assert_average((draws - mean) ** 2, variance, variance)


@pytest.mark.parametrize("name", GAMES)
@given(w=st.integers(0, 2**64 - 1) | st.sampled_from([0, 2047, 2**63, 2**64 - 2048, 2**64 - 1]))
def test_every_word_is_a_reward_between_0_and_1(name: str, w: int) -> None:
    game = GAMES[name]
    for m in range(game.agents):
        for k in range(game.arms):
            assert 0.0 <= game.streams.draw(m, k, w) <= 1.0


@pytest.mark.parametrize(("mean", "c"), [(0.3, 10.0), (0.5, 2.0), (0.9, 0.7)])
def test_beta_rewards_follow_the_beta_law(mean: float, c: float) -> None:
    game = fp.Game([[mean, 0.5]], rewards=rewards.Beta(c))
    law = stats.beta(mean * c, (1 - mean) * c)
    assert game.variances[0, 0] == pytest.approx(law.var())
    assert_follows(draws_of(game, 0, 0), lambda x: law.cdf(x + UNIT / 2))


@pytest.mark.parametrize(("mean", "sd"), [(0.05, 0.1), (0.3, 0.1), (0.5, 0.4), (0.97, 0.05), (0.52, 3.0)])
def test_truncated_normal_rewards_have_exactly_this_mean(mean: float, sd: float) -> None:
    game = fp.Game([[mean, 0.5]], rewards=rewards.TruncatedNormal(sd))
    _, centre, scale, _, _ = game.streams.parameters[0, 0]
    law = stats.truncnorm((0 - centre) / sd, (1 - centre) / sd, loc=centre, scale=sd)
    assert scale == sd
    assert law.mean() == pytest.approx(mean, abs=1e-9)
    assert game.variances[0, 0] == pytest.approx(law.var(), rel=1e-6)
    assert_follows(draws_of(game, 0, 0), law.cdf)


def test_a_coin_falls_on_1_exactly_below_its_mean() -> None:
    streams = fp.Game([[0.5, 1.0], [0.0, 0.25]]).streams
    assert [streams.draw(0, 0, r << 11) for r in (0, 2**52 - 1, 2**52, 2**53 - 1)] == [1.0, 1.0, 0.0, 0.0]
    assert [streams.draw(1, 1, r << 11) for r in (2**51 - 1, 2**51)] == [1.0, 0.0]
    assert streams.draw(0, 1, 2**64 - 1) == 1.0
    assert streams.draw(1, 0, 0) == 0.0


def test_both_ways_to_draw_a_coin_agree() -> None:
    streams = GAMES["Bernoulli"].streams
    for n in range(200):
        w = word(1, 0, n)
        compiled = reward_units(0, streams.parameters[0, 1], streams.levels, streams.values, np.uint64(w))
        assert int(compiled) * UNIT == streams.draw(0, 1, w)


def test_a_table_is_cut_at_its_cumulated_probabilities() -> None:
    law = rewards.Categorical([0.0, 0.25, 1.0], [[[0.25, 0.25, 0.5], [0.0, 0.0, 1.0]]])
    streams = fp.Game(rewards=law).streams
    ranks = (0, 2**51 - 1, 2**51, 2**52 - 1, 2**52, 2**53 - 1)
    assert [streams.draw(0, 0, r << 11) for r in ranks] == [0.0, 0.0, 0.25, 0.25, 1.0, 1.0]
    assert [streams.draw(0, 1, r << 11) for r in ranks] == [1.0] * 6


def test_moments_of_tables_by_hand() -> None:
    game = GAMES["Categorical"]
    assert game.means[0].tolist() == pytest.approx([0.425, 0.25])
    assert game.variances[0, 0] == pytest.approx(0.2 * 0.425**2 + 0.5 * 0.175**2 + 0.3 * 0.575**2)
    assert game.variances[0, 1] == 0.0
    logged = GAMES["Empirical"]
    assert logged.means[0, 0] == pytest.approx(1.9 / 3, abs=UNIT)
    assert logged.variances[1].tolist() == pytest.approx([0.25, 0.035], abs=UNIT)


def test_rewards_are_rounded_half_even_to_units() -> None:
    halves = [0.5, 1.5, 2.5, 3.5]
    assert [units(x * UNIT) for x in halves] == [0, 2, 2, 4]
    assert units(1.0) == 2**30
    law = rewards.Categorical([x * UNIT for x in halves], [[[0.25] * 4, [0.25] * 4]])
    streams = fp.Game(rewards=law).streams
    assert [streams.draw(0, 0, (r * 2**51) << 11) / UNIT for r in range(4)] == [0, 2, 2, 4]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rewards.Beta(0.0), "concentration"),
        (lambda: rewards.TruncatedNormal(0.0), "sd"),
        (lambda: fp.Game([[0.0, 0.5]], rewards=rewards.TruncatedNormal(0.1)).streams, "means must lie in"),
        (lambda: rewards.Categorical([0.0, 2.0], [[[0.5, 0.5]] * 2]), "values"),
        (lambda: rewards.Categorical([], [[[]] * 2]), "values"),
        (lambda: rewards.Categorical([0.0, 1.0], [[0.5, 0.5]]), "probabilities"),
        (lambda: rewards.Categorical([0.0, 1.0], [[[0.5, 0.6]] * 2]), "probabilities"),
        (lambda: rewards.Categorical([0.0, 1.0], [[[-0.5, 1.5]] * 2]), "probabilities"),
        (lambda: rewards.Categorical([0.0, 1.0], [[[0.5, 0.5], [1.0]]]), "probabilities"),
        (lambda: rewards.Empirical([[[0.5], []]]), "samples[0][1]"),
        (lambda: rewards.Empirical([[[0.5], [1.5]]]), "samples[0][1]"),
        (lambda: rewards.Empirical([[[0.5], [0.1]], [[0.5]]]), "samples"),
    ],
)
def test_bad_laws_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


def kl(p: Any, q: Any) -> float:
    """∫ p·log(p/q) over [0, 1], for two frozen laws of scipy."""
    return float(integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), 0, 1, limit=200)[0])


@pytest.mark.slow
@pytest.mark.parametrize("c", [2.5, 10.0, 80.0])
def test_divergences_of_beta_laws_are_the_integral(c: float) -> None:
    means = np.array([[0.3, 0.45, 0.9], [0.6, 0.59, 0.1]])
    laws = [[stats.beta(mu * c, (1 - mu) * c) for mu in row] for row in means]
    expected = [[kl(law, row[2]) for law in row] for row in laws]
    found = rewards.Beta(c).divergences(means, np.array([2, 2]))
    assert found == pytest.approx(np.array(expected), rel=1e-5, abs=1e-12)
    assert (found[:, 2] == 0).all()


@pytest.mark.parametrize("sd", [0.05, 0.3, 2.0])
def test_divergences_of_truncated_normals_are_the_integral(sd: float) -> None:
    means = np.array([[0.48, 0.52, 0.5], [0.5, 0.47, 0.51]])
    law = rewards.TruncatedNormal(sd)
    centres = law.streams(means).parameters[:, :, 1]
    laws = [[stats.truncnorm(-c / sd, (1 - c) / sd, loc=c, scale=sd) for c in row] for row in centres]
    expected = [[kl(one, row[0]) for one in row] for row in laws]
    assert law.divergences(means, np.array([0, 0])) == pytest.approx(np.array(expected), rel=1e-5, abs=1e-10)


def test_divergences_of_discrete_laws_by_hand() -> None:
    coins = rewards.Bernoulli().divergences(np.array([[0.5, 0.25, 1.0]]), np.array([1]))
    assert coins[0, 0] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    assert coins[0].tolist()[1:] == [0.0, pytest.approx(np.log(4))]
    twice = rewards.Categorical([0.0, 1.0, 1.0], [[[0.5, 0.5, 0.0], [0.5, 0.1, 0.4], [0.75, 0.0, 0.25]]])
    assert twice.divergences(twice.means(), np.array([0])).tolist() == [
        [0.0, 0.0, pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))]
    ]
    logged = rewards.Empirical([[[1, 0], [0, 0, 1, 0], [0.5, 1]], [[0.2], [0.2, 0.2], [0.3]]])
    found = logged.divergences(logged.means(), np.array([0, 0]))
    assert found[0].tolist() == [0.0, pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5)), np.inf]
    assert found[1].tolist() == [0.0, 0.0, np.inf]


def test_a_constant_is_infinitely_far_from_other_beta_laws() -> None:
    found = rewards.Beta(10).divergences(np.array([[1.0, 0.5, 1.0], [0.5, 0.0, 0.2]]), np.array([0, 0]))
    assert found[0].tolist() == [0.0, np.inf, 0.0]
    assert found[1, :2].tolist() == [0.0, np.inf]


def test_a_law_without_divergences_is_refused_by_theorem_1() -> None:
    class Own(rewards.Bernoulli):
        divergences = rewards.Law.divergences

    with pytest.raises(InvalidInput, match=r"^rewards must say how far two of their laws are apart, and Own does not;"):
        expected_incentives(fp.Game([[0.5, 0.6]], rewards=Own()), 1000, 0.1)
