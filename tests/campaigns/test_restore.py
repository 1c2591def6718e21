"""A backup is restored as a whole or not at all, whatever lies beside the file whose place it takes."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.files import restore
from freepull.campaigns.journal.recovery import verify
from support.program import check_refusal, inside
from support.staging import Clock, create, picture

GOLDEN = Path(__file__).parents[1] / "golden" / "releases" / "0.1.tar.gz"


class Scene:
    """A backup, and a store that went on after it was made and then crashed, its write-ahead log beside it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.path, self.backup = folder / "trial.db", folder / "backup.db"
        self.url = f"sqlite:///{self.path}"
        live = folder / "live"
        live.mkdir()
        campaign = create(f"sqlite:///{live}/trial.db", clock, agents=[f"user-{i}" for i in range(300)])
        for number in range(30):
            campaign.tell(f"user-{number}", "A", 0.5, f"before {number}")
        campaign.backup(self.backup)
        self.saved, self.bytes = picture(campaign), self.backup.read_bytes()
        for number in range(30):
            campaign.tell(f"user-{number}", "B", 0.25, f"after {number}")
        self.last = picture(campaign)
        for file in live.iterdir():
            shutil.copy(file, folder / file.name)
        campaign.close()
        shutil.rmtree(live)
        self.clock = clock
        assert (folder / "trial.db-wal").stat().st_size > 0

    def now(self, path: Path | None = None) -> bytes:
        with fp.Campaign.open(f"sqlite:///{path or self.path}", "onboarding", clock=self.clock) as campaign:
            return picture(campaign)

    def files(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.path.parent.iterdir()}


@pytest.fixture
def scene(tmp_path: Path, clock: Clock) -> Scene:
    return Scene(tmp_path, clock)


def test_a_backup_takes_the_place_of_a_store_and_of_its_write_ahead_log(scene: Scene) -> None:
    found = restore(scene.url, scene.backup)
    assert [(it.name, it.observations) for it in found.campaigns] == [("onboarding", 30)]
    assert scene.now() == scene.saved
    assert scene.backup.read_bytes() == scene.bytes
    assert found.kept is not None
    assert scene.now(Path(found.kept)) == scene.last
    verify(scene.url, "onboarding")
    again = restore(scene.url, found.kept)
    assert scene.now() == scene.last
    assert again.kept != found.kept
    assert sorted(scene.files()) == sorted(
        Path(it).name for it in (scene.path, scene.backup, found.kept, again.kept or "")
    )


def test_a_store_that_somebody_has_open_is_not_replaced(scene: Scene) -> None:
    with fp.Campaign.open(scene.url, "onboarding", clock=scene.clock) as campaign:
        campaign.tell("user-1", "A", 0.5, "now")
        for _ in range(2):
            with pytest.raises(errors.CampaignBusy, match="is open in another process; close it there"):
                restore(scene.url, scene.backup)
        campaign.tell("user-2", "A", 0.5, "now")
        assert picture(campaign) != scene.last
        assert not list(scene.path.parent.glob("*restoring*"))
    assert verify(scene.url, "onboarding").observations == 62


def test_a_backup_that_is_open_is_not_read(scene: Scene) -> None:
    before = scene.path.read_bytes()
    with fp.Campaign.open(f"sqlite:///{scene.backup}", "onboarding", clock=scene.clock) as campaign:
        with pytest.raises(errors.CampaignBusy, match=r"backup\.db is open in another process"):
            restore(scene.url, scene.backup)
        campaign.tell("user-1", "A", 0.5)
    assert scene.path.read_bytes() == before


def _flip(scene: Scene) -> None:
    with apsw.Connection(str(scene.backup)) as database:
        database.execute("UPDATE segments SET data = zeroblob(100) WHERE number = 7")
    database.close()


def _foreign(scene: Scene) -> None:
    scene.backup.unlink()
    with apsw.Connection(str(scene.backup)) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()


def _torn(scene: Scene) -> None:
    scene.backup.write_bytes(scene.bytes[: len(scene.bytes) // 2 // 4096 * 4096])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_flip, r"backup.db cannot be restored, and nothing was replaced, because segment 7 of the log"),
        (_foreign, "path must be a backup of freepull's, but .*backup.db is another file"),
        (_torn, "backup.db is damaged"),
        (lambda scene: scene.backup.write_bytes(b""), "path must be a backup of freepull's"),
        (lambda scene: scene.backup.write_text("notes " * 1000), "backup.db is damaged or no SQLite file"),
        (lambda scene: scene.backup.unlink(), "path must be a backup, a file that exists"),
    ],
)
def test_a_backup_that_is_none_changes_nothing(scene: Scene, spoil: Callable[[Scene], object], said: str) -> None:
    spoil(scene)
    before = scene.files()
    with pytest.raises((errors.InvalidInput, errors.Corrupt), match=said):
        restore(scene.url, scene.backup)
    assert scene.files() == before
    assert scene.now() == scene.last


def test_a_damaged_store_is_replaced_and_kept_with_what_lay_beside_it(scene: Scene) -> None:
    scene.path.write_bytes(b"what was a store " * 4096)
    Path(f"{scene.path}-wal").write_bytes(b"and its log " * 4096)
    before = scene.files()
    found = restore(scene.url, scene.backup)
    assert scene.now() == scene.saved
    kept = Path(found.kept or "")
    assert kept.read_bytes() == before["trial.db"]
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == before["trial.db-wal"]


def test_a_write_ahead_log_without_its_store_is_not_taken_for_the_backups(scene: Scene) -> None:
    scene.path.unlink()
    assert restore(scene.url, scene.backup).kept is None
    assert scene.now() == scene.saved


def test_what_lies_beside_a_backup_belongs_to_it(scene: Scene) -> None:
    source = scene.path.parent / "moved" / "trial.db"
    source.parent.mkdir()
    for side in ("", "-wal"):
        shutil.move(f"{scene.path}{side}", f"{source}{side}")
    before = Path(f"{source}-wal").read_bytes()
    restore(scene.url, source)
    assert scene.now() == scene.last
    assert Path(f"{source}-wal").read_bytes() == before


def test_a_backup_of_an_older_version_is_restored(scene: Scene) -> None:
    with tarfile.open(GOLDEN) as file:
        kept = file.extractfile("campaigns.db")
        assert kept is not None
        scene.backup.write_bytes(kept.read())
    found = restore(scene.url, scene.backup)
    assert len(found.campaigns) > 1
    for report in found.campaigns:
        assert verify(scene.url, report.name) == report


def test_owner_and_rights_of_the_file_stay(scene: Scene) -> None:
    scene.path.chmod(0o640)
    restore(scene.url, scene.backup)
    assert scene.path.stat().st_mode & 0o777 == 0o640


def test_the_command_restores_and_refuses_in_sentences(scene: Scene, postgres: str) -> None:
    done = inside("campaign", "restore", scene.url, scene.backup)
    assert done.returncode == 0
    assert "1 campaigns, " in done.stdout
    assert "what was there before is kept as" in " ".join(done.stdout.split())
    check_refusal(inside("campaign", "restore", postgres, scene.backup), ["url must be a SQLite file's", "pg_restore"])
    check_refusal(inside("campaign", "restore", "http://127.0.0.1:1", scene.backup), ["stop the service"])
    check_refusal(inside("campaign", "restore", scene.url, scene.path), ["not the store's own"])
    check_refusal(inside("campaign", "restore", "sqlite:////nowhere/x.db", scene.backup), ["in a folder that exists"])
