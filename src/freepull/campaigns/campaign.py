"""`fp.Campaign`: a trial made durable; `fp.AsyncCampaign`: the same on asyncio, where nothing blocks the loop."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from freepull import commands, validation
from freepull.campaigns import files as exports
from freepull.campaigns import status as tables
from freepull.campaigns.core import Core, Limits
from freepull.campaigns.journal.writer import awaited
from freepull.campaigns.settings import Clock, Settings
from freepull.campaigns.stores import Where
from freepull.campaigns.trials import agree
from freepull.campaigns.view import CampaignView
from freepull.commands import AsyncCampaignVerbs, CampaignVerbs, Command, Verb
from freepull.principal import Checks, Principal

Duration = str | timedelta
Reply = TypeVar("Reply")


def _reads(kind: type[Command[Reply]], run: Callable[[Core, Any], Reply]) -> tuple[type[Command[Any]], Any]:
    return kind, run


READS: dict[type[Command[Any]], Callable[[Core, Any], Any]] = dict(
    [
        _reads(
            commands.ReadLedger,
            lambda core, it: list(tables.ledger(core.store, core.register, it.after, it.settlement)),
        ),
        _reads(commands.ReadOffers, lambda core, it: list(tables.offers(core.store, core.register, it.after))),
        _reads(commands.ReadBans, lambda core, it: list(tables.bans(core.store, core.register, it.after))),
        _reads(commands.ReadAudit, lambda core, it: list(tables.audit(core.store, core.register, it.after))),
        _reads(commands.Export, lambda core, it: exports.export(core.store, core.register, it.path, it.what)),
        _reads(commands.Import, lambda core, it: exports.tell_file(core, it.path, it.by)),
        _reads(commands.TakeSnapshot, lambda core, it: core.snapshot().result().result()),
    ]
)
"""What is done for commands that take their time, in the thread of whoever asks; the others are the writer's."""


