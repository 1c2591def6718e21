"""Whatever is damaged or changed by hand is found and named, in every table, on both stores; the others go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import apsw
import psycopg
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import core
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import connect
from freepull.campaigns.stores.serving import StoredReply, StoredToken, TokenNote
from freepull.campaigns.stores.sql import SqlStore
from freepull.server.auth import Tokens
from freepull.server.hosting import Hosting
from support.staging import OPENED, Clock, create

Change = Callable[[str], int]


@pytest.fixture
def change(url: str) -> Change:
    """Change a table by hand; returns how many rows that touched. {b} is a text for bytes, {s} where tables are."""

    def of_sqlite(sql: str) -> int:
        return _sqlite_change(url)(sql.replace("{s}", "").replace("{b}", "X"))

    def of_postgres(sql: str) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            written = sql.replace("{s}", "freepull.").replace("{b}'", "'\\x")
            return connection.execute(written).rowcount

    return of_sqlite if url.startswith("sqlite") else of_postgres


def play(url: str, clock: Clock, name: str = "onboarding") -> None:
    """Make a campaign with rows in every table."""
    campaign = create(url, clock, name=name, offer_lasts="1 hour")
    for agent in ("ann", "bob"):
        offer = campaign.ask(agent)
        assert offer is not None
        other = "C" if offer.arm != "C" else "B"
        campaign.tell(agent, offer.arm if agent == "ann" else other, 0.5, event=f"{agent} 1")
    campaign.tell("cy", "A", 0.125, event="cy 1")
    campaign.snapshot()
    campaign.tell("cy", "A", 0.125, event="cy 2")
    campaign.close()


SEGMENT = "UPDATE {s}segments SET data = (SELECT s.data FROM {s}segments s WHERE s.number = 1) WHERE number = 2"
CHANGES = [
    "UPDATE {s}ledger SET amount = 49",
    "UPDATE {s}ledger SET currency = 'USD'",
    "UPDATE {s}ledger SET at = at + 1",
    "UPDATE {s}offers SET ending = 'paid' WHERE ending = 'refused'",
    "UPDATE {s}offers SET agent = 2 WHERE offer = 1",
    "UPDATE {s}bans SET until = until - 1",
    "UPDATE {s}audit SET detail = '{}' WHERE action = 'created'",
    "DELETE FROM {s}audit WHERE action = 'started'",
    "UPDATE {s}names SET name = 'eve' WHERE name = 'bob'",
    "UPDATE {s}event_ids SET id = {b}'00112233445566778899aabbccddeeff' WHERE event = 4",
    "UPDATE {s}event_ids SET at = at + 1 WHERE event = 4",
    "DELETE FROM {s}event_ids WHERE event = 4",
    "UPDATE {s}ledger SET seal = NULL",
    "UPDATE {s}snapshots SET data = (SELECT data FROM {s}segments WHERE number = 1)",
    "UPDATE {s}snapshots SET event = event + 1",
    SEGMENT,
    "UPDATE {s}campaigns SET head = head + 1",
    "UPDATE {s}tokens SET revoked = NULL",
    "UPDATE {s}tokens SET scope = 'admin'",
    "UPDATE {s}agent_versions SET version = 1",
    "UPDATE {s}secrets SET value = {b}'0011'",
    "UPDATE {s}answered SET status = 500",
    "UPDATE {s}token_notes SET who = 'bob'",
]


@pytest.mark.slow
@pytest.mark.parametrize("sql", CHANGES)
def test_rows_that_were_changed_by_hand_are_found_by_verify(url: str, clock: Clock, change: Change, sql: str) -> None:
    play(url, clock)
    with closing(connect(url)) as store:
        assert isinstance(store, SqlStore)
        note = TokenNote(5, "ann", "made", "t", "read", "", "")
        store.add_token(StoredToken("t", b"h" * 32, "read", "", "", 1), note)
        store.revoke_token("t", note._replace(action="revoked"))
        store.raise_version("onboarding", 1, note)
        store.raise_version("onboarding", 1, note)
        store.secret("agents", b"key")
        store.keep_reply(b"i" * 32, StoredReply(b"r" * 32, 200, b"{}"), 1, 0)
    verify(url, "onboarding")
    assert change(sql) > 0
    with pytest.raises(errors.Corrupt):
        verify(url, "onboarding")


def test_a_damaged_event_id_does_not_count_twice_in_silence(url: str, clock: Clock, change: Change) -> None:
    play(url, clock)
    change("UPDATE {s}event_ids SET record = {b}'00112233445566778899aabbccddeeff0011223344556677' WHERE event = 4")
    with fp.Campaign.open(url, "onboarding", clock=clock) as campaign:
        before = campaign.status()
        with pytest.raises(errors.Corrupt, match="the event id of event 4 of campaign 'onboarding' is damaged"):
            campaign.tell("ann", "A", 0.5, event="ann 1")
        assert campaign.status() == before


@pytest.mark.parametrize("table", ["offers", "ledger", "names", "snapshots"])
def test_rows_of_another_campaign_are_found(url: str, clock: Clock, change: Change, table: str) -> None:
    for name in ("onboarding", "other"):
        play(url, clock, name)
    change(f"DELETE FROM {{s}}{table} WHERE campaign = 1")
    assert change(f"UPDATE {{s}}{table} SET campaign = 1 WHERE campaign = 2") > 0
    with pytest.raises(errors.Corrupt, match="onboarding"):
        verify(url, "onboarding")
    with pytest.raises(errors.Corrupt, match="onboarding"):
        read(url, clock)


def read(url: str, clock: Clock) -> None:
    with fp.Campaign.open(url, "onboarding", clock=clock) as campaign:
        campaign.ledger()
        campaign.offers()
        campaign.tell("ann", "A", 0.5, event="ann 1")


def test_a_campaign_under_another_name_is_found(url: str, clock: Clock, change: Change) -> None:
    play(url, clock)
    change("UPDATE {s}campaigns SET name = 'onboardind'")
    with pytest.raises(errors.Corrupt, match="'onboardind'"):
        fp.Campaign.open(url, "onboardind", clock=clock)
    with pytest.raises(errors.Corrupt, match=r"campaign 'onboardind' of .* is damaged: its name is not what it was"):
        fp.Campaign.open(url, "onboarding", clock=clock)
    with pytest.raises(errors.Corrupt, match="its name is not what it was"):
        create(url, clock)


def test_damage_before_the_newest_snapshot_is_found_at_opening(url: str, clock: Clock, change: Change) -> None:
    play(url, clock)
    change(SEGMENT)
    with pytest.raises(errors.Corrupt, match="segment 2 of the log"):
        fp.Campaign.open(url, "onboarding", clock=clock)


def test_in_a_long_log_it_is_found_beside_the_campaign_which_ends(
    url: str, clock: Clock, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "LARGE", 0)
    play(url, clock)
    with fp.Campaign.open(url, "onboarding", clock=clock) as campaign:
        campaign.core.check_beside(10**9).join(10)
        assert campaign.status().events > 0
    change(SEGMENT)
    campaign = fp.Campaign.open(url, "onboarding", clock=clock)
    OPENED.append(campaign)
    limit = time.monotonic() + 10
    while campaign.core.writer.ended is None and time.monotonic() < limit:
        time.sleep(0.01)
    with pytest.raises(errors.Corrupt, match="segment 2 of the log"):
        campaign.status()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["names", "campaigns", "audit"])
def test_one_damaged_text_stops_one_campaign_and_no_service(sqlite: str, clock: Clock, table: str) -> None:
    for name in ("first", "second", "third"):
        play(sqlite, clock, name)
    column = {"names": "name", "campaigns": "name", "audit": "who"}[table]
    with closing(apsw.Connection(sqlite.removeprefix("sqlite:///"))) as database:
        database.execute(f"UPDATE {table} SET {column} = CAST(X'ff' || {column} AS TEXT) WHERE campaign = 2")
        assert database.changes() > 0
    logged: list[dict[str, Any]] = []

    async def serve() -> set[str]:
        async with Hosting(sqlite, lambda what, **more: logged.append({"what": what} | more)) as hosting:
            assert len(await hosting.names()) == 3
            return set(hosting.here())

    served = asyncio.run(serve())
    with pytest.raises(errors.Corrupt, match="second"):
        verify(sqlite, "second")
    if table == "audit":  # read by nobody who opens a campaign
        assert served == {"first", "second", "third"}
        with fp.Campaign.open(sqlite, "second", clock=clock) as campaign, pytest.raises(errors.Corrupt, match="audit"):
            campaign.audit()
        return
    assert served == {"first", "third"}
    (said,) = [it for it in logged if it["what"] == "broken"]
    assert "second" in said["error"]
    with pytest.raises(errors.Corrupt, match="second"):
        fp.Campaign.open(sqlite, "second", clock=clock)


def test_a_campaign_that_is_found_damaged_while_it_is_served_ends_alone(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "LARGE", 0)
    for name in ("first", "second"):
        play(sqlite, clock, name)
    other = "SELECT data FROM segments WHERE campaign = 2 AND number = 2"
    _sqlite_change(sqlite)(f"UPDATE segments SET data = ({other}) WHERE campaign = 1 AND number = 2")

    async def serve() -> None:
        async with Hosting(sqlite) as hosting:
            second = await hosting.find("second")
            limit = time.monotonic() + 10
            while "first" in hosting.here() and time.monotonic() < limit:
                await asyncio.sleep(0.01)
            for _ in range(2):
                with pytest.raises(errors.Corrupt, match="segment 2 of the log"):
                    await hosting.find("first")
            await second.campaign.tell("ann", "A", 0.5)
            assert not hosting.failed.is_set()
            assert set(hosting.here()) == {"second"}

    asyncio.run(serve())


def _sqlite_change(url: str) -> Change:
    def run(sql: str) -> int:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as database:
            database.execute(sql)
            return database.changes()

    return run


def test_a_damaged_token_opens_nothing_and_the_others_do(sqlite: str, clock: Clock) -> None:
    play(sqlite, clock)
    tokens = Tokens(sqlite)
    good, bad = tokens.new("admin"), tokens.new("read")
    tokens.revoke(bad[1].id)
    tokens.close()
    assert _sqlite_change(sqlite)(f"UPDATE tokens SET revoked = NULL WHERE id = '{bad[1].id}'") == 1
    tokens = Tokens(sqlite)
    assert tokens.holds(f"Bearer {good[0]}")
    assert not tokens.holds(f"Bearer {bad[0]}")
    tokens.close()
    with pytest.raises(errors.Corrupt, match=f"token '{bad[1].id}' of .* is damaged, so it opens nothing"):
        verify(sqlite, "onboarding")


def test_forgotten_event_ids_are_no_damage(url: str, clock: Clock) -> None:
    campaign = create(url, clock, remembers="2 hours")
    for number in range(6):
        campaign.tell("ann", "A", 0.5, f"visit {number}")
        clock.pass_hours(1)
    campaign.status()
    clock.pass_hours(100)
    campaign.status()
    campaign.close()
    assert verify(url, "onboarding").event_ids == 3


def test_too_little_memory_is_no_damage(sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    create(sqlite, clock).close()

    def fails(error: Exception, *_: object, **__: object) -> None:
        raise error

    for error in (MemoryError(), OSError(12, "Cannot allocate memory"), RuntimeError("can't start new thread")):
        with monkeypatch.context() as patch:
            patch.setattr(core, "recover", partial(fails, error))
            with pytest.raises(
                errors.StoreError, match=r"campaign 'onboarding' could not be read \(.+\); give"
            ) as found:
                fp.Campaign.open(sqlite, "onboarding", clock=clock)
        assert not isinstance(found.value, errors.Corrupt)
    fp.Campaign.open(sqlite, "onboarding", clock=clock).close()
