"""The reference lower bound: it satisfies its constraints, nothing cheaper does, and the toy costs 7.1 thousand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.theory import cost_of, lower_bound, natural_pulls


def slack(game: fp.Game, pulls: Any, delta: float) -> list[float]:
    """Δ_j²/(2(V_* + V_j)) − kl(δ, 1−δ) for every rival j, written out."""
    kl = delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)
    variance = (game.weights[:, None] ** 2 * game.variances / pulls).sum(axis=0)
    rivals = [k for k in range(game.arms) if k != game.best]
    return [game.gaps[k] ** 2 / (2 * (variance[game.best] + variance[k])) - kl for k in rivals]


def test_the_toy_costs_seven_thousand() -> None:
    toy = fp.instances.toy()
    bought = lower_bound(toy, natural_pulls(toy.means, 50_000), 0.01)
    assert bought.sum() == pytest.approx(7107, rel=1e-3)
    assert bought[0, 0] == bought[1, 2] == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_constraints_hold_and_nothing_cheaper_satisfies_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = None if seed % 2 else rng.uniform(0.5, 2.0, 3)
    game, free = fp.Game(rng.uniform(0.1, 0.9, (3, 4)), weights=weights), rng.uniform(1, 40, (3, 4))
    bought = lower_bound(game, free, 0.05)
    assert min(slack(game, free + bought, 0.05)) >= -1e-6
    for _ in range(300):
        other = np.maximum(
            bought + rng.normal(0, 0.05 * bought.max() + 1e-9, bought.shape) * (rng.random(bought.shape) < 0.4), 0
        )
        if min(slack(game, free + other, 0.05)) >= 0:
            assert other.sum() >= bought.sum() * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_with_prices_it_is_the_cheapest_that_satisfies_the_constraints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    game, free = fp.Game(rng.uniform(0.1, 0.9, (3, 4))), rng.uniform(1, 40, (3, 4))
    prices = game.losses
    cheapest, fewest = lower_bound(game, free, 0.05, prices), lower_bound(game, free, 0.05)
    assert np.array_equal(np.isinf(cheapest), prices == 0)
    assert min(slack(game, free + cheapest, 0.05)) >= -1e-6
    assert cost_of(cheapest, prices) < cost_of(fewest, prices)
    few = np.where(np.isinf(cheapest), 1e9, cheapest)
    for _ in range(300):
        other = np.maximum(few + rng.normal(0, 0.05 * cheapest[prices > 0].max() + 1e-9, few.shape), 0)
        if min(slack(game, free + other, 0.05)) >= 0:
            assert cost_of(other, prices) >= cost_of(cheapest, prices) * (1 - 1e-6)
    assert np.allclose(lower_bound(game, free, 0.05, np.full((3, 4), 0.3)), fewest, rtol=1e-6)


def test_compensating_the_toy_at_true_gaps_costs_three_and_a_half_thousand() -> None:
    toy = fp.instances.toy()
    cheapest = lower_bound(toy, natural_pulls(toy.means, 50_000), 0.01, toy.losses)
    assert 2_500 < cost_of(cheapest, toy.losses) < 4_000


def test_it_is_nothing_where_free_pulls_suffice_and_infinite_at_a_tie() -> None:
    game = fp.Game([[0.9, 0.1], [0.8, 0.2]])
    assert lower_bound(game, np.full((2, 2), 1e6), 0.05).sum() == 0.0
    assert np.isinf(lower_bound(fp.Game([[0.5, 0.5]]), [[9, 9]], 0.05)).all()


def test_smaller_errors_and_fewer_free_pulls_cost_more() -> None:
    game = fp.instances.toy()
    costs = [
        lower_bound(game, np.full((2, 3), free), delta).sum() for free, delta in [(50, 0.1), (50, 0.01), (5, 0.01)]
    ]
    assert costs == sorted(costs)


@pytest.mark.parametrize(("free", "delta", "name"), [([[1, 2]], 0.1, "free_pulls"), (np.ones((2, 3)), 0.5, "delta")])
def test_bad_input_gets_a_sentence(free: Any, delta: float, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} must be "):
        lower_bound(fp.instances.toy(), free, delta)
