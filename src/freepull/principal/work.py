"""Work in slices: a generator yields where it may be interrupted, and what it finds does not depend on that."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

Found = TypeVar("Found")
Work = Generator[None, None, Found]
STREAMS = 1 << 15
"""Streams that one slice visits: a millisecond or two."""


def finish(work: Work[Found]) -> Found:
    """Do all of it, and return what it finds."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Found = end.value
            return found


def pieces(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut 0…total into ranges of a size, at least 1.

    >>> list(pieces(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, size)
    return ((first, min(first + step, total)) for first in range(0, total, step))


def tiles(arms: int, agents: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut arms × agents into ranges of arms and agents: whole arms, or one arm's agents, in their order.

    >>> list(tiles(3, 2, 4)), list(tiles(2, 3, 2))
    ([(0, 2, 0, 2), (2, 3, 0, 2)], [(0, 1, 0, 2), (0, 1, 2, 3), (1, 2, 0, 2), (1, 2, 2, 3)])
    """
    if agents <= size:
        return ((*some, 0, agents) for some in pieces(arms, size // agents))
    return ((k, k + 1, *some) for k in range(arms) for some in pieces(agents, size))
