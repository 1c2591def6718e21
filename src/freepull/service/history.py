"""How a campaign came to where it is: a point every so often, read from the log first, then added as it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from freepull.errors import FreepullError
from freepull.live import AsyncCampaign
from freepull.live.batches import Register
from freepull.live.recovery import segments, settings_of
from freepull.live.state import State
from freepull.live.status import status_of
from freepull.messages import Status

MOST = 400
"""So many points are kept; every other one is dropped when there are more."""
GAP = 20
"""So many points, or a twentieth of the log, may be missing while nobody watches."""
LARGE = 1_000_000
"""With more streams than this the log is not read a second time for the sake of a chart."""


class Point(msgspec.Struct):
    """How things stood at one time."""

    events: int
    """How many events the log had."""
    at: str
    """When the last of them happened."""
    step: int
    """Steps that had ended."""
    observations: int
    """Pulls that count."""
    paid: int
    """Pulls that were paid for."""
    spent: int
    """In minor units."""
    means: list[float | None]
    """The global mean of every arm."""
    bounds: list[float | None]
    """What stops the trial, for every arm; null: none, or without limit."""
    active: list[bool]
    """Whether an arm was still in."""


def point(status: Status) -> Point:
    """Return how things stand."""
    return Point(
        status.events,
        status.at.isoformat(),
        status.step,
        status.observations,
        status.paid,
        status.spent.minor,
        [arm.mean for arm in status.arms],
        [None if arm.bound is None or abs(arm.bound) == float("inf") else arm.bound for arm in status.arms],
        [arm.active for arm in status.arms],
    )


class History:
    """The points of one campaign."""

    def __init__(self, campaign: AsyncCampaign) -> None:
        self._campaign = campaign
        self._points: list[Point] = []
        self._apart = 1
        """At least so many events lie between two points."""
        self._loading = asyncio.Lock()
        self._loaded = False

    def add(self, status: Status) -> None:
        """Add a point, if enough has happened since the last one; if too much has, the log must be read again."""
        last = self._points[-1].events if self._points else 0
        if status.events > last + max(GAP * self._apart, status.events // 20):
            self._loaded = False
        if not self._points or status.events >= last + self._apart:
            self._points.append(point(status))
            self._thin()

    def _thin(self) -> None:
        while len(self._points) > MOST:
            self._points = self._points[::2]
            self._apart = max(1, 2 * self._points[-1].events // MOST)  # as far apart as those that are left

    async def points(self) -> list[Point]:
        """Return all points, the log's own included; the log is read once."""
        async with self._loading:
            if not self._loaded:
                read = await self._load()
                last = read[-1].events if read else -1
                self._points = [*read, *(it for it in self._points if it.events > last)]
                self._loaded = True
                self._thin()
        return self._points

    async def _load(self) -> list[Point]:
        status = await self._campaign.status()
        if status.agents * len(status.arms) > LARGE:
            return []
        core = self._campaign.blocking.core
        apart = max(1, status.events // MOST)
        try:
            return await asyncio.to_thread(lambda: list(replay(core.store, core.register, status.events, apart)))
        except FreepullError:
            return []


def replay(store: Any, register: Register, events: int, apart: int) -> Iterator[Point]:
    """Read a log up to an event, and yield a point every so often."""
    state, last = State(settings_of(store, register.campaign)), -apart
    for segment in segments(store, register.campaign):
        if segment.first >= events:
            break
        for begin in range(0, len(segment.records), apart):
            end = min(begin + apart, len(segment.records))
            more = {i - begin: it for i, it in segment.more.items() if begin <= i < end}
            state.apply_many(segment.records[begin:end], more)
            if state.started is not None and state.events >= last + apart:
                last = state.events
                yield point(status_of(state, register))
