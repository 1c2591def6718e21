"""What could be known before money is spent: what is noted of trials is what they do, and forecasts are about right."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import freepull as fp
from verification.costs import measure
from verification.hindsight import AnyGap, Seen, at_least, learn, outcome, reliability, watch
from verification.money import play, principal
from verification.settings import AFTER, SETTINGS

pytestmark = pytest.mark.slow

PEOPLE = replace(SETTINGS[1], runs=120, seed=31)
BIAS, ERRORS = 0.08, 4.0
"""What a forecast may be off besides its standard errors: it is a heuristic."""


def seen(paid: list[list[float]], in_all: list[float], decided: list[bool]) -> Seen:
    """Trials of which only the money is known, by step."""
    run = np.array([r for r, own in enumerate(paid) for _ in own])
    step = np.array([30 + i for own in paid for i in range(len(own))])
    money = np.array([x for own in paid for x in own])
    return Seen(run, step, money, money / 100, np.ones((len(run), 1)), np.zeros(len(run)), np.array(decided),
                np.array(in_all))  # fmt: skip


def test_a_trial_that_is_stopped_has_paid_what_it_had_paid_then_and_is_undecided() -> None:
    two = seen([[10.0, 20.0, 30.0], [5.0, 50.0]], [40.0, 60.0], [False, True])
    nothing = np.zeros(5, bool)
    assert outcome(two, nothing) == (0.5, 40 / 100)
    assert outcome(two, two.paid == 20.0) == (0.5, 20 / 80)
    assert outcome(two, two.paid >= 20.0) == (0.0, 1.0)  # at the first such step: 20 and 50
    assert reliability(two) == [
        (p, share, 1) for p, share in ((0.05, 1.0), (0.1, 0.0), (0.2, 0.0), (0.3, 0.0), (0.5, 1.0))
    ]


def test_what_going_on_costs_is_learned_from_the_last_step_backwards() -> None:
    one = seen([[10.0, 20.0]] * 4, [100.0] * 4, [False, False, False, True])
    costs = learn(one, 0.01, one.features)
    # going on from the last look: ¾ of 1 + .92 undecided, ¼ of −.08; stopping there, 1 + .184, is better
    assert costs[31] == pytest.approx([0.75 * 1.92 - 0.25 * 0.08], abs=1e-5)
    assert costs[30] == pytest.approx([1 + 0.01 * 0.92 * 20.0], abs=1e-5)


def test_who_sees_the_future_pays_nothing_where_free_pulls_suffice_and_less_elsewhere() -> None:
    free = play(PEOPLE, principal(PEOPLE, budget=0.0), fp.answers.Always(), PEOPLE.runs)
    costs, paid = at_least(PEOPLE, PEOPLE.seed, PEOPLE.runs), measure(PEOPLE, AFTER, PEOPLE.rules()[AFTER], PEOPLE.runs)
    assert (costs == 0.0).tolist() == [one.decided for one in free]
    assert np.isfinite(costs).all()
    assert (costs <= paid.paid + 1e-9).mean() > 0.95
    assert costs.sum() < 0.7 * paid.paid.sum()


def test_a_forecast_says_about_how_often_trials_are_decided_where_gaps_are_of_all_sizes() -> None:
    any_gap = replace(PEOPLE, game=AnyGap(500, 0.01, 0.1))
    found = watch(any_gap, 32, 500)
    right = found.decided[found.run]
    for t in (36, 45, 54):
        now = found.step == t
        for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
            own = now & (found.forecast >= low) & (found.forecast <= high)
            p, count = float(found.forecast[own].mean()), int(own.sum())
            if count >= 20:
                assert abs(right[own].mean() - p) <= BIAS + ERRORS * math.sqrt(max(p * (1 - p), 0.01) / count), (t, low)
