"""One process, many campaigns: opened when they are free, given back at the end, taken over when their owner dies.

Those who watch a campaign, whoever they are, share one look at it every so often.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from freepull.campaigns import AsyncCampaign
from freepull.campaigns.journal.recovery import check_free
from freepull.campaigns.journal.writer import awaited
from freepull.campaigns.rehearsal import warm_up
from freepull.campaigns.stores import Where
from freepull.campaigns.view import CampaignView
from freepull.errors import (
    CampaignBusy,
    CampaignExists,
    Corrupt,
    Fenced,
    FreepullError,
    NewerVersion,
    OwnPartError,
    StoreError,
)
from freepull.messages import AuditEntry, OverviewRow
from freepull.principal.rules import Certified, Comparisons, Paper, Passive, Population
from freepull.server.auth import Tokens
from freepull.server.outlooks import Outlooks
from freepull.server.problems import Refused
from freepull.server.webhooks import Target, Webhooks

REFRESHED = 0.5
"""Seconds between two looks at a campaign for those who watch it."""
SCREENS = 1.0
"""Seconds between two screens, at least: they are large."""
SILENT = 10.0
"""After this many seconds without news a comment is sent, so that a dead connection is noticed."""
WATCHERS, WATCHERS_OF_ONE = 200, 50
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
        for _ in range(round(SILENT / REFRESHED)):
            if self._last is not None and self._last is not seen:
                return self._last
            if closing.is_set():
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESHED), self._news:
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
                await asyncio.sleep(REFRESHED if look is None else max(self._apart, time.monotonic() - begun))
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
        self._status, self._screen = Feed(self._look, REFRESHED), Feed(self._draw, SCREENS)
        self._whose: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many watch."""
        return self._status.count + self._screen.count

    def check(self, whose: str) -> None:
        """Refuse one more, if too many watch."""
        if self._whose[whose] >= WATCHERS_OF_ONE:
            raise Refused(
                429,
                f"{WATCHERS_OF_ONE} people watch with this token already.",
                "Close a page, or use a token of your own.",
            )
        if self.count >= WATCHERS:
            raise Refused(503, f"{WATCHERS} people watch already.", "Close a page, or try again later.")

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


RULES: tuple[type[Any], ...] = (Comparisons, Certified, Population, Paper, Passive)
_WARM: set[type[Any]] = set()
"""Rules whose functions this process has loaded."""
NOTED = 3600.0
"""Seconds for which it is noted once that a token acts for agents."""
SHARED = 2.0
"""Seconds for which everybody who looks at all campaigns sees the same of one."""
OPENING = 2.0
"""Seconds for which a request waits until its campaign is open; clients ask again later, and nobody takes this process
for hung."""
OPENED_AT_ONCE = 2
"""Campaigns, so that a large one does not hold all others up."""
LOOKING = 1.0
"""Seconds between two looks for campaigns without an owner, and for tokens that were revoked elsewhere."""


class Open:
    """A campaign that this process owns, what may be seen of it, and who watches it."""

    def __init__(self, campaign: AsyncCampaign) -> None:
        self.campaign, self.view = campaign, campaign.view
        self.streams = Streams(self.view)
        self._noted: dict[str, float] = {}
        self._short: tuple[float, OverviewRow] | None = None

    async def overview(self) -> OverviewRow:
        """Say in short how it stands; however many look, once in two seconds."""
        if self._short is None or time.monotonic() - self._short[0] > SHARED:
            self._short = time.monotonic(), await self.view.overview()
        return self._short[1]

    async def note_acting(self, by: str) -> None:
        """Note in the audit who acts for agents, once an hour: pulls and offers themselves are in the log."""
        now = time.monotonic()
        if now - self._noted.get(by, -NOTED) >= NOTED:
            self._noted[by] = now
            core = self.campaign.blocking.core
            await awaited(core.do(lambda decider, at: decider.note(at, by, {"acts_for": "agents"})))


