"""`fp.AsyncCampaign`: the same campaign for programs that run on asyncio; nothing here blocks the loop."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from freepull import checks
from freepull.errors import FreepullError
from freepull.live.campaign import ERRORS, Campaign
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, Offer, OfferRow, Status, Told, Verdict
from freepull.live.settings import Settings
from freepull.live.stores import Where
from freepull.live.view import CampaignView
from freepull.live.waking import awaited


class AsyncCampaign:
    """A `Campaign` whose methods are awaited. Requests that wait at the same time share one commit."""

    def __init__(self, campaign: Campaign) -> None:
        self.blocking = campaign
        """The same campaign, for code that may wait."""
        self._core = campaign.core
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
        return self._core.settings

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self._core.name

    async def ask(self, agent: str | int) -> Offer | None:
        """See `Campaign.ask`."""
        return await awaited(self._core.ask(agent))

    async def tell(self, agent: str | int, arm: str | int, reward: float, event: str | int | None = None) -> Told:
        """See `Campaign.tell`."""
        return await awaited(self._core.tell_one(agent, arm, reward, event))

    async def tell_many(
        self, observations: Iterable[Any], *, errors: str = "raise", by: str = ""
    ) -> list[Told | FreepullError]:
        """See `Campaign.tell_many`."""
        strict = checks.one_of("errors", errors, ERRORS) == "raise"
        return await awaited(self._core.tell(observations, strict, by))

    async def start(self, by: str = "") -> None:
        """See `Campaign.start`."""
        await awaited(self._core.start(by))

    async def pause(self, by: str = "") -> None:
        """See `Campaign.pause`."""
        await awaited(self._core.pause(by))

    async def resume(self, by: str = "") -> None:
        """See `Campaign.resume`."""
        await awaited(self._core.resume(by))

    async def stop(self, why: str = "", by: str = "") -> None:
        """See `Campaign.stop`."""
        await awaited(self._core.stop(why, by))

    async def budget(self, budget: str | None, by: str = "") -> None:
        """See `Campaign.budget`."""
        await awaited(self._core.budget(budget, by))

    async def add_agents(
        self, agents: Sequence[str] | int, weights: Sequence[float] | None = None, by: str = ""
    ) -> list[int]:
        """See `Campaign.add_agents`."""
        return await awaited(self._core.enrol(agents, weights, by))

    async def leave(self, agent: str | int, by: str = "") -> None:
        """See `Campaign.leave`."""
        await awaited(self._core.leave(agent, by))

    async def unban(self, agent: str | int, by: str = "") -> None:
        """See `Campaign.unban`."""
        await awaited(self._core.unban(agent, by))

    async def withdraw(self, arm: str | int, by: str = "") -> None:
        """See `Campaign.withdraw`."""
        await awaited(self._core.withdraw(arm, by))

    async def erase_names(self, agents: Sequence[str | int] | None = None, by: str = "") -> None:
        """See `Campaign.erase_names`."""
        await awaited(self._core.erase(agents, by))

    async def status(self) -> Status:
        """See `Campaign.status`."""
        return await awaited(self._core.status())

    async def verdict(self) -> Verdict:
        """See `Campaign.verdict`."""
        return await awaited(self._core.verdict())

    async def ledger(self, after: int = 0) -> list[LedgerEntry]:
        """See `Campaign.ledger`."""
        return await to_thread(self.blocking.ledger, after)

    async def offers(self, after: int = 0) -> list[OfferRow]:
        """See `Campaign.offers`."""
        return await to_thread(self.blocking.offers, after)

    async def bans(self) -> list[BanRow]:
        """See `Campaign.bans`."""
        return await to_thread(self.blocking.bans)

    async def audit(self, after: int = -1) -> list[AuditEntry]:
        """See `Campaign.audit`."""
        return await to_thread(self.blocking.audit, after)

    async def export(self, path: str | Path, what: str = "observations") -> int:
        """See `Campaign.export`."""
        return await to_thread(self.blocking.export, path, what)

    async def import_observations(self, path: str | Path, by: str = "") -> int:
        """See `Campaign.import_observations`."""
        return await to_thread(self.blocking.import_observations, path, by)

    async def snapshot(self) -> int:
        """See `Campaign.snapshot`."""
        return await to_thread(self.blocking.snapshot)

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
