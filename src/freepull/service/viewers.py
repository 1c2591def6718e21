"""Those who watch a campaign: one look at it every half second, shared by all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from freepull.errors import FreepullError
from freepull.live import AsyncCampaign
from freepull.messages import AuditEntry, Status
from freepull.service.history import History

LOOKING = 0.5
SILENT = 10.0
"""After so many seconds without news a comment is sent, so that a dead connection is noticed."""
MOST = 200


class Look(NamedTuple):
    """What everybody sees at one time."""

    status: Status
    after: int = -1
    audit: tuple[AuditEntry, ...] = ()
    """What was audited behind event ``after``."""


class Viewers:
    """The streams of one campaign."""

    def __init__(self, campaign: AsyncCampaign, history: History) -> None:
        self._campaign, self._history = campaign, history
        self._news = asyncio.Condition()
        self._last: Look | None = None
        self._task: asyncio.Task[None] | None = None
        self.count = 0

    async def _look(self) -> None:
        """Look as long as somebody watches."""
        try:
            while self.count:
                status, last = await self._campaign.status(), self._last
                if last is None or status.events != last.status.events:
                    self._history.add(status)
                    after = (status if last is None else last.status).events - 1
                    look = Look(status, after, tuple(await self._campaign.audit(after)))
                    async with self._news:
                        self._last = look
                        self._news.notify_all()
                await asyncio.sleep(LOOKING)
        except FreepullError:
            pass
        finally:
            self._task = self._last = None
            async with self._news:
                self._news.notify_all()

    async def stream(self, after: int, closing: asyncio.Event, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield server-sent events from behind an event of the log on: what was audited, and how things stand.

        It ends when the service does, or when whoever watches may no longer do so.
        """
        self.count += 1
        try:
            yield b"retry: 2000\n\n"
            audited, seen = after, -1
            self._last = self._last or Look(await self._campaign.status())
            while not closing.is_set():
                if self._task is None:
                    self._task = asyncio.create_task(self._look())
                look = await self._wait(seen, closing)
                if not allowed():
                    return
                if look is None:
                    if self._task is None or self._task.done():
                        return
                    yield b": nothing new\n\n"
                    continue
                if after >= 0 or seen >= 0:
                    shared = 0 <= look.after <= audited
                    for entry in look.audit if shared else await self._campaign.audit(audited):
                        if entry.event > audited:
                            audited = entry.event
                            yield _event("audit", audited, entry)
                seen = look.status.events
                audited = max(audited, seen - 1)
                yield _event("status", audited, look.status)
        finally:
            self.count -= 1

    async def _wait(self, seen: int, closing: asyncio.Event) -> Look | None:
        """Return a look that is newer than what was seen, None if there is none for a while."""
        for _ in range(round(SILENT / LOOKING)):
            if self._last is not None and self._last.status.events != seen:
                return self._last
            if closing.is_set():
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKING), self._news:
                    await self._news.wait()
            if self._task is None:
                return None
        return None


def _event(kind: str, number: int, data: object) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), number, msgspec.json.encode(data))
