"""What a service needs of a store beside campaigns: who has which, tokens, and replies that are kept for repetitions.

A store of your own can be served if it has these methods too; `freepull.testing.check_store` tries those that it has.
As for campaigns, what a method has written survives a crash once it returns, and any thread may call it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from freepull.campaigns.journal.events import Row, check_seal, seal
from freepull.errors import CampaignError, Corrupt


class Holder(NamedTuple):
    """Who has a campaign."""

    campaign: str
    owner: str
    """As `Store.claim` was told; empty: nobody."""
    held: bool
    """Whether nobody else can claim it now; never, where the store as a whole is locked instead."""
    left: float | None = None
    """Seconds for which that will be so if the owner is silent; None: not known."""


SESSION = "s"
"""What the ids of tokens begin with that somebody got by logging in; those of others are hexadecimal."""
KEPT = 30 * 86_400 * 10**6
"""Microseconds for which a session is listed after its end; its notes stay."""


class StoredToken(NamedTuple):
    """A token as it is kept: its secret is known to nobody. Times are microseconds since 1970."""

    id: str
    hash: bytes
    scope: str
    campaign: str
    label: str
    made: int
    expires: int | None = None
    revoked: int | None = None


class TokenNote(NamedTuple):
    """What somebody did with tokens, for their audit; notes are only added."""

    at: int
    """In microseconds since 1970."""
    who: str
    """Who did it; empty: whoever has the store."""
    action: str
    """made or revoked."""
    token: str
    """The id of the token; empty for those of agents, which have none."""
    scope: str
    campaign: str
    label: str
    agents: str = ""
    """The numbers of the agents whose tokens these are."""


class StoredReply(NamedTuple):
    """What a request was answered with."""

    request: bytes
    """A hash of it."""
    status: int
    body: bytes


@runtime_checkable
class LeaseStore(Protocol):
    """Tells who has which campaign."""

    def holders(self, campaign: str | None = None) -> list[Holder]:
        """Return who has every campaign, in the order of names; or one alone, nothing if it is not there."""
        ...


@runtime_checkable
class TokenStore(Protocol):
    """Keeps tokens, and the key that signs those of agents."""

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret; ``new`` is kept if there is none of this name, and then everybody gets that one."""
        ...

    def tokens(self) -> list[StoredToken]:
        """Return all tokens."""
        ...

    def add_token(self, token: StoredToken, note: TokenNote) -> None:
        """Keep a new token and a note of it, both or none."""
        ...

    def revoke_token(self, id: str, note: TokenNote) -> None:
        """Revoke a token at the time of the note, and keep that; the first time counts, and alone is noted."""
        ...

    def versions(self) -> dict[tuple[str, int], int]:
        """Return the version of agents' tokens, by campaign and agent, where it is not 0."""
        ...

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        """Raise the version of an agent's tokens by 1, which ends those of older versions, and keep a note of it."""
        ...

    def add_note(self, note: TokenNote) -> None:
        """Keep a note of tokens that are not stored themselves."""
        ...

    def token_notes(self, after: int, limit: int) -> list[tuple[int, TokenNote]]:
        """Return notes in the order in which they were added, numbered from 1 on, after a number."""
        ...


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps replies for a while, so that a repeated request is answered the same."""

    def find_reply(self, id: bytes, since: int) -> StoredReply | None:
        """Return the reply that was kept under an id, not before a time."""
        ...

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        """Keep a reply, unless there is one under its id, and forget those from before a time."""
        ...


@runtime_checkable
class ServedStore(LeaseStore, TokenStore, ReplyStore, Protocol):
    """A store that a service can run on."""

    url: str
    reopens: bool

    def unknown(self, name: str) -> CampaignError:
        """See `Store.unknown`."""
        ...

    def backup(self, path: str | Path) -> None:
        """See `Store.backup`."""
        ...

    def close(self) -> None:
        """See `Store.close`."""
        ...


class Statements(Protocol):
    """What can be done within a transaction."""

    def run(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        ...

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows to a table, or replace their like in a `CHANGING` one; each begins with its campaign.

        Rows of `SEALED` tables end with their seal.
        """
        ...


SERVED: dict[str, tuple[str, ...]] = {
    "tokens": StoredToken._fields,
    "token_notes": TokenNote._fields,
    "secrets": ("name", "value"),
    "answered": ("id", "request", "status", "body", "at"),
}
"""What the seals of these tables are about."""