class Hosting:
    """All campaigns of a store, as far as this process owns them."""

    def __init__(
        self, where: Where, log: Callable[..., None] = lambda *_, **__: None, targets: Iterable[Target] = ()
    ) -> None:
        self.where, self.log = where, log
        self.webhooks, self.outlooks = Webhooks(targets, log), Outlooks(log)
        self.tokens = Tokens(where)
        self.closing = asyncio.Event()
        self.failed = asyncio.Event()
        """Set when the disk cannot be trusted any more: then the process must end."""
        self._open: dict[str, Open] = {}
        self._opening: dict[str, asyncio.Task[Open]] = {}
        self._turns = asyncio.Semaphore(OPENED_AT_ONCE)
        self._broken: dict[str, FreepullError] = {}
        """Campaigns that cannot be read: looking at them again would not help."""
        self.store_errors = 0
        """How often a look at the store has failed."""
        self._tasks: list[asyncio.Task[None]] = []
        self._loaded = asyncio.Event()

    async def __aenter__(self) -> Hosting:
        await self._look()
        self._tasks = [
            asyncio.create_task(work) for work in (self._watch(), self._load(), self.outlooks.follow(self.here))
        ]
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.closing.set()
        self.outlooks.stop()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await self.webhooks.close()
        for name in list(self._open):
            with suppress(FreepullError):
                await self._open.pop(name).campaign.close()
        with suppress(FreepullError):
            await asyncio.to_thread(self.tokens.close)

    async def _load(self) -> None:
        """Load what the rules of the campaigns here call, and the usual one; that makes it ready. Then the others."""
        used = {type(it.campaign.settings.principal.rule): None for it in self.here().values()} | {Comparisons: None}
        for kind in used | dict.fromkeys(RULES):
            if kind not in used:
                self._loaded.set()
            if kind in RULES and kind not in _WARM:
                try:
                    await asyncio.to_thread(warm_up, kind(0.05) if kind is not Passive else kind())
                    _WARM.add(kind)
                except Exception as error:  # then it is loaded, or compiled, when it is needed
                    self.log("not loaded", rule=kind.__name__, error=f"{type(error).__name__}: {error}"[:500])
        self._loaded.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOKING)
            try:
                await asyncio.to_thread(self.tokens.refresh)
                await self._look()
            except Exception as error:  # whatever it is, looking must go on
                self.store_errors += 1
                self.log("store", error=f"{type(error).__name__}: {error}"[:500])

    async def _look(self) -> None:
        """Open every campaign that nobody has."""
        for it in await asyncio.to_thread(self.tokens.store.holders):
            name = it.campaign
            if not it.held and name not in self._broken and (name not in self._open or self._open[name].view.ended):
                await asyncio.wait((self._begin(name, self._find),))

    async def find(self, name: str) -> Open:
        """Return a campaign that is open here; open it if nobody has it, also if whoever asks goes meanwhile."""
        found = self._open.get(name)
        if found is not None and found.view.ended is None:
            return found
        if name in self._broken:
            raise self._broken[name]
        opening = self._begin(name, self._find)
        if not (await asyncio.wait((opening,), timeout=OPENING))[0]:
            raise Refused(503, "the campaign is still being opened.", "Try again after the time in Retry-After.")
        return opening.result()

    def _begin(self, name: str, work: Callable[[str], Coroutine[Any, Any, Open]]) -> asyncio.Task[Open]:
        """Open or make a campaign, unless that is under way; it goes on if whoever asked gives up."""

        def end(done: asyncio.Task[Open]) -> None:
            del self._opening[name]
            if not done.cancelled():
                done.exception()  # perhaps nobody is left who asks

        if name not in self._opening:
            self._opening[name] = asyncio.create_task(work(name))
            self._opening[name].add_done_callback(end)
        return self._opening[name]

    async def _find(self, name: str) -> Open:
        """Open a campaign, if nobody has it."""
        found = self._open.get(name)
        if found is not None and found.view.ended is not None:
            self._give_up(name, found.view.ended)
        try:
            await asyncio.to_thread(check_free, self.tokens.store, name)
            async with self._turns:
                if self.closing.is_set():
                    raise Refused(503, "this process is ending.", "Try again; another one takes over.")
                opened = await AsyncCampaign.open(self.where, name)
        except (Corrupt, NewerVersion, OwnPartError) as error:
            self._broken[name] = error
            self.log("broken", error=str(error))
            raise
        self.log("opened", campaign=name)
        return self._keep(opened)

    async def create(self, **settings: Any) -> Open:
        """Make a campaign."""
        name = settings["name"]

        async def make(_: str) -> Open:
            return self._keep(await AsyncCampaign.create(self.where, **settings))

        while name in self._opening:
            await asyncio.wait((self._opening[name],))
        if name in self.here():
            raise CampaignExists(f"there is a campaign {name!r} already; choose another name.")
        return await asyncio.shield(self._begin(name, make))

    def _keep(self, campaign: AsyncCampaign) -> Open:
        self._open[campaign.name] = Open(campaign)
        self.webhooks.follow(self._open[campaign.name])
        return self._open[campaign.name]

    def _give_up(self, name: str, error: StoreError) -> None:
        """Forget a campaign whose writer has ended: taken over, cut off, or on a disk that failed."""
        self.log("ended", campaign=name, error=str(error))
        del self._open[name]
        if isinstance(error, Corrupt):  # of this campaign; the others go on
            self._broken[name] = error
            raise error
        if not isinstance(error, (Fenced, CampaignBusy)) and not self.tokens.store.reopens:
            self.failed.set()
            raise error

    def here(self) -> dict[str, Open]:
        """Return the campaigns that are open here."""
        return {name: found for name, found in self._open.items() if found.view.ended is None}

    @property
    def broken(self) -> int:
        """How many campaigns cannot be read."""
        return len(self._broken)

    async def names(self) -> list[tuple[str, str]]:
        """Return every campaign, and the address of its owner if it has one."""
        holders = await asyncio.to_thread(self.tokens.store.holders)
        return [(it.campaign, it.owner.partition(" ")[0]) for it in holders]

    async def ready(self) -> None:
        """Raise if this process cannot serve."""
        if self.failed.is_set() or self.closing.is_set():
            raise Refused(503, "this process is ending.", "Try again; another one takes over.")
        if not self._loaded.is_set():
            raise Refused(503, "this process is still getting ready.", "Try again after the time in Retry-After.")
        await asyncio.to_thread(self.tokens.store.holders, "")
