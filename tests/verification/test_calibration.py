"""The calibration of plans in short: `make calibrate` with few settings and wide tolerances.

A setting's coverage lies in [0, 1], with a standard deviation of about 0.15 where plans are right; 0.18 is allowed for,
and 5.5 standard errors of the mean over settings.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verification import calibration_page
from verification.calibration import Found, Tried, fluid_errors, pooled, street_met, too_sure, tried
from verification.calibration_worlds import FAMILIES, FIRST_STREET, STREET, world

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


def made(places: list[float], certain: float = 1.0) -> Tried:
    return Tried("f", tuple(places), tuple(True for _ in places), 1.0, certain, 1.0, 1.2)


GOOD = [made([0.5] * 20)] * 9 + [made([0.99] * 20)]
"""Street panels that meet their bars."""


def test_the_bar_is_judged_by_the_pooled_coverage() -> None:
    inside, outside = made([0.5] * 20), made([0.99] * 20)
    assert Found([inside] * 9 + [outside], [(0.01, 0.001)], GOOD).met
    assert not Found([inside] * 19 + [outside], [(0.01, 0.001)], GOOD).met
    assert not Found([inside] * 8 + [outside] * 2, [(0.01, 0.001)], GOOD).met
    assert not Found([inside] * 9 + [outside], [(0.05, 0.001)], GOOD).met
    assert made([0.04, 0.06, 0.94, 0.96]).covered(0.9) == 0.5
    assert np.isclose(pooled([inside, outside], 0.9)[0], 0.5)


def test_street_panels_are_judged_by_their_spend_and_by_the_chance_of_a_certified_answer() -> None:
    assert street_met(GOOD)
    assert not street_met([made([0.99] * 20), *GOOD])
    assert not street_met([made([0.5] * 20, certain=0.9)] * 9 + GOOD[-1:])
    assert not Found(GOOD, [(0.01, 0.001)], GOOD[:-1] * 2).met
    assert too_sure([made([0.5], certain=0.8), made([0.5])]) == pytest.approx((-0.1, 0.1))


@pytest.mark.parametrize("number", range(2))
def test_plans_for_street_panels_are_made_from_guesses_and_from_logs(number: int) -> None:
    at = world(SEED, FIRST_STREET + number)
    assert at.family == STREET
    assert ("log" in at.told) == (number == 0)
    row = tried(FIRST_STREET + number, SEED, runs=40, trials=3)
    assert len(row.places) == 3
    assert row.formula is None


def test_the_part_about_street_panels_can_be_written_alone(rows: list[Tried], tmp_path: Path) -> None:
    path = calibration_page.write(Found(rows, [(0.01, 0.001)], GOOD), tmp_path)
    whole = path.read_text()
    calibration_page.write_part(calibration_page.street_section(GOOD), tmp_path)
    assert path.read_text() == whole
    path.write_text(whole.replace(calibration_page.street_section(GOOD) + "\n\n", ""))
    assert "Street panels" not in path.read_text()
    calibration_page.write_part(calibration_page.street_section(GOOD), tmp_path)
    assert path.read_text() == whole


def test_the_page_shows_what_was_found(rows: list[Tried], tmp_path: Path) -> None:
    found = Found(rows, [(0.01, 0.001)], GOOD)
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
        told = calibration_page.lines(Found(places, [(fluid, 0.001)], GOOD))
        fluid_line = next(line for line in told if line.startswith("fluid counts"))
        assert [line.rpartition(" ")[2] for line in (fluid_line, told[-1])] == said
        assert told[-2].endswith("met")


def test_plans_for_street_panels_are_shown_by_what_the_planner_had() -> None:
    logged = [replace(made([0.5] * 20, certain=0.6), logged=True), replace(made([0.5] * 20), logged=True)]
    text = calibration_page.street_section([*GOOD, *logged])
    rows = [line for line in text.splitlines() if line.startswith("| street panels")]
    told, from_log, both = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    assert (told[0], from_log[0], both[0]) == tuple(f"street panels, {it}" for it in ("told", "from a log", "all"))
    assert (told[1], from_log[1], both[1]) == (f"{len(GOOD)}", "2", f"{len(GOOD) + 2}")
    assert told[-1].startswith("+0.0")
    assert from_log[-1] == "-20.0 ± 20.0"
