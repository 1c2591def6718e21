"""Verify finds whatever is not as the log says; copies keep every bit; backups can be restored."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import psycopg
import pytest

import freepull as fp
from chaos.postgres_server import PostgresServer
from freepull import errors
from freepull.campaigns.files import copy
from freepull.campaigns.journal import recovery
from freepull.campaigns.journal.events import REFUSED, TABLES, pack
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import connect
from freepull.campaigns.stores import sqlite as sqlite_store
from freepull.campaigns.stores.sql import SqlStore
from support.staging import EACH, Clock, contents, create, picture, reopen


def rich(url: str, clock: Clock) -> fp.Campaign:
    """A campaign with rows in every table, and some offers still open."""
    campaign = create(url, clock, offer_lasts="1 hour")
    taken, refused = campaign.ask("ann"), campaign.ask("bob")
    assert taken is not None
    assert refused is not None
    campaign.tell("ann", taken.arm, 0.5, event="e1")
    campaign.tell("bob", "C" if refused.arm != "C" else "B", 0.25, event=1)
    campaign.ask("cy")
    clock.pass_hours(1)
    campaign.tell("cy", "A", 0.125, event="e2")
    campaign.snapshot()
    campaign.ask("ann")
    return campaign


def test_a_right_campaign_is_verified(url: str, clock: Clock) -> None:
    campaign = rich(url, clock)
    events = campaign.status().events
    with pytest.raises(errors.CampaignBusy):
        verify(url, "onboarding")
    campaign.close()
    report = verify(url, "onboarding")
    assert (report.events, report.observations, report.offers, report.entries) == (events, 3, 4, 1)
    assert (str(report.spent), report.event_ids, report.snapshots) == ("0.50 EUR", 2, 1)


DAMAGE = [
    ("UPDATE {}ledger SET amount = 51", "the ledger of campaign 'onboarding' has 1 entries over 51 minor units"),
    ("DELETE FROM {}ledger", "the ledger of campaign 'onboarding' has 0 entries"),
    ("UPDATE {}ledger SET agent = 2", "row 1 of ledger"),
    ("UPDATE {}offers SET arm = 2 WHERE offer = 2", "row 2 of offers"),
    ("DELETE FROM {}offers WHERE offer = 4", "of offers of campaign 'onboarding' is 3, but its log made 4"),
    ("DELETE FROM {}offers WHERE offer = 1", "table offers of campaign 'onboarding' has 3 rows, but the log makes 4"),
    ("UPDATE {}bans SET until = 3", "row 1 of bans"),
    ("UPDATE {}audit SET who = 'mallory' WHERE event = 2", "row 2 of audit"),
    ("UPDATE {}event_ids SET event = 2", "the event ids of campaign 'onboarding' do not fit events"),
    ("DELETE FROM {}event_ids", "the event ids of campaign 'onboarding' do not fit events"),
    ("DELETE FROM {}segments WHERE number = 3", "segment 3 of the log of campaign 'onboarding' is missing"),
    (
        "UPDATE {}segments SET count = 2 WHERE number = 1",
        "segment 1 of the log of campaign 'onboarding' is filed wrongly",
    ),
    ("UPDATE {}segments SET data = (SELECT data FROM {}segments s WHERE s.number = 2) WHERE number = 3", "segment 3"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("sql", "said"), DAMAGE)
def test_verify_finds_damage_and_says_where(sqlite: str, clock: Clock, sql: str, said: str) -> None:
    rich(sqlite, clock).close()
    with closing(apsw.Connection(sqlite.removeprefix("sqlite:///"))) as database:
        database.execute(sql.format("", ""))
        assert database.changes() > 0
    with pytest.raises(errors.Corrupt, match=said) as problem:
        verify(sqlite, "onboarding")
    assert str(problem.value).endswith("backup.")


def test_any_flipped_bit_of_a_segment_is_found_and_named(url: str, clock: Clock) -> None:
    campaign = rich(url, clock)
    data = [row[3] for row in contents(campaign)["segments"]]
    campaign.close()
    rng = random.Random(3)
    change = _changer(url)
    for number in (0, 2, len(data) - 1):
        for place in rng.sample(range(len(data[number])), 12):
            broken = bytearray(data[number])
            broken[place] ^= 1 << rng.randrange(8)
            change(number, bytes(broken))
            with pytest.raises((errors.Corrupt, errors.NewerVersion), match=f"segment {number} of the log"):
                fp.Campaign.open(url, "onboarding", clock=clock, snapshots=False)
        change(number, data[number])
    assert verify(url, "onboarding").segments == len(data)


def _changer(url: str) -> Callable[[int, bytes], None]:
    def of_sqlite(number: int, data: bytes) -> None:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as database:
            database.execute("UPDATE segments SET data = ? WHERE number = ?", (data, number))

    def of_postgres(number: int, data: bytes) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE freepull.segments SET data = %s WHERE number = %s", (data, number))

    return of_sqlite if url.startswith("sqlite") else of_postgres


def test_replay_verifies_what_was_decided_and_never_decides_anew(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = create(sqlite, clock, agents=["ann"], arms=["A", "B"])
    campaign.ask("ann")
    campaign.tell_many([("ann", arm, reward) for arm, reward in (("A", 1.0), ("B", 0.0))] * 60)
    assert campaign.verdict().decided
    campaign.close()
    other = replace(campaign.settings, principal=replace(EACH, rule=fp.rules.Certified(0.5)))
    monkeypatch.setattr(recovery, "settings_of", lambda store, name: other)
    with pytest.raises(errors.ReplayDiffers, match=r"cannot be replayed as the log has it: step \d+ ended with"):
        fp.Campaign.open(sqlite, "onboarding", clock=clock)


@pytest.mark.slow
@pytest.mark.parametrize(("field", "value"), [("flags", 0), ("flags", REFUSED), ("offer", 2), ("arm", 1), ("agent", 1)])
def test_replay_verifies_what_pulls_did_to_offers(sqlite: str, clock: Clock, field: str, value: int) -> None:
    campaign = create(sqlite, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    assert campaign.tell("ann", offer.arm, 0.5).outcome == "paid"
    *_, before, last = recovery.segments(campaign.core.store, "onboarding")
    campaign.close()
    forged = last.records.copy()
    forged[field] = value
    data, _ = pack(last.number, last.first, forged, last.more, before.checksum)
    _changer(sqlite)(last.number, data)
    with pytest.raises(errors.ReplayDiffers, match="its pulls did something else to open offers"):
        fp.Campaign.open(sqlite, "onboarding", clock=clock)


def test_a_copy_has_every_bit_and_goes_on_where_the_original_was(postgres: str, sqlite: str, clock: Clock) -> None:
    campaign = rich(sqlite, clock)
    rows, memory = contents(campaign), picture(campaign)
    with pytest.raises(errors.CampaignBusy):
        copy(sqlite, postgres, "onboarding")
    campaign.close()
    counts = copy(sqlite, postgres, "onboarding")
    assert counts == {table: len(rows[table]) for table in TABLES}
    with pytest.raises(errors.CampaignExists):
        copy(sqlite, postgres, "onboarding")
    with fp.Campaign.open(postgres, "onboarding", clock=clock) as there:
        assert (contents(there), picture(there)) == (rows, memory)
        there.tell("bob", "A", 0.5)
        moved, memory = contents(there), picture(there)
    back = sqlite.replace("trial.db", "back.db")
    copy(postgres, back, "onboarding")
    with fp.Campaign.open(back, "onboarding", clock=clock) as again:
        assert (contents(again), picture(again)) == (moved, memory)
    assert verify(back, "onboarding") == verify(postgres, "onboarding")
    with pytest.raises(errors.UnknownCampaign):
        copy(sqlite, postgres, "other")


def test_a_backup_is_made_while_the_campaign_goes_on_and_can_be_restored(
    sqlite: str, clock: Clock, tmp_path: Path
) -> None:
    campaign = rich(sqlite, clock)
    memory = picture(campaign)
    campaign.backup(tmp_path / "backup.db")
    campaign.tell("bob", "A", 0.5)
    with pytest.raises(errors.InvalidInput, match="path must be a file that does not exist yet"):
        campaign.backup(tmp_path / "backup.db")
    with fp.Campaign.open(f"sqlite:///{tmp_path}/backup.db", "onboarding", clock=clock) as restored:
        assert picture(restored) == memory
    verify(f"sqlite:///{tmp_path}/backup.db", "onboarding")
    campaign = reopen(campaign, sqlite, clock)
    campaign.close()
    assert [file.name for file in tmp_path.iterdir() if "wal" in file.name] == []


def test_postgres_has_backups_of_its_own(postgres: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(postgres, clock)
    with pytest.raises(errors.InvalidInput, match="has backups of its own; use its tools, for example pg_dump"):
        campaign.backup(tmp_path / "backup.db")
    campaign.close()


def test_a_backup_takes_along_what_is_told_meanwhile(
    sqlite: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "COPIED", 1)
    campaign = rich(sqlite, clock)
    copying = threading.Thread(target=campaign.backup, args=[tmp_path / "backup.db"])
    copying.start()
    told = 0
    while copying.is_alive() or told < 20:
        campaign.tell("bob", "A", 0.5, f"meanwhile {told}")
        told += 1
    copying.join()
    report = verify(f"sqlite:///{tmp_path}/backup.db", "onboarding")
    assert report.observations <= campaign.status().observations
    assert report.observations >= campaign.status().observations - told


def test_a_backup_that_cannot_be_made_harms_nobody(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = rich(sqlite, clock)
    with pytest.raises(errors.StoreError, match=r"could not be copied to .*; choose another place"):
        campaign.backup(tmp_path / "nowhere" / "backup.db")
    campaign.tell("bob", "A", 0.5)
    campaign.close()


def test_a_dump_of_postgres_can_be_restored(
    server: PostgresServer, postgres: str, clock: Clock, tmp_path: Path
) -> None:
    campaign = rich(postgres, clock)
    memory, rows = picture(campaign), contents(campaign)
    campaign.close()
    dump = [str(server.programs / "pg_dump"), "--schema=freepull", "--format=custom", "--dbname", postgres]
    (tmp_path / "dump").write_bytes(subprocess.run(dump, check=True, capture_output=True).stdout)
    with fp.Campaign.open(postgres, "onboarding", clock=clock) as campaign:
        campaign.tell("bob", "A", 0.5)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA freepull CASCADE")
    restore = [str(server.programs / "pg_restore"), "--dbname", postgres, str(tmp_path / "dump")]
    subprocess.run(restore, check=True, capture_output=True)
    with fp.Campaign.open(postgres, "onboarding", clock=clock) as campaign:
        assert (picture(campaign), contents(campaign)) == (memory, rows)
    verify(postgres, "onboarding")


@pytest.mark.slow
def test_a_second_process_is_refused_with_a_sentence(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    code = f"import freepull as fp; fp.Campaign.open({sqlite!r}, 'onboarding')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "CampaignBusy: " in done.stderr
    assert "is open in another process" in done.stderr
    campaign.tell("ann", "A", 0.5)
    campaign.close()
    with closing(connect(sqlite)) as store:
        assert store.campaigns() == ["onboarding"]


def test_a_log_that_has_lost_its_end_is_found(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    for number in range(3):
        campaign.tell("ann", "A", 0.5, f"visit {number}")
    campaign.close()
    with closing(connect(sqlite)) as store:
        assert isinstance(store, SqlStore)
        with store.transaction() as do:
            do.run("DELETE FROM segments WHERE number = (SELECT max(number) FROM segments)")
    for look in (verify, fp.Campaign.open):
        with pytest.raises(errors.Corrupt, match="segment 4 of the log of campaign 'onboarding' is missing"):
            look(sqlite, "onboarding")
    with closing(connect(sqlite)) as store:
        assert isinstance(store, SqlStore)
        with store.transaction() as do:
            do.run("UPDATE campaigns SET head = NULL")
    with pytest.raises(errors.Corrupt, match="its end is missing"):  # by the ids of events
        verify(sqlite, "onboarding")
