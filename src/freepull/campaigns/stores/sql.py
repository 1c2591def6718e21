"""What SQLite and PostgreSQL have in common: the statements, the lease, tokens and replies, and numbered migrations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from importlib.resources import files
from typing import ClassVar, Protocol

from freepull.campaigns.journal.events import CHANGING, KEYS, TABLES, ManyRows, Row
from freepull.campaigns.stores.base import Lease, Store, steady
from freepull.campaigns.stores.serving import Holder, StoredReply, StoredToken, TokenNote
from freepull.errors import CampaignBusy, CampaignExists, Fenced, NewerVersion

PAGE = 1 << 22
"""This many bytes are read at a time, about."""
HALF = 1 << 31
"""Amounts are added up in multiples of it, and what is left over."""
MIGRATIONS = sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda file: file.name)


def _replacing(table: str) -> str:
    columns = ("campaign", *TABLES[table])
    key, rest = columns[: 1 + KEYS[table]], columns[1 + KEYS[table] :]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}" if table in CHANGING else ""


def _fill(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _insert(table: str) -> str:
    return _fill(table, ("campaign", *TABLES[table])) + REPLACING[table]


REPLACING = {table: _replacing(table) for table in TABLES}
"""What an INSERT into a `CHANGING` table ends with."""
INSERT = {table: _insert(table) for table in TABLES}
NOTE = _fill("token_notes", TokenNote._fields)


class Statements(Protocol):
    """What can be done within a transaction."""

    def run(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        ...

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows to a table, or replace their like in a `CHANGING` one; each begins with its campaign."""
        ...


