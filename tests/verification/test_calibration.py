"""The calibration of plans in short: `make calibrate` with few settings and wide tolerances.

A setting's coverage lies in [0, 1], with a standard deviation of about 0.15 where plans are right; 0.18 is allowed for,
and 5.5 standard errors of the mean over settings.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from verification import calibration_page
from verification.calibration import Found, Tried, fluid_errors, pooled, tried
from verification.calibration_worlds import FAMILIES, world

pytestmark = pytest.mark.slow

SEED = 11
PEOPLE = [number for number in range(60) if number % len(FAMILIES) in (2, 4)]
"""People, and people with a log: the quickest families."""


@pytest.fixture(scope="module")
def rows() -> list[Tried]:
    return [tried(number, SEED, runs=59, trials=10) for number in PEOPLE]


def test_ranges_hold_single_trials_about_as_often_as_they_say(rows: list[Tried]) -> None:
    tolerance = 5.5 * 0.18 / math.sqrt(len(rows))
    assert pooled(rows, 0.9)[0] == pytest.approx(0.9, abs=tolerance)
    assert pooled(rows, 0.5)[0] == pytest.approx(0.5, abs=1.5 * tolerance)


def test_worlds_are_the_same_each_time_and_families_take_turns() -> None:
    assert (world(3, 7).game.means == world(3, 7).game.means).all()
    assert (world(3, 7).game.means.shape != world(4, 7).game.means.shape) or (
        world(3, 7).game.means != world(4, 7).game.means
    ).any()
    assert len({world(3, number).family for number in range(5)}) == 5


def test_fluid_counts_are_within_three_per_cent() -> None:
    errors = fluid_errors(games=2, runs=600)
    assert len(errors) > 2
    assert all(abs(off) <= 0.03 + 5.5 * error for off, error in errors)


def made(places: list[float]) -> Tried:
    return Tried("f", tuple(places), tuple(True for _ in places), 1.0, 1.0, 1.0, 1.2)


def test_the_bar_is_judged_by_the_pooled_coverage() -> None:
    inside, outside = made([0.5] * 20), made([0.99] * 20)
    assert Found([inside] * 9 + [outside], [(0.01, 0.001)]).met
    assert not Found([inside] * 19 + [outside], [(0.01, 0.001)]).met
    assert not Found([inside] * 8 + [outside] * 2, [(0.01, 0.001)]).met
    assert not Found([inside] * 9 + [outside], [(0.05, 0.001)]).met
    assert made([0.04, 0.06, 0.94, 0.96]).covered(0.9) == 0.5
    assert np.isclose(pooled([inside, outside], 0.9)[0], 0.5)


def test_the_page_shows_what_was_found(rows: list[Tried], tmp_path: Path) -> None:
    found = Found(rows, [(0.01, 0.001)])
    path = calibration_page.write(found, tmp_path)
    text = path.read_text()
    assert f"**{100 * found.coverage:.1f} %** of {10 * len(rows):,} single trials" in text
    assert "people" in text
    assert (path.parent / calibration_page.PICTURE).stat().st_size > 10_000
    assert calibration_page.lines(found)[-1].startswith(f"coverage {100 * found.coverage:.1f} %: the bar is ")


def test_a_bar_that_is_missed_is_named() -> None:
    inside, outside = made([0.5] * 20), made([0.99] * 20)
    for places, fluid, said in (
        ([inside] * 9 + [outside], 0.05, ["MISSED", "met"]),
        ([inside] * 8 + [outside] * 2, 0.01, ["met", "MISSED"]),
    ):
        told = calibration_page.lines(Found(places, [(fluid, 0.001)]))[-2:]
        assert [line.rpartition(" ")[2] for line in told] == said
