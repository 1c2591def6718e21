"""Who may ask, and what: tokens of admins, readers and gateways, stored hashed, and signed tokens of agents;
and how much and how often.

Everything is kept in memory and read again every other second, so that what another process has revoked ends here too.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from freepull import validation
from freepull.campaigns.core import who
from freepull.campaigns.settings import lasting, shown, system_clock
from freepull.campaigns.stores import ServedStore, Where, connect
from freepull.campaigns.stores.serving import StoredToken, TokenNote
from freepull.errors import InvalidInput, StoreError, UnknownName
from freepull.messages import SCOPES, TokenEntry, TokenRow
from freepull.server.problems import Refused

_BEGAN = system_clock(), time.monotonic_ns() // 1000


def steady_clock() -> int:
    """Return when it is by how long this process has run, which does not jump when the machine's clock is set."""
    return _BEGAN[0] + time.monotonic_ns() // 1000 - _BEGAN[1]


def latest() -> int:
    """Return the later of both clocks: one that is set back must not revive a token."""
    return max(system_clock(), steady_clock())


def earliest() -> int:
    """Return the earlier of both clocks: one that is set forward must not make anything forgotten."""
    return min(system_clock(), steady_clock())


MOST = 100_000
"""This many agents are remembered; whoever was not here for longest is forgotten first."""
SECONDS = 2.0


class BodyLimits(NamedTuple):
    """How large bodies may be, in bytes, and how many are read at a time."""

    most: int = 1 << 20
    upload: int = 32 << 20
    """Of an import, or of a list of agents, which only admins send."""
    pull: int = 64 << 10
    """Of what an agent sends."""
    at_once: int = 1024
    """Half of them from one address, a sixteenth with one token."""


@dataclass(frozen=True)
class Limits:
    """What one process takes on."""

    bodies: BodyLimits = field(default_factory=BodyLimits)
    seconds: float = 10.0
    """For a body to arrive."""
    answer: float = 60.0
    """For an answer, streams and exports excepted."""
    waiting: int = 256
    """Requests at a time; more are refused at once."""
    agent_rate: float = 20.0
    """Requests a second of one agent, on average."""
    gateway_rate: float = 5000.0
    """Requests a second with one gateway's token, on average."""


class RateLimit:
    """How often one agent or gateway may ask: a bucket for each, which fills at a rate, and holds two seconds of it."""

    def __init__(self, rate: float, gateway: float = float("inf")) -> None:
        self.rates = {"agent": rate, "gateway": gateway}
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, scope: str = "agent") -> None:
        """Take one from a bucket, or refuse."""
        rate, now = self.rates[scope], time.monotonic()
        if rate == float("inf"):
            return
        full = max(1.0, rate * SECONDS)
        left, at = self._buckets.pop(who, (full, now))
        left = min(full, left + (now - at) * rate)
        self._buckets[who] = (max(0.0, left - 1.0), now)
        if len(self._buckets) > MOST:
            self._buckets.popitem(last=False)
        if left < 1.0:
            raise Refused(
                429,
                f"{'an agent' if scope == 'agent' else 'a gateway'} may ask {rate:g} times a second on average.",
                "Try again after the time in Retry-After, with the same event id.",
            )


CHANGING = ("admin", "operator")
"""Who changes campaigns, beside telling pulls."""
LONGEST_TOKEN = 2000
READ = 50_000
"""This many checked signatures are remembered."""
MINUTE = 60 * 10**6
NO_TOKEN = "Send a token as 'Authorization: Bearer …'; an admin makes them with freepull token new."


@dataclass(frozen=True)
class Visitor:
    """Who asks."""

    id: str
    """For logs, limits and the audit; no secret."""
    scope: str
    """What the token is for, one of `SCOPES`."""
    campaign: str = ""
    """Of an agent's token: where it takes part."""
    agent: int | None = None
    """Of an agent's token: its number there."""

    @property
    def own_number(self) -> int:
        """The agent's number, where only agents come."""
        assert self.agent is not None
        return self.agent


