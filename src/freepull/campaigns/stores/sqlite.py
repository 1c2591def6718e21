"""Campaigns in a SQLite file, through apsw: write-ahead log, every commit synced, one process at a time.

Never open the same file with the standard library's sqlite3 in the same process: closing that connection would drop
this one's lock.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, cast

from freepull.campaigns.journal.events import Row
from freepull.campaigns.stores.base import Inherited, Lease, inherited, of_this_process
from freepull.campaigns.stores.serving import Statements
from freepull.campaigns.stores.sql import INSERT, SqlStore
from freepull.errors import (
    CampaignBusy,
    Corrupt,
    Fenced,
    InvalidInput,
    MissingExtra,
    StoreError,
    UnknownCampaign,
    WrongMoment,
)

try:
    import apsw

    from freepull.campaigns.stores.wal import Answered
except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
    raise MissingExtra("campaigns need apsw for SQLite; install freepull with pip install 'freepull[live]'.") from error

MARK = 0x66707531
"""SQLite's application id of our files."""
EFFECTIVE = {"effective_ids": os.access in os.supports_effective_ids}
TRACELESS = "traceless"
"""Under this name `secrets` notes that the file was always written so that nothing deleted is left in it."""
CHECKPOINT = 2000
"""Pages of the write-ahead log after which they are moved into the file."""
COPIED = 1000
"""Pages that a backup copies at a time; what is written in between, it takes along."""


