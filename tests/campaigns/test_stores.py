"""Both stores keep the promises of the kit, and the kit finds stores that do not; newer versions, others' files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

import freepull as fp
from chaos.postgres_server import PostgresServer
from freepull import errors
from freepull.campaigns.journal.events import ManyRows, Row
from freepull.campaigns.stores import Lease, connect
from freepull.campaigns.stores.postgres import PostgresStore
from freepull.campaigns.stores.serving import Holder, StoredReply, TokenNote
from freepull.campaigns.stores.sqlite import SqliteStore
from freepull.testing import STORE_CHECKS, check_store


@pytest.mark.parametrize("promise", STORE_CHECKS)
def test_sqlite_keeps_its_promises(tmp_path: Path, promise: str) -> None:
    STORE_CHECKS[promise](lambda: SqliteStore(tmp_path / "trial.db"))


def test_sqlite_syncs_every_commit_of_its_write_ahead_log(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "trial.db")) as store:
        full = 2
        assert store.query("PRAGMA synchronous") == [(full,)]
        assert store.query("PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("promise", STORE_CHECKS)
def test_postgres_keeps_its_promises(postgres: str, promise: str) -> None:
    STORE_CHECKS[promise](lambda: PostgresStore(postgres, lease_seconds=1.0))


class Loses(SqliteStore):
    """Forgets a row now and then."""

    def write(self, lease: Lease, rows: ManyRows) -> None:
        super().write(lease, {table: list(batch)[:-1] if table == "audit" else batch for table, batch in rows.items()})


class Unfenced(SqliteStore):
    """Lets anybody write."""

    def write(self, lease: Lease, rows: ManyRows) -> None:
        lease.epoch = self.query("SELECT epoch FROM campaigns WHERE campaign = ?", (lease.campaign,))[0][0]
        super().write(lease, rows)


class Torn(SqliteStore):
    """Writes table by table."""

    def write(self, lease: Lease, rows: ManyRows) -> None:
        for table, batch in rows.items():
            super().write(lease, {table: batch})


class Forgetful(SqliteStore):
    """Does not find event ids."""

    def find_events(self, lease: Lease, ids: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
        return {}


class OneTooMany(SqliteStore):
    """Miscounts the last rows."""

    def before_last(self, name: str, table: str, count: int) -> Row:
        return super().before_last(name, table, count + 1)


class Nameless(SqliteStore):
    """Does not say who has a campaign."""

    def holders(self, campaign: str | None = None) -> list[Holder]:
        return [it._replace(owner="") for it in super().holders(campaign)]


class Revived(SqliteStore):
    """Gives a token that was revoked a new end."""

    def revoke_token(self, id: str, note: TokenNote) -> None:
        super().revoke_token(id, note)
        with self.transaction() as do:
            do.run("UPDATE tokens SET revoked = ? WHERE id = ?", (note.at, id))


class Unnoted(SqliteStore):
    """Does not say who has ended an agent's tokens."""

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        super().raise_version(campaign, agent, note)
        with self.transaction() as do:
            do.run("DELETE FROM token_notes WHERE entry = (SELECT max(entry) FROM token_notes)")


class Replaces(SqliteStore):
    """Keeps the last reply, not the first."""

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        with self.transaction() as do:
            do.run("DELETE FROM answered WHERE id = ?", (id,))
        super().keep_reply(id, reply, at, since)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Loses, "rows come back"),
        (Unfenced, "an old lease"),
        (Torn, "all or nothing"),
        (Forgetful, "event ids are found"),
        (OneTooMany, "rows come back"),
        (Nameless, "holders are told"),
        (Unnoted, "tokens are kept"),
        (Revived, "tokens are kept"),
        (Replaces, "replies are kept"),
    ],
)
def test_the_kit_finds_a_store_that_breaks_a_promise(tmp_path: Path, broken: type[SqliteStore], promise: str) -> None:
    with pytest.raises(AssertionError, match=f"the store does not keep a promise: .*{promise}"):
        check_store(lambda: broken(tmp_path / "trial.db"))


def newer_sqlite(url: str) -> None:
    database = apsw.Connection(url.removeprefix("sqlite:///"))
    database.execute("PRAGMA user_version = 99")
    database.close()


def newer_postgres(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO freepull.version VALUES (99)")


def test_tables_of_a_newer_version_are_refused(url: str) -> None:
    connect(url, new=True).close()
    change: Callable[[str], None] = newer_sqlite if url.startswith("sqlite") else newer_postgres
    change(url)
    with pytest.raises(
        errors.NewerVersion, match=r"was written by a newer freepull \(its tables have version 99"
    ) as said:
        fp.Campaign.open(url, "x")
    assert re.search(r"install a newer freepull\.$", str(said.value))


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    database = apsw.Connection(str(other))
    database.execute("CREATE TABLE t (x)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(errors.InvalidInput, match="is a SQLite file of another program"):
        fp.Campaign.open(f"sqlite:///{other}", "x")
    assert other.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look like one " * 50)
    with pytest.raises(errors.Corrupt, match="is damaged or no SQLite file"):
        fp.Campaign.open(f"sqlite:///{text}", "x")
    assert text.read_text().startswith("not a database")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x", "url must begin with"),
        ("sqlite:///", "url must begin with"),
        (17, "url must be a text"),
        ("sqlite:////nowhere/at/all.db", "url must name a file in a folder that exists"),
    ],
)
def test_urls_are_checked(url: str, said: str) -> None:
    with pytest.raises(errors.InvalidInput, match=said):
        connect(url, new=True)


def test_a_postgres_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreError, match="failed: connection "):
        fp.Campaign.open(f"postgresql://nobody@/none?host={tmp_path}", "x")


@pytest.mark.slow
def test_a_postgres_on_which_nothing_is_durable_is_refused() -> None:
    server = PostgresServer()
    with closing(server):
        server.start("-c", "fsync=off")
        with pytest.raises(errors.StoreError, match="runs with fsync = off, where nothing is durable; turn it on"):
            PostgresStore(server.url)


def test_commits_are_durable_even_where_that_is_not_the_default(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            with closing(PostgresStore(postgres)) as store:
                assert store.query("SHOW synchronous_commit") == [("on",)]
        finally:
            connection.execute("ALTER ROLE postgres RESET synchronous_commit")


def test_a_password_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreError) as said:
        fp.Campaign.open(f"postgresql://nobody:secret@/none?host={tmp_path}", "x")
    assert "secret" not in str(said.value)
