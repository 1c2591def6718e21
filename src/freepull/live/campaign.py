"""`fp.Campaign`: a trial made durable, for programs that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, overload

from freepull import checks
from freepull.errors import FreepullError
from freepull.live import exports, tables
from freepull.live.core import Core, Limits
from freepull.live.creation import agree
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, Offer, OfferRow, Status, Told, Verdict
from freepull.live.settings import Settings
from freepull.live.stores import Where
from freepull.live.times import Clock
from freepull.principal import Principal

Duration = str | timedelta
ERRORS = ("raise", "return")


class Campaign:
    """A trial made durable: one principal, one writer, a log, a ledger. A reply means that it is stored.

    A context manager; every method may be called from any thread. `AsyncCampaign` is the same for asyncio.

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
            What one bonus costs, such as "0.50 EUR". The principal's ``bonus`` and ``budget`` are in units of reward.
        principal
            The settings of the principal; `Certified` at δ = 0.05 by default.
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
            and the agent is parked, which counts as leaving.
        round_lasts
            In rounds: a round closes after this, even if not everybody has acted; None: it waits.
        late_joiners
            What becomes of agents who join after the start: "observe" keeps their pulls, which do not count; "count"
            begins with a wider panel from the first pull on, each panel with its share of δ.
        remembers
            How long event ids are remembered; an agent's own numbers are remembered for ever.
        by
            Who does it, for the audit.
        clock
            Microseconds since 1970, for tests.
        snapshot_every
            Events between two snapshots, which make opening faster; it changes nothing else.
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
        )
        limits = Limits(snapshot_every=checks.whole("snapshot_every", snapshot_every, 1))
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
        limits = Limits(snapshot_every=checks.whole("snapshot_every", snapshot_every, 1))
        return cls(Core.open(url, name, clock, wait, snapshots, limits))

    @property
    def settings(self) -> Settings:
        """What was agreed when the campaign was created."""
        return self.core.settings

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.core.name

    def ask(self, agent: str | int) -> Offer | None:
        """Return the offer for an agent, if there is one; asking again returns the same offer while it is open."""
        return self.core.ask(agent).result()

    def tell(self, agent: str | int, arm: str | int, reward: float, event: str | int | None = None) -> Told:
        """Tell one pull. With an ``event``, an id or the agent's own number, it is safe to repeat."""
        return self.core.tell_one(agent, arm, reward, event).result()

    @overload
    def tell_many(
        self, observations: Iterable[Any], *, errors: Literal["raise"] = "raise", by: str = ""
    ) -> list[Told]: ...

    @overload
    def tell_many(
        self, observations: Iterable[Any], *, errors: Literal["return"], by: str = ""
    ) -> list[Told | FreepullError]: ...

    def tell_many(self, observations: Iterable[Any], *, errors: str = "raise", by: str = "") -> Any:
        """Tell many pulls, each an `Observation` or (agent, arm, reward, event), in one commit.

        With ``errors="raise"`` an error in one of them means that none was told; with "return" the others are told, and
        the error stands in its place.
        """
        strict = checks.one_of("errors", errors, ERRORS) == "raise"
        return self.core.tell(observations, strict, by).result()

    def start(self, by: str = "") -> None:
        """Close the panel and begin."""
        self.core.start(by).result()

    def pause(self, by: str = "") -> None:
        """Make no offers until `resume`, and take the open ones back; pulls are still told and still count."""
        self.core.pause(by).result()

    def resume(self, by: str = "") -> None:
        """Make offers again."""
        self.core.resume(by).result()

    def stop(self, why: str = "", by: str = "") -> None:
        """End the campaign for good; a pull of an offered arm that is on its way can still be told, and is paid."""
        self.core.stop(why, by).result()

    def budget(self, budget: str | None, by: str = "") -> None:
        """Change the most that may be spent, such as "500 EUR"; None: no limit."""
        self.core.budget(budget, by).result()

    def add_agents(
        self, agents: Sequence[str] | int, weights: Sequence[float] | None = None, by: str = ""
    ) -> list[int]:
        """Enrol agents; return their numbers. From the start on they are late joiners."""
        return self.core.enrol(agents, weights, by).result()

    def leave(self, agent: str | int, by: str = "") -> None:
        """Note that an agent has left; what follows was agreed when the campaign was created."""
        self.core.leave(agent, by).result()

    def unban(self, agent: str | int, by: str = "") -> None:
        """End an agent's ban and forget its refusals."""
        self.core.unban(agent, by).result()

    def withdraw(self, arm: str | int, by: str = "") -> None:
        """Take an arm out; it must have been provided for when the campaign was created."""
        self.core.withdraw(arm, by).result()

    def erase_names(self, agents: Sequence[str | int] | None = None, by: str = "") -> None:
        """Erase the names of agents, of all if none are given; the log and the tables know them by number."""
        self.core.erase(agents, by).result()

    def status(self) -> Status:
        """Say how the campaign stands."""
        return self.core.status().result()

    def verdict(self) -> Verdict:
        """Say which arm, whether that is decided and certified, why, and what it rests on."""
        return self.core.verdict().result()

    def ledger(self, after: int = 0) -> list[LedgerEntry]:
        """Return what was paid, from behind an entry on."""
        return list(tables.ledger(self.core.store, self.core.register, after))

    def offers(self, after: int = 0) -> list[OfferRow]:
        """Return all offers, from behind an offer on."""
        return list(tables.offers(self.core.store, self.core.register, after))

    def bans(self) -> list[BanRow]:
        """Return all bans."""
        return list(tables.bans(self.core.store, self.core.register))

    def audit(self, after: int = -1) -> list[AuditEntry]:
        """Return who did what, and what was concluded, from behind an event on."""
        return list(tables.audit(self.core.store, self.core.register, after))

    def export(self, path: str | Path, what: str = "observations") -> int:
        """Write observations or the ledger to a .parquet or .csv file; return how many rows."""
        return exports.export(self.core.store, self.core.register, path, what)

    def import_observations(self, path: str | Path, by: str = "") -> int:
        """Tell the observations of a file with the columns agent, arm, reward and perhaps event; return how many.

        All of them, or none if anything is wrong with a row. Returns how many were new; the same file is told once.
        """
        return exports.tell_file(self.core, path, by)

    def snapshot(self) -> int:
        """Take a snapshot now; return after how many events it was taken, once it is stored."""
        return self.core.snapshot().result().result()

    def backup(self, path: str | Path) -> None:
        """Copy the SQLite file to a new one, as it is when that is done; the campaign goes on meanwhile."""
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
