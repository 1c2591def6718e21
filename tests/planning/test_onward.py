"""Forecasts of trials that are under way."""

from __future__ import annotations

import math

import numpy as np

from freepull.compiling import plainly
from freepull.planning import forecast as module
from freepull.planning.forecast import Onward, Seen, onward, reward_of
from freepull.principal import Principal, for_people, protocols, rules, schedules


def seen(gap: float, steps: int, horizon: int = 60, principal: Principal | None = None) -> Seen:
    """Let ten people pull two arms in turn, with coins of means .9 and .9 − gap, for some steps."""
    rng, squares = np.random.default_rng(5), np.zeros((10, 2))
    trial = (principal or for_people(horizon)).start(arms=2, agents=10, horizon=horizon)
    for step in range(steps):
        for m in range(10):
            trial.ask(m)
            arm = (step + m) % 2
            x = float(rng.random() < 0.9 - gap * arm)
            squares[m, arm] += x * x
            trial.tell(m, arm, x)
        trial.end_step()
    return Seen(trial.principal, trial.state(), squares, True, 0, 0)


def test_it_is_decided_sooner_the_further_the_arms_are_apart() -> None:
    with plainly(), np.errstate(over="ignore"):
        far, near = (onward(seen(gap, 21), runs=6, seconds=60) for gap in (0.15, 0.05))
        again = onward(seen(0.15, 21), runs=6, seconds=60)
    assert far is not None
    assert near is not None
    assert again is not None
    assert far.chance > near.chance > 0
    assert np.sort(far.decided)[2] < np.sort(near.decided)[2]
    assert near.paid.mean() > far.paid.mean()
    assert (again.decided == far.decided).all()
    assert (again.paid == far.paid).all()


def test_nothing_is_said_too_early_and_of_other_rules() -> None:
    certified = Principal(rules.Certified(0.05), observe=schedules.Steps(0), protocol=protocols.NeverBan())
    assert onward(seen(0.3, module.PULLS // 10 - 1)) is None
    assert onward(seen(0.3, 25, principal=certified)) is None


def test_where_there_is_no_money_nothing_is_paid() -> None:
    poor = Principal(
        rules.Comparisons(0.05), observe=schedules.Steps(0), offers="each", protocol=protocols.NeverBan(), budget=0.0
    )
    with plainly(), np.errstate(over="ignore"):
        found = onward(seen(0.05, 21, 30, poor), runs=3)
    assert found is not None
    assert found.paid.tolist() == [0.0, 0.0, 0.0]


def test_what_was_not_decided_is_in_no_quantile_of_dates() -> None:
    found = Onward(np.array([5.0, math.inf, 3.0, 9.0]), np.array([1.0, 8.0, 0.0, 2.0]))
    assert (found.chance, found.steps(0.5), found.steps(0.95), found.bonuses(0.95)) == (0.75, 5.0, 9.0, 8.0)
    assert Onward(np.array([math.inf]), np.array([4.0])).steps(0.5) is None


def test_rewards_have_the_mean_and_the_variance_that_were_seen() -> None:
    coins = (np.arange(2_000) + 0.5) / 2_000
    with plainly(), np.errstate(over="ignore"):
        for mean, noise in ((0.7, 0.02), (0.1, 0.04), (0.95, 0.01)):
            found = np.array([reward_of(mean, noise, coin) for coin in coins])
            assert abs(found.mean() - mean) < 2e-3
            assert abs(found.var() - noise) < 2e-3
            assert found.min() >= 0.0
            assert found.max() <= 1.0
        assert {reward_of(0.4, 0.0, coin) for coin in coins} == {0.0, 1.0}
