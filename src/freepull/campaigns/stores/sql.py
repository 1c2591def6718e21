"""What SQLite and PostgreSQL have in common: the statements, the lease, tokens and replies, and numbered migrations.

Rows are stored with their seals, which are looked at whenever rows are read. Where a log ends is noted with its
campaign, in the same transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files

from freepull.campaigns.journal.events import (
    CHANGING,
    COLUMNS,
    KEYS,
    SEALED,
    TABLES,
    ManyRows,
    Row,
    check_seal,
    seal,
    sealed,
)
from freepull.campaigns.stores.base import Lease, Store, steady
from freepull.campaigns.stores.serving import Holder, SqlServing, Statements, text_of
from freepull.errors import CampaignBusy, CampaignError, CampaignExists, Corrupt, Fenced, NewerVersion

PAGE = 1 << 22
"""This many bytes are read at a time, about."""
HALF = 1 << 31
"""Amounts are added up in multiples of it, and what is left over."""
FAR = 60 * 10**6
"""Microseconds, or ten leases if that is longer: one that lasts longer from now on was made before the clock jumped."""
FIRST_SEALED = 5
"""The migration that gave rows their seals."""
MIGRATIONS = sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda file: file.name)


def head(rows: Iterable[Row]) -> int | None:
    """Return where a log ends that ends with these segments: the last one's number, and its checksum."""
    ends = [row[0] << 32 | int.from_bytes(row[3][-4:], "little") for row in rows]
    return max(ends) if ends else None


def _replacing(table: str) -> str:
    columns = ("campaign", *COLUMNS[table])
    key, rest = columns[: 1 + KEYS[table]], columns[1 + KEYS[table] :]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}" if table in CHANGING else ""


def _insert(table: str) -> str:
    columns = ("campaign", *COLUMNS[table])
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}){REPLACING[table]}"


REPLACING = {table: _replacing(table) for table in TABLES}
"""What an INSERT into a `CHANGING` table ends with."""
INSERT = {table: _insert(table) for table in TABLES}


