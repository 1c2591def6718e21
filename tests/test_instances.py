"""The paper's games, and the random family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import instances
from freepull.errors import FreepullError, InvalidInput
from freepull.instances import Family
from support.drive import RISK, assert_sentence


def test_the_toy_is_the_papers() -> None:
    game = instances.toy()
    assert game.means.tolist() == [[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]]
    assert game.global_means == pytest.approx([0.45, 0.47, 0.45])
    assert game.best == 1
    assert 1 not in game.local_best


def test_the_family_has_thirty_arms_from_40_to_54_and_a_half() -> None:
    assert len(instances.PAPER_MEANS) == 30
    assert instances.PAPER_MEANS[0] == 0.4
    assert instances.PAPER_MEANS[-1] == 0.545
    assert np.diff(instances.PAPER_MEANS) == pytest.approx(np.full(29, 0.005))


@pytest.mark.parametrize("sd", [0.005, 0.1])
def test_the_gap_lies_within_the_papers_window(sd: float) -> None:
    for seed in range(3):
        game = Family(agents=30, sd=sd)(np.random.default_rng(seed))
        assert (game.agents, game.arms) == (30, 30)
        assert 4.5e-3 <= game.minimum_gap <= 5.5e-3


def test_the_same_generator_gives_the_same_game() -> None:
    family = Family(agents=5)
    first, second = (family(np.random.default_rng(3)) for _ in range(2))
    assert (first.means == second.means).all()
    assert (first.means != family(np.random.default_rng(4)).means).any()


def test_means_scatter_around_their_centres() -> None:
    game = Family(agents=4000, means=(0.5, 0.6), sd=0.05, gap=None)(np.random.default_rng(1))
    z = math.sqrt(2 * math.log(2 / RISK))
    assert np.abs(game.global_means - [0.5, 0.6]).max() <= z * 0.05 / math.sqrt(4000)
    assert game.means.std(axis=0) == pytest.approx([0.05, 0.05], rel=z / math.sqrt(2 * 4000))


def test_means_outside_the_unit_interval_are_drawn_again_not_clipped() -> None:
    game = Family(agents=1000, means=(0.02, 0.98), sd=0.3, gap=None)(np.random.default_rng(1))
    assert ((game.means > 0) & (game.means < 1)).all()


def test_an_impossible_gap_is_given_up_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "DRAWS", 128)
    with pytest.raises(FreepullError) as problem:
        Family(agents=100, means=(0.2, 0.8), sd=0.001, gap=(0.0, 0.001))(np.random.default_rng(1))
    assert "widen gap" in assert_sentence(problem)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"agents": 0}, "agents"),
        ({"agents": 1.5}, "agents"),
        ({"sd": 0.0}, "sd"),
        ({"means": (0.5,)}, "means"),
        ({"means": (0.5, 1.5)}, "means"),
        ({"gap": (0.2, 0.1)}, "gap"),
        ({"gap": (0.1,)}, "gap"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        Family(**({"agents": 2} | more))
    assert assert_sentence(problem).startswith(said)


def test_a_whole_float_is_as_good_as_an_int() -> None:
    family = Family(agents=3.0, means=(0.4, 0.6), gap=None)  # type: ignore[arg-type]
    assert family(np.random.default_rng(1)).agents == 3


def test_what_is_printed_of_a_family_makes_the_same_family() -> None:
    family = Family(agents=3, means=(0.2, 0.4), sd=0.05, gap=None)
    assert eval(repr(family), {"Family": Family}) == family


def test_a_family_is_a_game_maker_for_simulate() -> None:
    result = fp.simulate(
        Family(agents=2, means=(0.3, 0.6), gap=None),
        principal=fp.Principal(fp.rules.Passive()),
        horizon=5,
        runs=2,
        engine="readable",
    )
    assert result.frame["free_pulls"].to_list() == [10, 10]
