"""Reward laws: the stated mean and variance, the exact borders, and the rounding to 2⁻³⁰."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import freepull as fp
from drive import assert_average, assert_follows, assert_sentence
from freepull import rewards
from freepull.errors import InvalidInput
from freepull.numerics import reward_units
from freepull.principal.record import units
from freepull.randomness import word

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