class _Claim(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    campaign: str
    agent: int
    version: int
    expires: int


class Tokens:
    """The tokens of one store."""

    def __init__(self, where: Where, new: bool = True) -> None:
        self._where, self._new = where, new
        self._store = self._connect()
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[bytes, TokenRow]] = {}
        self._versions: dict[tuple[str, int], int] = {}
        self._read: dict[str, tuple[_Claim, Visitor]] = {}
        """Agents' tokens whose signature was checked, and whose they are; when they end is looked at every time."""
        self._noted: dict[tuple[str, str, int], int] = {}
        """When it was last noted that somebody has made an agent's token for a minute."""
        self._key = self._store.secret("agents", secrets.token_bytes(32))
        self.refresh()

    def _connect(self) -> ServedStore:
        store = connect(self._where, self._new)
        if not isinstance(store, ServedStore):
            raise InvalidInput(
                f"the store of a service must also keep tokens and replies, as freepull.campaigns.stores.serving has "
                f"it; add that to {type(store).__name__}, or take SQLite or PostgreSQL."
            )
        return store

    @property
    def store(self) -> ServedStore:
        """Where tokens are kept."""
        return self._store

    def refresh(self) -> None:
        """Read what is stored; after the store has failed, connect anew. One at a time, or an older look would win."""
        with self._lock:
            try:
                stored, versions = self._store.tokens(), self._store.versions()
            except StoreError:
                self._store = self._connect()
                raise
            self._tokens = {it.id: (it.hash, _row(it)) for it in stored}
            self._versions = versions

    def new(
        self, scope: str, campaign: str = "", label: str = "", lasts: str | None = None, by: str = "", prefix: str = ""
    ) -> tuple[str, TokenRow]:
        """Make a token; it is returned here and nowhere else. Ids of sessions begin with a prefix of their own."""
        length = check_new(scope, label, lasts)
        if campaign and not self._store.holders(campaign):
            raise self._store.unknown(campaign)
        id, secret, now = prefix + secrets.token_hex(6), secrets.token_urlsafe(32), system_clock()
        expires = None if length is None else latest() + length
        note = TokenNote(now, who(by), "made", id, scope, campaign, label)
        self._store.add_token(StoredToken(id, _digest(secret), scope, campaign, label, now, expires), note)
        self.refresh()
        return f"fp_{id}_{secret}", self._tokens[id][1]

    def revoke(self, id: str, by: str = "") -> None:
        """End a token for good; ending it twice does no harm."""
        if id not in self._tokens:
            raise UnknownName(f"id must be that of a token, see freepull token list, got {validation.shown(id)}.")
        _, row = self._tokens[id]
        note = TokenNote(system_clock(), who(by), "revoked", id, row.scope, row.campaign, row.label)
        self._store.revoke_token(id, note)
        self.refresh()

    def audit(self, after: int = 0, limit: int = 1 << 31) -> list[TokenEntry]:
        """Return who has made and revoked which tokens, the oldest first."""
        return [TokenEntry(entry, shown(at), *rest) for entry, (at, *rest) in self._store.token_notes(after, limit)]

    def rows(self) -> list[TokenRow]:
        """Return all tokens, the oldest first."""
        return sorted((row for _, row in self._tokens.values()), key=lambda row: (row.made, row.id))

    def sign(self, campaign: str, agents: list[int], lasts: str, by: str = "") -> list[str]:
        """Make agents' tokens: signed, so that nothing of them needs to be stored; that they were made is noted.

        Those for a minute, with which an SDK asks for others, are noted once an hour for each agent and maker.
        """
        now, brief, by = system_clock(), lasting("lasts", lasts) <= MINUTE, who(by)
        told = [m for m in agents if not brief or now - self._noted.get((by, campaign, m), 0) > 60 * MINUTE]
        if told:
            self._store.add_note(TokenNote(now, by, "made", "", "agent", campaign, "", ranges(told)))
        if brief:
            if len(self._noted) >= READ:
                self._noted.clear()
            self._noted.update(((by, campaign, m), now) for m in told)
        return [self._sign(campaign, agent, lasts) for agent in agents]

    def _sign(self, campaign: str, agent: int, lasts: str) -> str:
        version = self._versions.get((campaign, agent), 0)
        expires = (latest() + lasting("lasts", lasts)) // 10**6
        claim = msgspec.json.encode(_Claim(campaign, agent, version, expires))
        return f"fpa_{_text(claim)}.{_text(self._mac(claim))}"

    def revoke_agent(self, campaign: str, agent: int, by: str = "") -> None:
        """End all tokens that an agent has, by raising its version."""
        note = TokenNote(system_clock(), who(by), "revoked", "", "agent", campaign, "", str(agent))
        self._store.raise_version(campaign, agent, note)
        self.refresh()

    def visitor(self, header: str | None) -> Visitor:
        """Return who sends this Authorization header, or refuse."""
        kind, _, token = (header or "").partition(" ")
        if kind.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise Refused(401, "the request has no token.", NO_TOKEN)
        found = self._agent(token[4:]) if token.startswith("fpa_") else self._stored(token)
        if found is None:
            raise Refused(401, "the token is wrong, expired or revoked.", NO_TOKEN)
        return found

    def holds(self, header: str | None) -> bool:
        """Say whether an Authorization header is good, for those who were let in a while ago."""
        try:
            self.visitor(header)
        except Refused:
            return False
        return True

    def _stored(self, token: str) -> Visitor | None:
        prefix, id, secret = (*token.split("_", 2), "", "")[:3]
        digest, row = self._tokens.get(id, (b"", None))
        if prefix != "fp" or not hmac.compare_digest(digest, _digest(secret)) or row is None or row.revoked is not None:
            return None
        if row.expires is not None and row.expires.timestamp() * 10**6 <= latest():
            return None
        return Visitor(row.id, row.scope, row.campaign)

    def _agent(self, token: str) -> Visitor | None:
        known = self._read.get(token)
        if known is None:
            claim = self._claim(token)
            if claim is None:
                return None
            if len(self._read) >= READ:
                self._read.clear()
            visitor = Visitor(f"{claim.campaign}#{claim.agent}", "agent", claim.campaign, claim.agent)
            known = self._read[token] = claim, visitor
        it, visitor = known
        if it.expires * 10**6 <= latest() or it.version != self._versions.get((it.campaign, it.agent), 0):
            return None
        return visitor

    def _claim(self, token: str) -> _Claim | None:
        """Return what a token says, if we have signed it."""
        body, _, mac = token.partition(".")
        try:
            claim = _bytes(body)
            if not hmac.compare_digest(_bytes(mac), self._mac(claim)):
                return None
            return msgspec.json.decode(claim, type=_Claim)
        except (Base64Error, ValueError, msgspec.MsgspecError):
            return None

    def _mac(self, claim: bytes) -> bytes:
        return hmac.digest(self._key, b"freepull agent token 1\0" + claim, "sha256")

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def check(visitor: Visitor, campaign: str, scopes: tuple[str, ...], lists: bool, rate_limit: RateLimit) -> None:
    """Refuse whoever may not do this here: a route takes some scopes, and a token may be for one campaign only."""
    if visitor.scope not in scopes:
        own, (most, *less) = scopes == ("agent",), scopes
        named = " or ".join(filter(None, (", ".join(reversed(less)), most)))
        remedy = "Use the agent's own token." if own else f"Use a token of scope {named}."
        who = "an agent's token" if visitor.agent is not None else f"a token of scope {visitor.scope}"
        raise Refused(403, f"{who} cannot do this.", remedy)
    if visitor.agent is not None:
        if campaign != visitor.campaign:
            raise Refused(401, "the token is for another campaign.", "Use the token for this one.")
        rate_limit.take(visitor.id)
    elif visitor.campaign and visitor.campaign != campaign and not lists:
        raise Refused(403, "the token is for one campaign only.", "Use one that is for this, or for all.")
    elif visitor.scope == "gateway":
        rate_limit.take(visitor.id, "gateway")


def check_new(scope: str, label: str, lasts: str | None) -> int | None:
    """Refuse a token that cannot be made; return how long it lasts."""
    validation.one_of("scope", scope, SCOPES)
    who(label, "label")
    return None if lasts is None else lasting("lasts", lasts)


def ranges(numbers: list[int]) -> str:
    """Return numbers in short.

    >>> ranges([0, 1, 2, 7, 4, 5])
    '0-2, 4-5, 7'
    """
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _row(it: StoredToken) -> TokenRow:
    times = (None if at is None else shown(at) for at in (it.expires, it.revoked))
    return TokenRow(it.id, it.scope, it.campaign, it.label, shown(it.made), *times)


def _digest(secret: str) -> bytes:
    """Secrets are 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Decode, and refuse a text that is not the one way to write these bytes."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _text(data) != text:
        raise ValueError(text)
    return data
