"""Checks of assumptions in short: the same driver and people as `make verify`, with few runs.

A rate that may be the level is held against the count that it exceeds with probability below 10⁻⁷. A power is held
against what 400 runs of `make verify` have found, less six standard errors.
"""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from verification.checked import HONEST, LEVEL, SEEN, SHORT, World, alarms, runs

pytestmark = pytest.mark.slow

RUNS = 40
FOUND = {
    "a step moves all means by ± 0.1": (0, 1.0),
    "a step moves all means by ± 0.05": (0, 0.71),
    "means move by -0.2 over the trial": (1, 0.96),
    "a paid pull is worth +0.1": (2, 0.77),
}


@pytest.mark.parametrize("world", HONEST, ids=lambda world: world.name)
def test_false_alarms_are_as_rare_as_their_level(world: World) -> None:
    found = alarms(world, RUNS, seed=1)
    assert all(rate.failures <= binom.isf(1e-7, RUNS, LEVEL) for rate in found.rates[:3])
    assert found.rates[3].failures > RUNS / 2, "pairing what is there"
    peaks, _ = runs(world, 5 * RUNS, 2, SHORT)
    assert (peaks[:, 2] >= 1 / LEVEL).sum() <= binom.isf(1e-7, 5 * RUNS, LEVEL)


@pytest.mark.parametrize("name", FOUND)
def test_what_is_wrong_is_seen_as_often_as_the_page_says(name: str) -> None:
    at, share = FOUND[name]
    found = alarms(next(world for world in SEEN if world.name == name), RUNS, seed=3)
    assert found.rates[at].share >= share - 6 * math.sqrt(max(share * (1 - share), 0.01) / RUNS)
