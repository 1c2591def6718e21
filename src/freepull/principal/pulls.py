"""Many pulls at once: checked as a whole before anything changes, and packed into two rows of machine words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.principal.record import Words, many_units


def packed(agents: Any, arms: Any, rewards: Any, size: tuple[int, int]) -> tuple[Words, Words]:
    """Return the streams agent·K + arm, and the rewards in units of 2⁻³⁰, of M agents and K arms."""
    M, K = size
    m, k = _indices("agents", agents, M), _indices("arms", arms, K)
    x = _rewards(rewards)
    if not len(m) == len(k) == len(x):
        counts = f"{len(m)}, {len(k)} and {len(x)}"
        raise InvalidInput(f"agents, arms and rewards must be equally many, got {counts}; give each pull all three.")
    streams = m.astype(np.int64) * K + k
    return streams.astype(np.uint32), many_units(x).astype(np.uint32)


def _indices(name: str, values: Any, size: int) -> NDArray[Any]:
    """Return whole numbers from 0 to size − 1."""
    given = _row(name, values)
    if given.dtype.kind not in "iu" and len(given):
        raise InvalidInput(f"{name} must be whole numbers from 0 to {size - 1}, got {checks.shown(values)}.")
    wrong = (given < 0) | (given >= size)
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInput(f"{name}[{at}] must be a whole number from 0 to {size - 1}, got {given[at]}.")
    return given


def _rewards(values: Any) -> NDArray[np.float64]:
    """Return numbers in [0, 1]."""
    given = _row("rewards", values)
    if given.dtype.kind not in "fiu":
        raise InvalidInput(f"rewards must be numbers in [0, 1], got {checks.shown(values)}.")
    wrong = ~((given >= 0) & (given <= 1))
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInput(f"rewards[{at}] must be a number in [0, 1], got {given[at]}.")
    return given.astype(np.float64)


def _row(name: str, values: Any) -> NDArray[Any]:
    try:
        given = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros((0, 0))
    if given.ndim != 1:
        raise InvalidInput(f"{name} must be a row of numbers, one for each pull, got {checks.shown(values)}.")
    return given


@jit
def mark(told: Any, agents: Any, steps: int) -> bool:
    """Note who is told of in this step; say whether nobody was so before."""
    regular = True
    for i in range(agents.shape[0]):
        regular = regular and told[agents[i]] <= steps
        told[agents[i]] = steps + 1
    return regular
