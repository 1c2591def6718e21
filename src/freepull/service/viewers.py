"""Those who watch a campaign: one look at it every half second, shared by all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec

from freepull.errors import FreepullError
from freepull.live import AsyncCampaign, Status
from freepull.service.history import History

LOOKING = 0.5
SILENT = 10.0
"""After so many seconds without news a comment is sent, so that a dead connection is noticed."""
MOST = 200


class Viewers:
    """The streams of one campaign."""

    def __init__(self, campaign: AsyncCampaign, history: History) -> None:
        self._campaign, self._history = campaign, history
        self._news = asyncio.Condition()
        self._status: Status | None = None
        self._task: asyncio.Task[None] | None = None
        self.count = 0

    async def _look(self) -> None:
        """Look as long as somebody watches."""
        try:
            while self.count:
                status = await self._campaign.status()
                if self._status is None or status.events != self._status.events:
                    self._history.add(status)
                    async with self._news:
                        self._status = status
                        self._news.notify_all()
                await asyncio.sleep(LOOKING)
        except FreepullError:
            pass
        finally:
            self._task = self._status = None
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
            self._status = await self._campaign.status()
            while not closing.is_set():
                if self._task is None:
                    self._task = asyncio.create_task(self._look())
                status = await self._wait(seen, closing)
                if not allowed():
                    return
                if status is None:
                    if self._task is None or self._task.done():
                        return
                    yield b": nothing new\n\n"
                    continue
                if after >= 0 or seen >= 0:
                    for entry in await self._campaign.audit(audited):
                        audited = max(audited, entry.event)
                        yield _event("audit", entry.event, entry)
                audited = max(audited, status.events - 1)
                seen = status.events
                yield _event("status", audited, status)
        finally:
            self.count -= 1

    async def _wait(self, seen: int, closing: asyncio.Event) -> Status | None:
        """Return a status that is newer than what was seen, None if there is none for a while."""
        for _ in range(round(SILENT / LOOKING)):
            if self._status is not None and self._status.events != seen:
                return self._status
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