class SqlStore(SqlServing, Store):
    """A store in SQL; the dialects fill in the words, and how to run a transaction."""

    lease_seconds: float
    _old: dict[str, bool]
    """Campaigns that are known here, and whether they are from before there were seals."""

    def __init__(self) -> None:
        self._old = {}

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
                if number == FIRST_SEALED:
                    self.seal_served(do)

    def campaigns(self) -> list[str]:
        """Return the names of all campaigns, sorted."""
        return sorted(holder.campaign for holder in self.holders())

    def create(self, name: str, owner: str, rows: ManyRows) -> Lease:
        """Make a campaign with its first rows."""
        begun = steady()
        with self.transaction() as do:
            if do.run("SELECT 1 FROM campaigns WHERE name = ?", (name,)):
                raise CampaignExists(f"{self.url} has a campaign {name!r} already; open it, or choose another name.")
            self._check_campaigns(do.run, name)
            ((campaign,),) = do.run(
                f"INSERT INTO campaigns (name, epoch, owner, lease_until) VALUES (?, 1, ?, {self._until}) "
                "RETURNING campaign",
                (name, owner),
            )
            self._insert(do, campaign, name, rows)
            last = do.run(
                "SELECT number, 0, 0, data FROM segments WHERE campaign = ? ORDER BY 1 DESC LIMIT 1", (campaign,)
            )
            do.run(
                "UPDATE campaigns SET head = ?, seal = ? WHERE campaign = ?",
                (head(last), seal("campaigns", name, (campaign, name)), campaign),
            )
        return self._lease(campaign, name, 1, begun)

    def claim(self, name: str, owner: str) -> Lease:
        """Take a campaign over, if nobody else has it."""
        begun = steady()
        with self.transaction() as do:
            found = do.run(
                f"UPDATE campaigns SET epoch = epoch + 1, owner = ?, lease_until = {self._until} "
                f"WHERE name = ? AND (NOT {self._held} OR owner = ?) RETURNING campaign, epoch, seal",
                (owner, name, owner),
            )
            if not found:
                theirs = do.run("SELECT owner FROM campaigns WHERE name = ?", (name,))
                raise self._busy(name, str(theirs[0][0])) if theirs else self.unknown(name)
        ((campaign, epoch, noted),) = found
        check_seal("campaigns", name, (campaign, name), noted, old=True)
        self._old[name] = noted is None
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
            self._hold(do, lease, head(rows.get("segments", ())))
            self._insert(do, lease.campaign, lease.name, rows)
        lease.until = begun + lease.seconds

    def read(self, name: str, table: str, after: Row = ()) -> Iterator[Row]:
        """Return a table's rows in the order of its key."""
        key = TABLES[table][: KEYS[table]]
        known = self.query("SELECT campaign, seal FROM campaigns WHERE name = ?", (name,))
        if not known:
            raise self.unknown(name)
        ((campaign, noted),) = known
        self._old[name] = noted is None
        columns, rows = ", ".join(COLUMNS[table]), 16
        while True:
            where = f" AND ({', '.join(key)}) > ({', '.join('?' * len(key))})" if after else ""
            sql = f"SELECT {columns} FROM {table} WHERE campaign = ?{where} ORDER BY {', '.join(key)} LIMIT {rows}"
            try:
                page = self.query(sql, (campaign, *after))
            except Corrupt as error:
                raise Corrupt(f"table {table} of campaign {name!r} cannot be read: {error}") from error
            yield from self._unsealed(table, name, page)
            if len(page) < rows:
                return
            after = page[-1][: len(key)]
            size = sum(len(cell) if isinstance(cell, bytes) else 16 for row in page for cell in row)
            rows = max(1, min(PAGE * len(page) // size, 10_000))

    def _unsealed(self, table: str, name: str, page: list[Row]) -> Iterable[Row]:
        """Return rows without their seals, which must be right."""
        if table not in SEALED:
            return page
        old = self._old.get(name, False)
        for *row, found in page:
            check_seal(table, name, tuple(row), found, old)
        return [row[:-1] for row in page]

    def head(self, name: str) -> tuple[int, int] | None:
        """Return the number of the last segment and its checksum, as they were noted with the campaign."""
        found = self.query("SELECT head FROM campaigns WHERE name = ?", (name,))
        return divmod(int(found[0][0]), 1 << 32) if found and found[0][0] is not None else None

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
        raw = self.words["raw"].format
        left = f"lease_until - {self.words['now']}"
        sql = f"SELECT {raw('name')}, {raw('owner')}, {self._held}, {left} FROM campaigns"
        one = "" if campaign is None else " WHERE name = ?"
        rows = self.query(f"{sql}{one}", () if campaign is None else (campaign,))
        return sorted(
            Holder(text_of(name), text_of(owner), bool(held), max(0, left) / 1e6 if held else 0.0)
            for name, owner, held, left in rows
        )

    def unknown(self, name: str) -> CampaignError:
        """Return the error for a campaign that is not there, or whose name may be damaged."""
        try:
            self._check_campaigns(self.query, name)
        except Corrupt as error:
            return error
        return super().unknown(name)

    def _check_campaigns(self, run: Callable[[str], list[Row]], name: str) -> None:
        """Refuse to say that there is no such campaign while a name is damaged, or is not found by itself."""
        for campaign, raw, found in run(f"SELECT campaign, {self.words['raw'].format('name')}, seal FROM campaigns"):
            has = text_of(raw)
            if has == name or (found is not None and seal("campaigns", has, (campaign, has)) != found):
                raise Corrupt(
                    f"campaign {has!r} of {self.url} is damaged: its name is not what it was, or is not found; restore "
                    "a backup."
                )

    @property
    def _until(self) -> str:
        micros = 0 if self.lease_seconds == float("inf") else round(self.lease_seconds * 1e6)
        return f"{self.words['now']} + {micros}"

    @property
    def _held(self) -> str:
        """Whether a lease runs; a database whose clock was set back must not keep a dead owner's for hours."""
        now, far = self.words["now"], FAR
        if self.lease_seconds != float("inf"):
            far = max(far, round(self.lease_seconds * 1e7))
        return f"(lease_until > {now} AND lease_until <= {now} + {far})"

    def _lease(self, campaign: int, name: str, epoch: int, begun: float) -> Lease:
        return Lease(int(campaign), name, int(epoch), self.lease_seconds, begun + self.lease_seconds)

    def _hold(self, do: Statements, lease: Lease, ends: int | None = None) -> None:
        """Prolong a lease, and note where the log ends if it has grown."""
        held = do.run(
            f"UPDATE campaigns SET lease_until = {self._until}, head = coalesce(?, head) "
            "WHERE campaign = ? AND epoch = ? RETURNING 1",
            (ends, lease.campaign, lease.epoch),
        )
        if not held:
            raise self._lost(lease)

    def _lost(self, lease: Lease) -> Fenced:
        lease.until = 0.0
        return Fenced(f"campaign {lease.name!r} was taken over by another process; this one answers nothing.")

    def _insert(self, do: Statements, campaign: int, name: str, rows: ManyRows) -> None:
        for table, batch in rows.items():
            do.add(table, ((campaign, *row) for row in sealed(table, name, batch)))

    def _busy(self, name: str, owner: str) -> CampaignBusy:
        return CampaignBusy(
            f"campaign {name!r} is held by {owner}; ask there, or wait until it is closed or its lease has run out.",
            owner,
        )
