"""Requests to the service as plain data; `Client` and `AsyncClient` send them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote as quote

import msgspec

from freepull import registry
from freepull.errors import FreepullError, InvalidReward
from freepull.live import Observation, Offer, Status, Told, Verdict
from freepull.live.batches import checked_reward
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.principal import Principal
from freepull.service import sending

Reply = TypeVar("Reply")
BACKUP = "/v1/exports/backup.db"
Wrong = dict[int, FreepullError]
"""What is wrong with some of many pulls, by place."""
KINDS = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True)
class Call(Generic[Reply]):
    """One request, and the type of its reply."""

    method: str
    path: str
    reply: Any
    body: Any = None
    """Sent as JSON; bytes are sent as they are."""
    kind: str = "application/json"
    query: tuple[tuple[str, Any], ...] = ()
    keyed: bool = False
    """Whether it takes an Idempotency-Key, which makes it safe to repeat."""

    def read(self, content: bytes) -> Reply:
        """Read the reply."""
        if self.reply is bytes:
            return content  # type: ignore[return-value]
        found: Reply = msgspec.json.decode(content or b"null", type=self.reply)
        return found


def place(campaign: str, *more: str) -> str:
    """Return the path of something in a campaign."""
    return "/".join(["/v1/campaigns", *(quote(part, safe=":") for part in (campaign, *more))])


def create(settings: dict[str, Any]) -> Call[Status]:
    """Make a campaign."""
    principal = settings.get("principal")
    plain = {"principal": registry.encode(principal, own=False)} if isinstance(principal, Principal) else {}
    return Call("POST", "/v1/campaigns", Status, settings | plain, keyed=True)


def change(campaign: str, *what: str, body: Any = None, method: str = "POST") -> Call[Status]:
    """Change a campaign."""
    return Call(method, place(campaign, *what), Status, body, keyed=method == "POST")


def look(campaign: str) -> Call[Status]:
    """Say how a campaign stands."""
    return Call("GET", place(campaign), Status)


def verdict(campaign: str) -> Call[Verdict]:
    """Say which arm."""
    return Call("GET", place(campaign, "verdict"), Verdict)


def ledger(campaign: str, after: int) -> Call[list[LedgerEntry]]:
    """Return what was paid."""
    return Call("GET", place(campaign, "ledger"), list[LedgerEntry], query=(("after", after),))


def offers(campaign: str, after: int) -> Call[list[OfferRow]]:
    """Return offers."""
    return Call("GET", place(campaign, "offers"), list[OfferRow], query=(("after", after),))


def audit(campaign: str, after: int) -> Call[list[AuditEntry]]:
    """Return who did what."""
    return Call("GET", place(campaign, "audit"), list[AuditEntry], query=(("after", after),))


def bans(campaign: str, after: int) -> Call[list[BanRow]]:
    """Return bans."""
    return Call("GET", place(campaign, "bans"), list[BanRow], query=(("after", after),))


def agents(campaign: str, after: int) -> Call[list[dict[str, Any]]]:
    """Return agents."""
    return Call("GET", place(campaign, "agents"), list[dict[str, Any]], query=(("after", after),))


def rows(path: str) -> Call[list[dict[str, Any]]]:
    """Return rows of something."""
    return Call("GET", path, list[dict[str, Any]])


def enrol(campaign: str, agents: Sequence[str] | int, weights: Sequence[float] | None) -> Call[dict[str, list[int]]]:
    """Add agents."""
    body = {"agents": agents if isinstance(agents, int) else list(agents), "weights": weights}
    return Call("POST", place(campaign, "agents"), dict[str, list[int]], body, keyed=True)


def new_token(body: dict[str, Any]) -> Call[dict[str, Any]]:
    """Make a token."""
    return Call("POST", "/v1/tokens", dict[str, Any], body)


def agent_tokens(campaign: str, agents: Sequence[str | int], lasts: str) -> Call[dict[str, list[dict[str, str]]]]:
    """Make agents' tokens."""
    body = {"agents": list(agents), "lasts": lasts}
    return Call("POST", place(campaign, "tokens"), dict[str, list[dict[str, str]]], body)


def import_file(campaign: str, path: Path) -> Call[dict[str, int]]:
    """Tell the observations of a file."""
    kind, name = KINDS.get(path.suffix, "application/octet-stream"), re.sub(r"[/\\\x00-\x1f]", "-", path.stem)[:60]
    query = (("name", name),)
    return Call("POST", place(campaign, "imports"), dict[str, int], path.read_bytes(), kind, query, keyed=True)


def export(campaign: str, what: str, path: Path) -> Call[bytes]:
    """Return observations or the ledger as a file."""
    return Call("GET", place(campaign, "exports", what + path.suffix), bytes)


def nothing(method: str, path: str) -> Call[None]:
    """Do something that has no reply."""
    return Call(method, path, None)


def tell_many(campaign: str, observations: Iterable[Any]) -> tuple[Call[Any] | None, Wrong]:
    """Tell pulls of many agents; those without an event get an id, so that repeating is safe.

    What is no reward is not sent, because JSON cannot say all of it; its errors are returned too, by their places. If
    nothing else is left, there is no call.
    """
    body, wrong = list[dict[str, Any]](), Wrong()
    for i, it in enumerate(Observation(*given) for given in observations):
        try:
            reward = checked_reward(it.reward)
        except InvalidReward as error:
            wrong[i] = error
        else:
            body.append({"agent": it.agent, "arm": it.arm, "reward": reward, "event": sending.event_id(it.event)})
    if wrong and not body:
        return None, wrong
    return Call("POST", place(campaign, "observations:batch"), dict[str, Any], {"observations": body}), wrong


def told_many(reply: dict[str, Any] | None, wrong: Wrong) -> list[Told | FreepullError]:
    """Read the reply to many pulls, and put what was not sent in its place."""
    results = [] if reply is None else reply["results"]
    found = [sending.error_of(it["error"]) if it["error"] else told(it) for it in results]
    for i in sorted(wrong):
        found.insert(i, wrong[i])
    return found


def told(reply: dict[str, Any]) -> Told:
    """Read the reply to a pull."""
    return msgspec.convert([reply["event"], reply["outcome"], reply["offer"], reply["paid"]], Told)


def my_offer(campaign: str) -> Call[dict[str, Offer | None]]:
    """Ask for an offer."""
    return Call("POST", place(campaign, "me", "offer"), dict[str, Offer | None])


def my_pull(campaign: str, arm: str, reward: float, event: str | int) -> Call[dict[str, Any]]:
    """Tell a pull."""
    body = {"arm": arm, "reward": checked_reward(reward), "event": event}
    return Call("POST", place(campaign, "me", "observations"), dict[str, Any], body)


def me(campaign: str) -> Call[dict[str, Any]]:
    """Return what an agent may know."""
    return Call("GET", place(campaign, "me"), dict[str, Any])
