"""A backup takes the place of a SQLite file: all at once, and only if nobody has either of them open."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import apsw

from freepull.campaigns.stores.base import opened_here
from freepull.campaigns.stores.sqlite import MARK, SqliteStore, busy, check_rights
from freepull.errors import CampaignBusy, Corrupt, InvalidInput, StoreError
from freepull.files import make_durable

if sys.platform != "win32":
    import fcntl

ANSWERED = "-answered"
SIDES = ("-wal", "-shm", "-journal", ANSWERED)
"""What SQLite and `wal` keep beside a file, and take for a part of it."""
SHARED = (0x40000002, 510)
"""The bytes of a file that SQLite locks: where, and how many."""


class Replacing:
    """Puts a backup in the place of a file that nobody has open, all at once; until then nothing has changed.

    ``staged`` is a copy of the backup beside the file, to be looked at and closed again before `replace`.
    """

    def __init__(self, path: Path, backup: Path) -> None:
        self.path, self.backup = path.resolve(), backup
        self.staged = self.path.with_name(f"{self.path.name}.restoring")
        self._open = ExitStack()
        self._done = False
        self._old: apsw.Connection | None = None

    def __enter__(self) -> Replacing:
        check_rights(self.path)
        with self._failing():  # this user may not even look
            usable = self.backup.is_file() and self.backup.resolve() != self.path
        if not usable:
            raise InvalidInput(
                f"path must be a backup, a file that exists and is not the store's own, got {self.backup}."
            )
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise InvalidInput(f"url must name a file in a folder that exists, got 'sqlite:///{self.path}'.")
        with ExitStack() as undo, self._failing():
            undo.push(self.__exit__)
            self._lock_old()
            self._stage()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        if self._old is not None:
            self._old.close(True)

    def _lock_old(self) -> None:
        """Keep everybody else from the file that is there, if it can be read at all."""
        if not self.path.exists():
            return
        old = self._old = apsw.Connection(str(self.path))
        old.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        old.set_busy_timeout(0)
        try:
            old.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            old.execute("BEGIN EXCLUSIVE")
            mark, tables = old.pragma("application_id"), old.execute("SELECT count(*) FROM sqlite_schema").get
            old.execute("COMMIT")
        except (apsw.BusyError, apsw.LockedError) as error:
            raise busy(f"sqlite:///{self.path}") from error
        except (apsw.CorruptError, apsw.NotADBError):
            old.close(True)
            self._old = None
            return
        if mark != MARK and (mark or tables):
            raise InvalidInput(f"sqlite:///{self.path} is a SQLite file of another program; choose another name.")

    def _stage(self) -> None:
        """Copy the backup, which is only read."""
        if any(isinstance(it, SqliteStore) and it.path.resolve() == self.backup.resolve() for it in opened_here()):
            raise busy(str(self.backup))
        file = self._open.enter_context(self.staged.open("ab"))
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CampaignBusy(f"another process restores sqlite:///{self.path}; wait until it is done.") from None
        self._open.callback(self._clear)
        for side in SIDES:
            self._beside(self.staged, side).unlink(missing_ok=True)
        file.truncate(0)
        like = self.path if self.path.exists() else self.backup
        shutil.copymode(like, self.staged)
        with suppress(OSError):
            os.chown(self.staged, like.stat().st_uid, like.stat().st_gid)
        with self.backup.open("rb") as backup:
            if sys.platform != "win32":
                try:
                    fcntl.lockf(backup, fcntl.LOCK_SH | fcntl.LOCK_NB, SHARED[1], SHARED[0])
                except OSError:
                    raise busy(str(self.backup)) from None
            _copy(backup, file)
            wal = self._beside(self.backup, "-wal")
            if wal.is_file():
                with wal.open("rb") as source, self._beside(self.staged, "-wal").open("wb") as target:
                    _copy(source, target)
        with closing(apsw.Connection(str(self.staged))) as copy:
            if copy.pragma("application_id") != MARK:
                raise InvalidInput(f"path must be a backup of freepull's, but {self.backup} is another file.")
            found = copy.pragma("integrity_check")
            if found != "ok":
                raise Corrupt(f"{self.backup} is damaged ({str(found).splitlines()[0]}); restore another backup.")

    def _clear(self) -> None:
        for side in () if self._done else ("", *SIDES):
            self._beside(self.staged, side).unlink(missing_ok=True)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the disk into ours."""
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise Corrupt(f"{self.backup} is damaged or no SQLite file ({error}); restore another backup.") from error
        except (apsw.Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise StoreError(f"{self.backup} could not be restored to sqlite:///{self.path}: {why}.") from error

    def replace(self) -> Path | None:
        """Put the copy in its place; return where the old file is kept."""
        with self._failing():
            there, kept = self.path.exists(), self._kept()
            self._set_aside(there, kept)
            make_durable(self.staged)
            if there and self._old is not None:
                self.staged.rename(self.path)
            else:
                os.link(self.staged, self.path)  # unlike a rename, it spares what somebody has made there meanwhile
                self.staged.unlink()
            self._done = True
            make_durable(self.path.parent)
        return kept if there else None

    def _set_aside(self, there: bool, kept: Path) -> None:
        """Keep what is there under another name; the file itself stays, unless it cannot be read anyway."""
        if self._old is not None:  # from here on, the file alone is all of it
            self._beside(self.path, ANSWERED).unlink(missing_ok=True)  # before the log that it is about is empty
            make_durable(self.path.parent)
            self._old.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if there:
            self._keep(self.path, kept)
        sides = [self._beside(self.path, side) for side in SIDES]
        for side in sides if self._old is None else ():
            if side.exists():
                self._keep(side, self._beside(kept, side.name.removeprefix(self.path.name)))
        make_durable(self.path.parent)
        if there and self._old is None:  # what is damaged must not be taken for whole without what lay beside it
            self.path.unlink()
        for side in sides:
            side.unlink(missing_ok=True)

    def _kept(self) -> Path:
        name = f"{self.path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
        return next(place for name in names if not (place := self.path.with_name(name)).exists())

    def _keep(self, file: Path, name: Path) -> None:
        try:
            os.link(file, name)
        except OSError:  # no links here; the copied file stays open, because closing it would drop the lock
            source = self._open.enter_context(file.open("rb"))
            with name.open("xb") as target:
                _copy(source, target)
            shutil.copystat(file, name)

    @staticmethod
    def _beside(file: Path, side: str) -> Path:
        return file.with_name(file.name + side)


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    shutil.copyfileobj(source, target, 1 << 20)
    target.flush()
    os.fsync(target.fileno())
