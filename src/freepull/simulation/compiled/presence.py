"""Who is there in a step, the twin of `freepull.agents.activity` and `freepull.agents.leaving`.

Who acts is one word and one comparison a seat and step, without a branch; everything else is done for those who act.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.agents.leaving import NEVER, gives_up, is_one, last_step, member_key
from freepull.compiling import jit, jit_apart
from freepull.numerics import UNIT, acting_chance, lognormal_rate, mix
from freepull.randomness import ACTIVITY, LEAVING, PRESENCE, STEP
from freepull.simulation.compiled.coding import AFTER_ACTS, AT_RANDOM, IN_ANGER, LOGNORMAL, RATE, Habits

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
    clocks: NDArray[np.int64]
    tempers: NDArray[np.float64]
    """With which probability a poor reward makes the agent leave."""
    keys: NDArray[np.uint64]
    """The key of that coin."""
    lanes: NDArray[np.int64]
    """The lane of a seat."""
    acting: NDArray[np.int64]
    """The seats that act in this step, from the first seat of each run on."""


def presence_of(habits: Habits, lanes: NDArray[np.int64], keys: NDArray[np.uint64], horizon: int) -> Presence:
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
