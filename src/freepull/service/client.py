"""`fp.Client`: campaigns of a service, for admins and gateways."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from freepull.errors import FreepullError, InvalidInput
from freepull.live import Status, Told, Verdict
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.service import calls, sending
from freepull.service.calls import Call

Reply = TypeVar("Reply")


class Client:
    """Sends requests with a token, again after failures; what is sent again counts once.

    Parameters
    ----------
    url
        Where the service is, such as ``http://127.0.0.1:8000``.
    token
        What ``freepull token new`` has shown.
    retries
        How often a request is sent again.
    """

    def __init__(self, url: str, token: str, *, retries: int = 8, seconds: float = sending.SECONDS) -> None:
        self.url, self._token = sending.checked(url, token)
        self._retries, self._owners = retries, dict[str, str]()
        self._http = sending.httpx().Client(timeout=seconds, trust_env=False)

    def send(self, call: Call[Reply]) -> Reply:
        """Send a request until it is answered."""
        attempt = sending.Attempt(call, self.url, self._token, self._retries, self._owners)
        while True:
            try:
                found = self._http.request(*attempt.arguments(), **attempt.options)
            except sending.httpx().TransportError as error:
                wait: float | None = attempt.failed(error)
            else:
                wait = attempt.answered(found.status_code, found.content, found.headers.get("retry-after"))
                if wait is None:
                    return call.read(found.content)
            time.sleep(wait or 0.0)

    def campaigns(self) -> list[dict[str, Any]]:
        """List the campaigns."""
        return self.send(calls.rows("/v1/campaigns"))

    def create(self, **settings: Any) -> Status:
        """Make a campaign; the settings are those of `freepull.Campaign.create`."""
        return self.send(calls.create(settings))

    def status(self, campaign: str) -> Status:
        """Say how a campaign stands."""
        return self.send(calls.look(campaign))

    def start(self, campaign: str) -> Status:
        """Close the panel and begin."""
        return self.send(calls.change(campaign, "start"))

    def pause(self, campaign: str) -> Status:
        """Make no offers until it is resumed."""
        return self.send(calls.change(campaign, "pause"))

    def resume(self, campaign: str) -> Status:
        """Make offers again."""
        return self.send(calls.change(campaign, "resume"))

    def stop(self, campaign: str, why: str = "") -> Status:
        """End a campaign for good."""
        return self.send(calls.change(campaign, "stop", body={"why": why}))

    def budget(self, campaign: str, budget: str | None) -> Status:
        """Change the most that may be spent."""
        return self.send(calls.change(campaign, "budget", body={"budget": budget}, method="PATCH"))

    def add_agents(
        self, campaign: str, agents: Sequence[str] | int, weights: Sequence[float] | None = None
    ) -> list[int]:
        """Enrol agents; return their numbers."""
        return self.send(calls.enrol(campaign, agents, weights))["numbers"]

    def unban(self, campaign: str, agent: str) -> Status:
        """End an agent's ban."""
        return self.send(calls.change(campaign, "agents", agent, "unban"))

    def leave(self, campaign: str, agent: str) -> Status:
        """Note that an agent has left."""
        return self.send(calls.change(campaign, "agents", agent, "leave"))

    def erase_name(self, campaign: str, agent: str) -> None:
        """Erase an agent's name for good; the log knows its number only."""
        self.send(calls.nothing("DELETE", calls.place(campaign, "agents", agent, "name")))

    def withdraw(self, campaign: str, arm: str) -> Status:
        """Take an arm out."""
        return self.send(calls.change(campaign, "arms", arm, "withdraw"))

    def verdict(self, campaign: str) -> Verdict:
        """Say which arm, and what that rests on."""
        return self.send(calls.verdict(campaign))

    def agents(self, campaign: str, after: int = -1) -> list[dict[str, Any]]:
        """Return agents as they stand, at most a thousand from behind a number on."""
        return self.send(calls.agents(campaign, after))

    def ledger(self, campaign: str, after: int = 0) -> list[LedgerEntry]:
        """Return what was paid, at most a thousand entries from behind one on."""
        return self.send(calls.ledger(campaign, after))

    def offers(self, campaign: str, after: int = 0) -> list[OfferRow]:
        """Return offers, at most a thousand from behind one on."""
        return self.send(calls.offers(campaign, after))

    def bans(self, campaign: str, after: int = 0) -> list[BanRow]:
        """Return bans, at most a thousand from behind one on."""
        return self.send(calls.bans(campaign, after))

    def audit(self, campaign: str, after: int = -1) -> list[AuditEntry]:
        """Return who did what, at most a thousand entries from behind an event on."""
        return self.send(calls.audit(campaign, after))

    def tell_many(self, campaign: str, observations: Iterable[Any]) -> list[Told | FreepullError]:
        """Tell up to a thousand pulls, each an `Observation` or (agent, arm, reward, event); an error has its place."""
        call, wrong = calls.tell_many(campaign, observations)
        return calls.told_many(None if call is None else self.send(call), wrong)

    def new_token(self, scope: str, *, campaign: str = "", label: str = "", lasts: str | None = None) -> dict[str, Any]:
        """Make a token; it is shown here and never again."""
        return self.send(calls.new_token({"scope": scope, "campaign": campaign, "label": label, "lasts": lasts}))

    def tokens(self) -> list[Any]:
        """List tokens, without their secrets."""
        from freepull.live.replies import TokenRow

        return self.send(Call("GET", "/v1/tokens", list[TokenRow]))

    def revoke_token(self, id: str) -> None:
        """End a token."""
        self.send(calls.nothing("DELETE", f"/v1/tokens/{calls.quote(id, safe='')}"))

    def agent_tokens(self, campaign: str, agents: Sequence[str | int], lasts: str = "30 days") -> dict[str, str]:
        """Make tokens for agents; return them by name."""
        made = self.send(calls.agent_tokens(campaign, agents, lasts))["tokens"]
        return {it["agent"]: it["token"] for it in made}

    def revoke_agent(self, campaign: str, agent: str) -> None:
        """End all tokens of an agent."""
        self.send(calls.nothing("POST", calls.place(campaign, "agents", agent, "revoke")))

    def import_file(self, campaign: str, path: str | Path) -> int:
        """Tell the observations of a .csv or .parquet file; safe to repeat."""
        return self.send(calls.import_file(campaign, Path(path)))["observations"]

    def export(self, campaign: str, path: str | Path, what: str = "observations") -> None:
        """Write observations or the ledger to a .parquet or .csv file."""
        target = Path(path)
        content = self.send(calls.export(campaign, what, target))
        target.write_bytes(content)

    def backup(self, path: str | Path) -> None:
        """Write a copy of the service's SQLite file, taken while its campaigns go on, to a new file."""
        target = Path(path)
        if target.exists():
            raise InvalidInput(f"path must be a file that does not exist yet, got {str(path)!r}.")
        headers = {"authorization": f"Bearer {self._token}"}
        part = target.with_name(f"{target.name}.part")
        try:
            with part.open("wb") as file, self._http.stream("GET", self.url + calls.BACKUP, headers=headers) as found:
                if found.status_code >= 400:
                    raise sending.error_of(sending.told(found.read()) | {"status": found.status_code})
                for piece in found.iter_bytes():
                    file.write(piece)
            part.rename(target)
        except sending.httpx().TransportError as error:
            raise sending.unreachable(self.url, error) from None
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
