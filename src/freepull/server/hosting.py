"""One process, many campaigns: opened when they are free, given back at the end, taken over when their owner dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from freepull.campaigns import AsyncCampaign
from freepull.campaigns.journal.recovery import check_free
from freepull.campaigns.journal.writer import awaited
from freepull.campaigns.rehearsal import warm_up
from freepull.campaigns.stores import Where
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
from freepull.messages import OverviewRow
from freepull.principal.rules import Certified, Comparisons, Paper, Passive, Population
from freepull.server.auth import Tokens
from freepull.server.outlooks import Outlooks
from freepull.server.problems import Refused
from freepull.server.streams import Streams
from freepull.server.webhooks import Target, Webhooks

RULES: tuple[type[Any], ...] = (Comparisons, Certified, Population, Paper, Passive)
_WARM: set[type[Any]] = set()
"""Rules whose functions this process has loaded."""
NOTED = 3600.0
"""Seconds for which it is noted once that a token acts for agents."""
SHARED = 2.0
"""Seconds for which everybody who looks at all campaigns sees the same of one."""
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
        self._opening = asyncio.Lock()
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
        for name, _, held in await asyncio.to_thread(self.tokens.store.holders):
            if not held and name not in self._broken and (name not in self._open or self._open[name].view.ended):
                with suppress(FreepullError):
                    await self.find(name)

    async def find(self, name: str) -> Open:
        """Return a campaign that is open here; open it if nobody has it."""
        found = self._open.get(name)
        if found is not None and found.view.ended is None:
            return found
        if name in self._broken:
            raise self._broken[name]
        async with self._opening:
            found = self._open.get(name)
            if found is not None and found.view.ended is not None:
                self._give_up(name, found.view.ended)
            elif found is not None:
                return found
            if self.closing.is_set():
                raise Refused(503, "this process is ending.", "Try again; another one takes over.")
            try:
                await asyncio.to_thread(check_free, self.tokens.store, name)
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
        if name in self.here():
            raise CampaignExists(f"there is a campaign {name!r} already; choose another name.")
        return self._keep(await AsyncCampaign.create(self.where, **settings))

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
