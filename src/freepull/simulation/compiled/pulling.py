"""One pull of every lane of a chunk: the next word of the stack becomes a reward, and the lane's statistics move on."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.numerics import mix, reward_units
from freepull.randomness import ARM, STEP
from freepull.simulation.compiled.lanes import WIDTH, divide_chunk, toss_chunk
from freepull.simulation.compiled.picking import units_at
from freepull.simulation.compiled.state import INVERSES, MEANS, REWARDS, UNPULLED, UNSEEN

_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)
_ONE, _TWO, _11, _LOW = np.uint64(1), np.uint64(2), np.uint64(11), np.uint64(0xFFFFFFFF)
_W = np.uint64(WIDTH)


@jit
def pull_chunk(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, laws: Any, words: Any, work: Any, sums: Any,
    rounds: Any, chunk: Any, K: Any,
) -> None:  # fmt: skip
    """Pull what the lanes have chosen: gather their streams, draw and divide for all together, and put them back.

    ``laws`` is None for coins; ``sums`` is None, or what it takes to keep the sums over agents up to date; ``rounds``
    is None, or what it takes to know when a round is full: counters of a run, or of each of its arms (stride 1).
    """
    first, base = chunk * _W, chunk * K * _W
    for lane in range(_W):
        own = np.uint64(arm[first + lane])
        at = (base + own * _W + lane) * _TWO
        if laws is None:
            words[lane] = cells[at]
            words[_W + lane] = cells[at + _ONE]
        else:
            law, parameters, levels, values = laws
            N = cells[at] + _ONE
            random = mix(keys[REWARDS, first + lane] + _ARM * own + _STEP * N)
            reward = reward_units(law, parameters[first + lane, own], levels, values, random)
            cells[at + _ONE] += np.uint64(reward)
            words[lane] = N
            work[lane] = float(np.int64(N))
            work[_W + lane] = float(np.int64(cells[at + _ONE])) * 2.0**-30
    if laws is None:
        toss_chunk(words, keys, arm, first, work)
    else:
        divide_chunk(work)
    for lane in range(_W):
        own = np.uint64(arm[first + lane])
        position = base + own * _W + lane
        cells[position + position] = words[lane]
        root[position] = work[lane]
        mean[position] = work[_W + lane]
        if sums is not None:
            _add_up(cells, laws, sums, position, first + lane, own, words[lane] & _LOW, work[_W + lane])
        if rounds is not None:
            targets, owing, run_of, stride = rounds
            if np.int64(words[lane] & _LOW) == targets[position]:
                owing[run_of[first + lane] + np.int64(own) * stride] -= 1


@jit
def _add_up(cells: Any, laws: Any, sums: Any, position: Any, lane: Any, own: Any, N: Any, average: float) -> None:
    """Move Σ⌊2⁴⁰/N⌋ and Σ⌊2⁴⁰·S/N⌋ of the lane's run by what this pull changed."""
    fixed, arms, trials, owner, inverses = sums
    row = np.uint64(owner[lane]) + own
    now = fixed_mean(cells, laws, position, np.int64(N), average)
    arms[row, MEANS] += now - fixed[position]
    arms[row, INVERSES] += inverses[N] - inverses[N - _ONE]
    fixed[position] = now
    if N == _ONE:
        arms[row, UNPULLED] -= 1
        run = owner[lane] // (arms.shape[0] // (trials.shape[0] + 1))
        if run < trials.shape[0]:
            trials[run, UNSEEN] -= 1


@jit
def reward_at(cells: Any, laws: Any, position: Any, lane: Any, arm: int, key: Any, n: int) -> Any:
    """The n-th reward on the stack of a lane's arm, drawn again, in units of 2⁻³⁰; ``key`` is the lane's."""
    word = mix(key + _ARM * np.uint64(arm) + _STEP * np.uint64(n))
    if laws is None:
        return np.int64((word >> _11) < cells[position + position + _ONE]) << 30
    law, parameters, levels, values = laws
    return np.int64(reward_units(law, parameters[lane, arm], levels, values, word))


@jit
def fixed_mean(cells: Any, laws: Any, position: Any, N: Any, average: float) -> Any:
    """⌊2⁴⁰·S/N⌋, from the rounded quotient and its exact remainder."""
    quotient = np.int64(average * 2.0**40)
    rest = (units_at(cells, laws, position) << 10) - quotient * N
    return quotient + np.int64(rest >= N) - np.int64(rest < 0)
