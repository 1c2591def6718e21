"""Campaigns in PostgreSQL, through psycopg: a schema of its own, one connection, and a lease for every campaign."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from freepull.campaigns.journal.events import CHANGING, COLUMNS, KEYS, ManyRows, Row, sealed
from freepull.campaigns.stores.base import Inherited, Lease, of_this_process, steady
from freepull.campaigns.stores.serving import Statements
from freepull.campaigns.stores.sql import INSERT, REPLACING, SqlStore, head
from freepull.errors import Fenced, InvalidInput, MissingExtra, StoreError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
    raise MissingExtra(
        "campaigns need psycopg for PostgreSQL; install freepull with pip install 'freepull[live]'."
    ) from error

LOCK = 0x66707531
"""The advisory lock under which tables are made."""
TYPES = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'freepull'"


class PostgresStore(SqlStore):
    """The schema ``freepull`` of a database."""

    words: ClassVar[dict[str, str]] = {
        "blob": "BYTEA",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "clustered": "",
        "uncompressed": "ALTER TABLE snapshots ALTER COLUMN data SET STORAGE EXTERNAL",
        "raw": "convert_to({}, 'UTF8')",
        "now": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    }

    def __init__(self, url: str, *, lease_seconds: float = 5.0) -> None:
        self.lease_seconds = lease_seconds
        super().__init__()
        self._lock = threading.RLock()
        self._types: dict[tuple[str, str], str] = {}
        self._writing: dict[tuple[str, ...], str] = {}
        self.url = "postgresql"
        told = _parts(url)
        with self._failing():
            self.url = f"postgresql://{told.get('host', 'localhost')}/{told.get('dbname', '')}"
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=10, tcp_user_timeout=20_000)
        of_this_process(self)
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        """See to it that a commit is durable, and that one that hangs cannot hold others up for longer than a lease."""
        for setting in ("fsync", "full_page_writes"):
            if self.query(f"SHOW {setting}") != [("on",)]:
                raise StoreError(f"{self.url} runs with {setting} = off, where nothing is durable; turn it on.")
        with self._lock, self._failing():
            if self._connection.execute("SHOW synchronous_commit").fetchall() in ([("off",)], [("local",)]):
                self._connection.execute("SET synchronous_commit = on")
            self._connection.execute("SET plan_cache_mode = force_custom_plan")  # tables grow, and old plans with them
            self._connection.execute(f"SET idle_in_transaction_session_timeout = {round(self.lease_seconds * 1000)}")
            with self._connection.transaction():
                self._connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
                self._connection.execute("CREATE SCHEMA IF NOT EXISTS freepull")
                self._connection.execute("CREATE TABLE IF NOT EXISTS freepull.version (number BIGINT NOT NULL)")
            self._connection.execute("SET search_path = freepull")
        self.migrate()
        self._types = {(table, column): kind for table, column, kind in self.query(TYPES)}

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Run what follows all at once and durably, or not at all; after a failed commit only reading tells which."""
        with self._lock, self._failing(), self._connection.transaction():
            yield _Statements(self._connection)

    def write(self, lease: Lease, rows: ManyRows) -> None:
        """Add rows, durably and all at once, and prolong the lease: one statement, because every round trip costs."""
        begun = steady()
        columns = {table: found for table, batch in rows.items() if (found := _columns(table, lease.name, batch))}
        tables = tuple(columns)
        if tables not in self._writing:
            self._writing[tables] = self._write_sql(tables)
        ends = head(zip(*columns["segments"], strict=True)) if "segments" in columns else None
        values = [ends, lease.campaign, lease.epoch, *(column for found in columns.values() for column in found)]
        with self._lock, self._failing():
            if not self._connection.execute(self._writing[tables], values).fetchone():
                raise self._lost(lease)
        lease.until = begun + lease.seconds

    def _write_sql(self, tables: Iterable[str]) -> str:
        """Return a statement that adds rows, given as columns, if the lease holds, and otherwise returns no row."""
        held = f"UPDATE campaigns SET lease_until = {self._until}, head = coalesce(%s, head) WHERE campaign = %s"
        parts = [f"held AS ({held} AND epoch = %s RETURNING campaign)"]
        for table in tables:
            arrays = ", ".join(f"%b::{self._types[table, column]}[]" for column in COLUMNS[table])
            names = ", ".join(("campaign", *COLUMNS[table]))
            added = f"SELECT held.campaign, row.* FROM held, unnest({arrays}) AS row"
            parts.append(f"new_{table} AS (INSERT INTO {table} ({names}) {added}{REPLACING[table]})")
        return f"WITH {', '.join(parts)} SELECT 1 FROM held"

    def query(self, sql: str, values: Row = ()) -> list[Row]:
        """Read."""
        with self._lock, self._failing():
            return _Statements(self._connection).run(sql, values)

    def find_events(self, lease: Lease, ids: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Return the event ids that are known."""
        sql = "SELECT id, event, record FROM event_ids WHERE campaign = ? AND id = ANY(?)"
        found = self.query(sql, (lease.campaign, list(ids)))
        return {key: (event, record) for key, event, record in found}

    def version(self, do: Statements) -> int:
        """Return the number of the last migration, and keep others from making the next one at the same time."""
        do.run(f"SELECT pg_advisory_xact_lock({LOCK})")
        return int(do.run("SELECT coalesce(max(number), 0) FROM version")[0][0])

    def set_version(self, do: Statements, number: int) -> None:
        """Note the number of the last migration."""
        do.run("INSERT INTO version VALUES (?)", (number,))

    def close(self) -> None:
        """Close the connection."""
        if not isinstance(self._connection, Inherited):
            with self._lock:
                self._connection.close()
                of_this_process(self, False)

    def forked(self) -> None:
        """Leave the connection to the process that this one was forked from."""
        self._lock = threading.RLock()
        self._connection = cast(psycopg.Connection[Any], Inherited(self.url, self._connection))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into ours."""
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            raise Fenced(f"{self.url} has these rows already ({_line(error)}), so somebody else wrote them.") from error
        except psycopg.Error as error:
            raise StoreError(f"{self.url} failed: {_line(error)}.") from error


class _Statements:
    """Statements on a connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def run(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows."""
        cursor = self._connection.execute(sql.replace("?", "%s"), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows to a table; COPY is about twice as fast as a statement for each."""
        if table in CHANGING:
            self.many(INSERT[table], rows)
            return
        columns = ", ".join(("campaign", *COLUMNS[table]))
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _parts(url: str) -> dict[str, Any]:
    """Read a URL; what libpq says of a wrong one would quote the password."""
    try:
        told: dict[str, Any] = conninfo_to_dict(url)
        if all(not port or port.isdigit() for port in str(told.get("port", 5432)).split(",")):
            return told
    except psycopg.Error:
        pass
    raise InvalidInput(
        "url must be one that PostgreSQL can read, such as postgresql://user@host:5432/database; write signs in a "
        "password as %40 for @ and so on, or put the password into a file that FREEPULL_PASSWORD_FILE names."
    )


def _columns(table: str, campaign: str, rows: Iterable[Row]) -> list[list[Any]]:
    """Return rows as columns, with their seals; of those that replace one another, the last."""
    if table in CHANGING:
        rows = {row[: KEYS[table]]: row for row in rows}.values()
    rows = sealed(table, campaign, rows)
    return [list(column) for column in zip(*rows, strict=True)]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(" .?")
