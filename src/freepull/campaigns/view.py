"""What may be seen of an open campaign, for services and screens: nothing here changes it, nothing blocks the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from freepull.campaigns import status as tables
from freepull.campaigns.commands import Decider
from freepull.campaigns.core import Core
from freepull.campaigns.directory import Register
from freepull.campaigns.journal.recovery import segments, settings_of
from freepull.campaigns.journal.writer import awaited
from freepull.campaigns.settings import system_clock
from freepull.campaigns.state import State
from freepull.campaigns.status import status_of, verdict_of
from freepull.campaigns.stores import Store
from freepull.commands import ReadStatus, ReadVerdict
from freepull.errors import FreepullError, StoreError
from freepull.messages import (
    AgentRow,
    AuditEntry,
    BanRow,
    CampaignVerdict,
    LedgerEntry,
    Me,
    OfferRow,
    Outlook,
    OverviewRow,
    Status,
    Stuck,
)
from freepull.money import Money

Row = TypeVar("Row", covariant=True)
Found = TypeVar("Found")
MOST_POINTS = 400
"""This many points of a history are kept; every other one is dropped when there are more."""
GAP = 20
"""This many points, or a twentieth of the log, may be missing while nobody watches."""
LARGE = 1_000_000
"""With more streams than this the log is not read a second time for the sake of a chart."""
SAMPLED, NAMED = 10_000, 500
"""This many agents are counted for quantiles of pulls, and this many of them are named."""
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
ROWS = 200
"""This many rows of every table are on a screen."""
Sample = tuple[int, NDArray[np.int64], NDArray[Any]]


class Pulls(msgspec.Struct):
    """Who pulls what: quantiles of pulls over agents, and a sample of agents."""

    agents: int
    """How many agents count."""
    quantiles: list[list[float]]
    """For all arms together, then arm by arm: minimum, 10 %, 25 %, median, 75 %, 90 %, maximum."""
    sampled: bool
    """Whether only a sample was looked at."""
    names: list[str]
    """Some agents: all of them up to 500."""
    pulls: list[list[int]]
    """For each of the agents named, its pulls by arm."""


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


class Screen(msgspec.Struct):
    """All that a screen shows of a campaign, as of one moment; tables have their newest rows, the oldest first."""

    status: Status
    """How it stands."""
    verdict: CampaignVerdict | None
    """What the verdict rests on; null before the start."""
    awaited: list[AgentRow]
    """Whom it waits for, as they stand; at most ten."""
    history: list[Point]
    """How it came about; the last point is this moment."""
    pulls: Pulls
    """Who pulls what."""
    offers: list[OfferRow]
    """Open offers, the first 200."""
    ledger: list[LedgerEntry]
    """What was paid, the last 200."""
    bans: list[BanRow]
    """Who was banned, the last 200."""
    audit: list[AuditEntry]
    """What was done, the last 200."""
    overview: OverviewRow
    """The same in short: how sure, and whether it is stuck."""


class Reader(Protocol[Row]):
    """Reads a table of `freepull.campaigns.status`."""

    def __call__(self, store: Store, register: Register, after: int = ...) -> Iterator[Row]:
        """Return the rows after a given one."""
        ...


class CampaignView:
    """An open campaign, to be looked at from asyncio."""

    def __init__(self, core: Core) -> None:
        self._core, self._register = core, core.register
        self.history = History(core)
        self.outlook: Outlook | None = None
        """When a verdict is expected, if whoever serves the campaign has found that out."""

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self._core.name

    @property
    def ended(self) -> StoreError | None:
        """Why its writer has ended, if it has."""
        return self._core.writer.ended

    def agent(self, given: str | int) -> int:
        """Return the number of an agent, or raise `UnknownAgent`."""
        return self._register.agent(given)

    def arm(self, given: str | int) -> int:
        """Return the number of an arm, or raise `UnknownArm`."""
        return self._register.arm(given)

    def agent_name(self, number: int) -> str:
        """Return an agent's name, or "#" and its number."""
        return self._register.shown(number)

    async def status(self) -> Status:
        """Say how it stands; the history takes note."""
        status = await awaited(self._core.handle(ReadStatus()))
        self.history.add(status)
        return status

    async def standing(self) -> tuple[Status, list[str]]:
        """Say how it stands, and why those for whom it waits are not there: left, parked, banned or silent."""

        def look(decider: Decider) -> tuple[Status, list[str]]:
            status, gone = status_of(decider.state, self._register), ("left", "parked", "banned")
            rows = (self._row(decider, self._register.agent(name)).state for name in status.awaited)
            return status, [it if it in gone else "silent" for it in rows]

        return await self._look(look)

    async def news(self) -> tuple[int, tuple[Outlook | None, list[Stuck]]]:
        """Say after how many events it was looked at, and what a screen shows then that no event is about."""

        def look(decider: Decider) -> tuple[int, tuple[Outlook | None, list[Stuck]]]:
            state = decider.state
            return state.events, (self._expected(state), tables.stuck(state, self._register, system_clock()))

        return await self._look(look)

    async def overview(self) -> OverviewRow:
        """Say in short which arm, how sure, what was spent, and whether it is stuck."""
        return await self._look(self._short)

    def _short(self, decider: Decider) -> OverviewRow:
        row = tables.overview(decider.state, self._register, system_clock())
        row.outlook = self._expected(decider.state)
        return row

    def _expected(self, state: State) -> Outlook | None:
        """Return the forecast as it can still be true: what was spent since it was made is spent."""
        said = self.outlook
        if said is None or state.decision is not None or state.status == "stopped":
            return None
        spent = state.offers.spent
        if spent <= said.spend[0].minor:
            return said
        return msgspec.structs.replace(
            said, spend=[it if it.minor >= spent else Money(spent, it.currency) for it in said.spend]
        )

    async def stuck(self) -> tuple[int, list[Stuck]]:
        """Say after how many events it was looked at, and why it does not go on."""
        return await self._look(
            lambda decider: (decider.state.events, tables.stuck(decider.state, self._register, system_clock()))
        )

    async def verdict(self) -> CampaignVerdict:
        """Say which arm, and what that rests on."""
        return await awaited(self._core.handle(ReadVerdict()))

    async def me(self, number: int) -> Me:
        """Return what an agent may know."""
        return await self._look(lambda decider: self._me(decider, number))

    async def agents(self, after: int, limit: int) -> list[AgentRow]:
        """Return agents in the order of their numbers."""

        def look(decider: Decider) -> list[AgentRow]:
            return [
                self._row(decider, m) for m in range(after + 1, min(after + 1 + limit, decider.state.people.enrolled))
            ]

        return await self._look(look)

    async def open_offers(self, after: int, limit: int) -> list[OfferRow]:
        """Return the offers that are open, in their order."""
        return await self._look(lambda decider: self._open(decider, after, limit))

    async def offers(self, after: int, limit: int) -> list[OfferRow]:
        """Return offers in their order."""
        return await self._table(tables.offers, "offers", after, limit)

    async def ledger(
        self, after: int = 0, limit: int | None = None, last: int | None = None, settlement: str = ""
    ) -> list[LedgerEntry]:
        """Return what was paid, or the last of it; or only what is in a state of settlement."""
        some = partial(tables.ledger, settlement=settlement)
        return await self._table(some, "" if settlement else "ledger", after, limit, last)

    async def bans(self, after: int = 0, limit: int | None = None, last: int | None = None) -> list[BanRow]:
        """Return bans, or the last ones."""
        return await self._table(tables.bans, "bans", after, limit, last)

    async def audit(self, after: int = -1, limit: int | None = None, last: int | None = None) -> list[AuditEntry]:
        """Return who did what, or the last of it."""
        return await self._table(tables.audit, "audit", after, limit, last)

    async def pulls(self) -> Pulls:
        """Return who pulls what."""
        return await asyncio.to_thread(self._pulls, await self._look(_sample))

    async def screen(self) -> Screen:
        """Return all that a screen shows, as of one moment."""

        def look(
            decider: Decider,
        ) -> tuple[Status, CampaignVerdict | None, list[AgentRow], list[OfferRow], Sample, OverviewRow]:
            short = self._short(decider)
            status = status_of(decider.state, self._register)
            verdict = None if decider.state.started is None else verdict_of(decider.state, self._register)
            waiting = [self._row(decider, self._register.agent(name)) for name in status.awaited]
            return status, verdict, waiting, self._open(decider, 0, ROWS), _sample(decider), short

        status, verdict, waiting, offers, sample, short = await self._look(look)
        self.history.add(status)
        before = [it for it in await self.history.points() if it.observations < status.observations]
        ledger, bans, audit = await asyncio.gather(self.ledger(last=ROWS), self.bans(last=ROWS), self.audit(last=ROWS))
        return Screen(
            status=status,
            verdict=verdict,
            awaited=waiting,
            history=[*before, point(status)],
            pulls=await asyncio.to_thread(self._pulls, sample),
            offers=offers,
            ledger=[it for it in ledger if it.entry <= status.paid],  # the tables have gone on since
            bans=[it for it in bans if it.at <= status.at],
            audit=[it for it in audit if it.event < status.events],
            overview=short,
        )

    async def _look(self, look: Callable[[Decider], Found]) -> Found:
        """Let the writer look, between two events."""
        return await awaited(self._core.do(lambda decider, at: look(decider)))

    async def _table(
        self, read: Reader[Found], table: str, after: int, limit: int | None, last: int | None = None
    ) -> list[Found]:
        """Read rows; the last ones are found by their numbers in a table, or, where only some count, by reading all."""
        store, register = self._core.store, self._register

        def rows() -> list[Found]:
            if last is not None and table == "":
                return list(islice(deque(read(store, register, after), last), limit))
            behind = () if last is None else store.before_last(register.campaign, table, last)
            return list(islice(read(store, register, max(after, *behind) if behind else after), limit))

        return await asyncio.to_thread(rows)

    def _me(self, decider: Decider, number: int) -> Me:
        state, row, standing = decider.state, self._row(decider, number), decider.state.offers.open.get(number)
        scale = state.settings.on
        return Me(
            agent=row.name,
            campaign=self.name,
            status=state.status,
            phase=None if state.started is None else state.started.phase,
            arms=self._register.arms,
            pulls=row.pulls,
            offer=None if standing is None or standing.recalled or state.rehearsals else self._core.offer(standing),
            banned=_banned(decider, number),
            next_number=state.people.last_number(number) + 1,
            scale="" if scale is None else scale.text,
            range=(0.0, 1.0) if scale is None else (scale.low, scale.high),
            unavailable=[name for k, name in enumerate(self._register.arms) if (number, k) in state.people.unavailable],
        )

    def _row(self, decider: Decider, m: int) -> AgentRow:
        state, trial, people = decider.state, decider.state.started, decider.state.people
        kinds = ((m in people.left, "left"), (m in people.parked, "parked"), (_banned(decider, m), "banned"))
        kind = next((word for holds, word in kinds if holds), "active" if m < state.panel else "late")
        pulls = trial.record.pulls[m].tolist() if trial is not None and m < state.panel else []
        standing = state.offers.open.get(m)
        return AgentRow(m, self._register.shown(m), pulls, kind, None if standing is None else standing.offer)

    def _open(self, decider: Decider, after: int, limit: int) -> list[OfferRow]:
        behind = (it for it in decider.state.offers.open.values() if it.offer > after)
        return [tables.offer_row(self._register, it.row()) for it in islice(behind, limit)]

    def _pulls(self, sample: Sample) -> Pulls:
        panel, chosen, table = sample
        sums = [table.sum(axis=1), *table.T] if len(chosen) else []
        shares = [np.quantile(column, QUANTILES).tolist() for column in sums]
        few = _evenly(len(chosen), NAMED)
        names = [self._register.shown(int(m)) for m in chosen[few]]
        return Pulls(panel, shares, len(chosen) < panel, names, table[few].tolist())


