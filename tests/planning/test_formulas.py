"""Formulas by hand: the need, the natural pulls, numbers of agents, and the fixed test against a simulated one."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.planning.formulas import (
    agents_for_certainty,
    agents_for_free,
    check_rule,
    evidence,
    fixed_test,
    randomised_test,
    sketch,
)
from freepull.principal.rules import Certified
from freepull.theory import natural_pulls

GAME = fp.Game([[0.6, 0.5, 0.3], [0.5, 0.5, 0.3]])
EACH = fp.Principal(Certified(0.05), offers="each")
EARLY = fp.observe.Steps(100)
"""Nearly everything has to be bought."""


def test_the_need_is_that_of_the_page() -> None:
    at = sketch(GAME, EACH, 1_000)
    s = GAME.variances.sum(axis=0) / 4
    beta = math.log(20) + 1
    second, third = (2.1 * beta * (s[0] + s[j]) / gap**2 for j, gap in ((1, 0.05), (2, 0.25)))
    assert at.needed == pytest.approx([second, second, third])
    assert at.natural == pytest.approx(natural_pulls(GAME.means, 500))
    assert at.kappa == 500


def test_what_is_missing_is_bought_as_far_as_time_allows() -> None:
    at = sketch(GAME, EACH, 1_000)
    missing = np.maximum(at.needed - at.natural, 0)
    assert not at.possible
    assert at.spend == pytest.approx(np.minimum(missing.sum(axis=1), 500).sum())
    assert at.share == pytest.approx(missing.sum() / (2 * at.needed.sum()))
    one = sketch(GAME, fp.Principal(Certified(0.05)), 1_000)
    assert one.spend == 500
    longer = sketch(GAME, fp.Principal(Certified(0.05), observe=EARLY, offers="each"), 20_000)
    assert longer.possible
    assert longer.spend > 1_000
    assert longer.spend == pytest.approx(np.maximum(longer.needed - longer.natural, 0).sum())


@pytest.mark.parametrize("offers", ["one", "each"])
def test_no_more_is_spent_than_the_budget_affords(offers: str) -> None:
    whole = sketch(GAME, fp.Principal(Certified(0.05), observe=EARLY, offers=offers), 20_000)
    assert whole.possible
    for budget, enough in ((whole.spend + 1, True), (whole.spend - 1, False)):
        at = sketch(GAME, fp.Principal(Certified(0.05), observe=EARLY, offers=offers, budget=budget), 20_000)
        assert at.possible == enough
        assert at.spend == pytest.approx(whole.spend if enough else budget, abs=1)
        assert at.spend <= budget


def test_adaptive_schedules_count_as_half_the_horizon_and_short_ones_have_no_natural_pulls() -> None:
    assert sketch(GAME, fp.Principal(observe=fp.observe.Adaptive(3.0)), 1_000).kappa == 500
    nothing = sketch(GAME, fp.Principal(observe=fp.observe.Steps(0)), 1_000)
    assert nothing.kappa == 0
    assert nothing.natural.sum() == 0


@pytest.mark.parametrize("offers", ["one", "each"])
def test_more_agents_like_these_need_less_each(offers: str) -> None:
    """Twice the agents by scaling is the same as twice the agents in the game."""
    principal = fp.Principal(Certified(0.05), offers=offers)
    scaled = sketch(GAME, principal, 4_000).with_agents(4)
    doubled = sketch(fp.Game(np.tile(GAME.means, (2, 1))), principal, 4_000)
    assert scaled.needed == pytest.approx(doubled.needed)
    assert scaled.share == pytest.approx(doubled.share)
    assert scaled.possible == doubled.possible
    assert 2 * scaled.missing.sum() == pytest.approx(doubled.missing.sum())


@pytest.mark.parametrize("offers", ["one", "each"])
def test_numbers_of_agents_are_where_time_and_free_pulls_begin_to_suffice(offers: str) -> None:
    at = sketch(GAME, fp.Principal(Certified(0.05), offers=offers), 1_000)
    needed, free = agents_for_certainty(at), agents_for_free(at)
    assert at.with_agents(needed).possible
    assert not at.with_agents(needed - 1.01).possible
    assert at.with_agents(free).share <= 0.01 < at.with_agents(free - 1.01).share
    assert 2 < needed < free


def test_where_arms_tie_no_number_of_agents_is_enough() -> None:
    at = sketch(fp.Game([[0.5, 0.5]]), EACH, 100)
    assert agents_for_free(at) == math.inf
    sure = sketch(fp.Game([[1.0, 0.0]]), EACH, 100)
    assert (sure.spend, sure.share, sure.possible) == (0.0, 0.0, True)


def test_only_rules_with_a_forecast_are_planned_for() -> None:
    assert evidence(Certified(0.05)) == pytest.approx(math.log(20) + 1)
    for rule in (Certified(0.05), fp.rules.Comparisons(0.05)):
        check_rule(rule)
    with pytest.raises(InvalidInput, match=r"^rule must be rules\.Certified or .*got Paper"):
        check_rule(fp.rules.Paper(0.05))


def test_epsilon_adds_to_every_gap() -> None:
    rule = Certified(0.05, epsilon=0.1)
    assert sketch(GAME, fp.Principal(rule), 100).needed[1] == pytest.approx(
        sketch(fp.Game(GAME.means), fp.Principal(Certified(0.05)), 100).needed[1] / 9
    )


def test_the_fixed_test_of_two_arms_is_the_textbook_one() -> None:
    game = fp.Game([[0.5, 0.4]])
    z = 1.6448536 + 1.2815516
    assert fixed_test(game, 0.05, 0.9) == pytest.approx(2 * z**2 * (0.25 + 0.24) / 0.01, rel=2e-3)
    assert fixed_test(fp.Game([[0.5, 0.5]]), 0.05, 0.9) == math.inf
    many = fp.Game(np.tile(game.means, (5_000, 1)))
    assert fixed_test(many, 0.05, 0.9) == fixed_test(game, 0.05, 0.9)  # a part of many can stand for all


def test_a_randomised_test_names_the_best_arm_as_often_as_it_says_whoever_comes() -> None:
    means = np.clip(np.random.default_rng(4).normal([0.6, 0.45, 0.4], 0.2, (50, 3)), 0.0, 1.0)
    game, delta, power, runs = fp.Game(means), 0.1, 0.9, 400
    n = round(randomised_test(game, delta, power) / 3)
    rng, spreads = np.random.default_rng(1), game.global_means * (1 - game.global_means)
    who = rng.integers(50, size=(runs, 3, n))
    seen = (rng.random((runs, 3, n)) < means[who, np.arange(3)[:, None]]).mean(axis=2)
    z = NormalDist().inv_cdf(1 - delta / 2)
    best = game.best
    named = np.all([seen[:, best] - seen[:, k] > z * math.sqrt((spreads[best] + spreads[k]) / n)
                    for k in range(3) if k != best], axis=0)  # fmt: skip
    assert abs(named.mean() - power) < 0.03 + 3.3 * math.sqrt(power * (1 - power) / runs)


def test_the_fixed_test_names_the_best_arm_as_often_as_it_says() -> None:
    """Simulated as described: everybody pulls every arm n times, and the best must beat each rival at δ/(K−1)."""
    game, delta, power, runs = fp.Game([[0.7, 0.5, 0.45], [0.4, 0.4, 0.5]]), 0.05, 0.8, 20_000
    n = round(fixed_test(game, delta, power) / game.means.size)
    means = (np.random.default_rng(1).binomial(n, game.means, (runs, 2, 3)) / n).mean(axis=1)
    spreads = game.variances.sum(axis=0) / 4 / n
    z = 1.9599640  # 1 − .05/2
    named = np.ones(runs, bool)
    for j in (1, 2):
        named &= means[:, 0] - means[:, j] > z * math.sqrt(spreads[0] + spreads[j])
    assert named.mean() >= power - 5.5 * math.sqrt(power * (1 - power) / runs)
    assert named.mean() <= power + 0.03  # the union over rivals is nearly sharp here