class SqlStore(Store):
    """A store in SQL; the dialects fill in the words, and how to run a transaction."""

    words: ClassVar[dict[str, str]]
    """{blob}, {serial}, {clustered}, {uncompressed}, and {now}: the database's time in microseconds."""
    lease_seconds: float

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Statements]:
        """Run what follows all at once and durably, or not at all."""

    @abstractmethod
    def query(self, sql: str, values: Row = ()) -> list[Row]:
        """Read."""

    @abstractmethod
    def version(self, do: Statements) -> int:
        """Return the number of the last migration."""

    @abstractmethod
    def set_version(self, do: Statements, number: int) -> None:
        """Note the number of the last migration."""

    def migrate(self) -> None:
        """Bring the tables up to date, or say that they are of a newer freepull."""
        with self.transaction() as do:
            version = self.version(do)
            if version > len(MIGRATIONS):
                raise NewerVersion(
                    f"{self.url} was written by a newer freepull (its tables have version {version}, this one knows "
                    f"{len(MIGRATIONS)}); install a newer freepull."
                )
            for number in range(version + 1, len(MIGRATIONS) + 1):
                script = MIGRATIONS[number - 1].read_text().format_map(self.words)
                lines = [line for line in script.splitlines() if not line.startswith("--")]
                for statement in filter(str.strip, "\n".join(lines).split(";\n")):
                    do.run(statement)
                self.set_version(do, number)

    def campaigns(self) -> list[str]:
        """Return the names of all campaigns, sorted."""
        return sorted(str(name) for (name,) in self.query("SELECT name FROM campaigns"))

    def create(self, name: str, owner: str, rows: ManyRows) -> Lease:
        """Make a campaign with its first rows."""
        begun = steady()
        with self.transaction() as do:
            if do.run("SELECT 1 FROM campaigns WHERE name = ?", (name,)):
                raise CampaignExists(f"{self.url} has a campaign {name!r} already; open it, or choose another name.")
            ((campaign,),) = do.run(
                f"INSERT INTO campaigns (name, epoch, owner, lease_until) VALUES (?, 1, ?, {self._until}) "
                "RETURNING campaign",
                (name, owner),
            )
            self._insert(do, campaign, rows)
        return self._lease(campaign, name, 1, begun)

    def claim(self, name: str, owner: str) -> Lease:
        """Take a campaign over, if nobody else has it."""
        begun = steady()
        with self.transaction() as do:
            found = do.run(
                f"UPDATE campaigns SET epoch = epoch + 1, owner = ?, lease_until = {self._until} "
                f"WHERE name = ? AND (lease_until <= {self.words['now']} OR owner = ?) RETURNING campaign, epoch",
                (owner, name, owner),
            )
            if not found:
                theirs = do.run("SELECT owner FROM campaigns WHERE name = ?", (name,))
                raise self._busy(name, str(theirs[0][0])) if theirs else self.unknown(name)
        ((campaign, epoch),) = found
        return self._lease(campaign, name, epoch, begun)

    def renew(self, lease: Lease) -> None:
        """Prolong a lease."""
        self.write(lease, {})

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        with self.transaction() as do:
            do.run(
                "UPDATE campaigns SET lease_until = 0, owner = '' WHERE campaign = ? AND epoch = ?",
                (lease.campaign, lease.epoch),
            )
        lease.until = 0.0

    def write(self, lease: Lease, rows: ManyRows) -> None:
        """Add rows, durably and all at once, and prolong the lease."""
        begun = steady()
        with self.transaction() as do:
            self._hold(do, lease)
            self._insert(do, lease.campaign, rows)
        lease.until = begun + lease.seconds

    def read(self, name: str, table: str, after: Row = ()) -> Iterator[Row]:
        """Return a table's rows in the order of its key."""
        key = TABLES[table][: KEYS[table]]
        known = self.query("SELECT campaign FROM campaigns WHERE name = ?", (name,))
        if not known:
            raise self.unknown(name)
        columns, rows = ", ".join(TABLES[table]), 16
        while True:
            where = f" AND ({', '.join(key)}) > ({', '.join('?' * len(key))})" if after else ""
            page = self.query(
                f"SELECT {columns} FROM {table} WHERE campaign = ?{where} ORDER BY {', '.join(key)} LIMIT {rows}",
                (*known[0], *after),
            )
            yield from page
            if len(page) < rows:
                return
            after = page[-1][: len(key)]
            size = sum(len(cell) if isinstance(cell, bytes) else 16 for row in page for cell in row)
            rows = max(1, min(PAGE * len(page) // size, 10_000))

    def snapshots(self, name: str) -> list[tuple[int, int, int]]:
        """Return for every snapshot its event, how many of its parts are there, and how many there should be."""
        sql = (
            "SELECT event, count(*), max(parts) FROM snapshots JOIN campaigns USING (campaign) WHERE name = ? "
            "GROUP BY event ORDER BY event"
        )
        return [(int(event), int(there), int(parts)) for event, there, parts in self.query(sql, (name,))]

    def remove(self, lease: Lease, table: str, column: str, below: int, most: int) -> int:
        """Remove some rows whose column is less than a number; return how many."""
        key = ", ".join(TABLES[table][: KEYS[table]])
        old = f"SELECT {key} FROM {table} WHERE campaign = ? AND {column} < ? LIMIT {most}"
        with self.transaction() as do:
            self._hold(do, lease)
            gone = do.run(
                f"DELETE FROM {table} WHERE campaign = ? AND ({key}) IN ({old}) RETURNING 1",
                (lease.campaign, lease.campaign, below),
            )
        return len(gone)

    def erase_names(self, lease: Lease, agents: Iterable[int] | None) -> None:
        """Erase names."""
        with self.transaction() as do:
            self._hold(do, lease)
            if agents is None:
                do.run("DELETE FROM names WHERE campaign = ?", (lease.campaign,))
            else:
                do.many(
                    "DELETE FROM names WHERE campaign = ? AND agent = ?", [(lease.campaign, agent) for agent in agents]
                )
            self.rewrite_names(do)

    def rewrite_names(self, do: Statements) -> None:
        """Remove what the database itself has kept of names that were deleted, where it can be told to."""

    def totals(self, name: str) -> tuple[int, int]:
        """Return how many entries the ledger has, and their sum, added up in two parts, because it may be too large."""
        halves = f"coalesce(sum(amount / {HALF}), 0), coalesce(sum(amount - amount / {HALF} * {HALF}), 0)"
        sql = f"SELECT count(*), {halves} FROM ledger JOIN campaigns USING (campaign) WHERE name = ?"
        ((entries, high, low),) = self.query(sql, (name,))
        return int(entries), int(high) * HALF + int(low)

    def before_last(self, name: str, table: str, count: int) -> Row:
        """Return the key after which a table's last rows begin."""
        key = TABLES[table][: KEYS[table]]
        newest = ", ".join(f"{column} DESC" for column in key)
        sql = f"SELECT {', '.join(key)} FROM {table} JOIN campaigns USING (campaign) WHERE campaigns.name = ?"
        rows = self.query(f"{sql} ORDER BY {newest} LIMIT 1 OFFSET {count}", (name,))
        return rows[0] if rows else ()

    def holders(self, campaign: str | None = None) -> list[Holder]:
        """Return who has every campaign, or one alone."""
        sql = f"SELECT name, owner, lease_until > {self.words['now']} FROM campaigns"
        one = "" if campaign is None else " WHERE name = ?"
        rows = self.query(f"{sql}{one} ORDER BY name", () if campaign is None else (campaign,))
        return [Holder(str(name), str(owner), bool(held)) for name, owner, held in rows]

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret; the first one of its name is kept."""
        with self.transaction() as do:
            do.run("INSERT INTO secrets VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new))
            ((kept,),) = do.run("SELECT value FROM secrets WHERE name = ?", (name,))
        return bytes(kept)

    def tokens(self) -> list[StoredToken]:
        """Return all tokens."""
        rows = self.query(f"SELECT {', '.join(StoredToken._fields)} FROM tokens")
        return [StoredToken(id, bytes(digest), *rest) for id, digest, *rest in rows]

    def add_token(self, token: StoredToken, note: TokenNote) -> None:
        """Keep a new token and a note of it."""
        with self.transaction() as do:
            do.run(_fill("tokens", token._fields), token)
            do.run(NOTE, note)

    def revoke_token(self, id: str, note: TokenNote) -> None:
        """Revoke a token, and note it the first time."""
        with self.transaction() as do:
            ended = "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING 1"
            if do.run(ended, (note.at, id)):
                do.run(NOTE, note)

    def add_note(self, note: TokenNote) -> None:
        """Keep a note of tokens that are not stored themselves."""
        with self.transaction() as do:
            do.run(NOTE, note)

    def token_notes(self, after: int, limit: int) -> list[tuple[int, TokenNote]]:
        """Return notes after a number."""
        sql = f"SELECT entry, {', '.join(TokenNote._fields)} FROM token_notes WHERE entry > ? ORDER BY entry LIMIT ?"
        return [(int(entry), TokenNote(*note)) for entry, *note in self.query(sql, (after, limit))]

    def versions(self) -> dict[tuple[str, int], int]:
        """Return the version of agents' tokens."""
        rows = self.query("SELECT campaign, agent, version FROM agent_versions")
        return {(str(campaign), int(agent)): int(version) for campaign, agent, version in rows}

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        """Raise the version of an agent's tokens, and note it."""
        with self.transaction() as do:
            do.run(NOTE, note)
            do.run(
                "INSERT INTO agent_versions VALUES (?, ?, 1) ON CONFLICT (campaign, agent) "
                "DO UPDATE SET version = agent_versions.version + 1",
                (campaign, agent),
            )

    def find_reply(self, id: bytes, since: int) -> StoredReply | None:
        """Return the reply that was kept under an id."""
        rows = self.query("SELECT request, status, body FROM answered WHERE id = ? AND at >= ?", (id, since))
        return StoredReply(bytes(rows[0][0]), int(rows[0][1]), bytes(rows[0][2])) if rows else None

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        """Keep a reply, and forget old ones."""
        with self.transaction() as do:
            do.run("DELETE FROM answered WHERE at < ?", (since,))
            do.run("INSERT INTO answered VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (id, *reply, at))

    @property
    def _until(self) -> str:
        micros = 0 if self.lease_seconds == float("inf") else round(self.lease_seconds * 1e6)
        return f"{self.words['now']} + {micros}"

    def _lease(self, campaign: int, name: str, epoch: int, begun: float) -> Lease:
        return Lease(int(campaign), name, int(epoch), self.lease_seconds, begun + self.lease_seconds)

    def _hold(self, do: Statements, lease: Lease) -> None:
        held = do.run(
            f"UPDATE campaigns SET lease_until = {self._until} WHERE campaign = ? AND epoch = ? RETURNING 1",
            (lease.campaign, lease.epoch),
        )
        if not held:
            raise self._lost(lease)

    def _lost(self, lease: Lease) -> Fenced:
        lease.until = 0.0
        return Fenced(f"campaign {lease.name!r} was taken over by another process; this one answers nothing.")

    def _insert(self, do: Statements, campaign: int, rows: ManyRows) -> None:
        for table, batch in rows.items():
            do.add(table, ((campaign, *row) for row in batch))

    def _busy(self, name: str, owner: str) -> CampaignBusy:
        return CampaignBusy(
            f"campaign {name!r} is held by {owner}; ask there, or wait until it is closed or its lease has run out.",
            owner,
        )
