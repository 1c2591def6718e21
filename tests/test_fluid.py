"""The fluid model: it adds up, and it agrees with simulated α-UCB agents (docs/statistics.md, fluid)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.theory import natural_pulls


@pytest.mark.parametrize("t", [2.0, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_the_pulls_add_up_to_the_steps(t: float, alpha: float) -> None:
    means = np.random.default_rng(1).random((6, 5))
    pulls = natural_pulls(means, t, alpha)
    assert pulls.sum(axis=1) == pytest.approx(np.full(6, t), rel=1e-9)
    indices = means + np.sqrt(alpha * math.log(t) / pulls)
    assert np.ptp(indices, axis=1) == pytest.approx(np.zeros(6), abs=1e-9)


def test_equal_arms_share_the_steps() -> None:
    assert natural_pulls([[0.3, 0.3, 0.3, 0.3]], 1000.0) == pytest.approx(np.full((1, 4), 250.0))


@pytest.mark.slow
def test_counts_above_a_hundred_agree_with_simulation_within_three_per_cent() -> None:
    game, T, runs = fp.Game([[0.6, 0.5, 0.45], [0.3, 0.5, 0.35]]), 20_000, 3000
    passive = fp.Principal(fp.rules.Passive())
    result = fp.simulate(game, principal=passive, horizon=T, runs=runs, seed=3, keep="agents")
    assert result.agents is not None
    counts = np.array(result.agents["pulls"].to_list(), float).reshape(runs, 2, 3)
    error = counts.std(axis=0, ddof=1) / math.sqrt(runs)
    fluid = natural_pulls(game.means, T)
    assert (fluid >= 100).all()
    assert (np.abs(counts.mean(axis=0) - fluid) <= 0.03 * fluid + 5.5 * error).all()
    assert (5.5 * error <= 0.03 * fluid).all()  # enough runs for the test to see three per cent


@pytest.mark.parametrize(
    ("means", "t", "alpha", "name"),
    [
        ([[0.5, 1.5]], 10, 2, "means"),
        ([0.5, 0.4], 10, 2, "means"),
        ([[0.5, 0.4]], 1, 2, "t"),
        ([[0.5, 0.4]], 9, 0, "alpha"),
    ],
)
def test_bad_input_gets_a_sentence(means: Any, t: Any, alpha: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} must be "):
        natural_pulls(means, t, alpha)
