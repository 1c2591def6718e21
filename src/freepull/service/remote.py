"""A campaign of a running service, with the methods of `fp.Campaign` that commands use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from freepull.errors import FreepullError, InvalidInput
from freepull.live import Offer, Status, Told, Verdict
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.service.agent_client import AgentClient
from freepull.service.client import Client

Row = TypeVar("Row")


class Remote:
    """One campaign, asked through the service that has it; who does something is known by the token."""

    def __init__(self, url: str, name: str, token: str) -> None:
        self._url, self.name = url, name
        self._client = Client(url, token)

    @classmethod
    def create(cls, url: str, token: str, *, name: str, by: str = "", **settings: Any) -> Self:
        """Make a campaign."""
        _nobody(by)
        made = cls(url, name, token)
        made._client.create(name=name, **settings)
        return made

    def ask(self, agent: str) -> Offer | None:
        """Return the offer for an agent, with a token that is good for a minute."""
        (token,) = self._client.agent_tokens(self.name, [agent], "1 minute").values()
        with AgentClient(self._url, self.name, token) as mine:
            return mine.ask()

    def tell(self, agent: str, arm: str, reward: float, event: str | int | None = None) -> Told:
        """Tell one pull."""
        (told,) = self._client.tell_many(self.name, [(agent, arm, reward, event)])
        if isinstance(told, FreepullError):
            raise told
        return told

    def add_agents(self, agents: Sequence[str] | int, by: str = "") -> list[int]:
        """Enrol agents."""
        _nobody(by)
        return self._client.add_agents(self.name, agents)

    def start(self, by: str = "") -> None:
        """Close the panel and begin."""
        _nobody(by)
        self._client.start(self.name)

    def pause(self, by: str = "") -> None:
        """Make no offers until `resume`."""
        _nobody(by)
        self._client.pause(self.name)

    def resume(self, by: str = "") -> None:
        """Make offers again."""
        _nobody(by)
        self._client.resume(self.name)

    def stop(self, why: str = "", by: str = "") -> None:
        """End the campaign for good."""
        _nobody(by)
        self._client.stop(self.name, why)

    def budget(self, budget: str | None, by: str = "") -> None:
        """Change the most that may be spent."""
        _nobody(by)
        self._client.budget(self.name, budget)

    def unban(self, agent: str, by: str = "") -> None:
        """End a ban."""
        _nobody(by)
        self._client.unban(self.name, agent)

    def leave(self, agent: str, by: str = "") -> None:
        """Note that an agent has left."""
        _nobody(by)
        self._client.leave(self.name, agent)

    def withdraw(self, arm: str, by: str = "") -> None:
        """Take an arm out."""
        _nobody(by)
        self._client.withdraw(self.name, arm)

    def erase_names(self, agents: Sequence[str] | None, by: str = "") -> None:
        """Erase names."""
        _nobody(by)
        if agents is None:
            rows = _all(lambda after: self._client.agents(self.name, after), _number, -1)
            agents = [f"#{_number(row)}" for row in rows]
        for agent in agents:
            self._client.erase_name(self.name, agent)

    def status(self) -> Status:
        """Say how the campaign stands."""
        return self._client.status(self.name)

    def verdict(self) -> Verdict:
        """Say which arm."""
        return self._client.verdict(self.name)

    def ledger(self) -> list[LedgerEntry]:
        """Return all that was paid."""
        return _all(lambda after: self._client.ledger(self.name, after), lambda row: row.entry, 0)

    def offers(self) -> list[OfferRow]:
        """Return all offers."""
        return _all(lambda after: self._client.offers(self.name, after), lambda row: row.offer, 0)

    def bans(self) -> list[BanRow]:
        """Return all bans, which are counted from 1."""
        rows: list[BanRow] = []
        while found := self._client.bans(self.name, len(rows)):
            rows += found
        return rows

    def audit(self) -> list[AuditEntry]:
        """Return all that was done."""
        return _all(lambda after: self._client.audit(self.name, after), lambda row: row.event, -1)

    def export(self, path: Path, what: str = "observations") -> int:
        """Write a file; return how many rows it has."""
        self._client.export(self.name, path, what)
        status = self._client.status(self.name)
        return status.paid if what == "ledger" else status.observations + status.observed_only

    def import_observations(self, path: Path, by: str = "") -> int:
        """Tell the observations of a file."""
        _nobody(by)
        return self._client.import_file(self.name, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _nobody(by: str) -> None:
    if by:
        raise InvalidInput("--by must be left out with a service, because the audit names the token.")


def _number(row: dict[str, Any]) -> int:
    return int(row["number"])


def _all(page: Callable[[int], list[Row]], key: Callable[[Row], int], after: int) -> list[Row]:
    """Return all pages of a table."""
    rows: list[Row] = []
    while found := page(after):
        rows += found
        after = key(found[-1])
    return rows
