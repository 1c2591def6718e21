"""One pull: the next word of the stack becomes a reward, and the lane's own statistics move on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.numerics import jit, mix, reward_units
from freepull.randomness import ARM, STEP

_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)
_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
_11, _32, _63 = np.uint64(11), np.uint64(32), np.uint64(63)


@jit
def pull(mean: Any, root: Any, cells: Any, laws: Any, key: Any, position: Any, lane: Any, arm: Any) -> Any:
    """Pull the arm of a lane whose stream lies at a position, and return its new N; a coin costs no branch."""
    at = position + position
    word = cells[at] + _ONE
    N = word & _LOW
    random = mix(key + _ARM * arm + _STEP * N)
    if laws is None:
        word += (((random >> _11) - cells[at + _ONE]) >> _63) << _32
        S = float(np.int64(word >> _32))
    else:
        law, parameters, levels, values = laws
        cells[at + _ONE] += np.uint64(reward_units(law, parameters[lane, arm], levels, values, random))
        S = float(np.int64(cells[at + _ONE])) * 2.0**-30
    cells[at] = word
    n = float(np.int64(N))
    mean[position] = S / n
    root[position] = 1.0 / math.sqrt(n)
    return np.int64(N)