class SqliteStore(SqlStore):
    """One file, opened with an exclusive lock and shared by all campaigns of the process."""

    words: ClassVar[dict[str, str]] = {
        "blob": "BLOB",
        "serial": "INTEGER PRIMARY KEY",
        "clustered": "WITHOUT ROWID",
        "uncompressed": "",
        "now": "0",
        "raw": "CAST({} AS BLOB)",
    }
    lease_seconds = float("inf")
    reopens = False
    _open: ClassVar[dict[Path, SqliteStore]] = {}
    _opening: ClassVar[threading.Lock] = threading.Lock()
    _inherited: ClassVar[set[Path]] = set()
    """Files that were open in the process that this one was forked from: here SQLite takes them for its own."""

    def __init__(self, path: str | Path, *, synchronous: str = "FULL", vfs: str | None = None) -> None:
        self.path = Path(path)
        self.url = f"sqlite:///{path}"
        super().__init__()
        self._lock = threading.RLock()
        self._users = 1
        self._broken = False
        self._pages, self._grown = 0, False
        """Of the write-ahead log, and whether there are more than were noted as answered."""
        if vfs is None:
            check_rights(self.path)
        self._answered = Answered(str(path), vfs)
        if vfs is None and (self.path.is_dir() or not self.path.parent.is_dir()):
            raise InvalidInput(f"url must name a file in a folder that exists, got {self.url!r}.")
        if self.path.resolve() in self._inherited:
            raise inherited(self.url)
        with self._failing():
            file = None if vfs is not None else _number(self.path)
            self._connection = apsw.Connection(str(path), vfs=vfs)
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            of_this_process(self)
            try:
                self._prepare(synchronous)
                if file not in (None, _number(self.path)):
                    raise CampaignBusy(f"{self.url} was replaced by a backup just now; open it again.")
                new = self._connection.pragma("user_version") == 0
                self.migrate()
                if new:
                    self.secret(TRACELESS, b"")
            except BaseException:
                self._answered.close()
                self._shut()
                raise

    @classmethod
    def shared(cls, path: str, new: bool) -> SqliteStore:
        """Return the store of a file, the same one for everybody in this process."""
        check_rights(Path(path))
        where = Path(path).resolve()
        if not new and not where.exists():
            raise UnknownCampaign(f"there is no file {path}; make a campaign first, or look for the file elsewhere.")
        with cls._opening:
            if where in cls._open:
                cls._open[where]._users += 1
            else:
                cls._open[where] = cls(path)
            return cls._open[where]

    def _prepare(self, synchronous: str) -> None:
        """Take the lock, and make every commit durable; finish what a crash has left first."""
        run = self._connection.execute
        self._connection.set_busy_timeout(0)
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        self._answered.check()
        mark, tables = self._connection.pragma("application_id"), run("SELECT count(*) FROM sqlite_schema").get
        run("COMMIT")
        if mark != MARK and (mark or tables):
            if run("SELECT count(*) FROM sqlite_schema WHERE name IN ('campaigns', 'segments', 'ledger')").get == 3:
                raise Corrupt(f"{self.url} is damaged: it has our tables, but not our mark; restore it from a backup.")
            raise InvalidInput(f"{self.url} is a SQLite file of another program; choose another name.")
        if self._connection.pragma("journal_mode", "wal") != "wal":
            raise StoreError(f"{self.url} is on a file system without write-ahead logs; choose another place.")
        run(f"PRAGMA application_id = {MARK}")
        run(f"PRAGMA synchronous = {synchronous}")
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA secure_delete = ON")
        run("PRAGMA cache_size = -65536")
        run("PRAGMA wal_autocheckpoint = 0")
        self._empty_log()
        self._connection.set_wal_hook(self._note_pages)

    def _empty_log(self) -> None:
        """Move the write-ahead log into the file, and leave nothing of it."""
        self._answered.forget()
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _note_pages(self, connection: apsw.Connection, database: str, pages: int) -> int:
        self._pages, self._grown = pages, True
        return apsw.SQLITE_OK

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Run what follows all at once and durably, or not at all; a failed commit is never tried again."""
        with self._lock, self._failing():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _Statements(self._connection)
                self._connection.execute("COMMIT")
                if self._grown:
                    self._answered.note(self._pages)
                    self._grown = False
                if self._pages >= CHECKPOINT:  # our own, because SQLite's would keep its errors to itself
                    self._connection.wal_checkpoint()
                    self._answered.begun_anew()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def query(self, sql: str, values: Row = ()) -> list[Row]:
        """Read."""
        with self._lock, self._failing(reading=True):
            return self._connection.execute(sql, values).fetchall()

    def find_events(self, lease: Lease, ids: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Return the event ids that are known."""
        sql = "SELECT id, event, record FROM event_ids WHERE campaign = ? AND id = ?"
        with self._lock, self._failing(reading=True):
            found: list[Any] = self._connection.executemany(sql, [(lease.campaign, key) for key in ids]).fetchall()
        return {key: (event, record) for key, event, record in found}

    def remove(self, lease: Lease, table: str, column: str, below: int, most: int) -> int:
        """Remove some rows; what is left of a snapshot on free pages, which is large and has no names, stays there."""
        with self._lock:
            with self._failing():
                self._connection.pragma("secure_delete", table != "snapshots")
            try:
                return super().remove(lease, table, column, below, most)
            finally:
                with suppress(apsw.Error):
                    self._connection.pragma("secure_delete", True)

    def erase_names(self, lease: Lease, agents: Iterable[int] | None) -> None:
        """Erase names, from the file's free space and the write-ahead log as well."""
        with self._lock:
            if not self.query("SELECT 1 FROM secrets WHERE name = ?", (TRACELESS,)):
                self._vacuum()
            with self._rewriting():
                super().erase_names(lease, agents)
            with self._failing():
                self._empty_log()

    @contextmanager
    def _rewriting(self) -> Iterator[None]:
        """Let a table be emptied and filled page by page: ten times as fast as row by row."""
        pragma = self._connection.pragma
        with self._failing():
            pragma("temp_store", "memory")
            pragma("foreign_keys", False)
        try:
            yield
        finally:
            with suppress(apsw.Error):
                pragma("foreign_keys", True)
                pragma("temp_store", "default")

    def rewrite_names(self, do: Statements) -> None:
        """Write the names that are left anew: pages that were split or joined still have copies of the others."""
        ((sql,),) = do.run("SELECT sql FROM sqlite_schema WHERE name = 'names'")
        do.run(str(sql).replace("TABLE names", "TEMP TABLE kept", 1))
        do.run("INSERT INTO kept SELECT * FROM names")
        do.run("DELETE FROM names")
        do.run("INSERT INTO names SELECT * FROM kept")
        do.run("DROP TABLE temp.kept")

    def _vacuum(self) -> None:
        """Write the whole file anew, once: older versions left free pages as they were."""
        size = self.path.stat().st_size
        if shutil.disk_usage(self.path.parent).free < 3 * size:
            raise WrongMoment(
                f"erasing the first names from {self.url}, which an older version wrote, takes {3 * size:,} bytes "
                "on its disk; make room, and erase them again."
            )
        with self._failing():
            self._connection.execute("VACUUM")
        self.secret(TRACELESS, b"")

    def version(self, do: Statements) -> int:
        """Return the number of the last migration."""
        return int(do.run("PRAGMA user_version")[0][0])

    def set_version(self, do: Statements, number: int) -> None:
        """Note the number of the last migration."""
        do.run(f"PRAGMA user_version = {number}")

    def backup(self, path: str | Path) -> None:
        """Copy the whole file to a new one, as it is when that is done; campaigns go on meanwhile."""
        target = Path(path)
        if target.exists():
            raise InvalidInput(f"path must be a file that does not exist yet, got {str(path)!r}.")
        try:
            with closing(apsw.Connection(str(target))) as copy:
                self._copy(copy)
        except apsw.Error as error:  # the campaigns go on
            target.unlink(missing_ok=True)
            raise StoreError(f"{self.url} could not be copied to {path}: {error}; choose another place.") from error

    def _copy(self, copy: apsw.Connection) -> None:
        """Copy some pages at a time, so that nobody waits long."""
        with self._lock:
            backup = copy.backup("main", self._connection, "main")
        try:
            while not backup.done:
                with self._lock:
                    backup.step(COPIED)
        finally:
            with self._lock:
                backup.close()

    def close(self) -> None:
        """Close the file, once nobody in this process uses it any more."""
        if isinstance(self._connection, Inherited):
            return
        with self._opening, self._lock:
            self._users -= 1
            if self._users > 0:
                return
            self._forget()
            broken, self._broken = self._broken, False
            with self._failing():
                if broken:
                    self._answered.close()
                else:
                    self._answered.remove()  # before the log that it is about is gone
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(broken))
                self._shut()

    def _shut(self) -> None:
        self._connection.close(True)
        of_this_process(self, False)

    def forked(self) -> None:
        """Leave the file to the process that this one was forked from."""
        SqliteStore._opening = threading.Lock()
        SqliteStore._open.clear()
        SqliteStore._inherited.add(self.path.resolve())
        self._lock = threading.RLock()
        self._connection = cast(apsw.Connection, Inherited(self.url, self._connection))

    def _forget(self) -> None:
        """Let nobody else share this connection."""
        if self._open.get(self.path.resolve()) is self:
            del self._open[self.path.resolve()]

    def check(self) -> None:
        """Refuse a file whose structure is damaged anywhere, and damage to what belongs to no campaign."""
        super().check()
        found = str(self.query("PRAGMA integrity_check(1)")[0][0])
        if found != "ok":
            raise Corrupt(f"{self.url} is damaged ({' '.join(found.split())}); restore it from a backup.")

    @contextmanager
    def _failing(self, reading: bool = False) -> Iterator[None]:
        """Turn SQLite's errors into ours; after one that may concern the disk, this connection is not used again.

        What is found damaged while reading concerns whoever reads it: others go on.
        """
        if self._broken:
            raise StoreError(f"{self.url} failed before, so nothing more is written; close it and open it again.")
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise busy(self.url) from error
        except apsw.ConnectionClosedError as error:
            raise StoreError(f"{self.url} is closed; open the campaign again.") from error
        except apsw.ConstraintError as error:
            raise Fenced(f"{self.url} has these rows already ({error}), so somebody else wrote them.") from error
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self.url} is damaged: it has a text that is none; restore it from a backup.") from error
        except apsw.Error as error:
            damaged = isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError))
            if not (damaged and reading):
                self._broken = True
                self._forget()
            if damaged:
                raise Corrupt(
                    f"{self.url} is damaged or no SQLite file ({error}); restore it from a backup."
                ) from error
            raise StoreError(f"{self.url} could not be read or written: {type(error).__name__}, {error}.") from error


def check_rights(path: Path) -> None:
    """Refuse a file that this user may not write, or whose folder it may not write; what is not there is no matter."""
    for place, rights in ((path.parent, os.R_OK | os.W_OK | os.X_OK), (path, os.R_OK | os.W_OK)):
        if os.access(place, os.F_OK, **EFFECTIVE) and not os.access(place, rights, **EFFECTIVE):
            raise StoreError(
                f"sqlite:///{path} cannot be used, because this user may not write to {place}; give it the rights to "
                "the file, and to its folder, where SQLite keeps the write-ahead log."
            )


def _number(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def busy(what: str) -> CampaignBusy:
    """Return the error for a file that another process has."""
    return CampaignBusy(f"{what} is open in another process; close it there, or ask the service that runs it.")


class _Statements:
    """Statements on a connection that is in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows."""
        return self._connection.execute(sql, values).fetchall()

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        self._connection.executemany(sql, rows)

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows to a table."""
        self.many(INSERT[table], rows)
