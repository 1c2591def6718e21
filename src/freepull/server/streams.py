"""Those who watch a campaign: whoever they are, one look at it every so often is shared by all of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from freepull.campaigns.view import CampaignView
from freepull.errors import FreepullError
from freepull.messages import AuditEntry
from freepull.server.problems import Refused

LOOKING = 0.5
"""Seconds between two looks."""
SCREENS = 1.0
"""Seconds between two screens, at least: they are large."""
SILENT = 10.0
"""After this many seconds without news a comment is sent, so that a dead connection is noticed."""
MOST, MOST_OF_ONE = 200, 50
"""How many may watch a campaign, and how many of them with one token."""


class Look(NamedTuple):
    """What everybody sees at one time."""

    events: int
    """How many the log had."""
    data: bytes
    """How things stood, as JSON."""
    after: int = -1
    audit: tuple[AuditEntry, ...] = ()
    """What was audited after event ``after``."""
    beside: Any = None
    """What else is shown that no event of the log is about: a forecast that is ready, a long silence."""


class Feed:
    """Looks at a campaign as long as somebody follows; everybody is told what is new."""

    def __init__(self, look: Callable[[Look | None], Awaitable[Look | None]], apart: float) -> None:
        self._look, self._apart = look, apart
        self._news = asyncio.Condition()
        self._last: Look | None = None
        self._task: asyncio.Task[None] | None = None
        self.count = 0
        """How many follow."""

    @property
    def on(self) -> bool:
        """Whether it looks."""
        return self._task is not None and not self._task.done()

    async def next(self, seen: Look | None, closing: asyncio.Event) -> Look | None:
        """Return another look than was seen, None if there is none for a while."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        for _ in range(round(SILENT / LOOKING)):
            if self._last is not None and self._last is not seen:
                return self._last
            if closing.is_set():
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKING), self._news:
                    await self._news.wait()
            if self._task is None:
                return None
        return None

    async def _run(self) -> None:
        try:
            while self.count:
                begun = time.monotonic()
                look = await self._look(self._last)
                if look is not None:
                    async with self._news:
                        self._last = look
                        self._news.notify_all()
                await asyncio.sleep(LOOKING if look is None else max(self._apart, time.monotonic() - begun))
        except FreepullError:
            pass
        finally:
            self._task = self._last = None
            async with self._news:
                self._news.notify_all()


class Streams:
    """The streams of one campaign."""

    def __init__(self, view: CampaignView) -> None:
        self._view = view
        self._status, self._screen = Feed(self._look, LOOKING), Feed(self._draw, SCREENS)
        self._whose: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many watch."""
        return self._status.count + self._screen.count

    def check(self, whose: str) -> None:
        """Refuse one more, if too many watch."""
        if self._whose[whose] >= MOST_OF_ONE:
            raise Refused(
                429, f"{MOST_OF_ONE} people watch with this token already.", "Close a page, or use a token of your own."
            )
        if self.count >= MOST:
            raise Refused(503, f"{MOST} people watch already.", "Close a page, or try again later.")

    async def _look(self, last: Look | None) -> Look | None:
        """Return how the campaign stands, and what was done since, if anything has happened."""
        status = await self._view.status()
        if last is None:
            return Look(status.events, msgspec.json.encode(status))
        if status.events == last.events:
            return None
        audit = tuple(await self._view.audit(last.events - 1))
        return Look(status.events, msgspec.json.encode(status), last.events - 1, audit)

    async def _draw(self, last: Look | None) -> Look | None:
        """Return all that a screen shows, if anything has happened, or is to be said that is no event."""
        events, beside = await self._view.news()
        if last is not None and (events, beside) == (last.events, last.beside):
            return None
        screen = await self._view.screen()
        short = screen.overview
        return Look(screen.status.events, msgspec.json.encode(screen), beside=(short.outlook, short.stuck))

    async def stream(
        self, after: int, screen: bool, closing: asyncio.Event, allowed: Callable[[], bool], whose: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events: all that a screen shows; or how things stand, and what was audited
        after an event of the log.

        It ends when the service does, or when whoever watches may no longer do so.
        """
        feed = self._screen if screen else self._status
        feed.count += 1
        self._whose[whose] += 1
        try:
            yield b"retry: 2000\n\n"
            audited = after
            seen: Look | None = None
            while not closing.is_set():
                look = await feed.next(seen, closing)
                if not allowed():
                    return
                if look is None:
                    if not feed.on:
                        return
                    yield b": nothing new\n\n"
                    continue
                if not screen and (after >= 0 or seen is not None):
                    shared = 0 <= look.after <= audited
                    for entry in look.audit if shared else await self._view.audit(audited):
                        if entry.event > audited:
                            audited = entry.event
                            yield _event("audit", audited, msgspec.json.encode(entry))
                seen = look
                audited = max(audited, look.events - 1)
                yield _event("screen" if screen else "status", audited, look.data)
        finally:
            feed.count -= 1
            self._whose -= Counter((whose,))


def _event(kind: str, number: int, data: bytes) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), number, data)
