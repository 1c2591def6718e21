"""The world in the compiled engine: who is there in a step, and what disturbs rewards and reports.

The twin of `freepull.agents.activity`, `freepull.agents.leaving` and `freepull.disturbances`. Who acts is one word and
one comparison a seat and step, without a branch; everything else is done for those who act. Where rewards are moved, or
told in another order than they were drawn in, they cannot be drawn again from their stacks, and rules that look at
single rewards read them from a history.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.agents.leaving import NEVER, gives_up, is_one, last_step, member_key
from freepull.compiling import jit, jit_apart
from freepull.disturbances import Reports, delay, drifted, moved_level, moved_units, shock
from freepull.numerics import UNIT, acting_chance, fill_keys, lognormal_rate, mix
from freepull.principal.rules import Certified, Population
from freepull.randomness import ACTIVITY, ARM, LEAVING, PRESENCE, REPORT, STEP, WORLD
from freepull.registry import declared
from freepull.simulation.compiled.coding import AFTER_ACTS, AT_RANDOM, IN_ANGER, LOGNORMAL, RATE, Habits
from freepull.simulation.experiment import Experiment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_STEP, _11 = np.uint64(STEP), np.uint64(11)
_COIN, _ACTIVITY, _LEAVING = PRESENCE - 1, ACTIVITY - 1, LEAVING - 1
"""Rows of ``keys``."""
UNTIL, ACTS, MOST, FORGIVEN, POOR = range(5)
"""Columns of ``clocks``: the last step, the acts so far, the most acts; after FORGIVEN acts, a reward of at most POOR
units of 2⁻³⁰ may make the agent leave."""


class Presence(NamedTuple):
    """Who is there, by seat."""

    coins: NDArray[np.uint64]
    """The key of the coins that decide who acts."""
    limits: NDArray[np.uint64]
    """A seat acts if the first 53 bits of its coin are below this; 0 once it has left."""
    clocks: Ints
    tempers: Floats
    """With which probability a poor reward makes the agent leave."""
    keys: NDArray[np.uint64]
    """The key of that coin."""
    lanes: Ints
    """The lane of a seat."""
    acting: Ints
    """The seats that act in this step, from the first seat of each run on."""


def presence_of(habits: Habits, lanes: Ints, keys: NDArray[np.uint64], horizon: int) -> Presence:
    """Draw what is drawn once a run for every seat."""
    count = len(lanes)
    there = Presence(
        np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros((count, 5), np.int64), np.zeros(count),
        np.zeros(count, np.uint64), lanes, np.zeros(count, np.int64),
    )  # fmt: skip
    fill_presence(there, habits, keys, horizon)
    return there


@jit_apart
def fill_presence(there: Any, habits: Any, keys: Any, horizon: int) -> None:
    """Draw rates and reasons to leave, seat by seat."""
    for seat in range(there.limits.shape[0]):
        m, lane = seat % habits.several.shape[0], there.lanes[seat]
        about, clock = habits.activity[m], there.clocks[seat]
        there.coins[seat] = keys[_COIN, lane]
        chance = 1.0
        if about[0] == RATE:
            chance = acting_chance(about[1])
        elif about[0] == LOGNORMAL:
            chance = acting_chance(lognormal_rate(about[1], about[2], about[3], keys[_ACTIVITY, lane]))
        there.limits[seat] = np.uint64(math.ceil(chance * 2.0**53))
        clock[UNTIL] = clock[MOST] = clock[FORGIVEN] = NEVER
        for i in range(habits.leaving.shape[1]):
            way = habits.leaving[m, i]
            key = member_key(keys[_LEAVING, lane], i) if habits.several[m] else keys[_LEAVING, lane]
            if way[0] == AT_RANDOM:
                clock[UNTIL] = min(clock[UNTIL], last_step(way[1], np.int64(way[2]), horizon, key))
            elif way[0] == AFTER_ACTS:
                clock[MOST] = min(clock[MOST], np.int64(way[1]))
            elif way[0] == IN_ANGER and is_one(way[1], key):
                clock[FORGIVEN], clock[POOR] = np.int64(way[2]), np.int64(math.floor(way[3] * UNIT))
                there.tempers[seat], there.keys[seat] = way[4], key


@jit
def is_there(there: Any, seat: Any, t: int) -> bool:
    """Whether a seat acts in step t."""
    coin = mix(there.coins[seat] + _STEP * np.uint64(t)) >> _11
    return bool(coin < there.limits[seat] and t <= there.clocks[seat, UNTIL])


@jit
def list_acting(there: Any, first: Any, last: Any, t: int) -> Any:
    """Find which of the seats first…last−1 act in step t; they are `acting_at` the places from ``first`` to the end
    that is returned.
    """
    if there is None:
        return last
    acting, coins, limits = there.acting, there.coins, there.limits
    step, found = _STEP * np.uint64(t), first
    for seat in range(first, last):
        acting[found] = seat
        found += np.int64((mix(coins[seat] + step) >> _11) < limits[seat])
    end = first
    for at in range(first, found):
        acting[end] = acting[at]
        end += np.int64(t <= there.clocks[acting[at], UNTIL])
    return end


@jit
def acting_at(there: Any, place: int) -> Any:
    """The seat at a place of the list that `list_acting` has made."""
    if there is None:
        return place
    return there.acting[place]


@jit
def count_act(there: Any, seat: Any, reward: Any) -> None:
    """Note an act and its reward, in units of 2⁻³⁰; the agent leaves or stays."""
    if there is not None:
        clock = there.clocks[seat]
        clock[ACTS] += 1
        acts = clock[ACTS]
        if acts >= clock[MOST] or (
            acts > clock[FORGIVEN] and reward <= clock[POOR] and gives_up(there.tempers[seat], acts, there.keys[seat])
        ):
            there.limits[seat] = np.uint64(0)


@jit
def turn(there: Any, run: int, agents: int, t: int) -> Any:
    """How often everybody has acted in a run, on average and rounded down: t where everybody acts in every step."""
    if there is None:
        return t
    acts = np.int64(0)
    for seat in range(run * agents, (run + 1) * agents):
        acts += there.clocks[seat, ACTS]
    return acts // agents


@jit
def clock_of(there: Any, seat: int, t: int) -> Any:
    """An agent's own clock in step t: the number of its acts, this one included."""
    if there is None:
        return t
    return there.clocks[seat, ACTS] + 1


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
