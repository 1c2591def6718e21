"""The rule for people as they are in short: the same drivers and people as `make verify`, with few runs.

A rate that may be δ is held against the count that it exceeds with probability below 10⁻⁷. A share of certified runs is
held against what `make verify` asks for, less five standard errors.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import freepull as fp
from benchmarks import street
from benchmarks.timing import Sample
from verification import bars, page, tables
from verification.costs import Cost
from verification.crowd_driver import CROWDS, DELTA, UNAWARE, Crowd, run, run_sharp
from verification.crowds import CASES, Case, Crowds, measure_cost, tied, told

pytestmark = pytest.mark.slow

RUNS = 40


def most(runs: int) -> int:
    """The count that a rate of δ exceeds with probability below 10⁻⁷."""
    return int(binom.isf(1e-7, runs, DELTA))


@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.name)
def test_what_is_said_is_true_whatever_people_do(crowd: Crowd) -> None:
    assert told(crowd.name, partial(run, crowd, 1), RUNS).rate.failures <= most(RUNS)


def test_people_who_differ_make_arms_fall_so_that_there_is_something_to_judge() -> None:
    differ = [told(crowd.name, partial(run, crowd, 2), 20) for crowd in CROWDS if crowd.differ]
    assert sum(one.fell > 0 for one in differ) >= len(differ) / 2


def test_an_adversary_who_sees_all_evidence_gets_no_more_than_delta() -> None:
    assert told("", partial(run_sharp, 3), 3 * RUNS).rate.failures <= most(3 * RUNS)


def test_late_reports_break_a_rule_that_is_not_told_of_them() -> None:
    assert told("", partial(run, UNAWARE, 4), RUNS).rate.failures > RUNS / 2


def test_a_run_repeated_is_the_same_run() -> None:
    assert np.array_equal(run(CROWDS[8], 5, 3), run(CROWDS[8], 5, 3))


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize("panel", [fp.panels.street(), fp.panels.ideal()], ids=["street", "ideal"])
def test_no_arm_falls_in_ties(panel: fp.panels.Panel, epsilon: float) -> None:
    assert tied("", panel, epsilon, RUNS, 6).rate.failures <= most(RUNS)


@pytest.mark.parametrize("case", [case for case in CASES if case.runs < 400], ids=lambda c: f"{c.setting}, {c.rule}")
def test_street_panels_are_certified_as_often_as_asked(case: Case) -> None:
    runs = 10
    found = measure_cost(case, runs)
    share = found.decided / runs
    if case.certified is None:
        assert share == 0.0, "those who wait for everybody"
    else:
        assert share >= case.certified - 5 * math.sqrt(case.certified * (1 - case.certified) / runs)


def test_everything_that_is_found_is_judged_and_shown() -> None:
    few = told("people", partial(run, CROWDS[0], 7), 4)
    found = Crowds([few], [few], [(CASES[0], measure_cost(CASES[0], 2))], (Sample((10.0,)), Sample((20.0,))))
    judged = bars.judge_crowds(found)
    assert [bar.met for bar in judged.rows if "time for an act" in bar.what] == [True]
    assert len(judged.rows) == 5
    shown = "\n".join(page.crowds(found))
    for part in ("| people | 4 |", "| street | ε = 0 |", "0.50 times the latter"):
        assert part in shown


def test_what_is_missed_is_said() -> None:
    case = CASES[0]
    dear = Cost(case.setting, case.rule, np.full(4, 4_000.0), 1, 1)
    assert "misses 50% certified and a mean of 3,500" in tables.missed_by_crowds(Crowds(costs=[(case, dear)]))
    cheap = Cost(case.setting, case.rule, np.zeros(4), 4, 4)
    assert "is met" in tables.missed_by_crowds(Crowds(costs=[(case, cheap)]))


def test_an_act_takes_less_than_the_bar() -> None:
    ours, theirs = street.beside_paper(3)
    assert 0 < ours.ratio(theirs) <= street.BAR
