"""A store that could not be read is closed as a whole, so that somebody else can open it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.stores import connect
from freepull.campaigns.stores.sqlite import SqliteStore
from support.staging import Clock, create


class Unreadable(apsw.VFS):
    """The real disk, whose files cannot be read any more once `bad` is set."""

    def __init__(self) -> None:
        self.bad = False
        super().__init__("unreadable", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return UnreadableFile(self, name, flags)


class UnreadableFile(apsw.VFSFile):
    def __init__(self, disk: Unreadable, name: Any, flags: list[int]) -> None:
        self.disk = disk
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self.disk.bad:
            raise apsw.IOError("made to fail")
        return super().xRead(amount, offset)


@pytest.fixture
def disk() -> Iterator[Unreadable]:
    found = Unreadable()
    yield found
    found.unregister()


@pytest.mark.parametrize("mended", [False, True])
def test_after_a_failed_read_it_closes_and_can_be_opened_again(
    sqlite: str, clock: Clock, disk: Unreadable, mended: bool
) -> None:
    path = Path(sqlite.removeprefix("sqlite:///"))
    campaign = create(SqliteStore(path, vfs="unreadable"), clock)
    campaign.tell("ann", "A", 0.5)
    store = campaign.core.store
    assert isinstance(store, SqliteStore)
    store.query("PRAGMA shrink_memory")
    disk.bad = True
    with pytest.raises(errors.StoreError, match="could not be read or written: IOError"):
        campaign.ledger()
    disk.bad = not mended
    campaign.close()
    campaign.close()
    with fp.Campaign.open(sqlite, "onboarding", clock=clock) as again:
        assert again.status().observations == 1


def test_a_writer_that_cannot_read_lets_go_of_the_file(sqlite: str, clock: Clock, disk: Unreadable) -> None:
    campaign = create(SqliteStore(sqlite.removeprefix("sqlite:///"), vfs="unreadable"), clock)
    store = campaign.core.store
    assert isinstance(store, SqliteStore)
    store.query("PRAGMA shrink_memory")
    disk.bad = True
    with pytest.raises(errors.WriterEnded, match="could not go on"):
        campaign.tell("ann", "A", 0.5, "visit 1")
    campaign.close()
    connect(sqlite).close()
