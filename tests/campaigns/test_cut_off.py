"""SQLite's write-ahead log: what was answered is never cut off in silence, and a power cut is not taken for damage."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import sqlite as sqlite_store
from freepull.campaigns.stores import wal
from freepull.campaigns.stores.sqlite import SqliteStore
from support.staging import Clock, create

FRAME = 24 + 4096


class Crashed:
    """The files of a campaign as a crash has left them, its log not yet moved into the file."""

    def __init__(self, folder: Path, clock: Clock, note: bool = True) -> None:
        self.folder, self.clock = folder / "crashed", clock
        live = folder / "live"
        live.mkdir()
        campaign = create(f"sqlite:///{live}/trial.db", clock)
        for number in range(13):
            campaign.tell("ann", "A", 0.5, f"visit {number}")
        self.events = campaign.status().events
        shutil.copytree(live, self.folder)
        campaign.close()
        if not note:
            (self.folder / "trial.db-answered").unlink()
        self.url = f"sqlite:///{self.folder}/trial.db"
        self.log = self.folder / "trial.db-wal"
        self.whole = self.log.read_bytes()
        self.kept = {file.name: file.read_bytes() for file in self.folder.iterdir()}

    @property
    def frames(self) -> int:
        return (len(self.whole) - 32) // FRAME

    @property
    def commits(self) -> list[int]:
        """The places of commits among the frames."""
        return [i for i in range(self.frames) if any(self.whole[32 + i * FRAME + 4 : 32 + i * FRAME + 8])]

    def left_with(self, log: bytes | None) -> None:
        """Put everything back, but another write-ahead log."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, data in self.kept.items():
            (self.folder / name).write_bytes(data)
        if log is None:
            self.log.unlink()
        else:
            self.log.write_bytes(log)

    def flipped(self, place: int, bit: int = 0) -> bytes:
        data = bytearray(self.whole)
        data[place] ^= 1 << bit
        return bytes(data)

    def events_left(self) -> int:
        with fp.Campaign.open(self.url, "onboarding", clock=self.clock) as campaign:
            return campaign.status().events


@pytest.fixture
def crashed(tmp_path: Path, clock: Clock) -> Crashed:
    return Crashed(tmp_path, clock)


def test_after_a_crash_everything_that_was_answered_is_there(crashed: Crashed) -> None:
    assert crashed.events_left() == crashed.events
    assert sorted(file.name for file in crashed.folder.iterdir()) == ["trial.db"]


@pytest.mark.parametrize("note", [True, False])
def test_a_flipped_bit_before_the_last_commit_is_found(tmp_path: Path, clock: Clock, note: bool) -> None:
    crashed, rng = Crashed(tmp_path, clock, note), random.Random(5)
    settled = 32 + (crashed.commits[-3] + 1) * FRAME
    for place in [0, 3, 17, 30, *(rng.randrange(32, settled) for _ in range(25))]:
        crashed.left_with(crashed.flipped(place, rng.randrange(8)))
        with pytest.raises(errors.Corrupt, match=r"trial\.db-wal is damaged|the beginning of .*-wal is damaged"):
            fp.Campaign.open(crashed.url, "onboarding", clock=clock)
        assert crashed.log.read_bytes() != b"", "what is left must not be touched"
    crashed.left_with(crashed.whole)
    assert crashed.events_left() == crashed.events


def test_with_the_note_damage_to_the_last_commit_and_a_cut_log_are_found_too(crashed: Crashed) -> None:
    rng, last = random.Random(6), 32 + (crashed.commits[-2] + 1) * FRAME
    damaged = [crashed.flipped(rng.randrange(last, len(crashed.whole))) for _ in range(15)]
    cut = [crashed.whole[: 32 + frames * FRAME] for frames in (0, 1, crashed.commits[-2] + 1)]
    for log in [*damaged, *cut, b"", None, crashed.whole[:-1], bytes(len(crashed.whole))]:
        crashed.left_with(log)
        with pytest.raises(errors.Corrupt, match=r"damaged or cut off after frame \d+, but \d+ were answered"):
            verify(crashed.url, "onboarding")


def test_a_torn_last_commit_is_a_power_cut(tmp_path: Path, clock: Clock) -> None:
    crashed, rng = Crashed(tmp_path, clock, note=False), random.Random(7)
    begin = crashed.commits[-2] + 1
    for _ in range(30):
        torn = bytearray(crashed.whole)
        missing = rng.sample(range(begin, crashed.frames), rng.randint(1, crashed.frames - begin))
        for frame in missing:
            place = 32 + frame * FRAME + 512 * rng.randrange(8)
            torn[place : 32 + (frame + 1) * FRAME] = bytes(32 + (frame + 1) * FRAME - place)
        crashed.left_with(bytes(torn))
        assert crashed.events_left() == crashed.events - (bytes(torn) != crashed.whole)


def test_frames_of_an_earlier_log_behind_the_last_commit_are_no_damage(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "CHECKPOINT", 30)
    (tmp_path / "live").mkdir()
    campaign = create(f"sqlite:///{tmp_path}/live/trial.db", clock)
    for number in range(40):
        campaign.tell("ann", "A", 0.5, f"visit {number}")
        found = wal.examine(f"{tmp_path}/live/trial.db-wal", None)
        assert found is not None
        assert found.cut is None
        copy = tmp_path / f"copy {number}"
        shutil.copytree(tmp_path / "live", copy)
        assert verify(f"sqlite:///{copy}/trial.db", "onboarding").events == campaign.status().events
    campaign.close()


def test_what_a_transaction_that_was_taken_back_has_left_is_no_damage(tmp_path: Path, clock: Clock) -> None:
    crashed = Crashed(tmp_path, clock, note=False)
    live = tmp_path / "again"
    live.mkdir()
    with closing(SqliteStore(live / "trial.db")) as store:
        store._connection.execute("PRAGMA cache_size = 5")  # so that it writes before it commits
        store._connection.execute("BEGIN")
        store._connection.execute("CREATE TABLE spilled (data)")
        for _ in range(60):
            store._connection.execute("INSERT INTO spilled VALUES (randomblob(4000))")
        store._connection.execute("ROLLBACK")
        lease = store.create("x", "me", {"names": [(0, "ann")]})
        data = bytearray(Path(f"{live}/trial.db-wal").read_bytes())
        store.release(lease)
    found = wal.examine(_written(tmp_path / "left.db-wal", bytes(data)), None)
    assert found is not None
    assert found.cut is None
    torn = 32 + (found.frames - 2) * FRAME
    data[torn + 600 : torn + FRAME] = bytes(FRAME - 600)
    again = wal.examine(_written(tmp_path / "left.db-wal", bytes(data)), None)
    assert again is not None
    assert again.cut is None
    assert crashed.events_left() == crashed.events


def _written(path: Path, data: bytes) -> str:
    path.with_name("left.db").touch()
    path.write_bytes(data)
    return str(path)


def test_checksums_are_those_of_sqlite(tmp_path: Path) -> None:
    for size in (512, 4096, 65536):
        path = tmp_path / f"{size}.db"
        with closing(apsw.Connection(str(path))) as database:
            database.pragma("page_size", size)
            database.pragma("journal_mode", "wal")
            database.execute("CREATE TABLE t (x)")
            for _ in range(20):
                database.execute("INSERT INTO t VALUES (randomblob(300))")
            found = wal.examine(f"{path}-wal", None)
            assert found is not None
            assert found.frames == (Path(f"{path}-wal").stat().st_size - 32) // (24 + size)
            assert found.cut is None
