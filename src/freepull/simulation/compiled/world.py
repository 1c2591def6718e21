"""Disturbances in the compiled engine, the twin of `freepull.disturbances`.

Nothing of it is used where a world is undisturbed. Where rewards are moved, or told in another order than they were
drawn in, they cannot be drawn again from their stacks, and rules that look at single rewards read them from a history.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.disturbances import Reports, delay, drifted, moved_level, moved_units, shock
from freepull.numerics import fill_keys
from freepull.principal.rules import Certified, Population
from freepull.randomness import ARM, REPORT, WORLD
from freepull.registry import declared
from freepull.simulation.experiment import Experiment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DRIFT, SHOCKS, PAID_BIAS = range(3)
REFUSED, TAKEN = 1, 2
"""What became of a lane's offer in this step."""
_ARM, _LOW, _32 = np.uint64(ARM), np.int64(0xFFFFFFFF), np.int64(32)


class History(NamedTuple):
    """Rewards as they were told, a list for every stream."""

    kept: int
    """Whether anything is kept: 1, or 0."""
    rewards: NDArray[np.uint32]
    """In units of 2⁻³⁰, by lane, in the order in which they were told."""
    following: NDArray[np.int32]
    """Where the next one of the same stream is, −1 if there is none yet."""
    told: Ints
    """How many there are, by lane."""
    ends: Ints
    """Where the first and the last of a stream are, by position; −1 if there is none."""
    cursors: Ints
    """The last one that was read of a stream: its number, and where it is."""


class World(NamedTuple):
    """What disturbs a block."""

    disturbed: int
    """Whether anything does: 1, or 0."""
    shifts: Floats
    """One row for each disturbance that moves means: its kind, and two parameters."""
    places: Ints
    """Its place among all disturbances, by which it draws."""
    defers: int
    """Whether reports may come late or never: 1, or 0."""
    reports: Floats
    """With which probability they are late, by how many steps, and with which they are missing."""
    horizon: int
    keys: NDArray[np.uint64]
    """By lane: what its run draws from, and what its reports are drawn from."""
    offered: Ints
    """By lane: what became of its offer in this step, 0 if there was none."""
    pending: Ints
    """By lane and step: the reports that are due, an arm (from 1) and a reward; a ring."""
    spoke: Ints
    """By lane: the last step that was told of at once."""
    twice: Ints
    """By lane: the first step in which two reports came, 0 if none did."""
    asking: Ints
    """By lane: whether it has asked and was not told of since."""


def world_of(experiment: Experiment, runs: tuple[int, ...], lane_of: Ints, lanes: int) -> World:
    """Lay out what disturbs these runs."""
    given, reports, M = experiment.disturbances, experiment.reports, experiment.shape[0]
    moving = [(i, it) for i, it in enumerate(given) if not isinstance(it, Reports)]
    rows = [[_kind(it), float(getattr(it, "by", 0.0)), _second(it)] for _, it in moving]
    late, steps, missing = (0.0, 1, 0.0) if reports is None else (reports.late, reports.steps, reports.missing)
    steps = min(steps, experiment.horizon)
    keys = np.zeros((2, lanes), np.uint64)
    if given:
        every = np.zeros((REPORT, lanes), np.uint64)
        fill_keys(every, np.uint64(experiment.seed), np.array(runs, np.uint64), lane_of)
        first = lane_of.reshape(len(runs), M)[:, 0]
        keys[0, lane_of], keys[1] = np.repeat(every[WORLD - 1, first], M), every[REPORT - 1]
    offered, spoke, twice, asking = np.zeros((4, lanes), np.int64)
    return World(
        int(bool(given)), np.array(rows).reshape(-1, 3), np.array([i for i, _ in moving], np.int64),
        int(reports is not None), np.array([float(late), float(steps), float(missing)]), experiment.horizon, keys,
        offered, np.zeros((lanes, steps + 1 if reports else 1), np.int64), spoke, twice, asking,
    )  # fmt: skip


def _kind(it: object) -> float:
    about = declared(type(it))
    assert about is not None
    assert about.kernel is not None
    return float(about.kernel)