def _banned(decider: Decider, number: int) -> bool:
    trial = decider.state.started
    return trial is not None and number < decider.state.panel and bool(trial.bans.until[number] > trial.steps)


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return places, from the first to the last, of at most this many out of a number of things."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _sample(decider: Decider) -> Sample:
    """Copy the pulls of some agents: how many there are, which these are, and their pulls by arm."""
    state, trial = decider.state, decider.state.started
    if trial is None:
        return state.panel, np.zeros(0, np.int64), np.zeros((0, len(state.settings.arms)), np.uint32)
    chosen = _evenly(state.panel, SAMPLED)
    return state.panel, chosen, trial.record.pulls[chosen]


def point(status: Status) -> Point:
    """Return how things stand, as a point of the history."""
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
    """How a campaign came to where it is: a point every so often, read from the log first, then added as it goes on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._points: list[Point] = []
        self._apart = 1
        """At least this many events lie between two points."""
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
        while len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._apart = max(1, 2 * self._points[-1].events // MOST_POINTS)  # as far apart as those that are left

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
        status = await awaited(self._core.handle(ReadStatus()))
        if status.agents * len(status.arms) > LARGE:
            return []
        store, register, apart = self._core.store, self._core.register, max(1, status.events // MOST_POINTS)
        try:
            return await asyncio.to_thread(lambda: list(replay(store, register, status.events, apart)))
        except FreepullError:
            return []


def replay(store: Store, register: Register, events: int, apart: int) -> Iterator[Point]:
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
