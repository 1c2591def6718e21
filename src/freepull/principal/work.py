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