def _second(it: object) -> float:
    return float(getattr(it, "arm", getattr(it, "period", 0)))


def history_of(experiment: Experiment, lanes: int) -> History:
    """Make room for all rewards of these lanes, where a rule looks at single ones and cannot draw them again."""
    kept = bool(experiment.disturbances) and isinstance(experiment.principal.rule, Certified | Population)
    shape = (lanes, experiment.horizon) if kept else (1, 1)
    streams = lanes * experiment.shape[1] if kept else 1
    ends, cursors = np.full((streams, 2), -1, np.int64), np.zeros((streams, 2), np.int64)
    return History(
        int(kept), np.zeros(shape, np.uint32), np.full(shape, -1, np.int32), np.zeros(lanes, np.int64), ends, cursors
    )


@jit
def shift_of(world: Any, lane: Any, arm: Any, t: int) -> float:
    """By how much disturbances move the mean of a lane's pull in step t."""
    shift = 0.0
    for i in range(world.shifts.shape[0]):
        kind, by, second = world.shifts[i, 0], world.shifts[i, 1], int(world.shifts[i, 2])
        if kind == DRIFT:
            shift += drifted(by, second, int(arm), t, world.horizon)
        elif kind == SHOCKS:
            shift += shock(by, second, t, world.keys[0, lane] + _ARM * np.uint64(world.places[i]))
        else:
            shift += by if world.offered[lane] == TAKEN else 0.0
    return shift


@jit
def level_of(level: Any, shift: float) -> Any:
    """The level of a coin, moved."""
    return np.uint64(moved_level(np.int64(level), shift)) if shift != 0.0 else level


@jit
def units_of(units: Any, shift: float) -> Any:
    """Another reward, moved."""
    return moved_units(units, shift) if shift != 0.0 else np.int64(units)


@jit
def fate(world: Any, lane: Any, t: int) -> Any:
    """How many steps late a lane's pull is told, −1 for never; an answer to an offer is told at once."""
    if world.defers == 0 or world.offered[lane] != 0:
        return np.int64(0)
    late, steps, missing = world.reports
    return np.int64(delay(late, int(steps), missing, t, world.keys[1, lane]))


@jit
def put_off(world: Any, lane: Any, arm: Any, reward: Any, t: int) -> None:
    """Keep a report of step t until it is due."""
    world.pending[lane, t % world.pending.shape[1]] = ((np.int64(arm) + 1) << _32) | np.int64(reward)


@jit
def due(world: Any, lane: Any, t: int) -> Any:
    """Take out what is due in step t: an arm (from 1) and a reward in one word, 0 for nothing."""
    slot = (t + 1) % world.pending.shape[1]
    report = world.pending[lane, slot]
    world.pending[lane, slot] = 0
    if report != 0 and world.spoke[lane] == t and world.twice[lane] == 0:
        world.twice[lane] = t
    return report


@jit
def arm_of(report: Any) -> Any:
    """The arm of a report that was put off."""
    return np.uint64((report >> _32) - 1)


@jit
def reward_of(report: Any) -> Any:
    """Its reward, in units of 2⁻³⁰."""
    return report & _LOW


@jit
def keep(history: Any, position: Any, lane: Any, reward: Any) -> None:
    """Add a reward to the list of its stream."""
    if history.kept == 1:
        at, last = history.told[lane], history.ends[position, 1]
        history.told[lane] = at + 1
        history.rewards[lane, at] = np.uint32(reward)
        if last < 0:
            history.ends[position, 0] = at
        else:
            history.following[lane, last] = np.int32(at)
        history.ends[position, 1] = at


@jit
def recalled(history: Any, position: Any, lane: Any, n: int) -> Any:
    """The n-th reward that was told of a stream, in units of 2⁻³⁰; reading on from the last one is quick."""
    cursor = history.cursors[position]
    if n <= cursor[0]:
        cursor[0] = 0
    while cursor[0] < n:
        cursor[1] = history.ends[position, 0] if cursor[0] == 0 else np.int64(history.following[lane, cursor[1]])
        cursor[0] += 1
    return np.int64(history.rewards[lane, cursor[1]])
