"""`fp.AsyncClient`: `fp.Client` for programs that run on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from freepull.errors import FreepullError
from freepull.live import Status, Told, Verdict
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.service import calls, sending
from freepull.service.calls import Call
from freepull.service.client import Client

Reply = TypeVar("Reply")


class AsyncClient:
    """A `Client` whose methods are awaited."""

    def __init__(
        self, url: str, token: str, *, retries: int = 8, seconds: float = sending.SECONDS, http: Any = None
    ) -> None:
        self.url, self._token = sending.checked(url, token)
        self._retries, self._owners = retries, dict[str, str]()
        self._own = http is None
        self._http = sending.httpx().AsyncClient(timeout=seconds, trust_env=False) if http is None else http

    async def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        attempt = sending.Attempt(call, self.url, self._token, self._retries, self._owners)
        while True:
            try:
                found = await self._http.request(*attempt.arguments(), **attempt.options)
            except sending.httpx().TransportError as error:
                wait: float | None = attempt.failed(error)
            else:
                wait = attempt.answered(found.status_code, found.content, found.headers.get("retry-after"))
                if wait is None:
                    return call.read(found.content)
            await asyncio.sleep(wait or 0.0)

    async def campaigns(self) -> list[dict[str, Any]]:
        """List the campaigns."""
        return await self.send(calls.rows("/v1/campaigns"))

    async def create(self, **settings: Any) -> Status:
        """Make a campaign; the settings are those of `freepull.Campaign.create`."""
        return await self.send(calls.create(settings))

    async def status(self, campaign: str) -> Status:
        """Say how a campaign stands."""
        return await self.send(calls.look(campaign))

    async def start(self, campaign: str) -> Status:
        """Close the panel and begin."""
        return await self.send(calls.change(campaign, "start"))

    async def pause(self, campaign: str) -> Status:
        """Make no offers until it is resumed."""
        return await self.send(calls.change(campaign, "pause"))

    async def resume(self, campaign: str) -> Status:
        """Make offers again."""
        return await self.send(calls.change(campaign, "resume"))

    async def stop(self, campaign: str, why: str = "") -> Status:
        """End a campaign for good."""
        return await self.send(calls.change(campaign, "stop", body={"why": why}))

    async def budget(self, campaign: str, budget: str | None) -> Status:
        """Change the most that may be spent."""
        return await self.send(calls.change(campaign, "budget", body={"budget": budget}, method="PATCH"))

    async def add_agents(
        self, campaign: str, agents: Sequence[str] | int, weights: Sequence[float] | None = None
    ) -> list[int]:
        """Enrol agents; return their numbers."""
        return (await self.send(calls.enrol(campaign, agents, weights)))["numbers"]

    async def unban(self, campaign: str, agent: str) -> Status:
        """End an agent's ban."""
        return await self.send(calls.change(campaign, "agents", agent, "unban"))

    async def leave(self, campaign: str, agent: str) -> Status:
        """Note that an agent has left."""
        return await self.send(calls.change(campaign, "agents", agent, "leave"))

    async def erase_name(self, campaign: str, agent: str) -> None:
        """Erase an agent's name for good; the log knows its number only."""
        await self.send(calls.nothing("DELETE", calls.place(campaign, "agents", agent, "name")))

    async def withdraw(self, campaign: str, arm: str) -> Status:
        """Take an arm out."""
        return await self.send(calls.change(campaign, "arms", arm, "withdraw"))

    async def verdict(self, campaign: str) -> Verdict:
        """Say which arm, and what that rests on."""
        return await self.send(calls.verdict(campaign))

    async def agents(self, campaign: str, after: int = -1) -> list[dict[str, Any]]:
        """Return agents as they stand, at most a thousand from behind a number on."""
        return await self.send(calls.agents(campaign, after))

    async def ledger(self, campaign: str, after: int = 0) -> list[LedgerEntry]:
        """Return what was paid, at most a thousand entries from behind one on."""
        return await self.send(calls.ledger(campaign, after))

    async def offers(self, campaign: str, after: int = 0) -> list[OfferRow]:
        """Return offers, at most a thousand from behind one on."""
        return await self.send(calls.offers(campaign, after))

    async def bans(self, campaign: str, after: int = 0) -> list[BanRow]:
        """Return bans, at most a thousand from behind one on."""
        return await self.send(calls.bans(campaign, after))

    async def audit(self, campaign: str, after: int = -1) -> list[AuditEntry]:
        """Return who did what, at most a thousand entries from behind an event on."""
        return await self.send(calls.audit(campaign, after))

    async def tell_many(self, campaign: str, observations: Iterable[Any]) -> list[Told | FreepullError]:
        """Tell up to a thousand pulls, each an `Observation` or (agent, arm, reward, event); an error has its place."""
        call, wrong = calls.tell_many(campaign, observations)
        return calls.told_many(None if call is None else await self.send(call), wrong)

    async def new_token(
        self, scope: str, *, campaign: str = "", label: str = "", lasts: str | None = None
    ) -> dict[str, Any]:
        """Make a token; it is shown here and never again."""
        return await self.send(calls.new_token({"scope": scope, "campaign": campaign, "label": label, "lasts": lasts}))

    async def tokens(self) -> list[Any]:
        """List tokens, without their secrets."""
        from freepull.live.replies import TokenRow

        return await self.send(Call("GET", "/v1/tokens", list[TokenRow]))

    async def revoke_token(self, id: str) -> None:
        """End a token."""
        await self.send(calls.nothing("DELETE", f"/v1/tokens/{calls.quote(id, safe='')}"))

    async def agent_tokens(self, campaign: str, agents: Sequence[str | int], lasts: str = "30 days") -> dict[str, str]:
        """Make tokens for agents; return them by name."""
        made = (await self.send(calls.agent_tokens(campaign, agents, lasts)))["tokens"]
        return {it["agent"]: it["token"] for it in made}

    async def revoke_agent(self, campaign: str, agent: str) -> None:
        """End all tokens of an agent."""
        await self.send(calls.nothing("POST", calls.place(campaign, "agents", agent, "revoke")))

    async def import_file(self, campaign: str, path: str | Path) -> int:
        """Tell the observations of a .csv or .parquet file; safe to repeat."""
        return (await self.send(calls.import_file(campaign, Path(path))))["observations"]

    async def export(self, campaign: str, path: str | Path, what: str = "observations") -> None:
        """Write observations or the ledger to a .parquet or .csv file."""
        target = Path(path)
        content = await self.send(calls.export(campaign, what, target))
        target.write_bytes(content)

    async def backup(self, path: str | Path) -> None:
        """Write a copy of the service's SQLite file, taken while its campaigns go on, to a new file."""
        with Client(self.url, self._token) as client:
            await asyncio.to_thread(client.backup, path)

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