class SqlServing(ABC):
    """The same in SQL; the dialects fill in the words, and how to run a transaction."""

    url: str
    words: ClassVar[dict[str, str]]
    """{blob}, {serial}, {clustered}, {uncompressed}, {now}: the time in microseconds, and {raw}: a text's bytes."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Statements]:
        """Run what follows all at once and durably, or not at all."""

    @abstractmethod
    def query(self, sql: str, values: Row = ()) -> list[Row]:
        """Read."""

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret; the first one of its name is kept."""
        with self.transaction() as do:
            do.run(
                "INSERT INTO secrets (name, value, seal) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (name, new, seal("secrets", "", (name, new))),
            )
            ((kept, found),) = do.run("SELECT value, seal FROM secrets WHERE name = ?", (name,))
        check_seal("secrets", "", (name, kept), found)
        return bytes(kept)

    def tokens(self) -> list[StoredToken]:
        """Return all tokens but damaged ones, which open nothing."""
        return [token for token, right in self._tokens() if right]

    def _tokens(self) -> Iterator[tuple[StoredToken, bool]]:
        raw = self.words["raw"].format
        texts = ("id", "scope", "campaign", "label")
        columns = ", ".join(raw(name) if name in texts else name for name in StoredToken._fields)
        for *row, found in self.query(f"SELECT {columns}, seal FROM tokens"):
            cells = zip(StoredToken._fields, row, strict=True)
            token = StoredToken._make(text_of(cell) if name in texts else cell for name, cell in cells)
            yield token, seal("tokens", "", tuple(token)) == found

    def add_token(self, token: StoredToken, note: TokenNote) -> None:
        """Keep a new token and a note of it."""
        with self.transaction() as do:
            _fill(do, "tokens", token)
            _fill(do, "token_notes", note)
            if token.id.startswith(SESSION):  # there is one for every login, and all tokens are read every second
                do.run(f"DELETE FROM tokens WHERE id LIKE '{SESSION}%' AND expires < ?", (token.made - KEPT,))

    def revoke_token(self, id: str, note: TokenNote) -> None:
        """Revoke a token, and note it the first time."""
        with self.transaction() as do:
            sql = "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING "
            for row in do.run(sql + ", ".join(StoredToken._fields), (note.at, id)):
                do.run("UPDATE tokens SET seal = ? WHERE id = ?", (seal("tokens", "", tuple(row)), id))
                _fill(do, "token_notes", note)

    def add_note(self, note: TokenNote) -> None:
        """Keep a note of tokens that are not stored themselves."""
        with self.transaction() as do:
            _fill(do, "token_notes", note)

    def token_notes(self, after: int, limit: int) -> list[tuple[int, TokenNote]]:
        """Return notes after a number."""
        columns = ", ".join(TokenNote._fields)
        sql = f"SELECT entry, {columns}, seal FROM token_notes WHERE entry > ? ORDER BY entry LIMIT ?"
        found = self.query(sql, (after, limit))
        for _, *note, noted in found:
            check_seal("token_notes", "", tuple(note), noted)
        return [(int(entry), TokenNote(*note)) for entry, *note, _ in found]

    def versions(self) -> dict[tuple[str, int], int]:
        """Return the version of agents' tokens."""
        rows = self.query("SELECT campaign, agent, version, seal FROM agent_versions")
        for campaign, agent, version, found in rows:
            check_seal("agent_versions", str(campaign), (agent, version), found)
        return {(str(campaign), int(agent)): int(version) for campaign, agent, version, _ in rows}

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        """Raise the version of an agent's tokens, and note it."""
        with self.transaction() as do:
            _fill(do, "token_notes", note)
            ((version,),) = do.run(
                "INSERT INTO agent_versions (campaign, agent, version) VALUES (?, ?, 1) ON CONFLICT (campaign, agent) "
                "DO UPDATE SET version = agent_versions.version + 1 RETURNING version",
                (campaign, agent),
            )
            do.run(
                "UPDATE agent_versions SET seal = ? WHERE campaign = ? AND agent = ?",
                (seal("agent_versions", campaign, (agent, version)), campaign, agent),
            )

    def find_reply(self, id: bytes, since: int) -> StoredReply | None:
        """Return the reply that was kept under an id."""
        rows = self.query("SELECT request, status, body, at, seal FROM answered WHERE id = ?", (id,))
        for *reply, at, found in rows:
            check_seal("answered", "", (id, *reply, at), found)
            if at >= since:
                return StoredReply(bytes(reply[0]), int(reply[1]), bytes(reply[2]))
        return None

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        """Keep a reply, and forget old ones."""
        row = (id, *reply, at)
        with self.transaction() as do:
            do.run("DELETE FROM answered WHERE at < ?", (since,))
            do.run(
                "INSERT INTO answered (id, request, status, body, at, seal) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (*row, seal("answered", "", row)),
            )

    def seal_served(self, do: Statements) -> None:
        """Give seals to rows from before there were any."""
        for table, key in (("tokens", "id"), ("secrets", "name"), ("answered", "id"), ("token_notes", "entry")):
            for which, *row in do.run(f"SELECT {key}, {', '.join(SERVED[table])} FROM {table}"):
                do.run(f"UPDATE {table} SET seal = ? WHERE {key} = ?", (seal(table, "", tuple(row)), which))
        for campaign, agent, version in do.run("SELECT campaign, agent, version FROM agent_versions"):
            found = seal("agent_versions", campaign, (agent, version))
            do.run("UPDATE agent_versions SET seal = ? WHERE campaign = ? AND agent = ?", (found, campaign, agent))

    def check(self) -> None:
        """Refuse damage to what belongs to no campaign."""
        for token, right in self._tokens():
            if not right:
                raise Corrupt(
                    f"token {token.id!r} of {self.url} is damaged, so it opens nothing; revoke it, make another, or "
                    "restore a backup."
                )
        self.versions()
        for table in ("secrets", "answered", "token_notes"):
            for *row, found in self.query(f"SELECT {', '.join(SERVED[table])}, seal FROM {table}"):
                check_seal(table, "", tuple(row), found)


def _fill(do: Statements, table: str, row: StoredToken | TokenNote) -> None:
    """Add a row with its seal."""
    columns = (*row._fields, "seal")
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    do.run(sql, (*row, seal(table, "", tuple(row))))


def text_of(raw: Any) -> str:
    """Return a text whose bytes may be damaged."""
    return bytes(raw).decode(errors="backslashreplace") if isinstance(raw, (bytes, memoryview)) else str(raw)
