"""Panels: what the street is like, and that a panel stands where a game does."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from support.drive import assert_average, assert_mean, assert_sentence

PASSIVE = fp.Principal(fp.rules.Passive())


def test_means_on_the_street_are_normal_and_clipped() -> None:
    panel = fp.panels.street(agents=5_000, arms=4, gap=0.05)
    assert callable(panel.game)
    game = panel.game(np.random.default_rng(3))
    for k in range(4):
        inside = np.clip(game.means[:, k], 0.05, 0.95)  # clipping moves 1 in 10,000
        assert_average(inside, 0.5 - 0.05 * k, 0.1**2)
    assert game.means.min() >= 0.01
    assert game.means.max() <= 0.99


@pytest.fixture(scope="module")
def people() -> fp.Result:
    return fp.simulate(fp.panels.street(), principal=PASSIVE, runs=8, seed=1, keep="agents")


def test_people_on_the_street_come_as_often_as_they_should(people: fp.Result) -> None:
    """Without those who leave, the mean number of acts follows from the log-normal law alone."""
    panel = replace(fp.panels.street(), leaving=fp.leaving.Stays())
    stay = fp.simulate(panel, principal=PASSIVE, runs=8, seed=1, keep="agents").agents
    assert stay is not None
    acts = stay["pulls"].list.sum().to_numpy().astype(float)
    z = np.array([NormalDist().inv_cdf((i + 0.5) / 4_000) for i in range(4_000)])
    chances = -np.expm1(-0.05 * np.exp(0.8 * z))
    mean = 0.96 * 600 * chances.mean()
    variance = 0.96 * (600 * (chances * (1 - chances)).mean() + 600**2 * (chances**2).mean()) - mean**2
    assert_mean(acts, mean, variance)
    assert people.frame["acts"].sum() < acts.sum()
    never = 0.04 + 0.96 * float(((1 - chances) ** 600).mean())
    assert_average((acts == 0).astype(float), never, never * (1 - never))


def test_the_results_of_a_panel_tell_the_acts_and_where_they_come_from(people: fp.Result) -> None:
    assert "acts" in people.summary()["quantity"].to_list()
    told = people.provenance["parameters"]
    assert told["activity"] == {"part": "Lognormal", "median": 0.05, "sigma": 0.8, "silent": 0.04}
    assert [it["part"] for it in told["leaving"]["leaving"]] == ["AtRandom", "InAnger"]
    assert told["answers"] == {"part": "Reluctant", "share": 0.2, "probability": 0.3}
    assert told["horizon"] == 600
    ideal = fp.simulate(fp.panels.ideal(20), principal=PASSIVE, runs=1)
    assert "acts" not in ideal.frame.columns
    assert not {"activity", "leaving"} & set(ideal.provenance["parameters"])


def test_one_in_five_refuses_three_offers_in_ten() -> None:
    principal = fp.Principal(fp.rules.Paper(0.05), fp.observe.Steps(0), fp.protocols.NeverBan(), offers="each")
    panel = replace(fp.panels.street(), agents=fp.agents.Greedy())
    found = fp.simulate(panel, principal=principal, runs=4, seed=2).frame
    offered, refused = int(found["offered"].sum()), int(found["refused"].sum())
    assert offered > 10_000
    # A refusal whose own pick is the offered arm counts as taken, so there are fewer than 6 %; agents are few, and act
    # unequally often: with σ = .8 the share of acts by the reluctant has a variance of .2·.8·exp(σ²)/(500·4) and more.
    error = math.sqrt(0.16 * math.exp(0.8**2) / 2_000) * 0.3
    assert 0.03 - 5 * error < refused / offered < 0.06 + 5 * error


def test_what_is_said_beside_a_panel_takes_its_place() -> None:
    panel = fp.panels.street(30)
    found = fp.simulate(
        panel, principal=PASSIVE, runs=1, horizon=50, agents=fp.agents.Greedy(), answers=fp.answers.Never(),
        activity=fp.activity.Rate(0.5), leaving=fp.leaving.Stays(),
    ).provenance["parameters"]  # fmt: skip
    assert found["horizon"] == 50
    assert [found[name]["part"] for name in ("agents", "answers", "activity", "leaving")] == [
        "Greedy", "Never", "Rate", "Stays",
    ]  # fmt: skip


def test_both_engines_walk_the_same_street() -> None:
    principal = fp.Principal(fp.rules.Certified(0.3), fp.observe.Steps(20), offers="each")
    panel = fp.panels.street(40, arms=3)
    a, b = (fp.simulate(panel, principal=principal, runs=2, engine=engine) for engine in ("readable", "compiled"))
    assert a.frame.equals(b.frame)
    assert np.array_equal(a.paid_sum, b.paid_sum)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"agents": 0}, "agents must be a whole number of at least 1, got 0"),
        ({"arms": 1}, "arms must be a whole number of at least 2"),
        ({"arms": 11, "gap": 0.06}, "gap must be a number in [0, 0.05], got 0.06"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(wrong: dict[str, Any], words: str) -> None:
    for make in (fp.panels.street, fp.panels.ideal):
        with pytest.raises(InvalidInput) as problem:
            make(**wrong)
        assert assert_sentence(problem).startswith(words)


def test_a_game_without_a_panel_needs_a_horizon() -> None:
    with pytest.raises(InvalidInput, match=r"^horizon must be a whole number of at least 1, got None"):
        fp.simulate(fp.instances.toy(), principal=PASSIVE)
