"""One pull of every lane of a chunk: the next word of the stack becomes a reward, and the lane's statistics move on."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.numerics import jit, mix, reward_units
from freepull.randomness import ARM, STEP
from freepull.simulation.compiled.lanes import WIDTH, divide_chunk
from freepull.simulation.compiled.state import REWARDS

_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)
_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
_11, _32, _63 = np.uint64(11), np.uint64(32), np.uint64(63)
_W = np.uint64(WIDTH)


@jit
def pull_chunk(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, laws: Any, roots: Any, work: Any, chunk: Any, K: Any
) -> None:
    """Pull what the lanes have chosen; a coin costs no branch, and the divisions are done for all lanes together."""
    first, base = chunk * _W, chunk * K * _W
    for lane in range(_W):
        own = np.uint64(arm[first + lane])
        position = base + own * _W + lane
        at = position + position
        word = cells[at] + _ONE
        N = word & _LOW
        random = mix(keys[REWARDS, first + lane] + _ARM * own + _STEP * N)
        if laws is None:
            word += (((random >> _11) - cells[at + _ONE]) >> _63) << _32
            S = float(np.int64(word >> _32))
        else:
            law, parameters, levels, values = laws
            reward = reward_units(law, parameters[first + lane, own], levels, values, random)
            cells[at + _ONE] += np.uint64(reward)
            S = float(np.int64(cells[at + _ONE])) * 2.0**-30
        cells[at] = word
        if roots is None:
            work[lane] = float(np.int64(N))
            work[_W + lane] = S
        else:
            mean[position] = S / float(np.int64(N))
            root[position] = roots[N]
    if roots is None:
        divide_chunk(work)
        for lane in range(_W):
            position = base + np.uint64(arm[first + lane]) * _W + lane
            root[position] = work[lane]
            mean[position] = work[_W + lane]