class Campaign(CampaignVerbs):
    """A trial made durable: one principal, one writer, a log, a ledger. A reply means that it is stored.

    A context manager; every method may be called from any thread. `AsyncCampaign` is the same for asyncio, and
    `Client.campaign` returns one of a running service.

    >>> import tempfile
    >>> from freepull.principal import Principal, schedules
    >>> folder = tempfile.TemporaryDirectory()
    >>> principal = Principal(observe=schedules.Steps(0), offers="each")
    >>> with Campaign.create(
    ...     f"sqlite:///{folder.name}/trial.db", name="onboarding", arms=["A", "B"], agents=["ann", "bob"],
    ...     principal=principal, price="0.50 EUR",
    ... ) as campaign:
    ...     campaign.start()
    ...     offer = campaign.ask("ann")
    ...     print(offer.arm, offer.bonus)
    ...     print(campaign.tell("ann", arm="A", reward=0.8, event="visit 1").outcome)
    ...     print(campaign.status().spent)
    A 0.50 EUR
    paid
    0.50 EUR
    >>> folder.cleanup()
    """

    tell_many = Verb(commands.TellMany)

    def __init__(self, core: Core) -> None:
        self.core = core
        """The open campaign behind it."""

    @classmethod
    def create(
        cls,
        url: Where,
        *,
        name: str,
        arms: Sequence[str] | int,
        price: str,
        agents: Sequence[str] | int = (),
        principal: Principal | None = None,
        horizon: int | None = None,
        ends: datetime | str | None = None,
        mode: str = "free",
        weights: Sequence[float] | None = None,
        leavers: str = "wait",
        offer_lasts: Duration = "1 day",
        cool_down: Duration = "1 hour",
        round_lasts: Duration | None = None,
        late_joiners: str = "observe",
        withdrawal: bool = False,
        remembers: Duration = "30 days",
        checks: Checks | bool | None = None,
        accept_within: Duration | None = None,
        pay_on: str = "act",
        outcome_within: Duration | None = None,
        if_no_outcome: float | str | None = None,
        scale: str | None = None,
        budget: str | None = None,
        by: str = "",
        clock: Clock | None = None,
        snapshot_every: int = 1_000_000,
    ) -> Self:
        """Make a campaign and open it; agents enrol until `start` closes the panel.

        Parameters
        ----------
        url
            ``sqlite:///file.db``, ``postgresql://…``, or a store of your own, or what opens one.
        name
            The campaign's name; a store has many.
        arms, agents
            Their names, or how many; agents without names are known by number. More can be added until the start.
        price
            What one bonus costs, such as "0.50 EUR"; where the principal has a ``pricing``, a bonus of 1, and
            every offer has its own amount, rounded up to minor units. ``bonus`` and ``budget`` of a principal are in
            units of reward.
        budget
            The most that may be spent, such as "30 EUR"; None: as the principal's, or no limit.
        principal
            The settings of the principal; by default those of `freepull.principal.for_people`.
        horizon
            T in steps; a step is one round, or in free mode as many pulls as the panel has agents.
        ends
            A time after which the campaign stops, undecided if so.
        mode
            "free": everybody at their own pace. "rounds": everybody acts once a round, as in the paper.
        weights
            One an agent, if the average over agents is not a plain one.
        leavers, withdrawal
            As in `Principal.start`.
        offer_lasts, cool_down
            An offer that is not acted on expires after this, and its agent gets no other for a while; three in a row,
            and the agent is parked: it gets none until it acts again, and the rule waits for it.
        round_lasts
            In rounds: a round closes after this, even if not everybody has acted; None: it waits.
        late_joiners
            What becomes of agents who join after the start: "observe" keeps their pulls, which do not count; "count"
            begins with a wider panel from the first pull on, each panel with its share of δ, or with `Comparisons`
            simply goes on with more people.
        remembers
            How long event ids are remembered; an agent's own numbers are remembered for ever.
        checks
            The checks of assumptions that run beside the trial, such as ``freepull.Checks()``; they need a rule that
            hears asks, `Comparisons`. None: where the rule does; False: none.
        accept_within
            How long an offer reserves its bonus unless it is accepted, such as "15 minutes"; accepting gives it
            ``offer_lasts`` from then on. None: it stands for ``offer_lasts`` at once.
        pay_on
            "act": a bonus is paid when the pull is made. "outcome": when its outcome is told, and never without one.
        outcome_within, if_no_outcome
            How long the outcome of an act is waited for (None: for as long as ``remembers``), and what counts if it has
            not come: a reward, or "missing", which counts at its worst and is the default under `Comparisons`. Other
            rules need a reward here to take acts.
        scale
            From what to what rewards run as they are told, and in which unit: "1..5", "0..50 EUR" or "yes/no"; means
            and differences are shown so too. What lies outside is refused, but where there is a unit, it counts as the
            end of the scale that is nearer, and verdicts say how often. None: [0, 1]. An ε is a share of the scale.
        by
            Who does it, for the audit.
        clock
            Microseconds since 1970, for tests.
        snapshot_every
            Events between two snapshots at the most, which make opening faster; it changes nothing else.
        """
        settings = agree(
            name=name,
            arms=arms,
            principal=principal,
            price=price,
            mode=mode,
            horizon=horizon,
            ends=ends,
            leavers=leavers,
            withdrawal=withdrawal,
            late_joiners=late_joiners,
            offer_lasts=offer_lasts,
            cool_down=cool_down,
            round_lasts=round_lasts,
            remembers=remembers,
            checks=checks,
            accept_within=accept_within,
            pay_on=pay_on,
            outcome_within=outcome_within,
            if_no_outcome=if_no_outcome,
            scale=scale,
            budget=budget,
        )
        limits = Limits(snapshot_every=validation.whole("snapshot_every", snapshot_every, 1))
        return cls(Core.create(url, settings, agents, weights, by, clock, limits))

    @classmethod
    def open(
        cls,
        url: Where,
        name: str,
        *,
        wait: float = 0.0,
        clock: Clock | None = None,
        snapshots: bool = True,
        snapshot_every: int = 1_000_000,
    ) -> Self:
        """Open a campaign.

        Parameters
        ----------
        url, name
            Where it is, and which.
        wait
            Seconds to wait for another process that has it to let go.
        snapshots
            Whether to begin with the newest snapshot; False replays the whole log.
        clock, snapshot_every
            As for `create`.
        """
        limits = Limits(snapshot_every=validation.whole("snapshot_every", snapshot_every, 1))
        return cls(Core.open(url, name, clock, wait, snapshots, limits))

    @property
    def settings(self) -> Settings:
        """What was agreed when the campaign was created."""
        return self.core.settings

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.core.name

    def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        read = READS.get(type(command))
        if read is None:
            return self.core.handle(command).result()
        self.core.writer.check()
        found: Reply = read(self.core, command)
        return found

    def backup(self, path: str | Path) -> None:
        """Copy the SQLite file to a new one, as it is when that is done; the campaign goes on meanwhile."""
        self.core.writer.check()
        self.core.store.backup(path)

    def close(self) -> None:
        """Do what is queued and close; closing twice does no harm."""
        self.core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncCampaign(AsyncCampaignVerbs):
    """A `Campaign` whose methods are awaited. Requests that wait at the same time share one commit."""

    tell_many = Verb(commands.TellMany)

    def __init__(self, campaign: Campaign) -> None:
        self.blocking = campaign
        """The same campaign, for code that may wait."""
        self.view = CampaignView(campaign.core)
        """What may be seen of it beyond these methods."""

    @classmethod
    async def create(cls, url: Where, **settings: Any) -> Self:
        """Make a campaign and open it; the settings are those of `Campaign.create`."""
        return cls(await to_thread(Campaign.create, url, **settings))

    @classmethod
    async def open(cls, url: Where, name: str, **how: Any) -> Self:
        """Open a campaign, as `Campaign.open` does."""
        return cls(await to_thread(Campaign.open, url, name, **how))

    @property
    def settings(self) -> Settings:
        """What was agreed when the campaign was created."""
        return self.blocking.settings

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.blocking.name

    async def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        if type(command) in READS:
            return await to_thread(self.blocking.do, command)
        return await awaited(self.blocking.core.handle(command))

    async def backup(self, path: str | Path) -> None:
        """See `Campaign.backup`."""
        await to_thread(self.blocking.backup, path)

    async def close(self) -> None:
        """See `Campaign.close`."""
        await to_thread(self.blocking.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
