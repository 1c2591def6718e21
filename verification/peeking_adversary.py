"""Designs that break the rule's one law: they look at samples that wait, or at real counts.

They exist so that the suite is seen to notice (docs/certified.md, breaks). Nothing of this is in the package.
"""

from __future__ import annotations

from typing import Any

from freepull.compiling import jit

HONEST, CHOOSES_SIZES, TAKES_ALL = range(3)
"""No look; block sizes after a look at the rewards that wait; blocks of all that waits, which is a look at counts."""
STRETCH = 4


@jit
def peek(how: int, own: Any, used: Any, coming: Any, tested: int) -> None:
    """Change the block sizes of the coming round after a forbidden look."""
    for k in range(used.active.shape[0]):
        for m in range(used.pulls.shape[1]):
            if coming.blocks[k, m] > 0:
                waiting = own.pulls[k, m] - used.pulls[k, m]
                if how == TAKES_ALL:
                    coming.blocks[k, m] = max(coming.blocks[k, m], waiting)
                else:
                    sign = -1.0 if k == tested else 1.0
                    coming.blocks[k, m] = _favourable(own, used, k, m, coming.blocks[k, m], waiting, sign)


@jit
def _favourable(own: Any, used: Any, k: int, m: int, block: int, waiting: int, sign: float) -> int:
    """The size, up to a few times the designed one, whose samples have the mean that misleads most."""
    total, best, size = 0.0, -2.0, block
    for n in range(1, min(STRETCH * block, waiting) + 1):
        total += own.rewards[k, m, used.pulls[k, m] + n - 1]
        if n >= block and sign * total / float(n) > best:
            best, size = sign * total / float(n), n
    return int(size)
