"""Snapshots: opening from one gives what the whole log gives, bit for bit, whenever it was taken."""

from __future__ import annotations

import gzip
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal import snapshots
from freepull.campaigns.journal.recovery import verify
from support.staging import EACH, Clock, contents, create, picture, reopen

PRINCIPALS = [
    EACH,
    fp.Principal(fp.rules.Paper(0.5), observe=fp.observe.Share(0.1), protocol=fp.protocols.BanFor(2), offers="each"),
    fp.Principal(fp.rules.Population(0.1, pulls=5), observe=fp.observe.Steps(0), offers="each"),
    fp.Principal(fp.rules.Population(0.5), observe=fp.observe.Steps(0), offers="each"),
    fp.Principal(fp.rules.Comparisons(0.1), observe=fp.observe.Steps(1), offers="each", budget=5),
]


def live(campaign: fp.Campaign, clock: Clock, rng: random.Random, acts: int) -> None:
    """Let all sorts of things happen."""
    for _ in range(acts):
        agent, arm = rng.randrange(3), rng.randrange(3)
        what = rng.random()
        if what < 0.3:
            campaign.ask(agent)
        elif what < 0.9:
            event = rng.choice([None, f"e{rng.random()}"])
            campaign.tell(agent, arm, rng.random(), event)
        else:
            clock.pass_hours(rng.random() * 30)


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_campaign_of_the_first_rules_goes_on_under_them(tmp_path: Path, clock: Clock, snapshot: bool) -> None:
    """The file and the evidence are from freepull before its ψ became sharper; see `Setting.rules`."""
    file = tmp_path / "trial.db"
    file.write_bytes(gzip.decompress((Path(__file__).parent / "data" / "rules-1.db.gz").read_bytes()))
    if not snapshot:
        connection = apsw.Connection(str(file))
        connection.execute("DELETE FROM snapshots")
        connection.close()
    with fp.Campaign.open(f"sqlite:///{file}", "old", clock=clock) as campaign:
        rng = random.Random(5)
        for _ in range(40):
            agent, arm = rng.randrange(2), rng.randrange(3)
            campaign.tell(agent, arm, round(rng.random() * (0.1, 0.3, 0.9)[arm] * 1024) / 1024)
        bounds = [arm.bound.hex() for arm in campaign.status().arms if arm.bound is not None]
        assert campaign.settings.rules == 1
    assert bounds == ["0x1.1290dd83fbb9fp+11", "0x1.604a908df7148p+8", "0x1.01b289fda7820p-3"]


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(PRINCIPALS)))
def test_a_snapshot_and_the_rest_of_the_log_give_the_whole_log(sqlite: str, clock: Clock, which: int) -> None:
    rng = random.Random(which)
    campaign = create(sqlite, clock, principal=PRINCIPALS[which], agents=3, horizon=200)
    live(campaign, clock, rng, 60)
    campaign.tell(1, 1, 0.5, campaign.core.writer.decider.state.people.last_number(1) + 1)
    event = campaign.snapshot()
    assert event == campaign.status().events
    live(campaign, clock, rng, 40)
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    live(campaign, clock, rng, 30)
    before = picture(campaign)
    campaign.close()
    for from_snapshot in (True, False):
        again = fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshots=from_snapshot)
        assert picture(again) == before
        again.close()
    assert verify(sqlite, "onboarding").snapshots == 1


def test_snapshots_are_taken_now_and_then_and_only_the_newest_is_kept(url: str, clock: Clock) -> None:
    campaign = create(url, clock, snapshot_every=50)
    store = campaign.core.store
    for turn in range(10_000):  # however slowly snapshots are written
        campaign.tell_many([("ann", "A", 0.5), ("bob", "B", 0.25), ("cy", "C", 0.75)] * 4)
        if turn > 30 and snapshots.newest(store, "onboarding") not in (None, 51):
            break
    campaign.close()
    campaign = fp.Campaign.open(url, "onboarding", clock=clock)
    ((event, there, parts),) = campaign.core.store.snapshots("onboarding")
    assert there == parts
    assert event > 51
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.close()


def test_a_campaign_goes_on_where_there_is_no_memory_for_a_snapshot(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = create(sqlite, clock)

    def no_memory(*_: object) -> None:
        raise MemoryError

    def no_thread(*_: object) -> None:
        raise AssertionError("where memory is short, it would never begin")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "pieces", no_memory)
        with pytest.raises(errors.StoreError, match=r"\(there is too little memory\); try again later"):
            campaign.snapshot()
        assert campaign.tell("ann", "A", 0.5).event is not None
    assert campaign.snapshot() == campaign.status().events


def test_a_snapshot_that_was_not_finished_is_ignored(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    campaign.tell("ann", "A", 0.5)
    before = picture(campaign)
    state, log = campaign.core.writer.decider.state, campaign.core.writer.decider.log
    data = b"".join(snapshots.pieces(state, log))
    row = (state.events, 0, 2, snapshots.CHECKSUM.pack(0) + data)
    campaign.core.store.write(campaign.core.writer.lease, {"snapshots": [row]})
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.snapshot()
    assert len(contents(campaign)["snapshots"]) == 1
    campaign.close()


@pytest.mark.slow
def test_any_flipped_byte_of_a_snapshot_is_found_and_the_log_still_opens(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    campaign.tell("ann", "A", 0.5)
    campaign.snapshot()
    before = picture(campaign)
    campaign.close()
    path = Path(sqlite.removeprefix("sqlite:///"))
    database = apsw.Connection(str(path))
    data: Any = database.execute("SELECT data FROM snapshots").get
    rng = random.Random(1)
    for place in [*range(40), *rng.sample(range(len(data)), 40)]:
        broken = bytearray(data)
        broken[place] ^= 1 << rng.randrange(8)
        database.execute("UPDATE snapshots SET data = ?", (bytes(broken),))
        database.close()
        with pytest.raises(
            errors.Corrupt, match="the snapshot of campaign 'onboarding' after event 4 is damaged in part 0"
        ):
            fp.Campaign.open(sqlite, "onboarding", clock=clock)
        database = apsw.Connection(str(path))
    database.close()
    with fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshots=False) as again:
        assert picture(again) == before


def test_a_snapshot_of_a_principal_that_reads_otherwise_now_is_passed_over(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = create(sqlite, clock)
    campaign.tell("ann", "A", 0.5)
    campaign.snapshot()
    before = campaign.status()
    monkeypatch.setattr("freepull.registry.short", lambda kind, plain: {**plain, "new": id(plain)})
    assert reopen(campaign, sqlite, clock).status() == before


def test_without_fork_a_copy_does(sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork")
    campaign = create(sqlite, clock)
    campaign.tell("ann", "A", 0.5)
    campaign.snapshot()
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()


def test_silences_are_counted_across_a_snapshot(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, offer_lasts="1 hour", cool_down="1 minute")
    for silences in (1, 2, 3):
        assert campaign.ask("ann") is not None
        clock.pass_hours(2)
        for agent in ("bob", "cy", "cy"):
            campaign.tell(agent, "A", 0.5)
        assert campaign.status().expired == silences
        assert campaign.status().absent == (silences == 3)
        campaign.snapshot()
        campaign = reopen(campaign, sqlite, clock)
    assert campaign.status().absent == 1


def test_a_snapshot_that_cannot_begin_does_not_end_the_campaign(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise BlockingIOError("no process is left")

    campaign = create(sqlite, clock, snapshot_every=1)
    with monkeypatch.context() as patch:
        patch.setattr("os.fork", full)
        with pytest.raises(errors.StoreError, match=r"could not be taken \(no process is left\); try again later"):
            campaign.snapshot()
        campaign.tell("ann", "A", 0.5)
    assert campaign.snapshot() == campaign.status().events


def slowly(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let snapshots wait for an event before they are written."""
    go_on, write = threading.Event(), snapshots.write

    def slow(*how: Any) -> None:
        assert go_on.wait(20)
        write(*how)

    monkeypatch.setattr(snapshots, "write", slow)
    return go_on


def test_a_snapshot_that_is_wanted_while_another_is_written_is_taken_after_it(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, go_on = create(sqlite, clock), slowly(monkeypatch)
    first = campaign.core.snapshot().result()
    campaign.tell("ann", "A", 0.5)
    second = campaign.core.snapshot().result()
    go_on.set()  # nothing else happens any more
    assert second.result(timeout=20) == first.result(timeout=20) + 1


def test_whoever_waits_for_a_snapshot_is_told_when_the_campaign_ends(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, go_on = create(sqlite, clock), slowly(monkeypatch)
    campaign.core.snapshot().result()
    waiting = campaign.core.snapshot().result()
    campaign.core.store.write = None  # type: ignore[assignment]
    with pytest.raises(errors.WriterEnded):
        campaign.tell("ann", "A", 0.5)
    with pytest.raises(errors.WriterEnded, match="closed before a snapshot was taken"):
        waiting.result(timeout=20)
    go_on.set()


ORPHANED = """
import os, socket, time
from freepull.campaigns.journal import snapshots
port = socket.create_server(("127.0.0.1", 0))
fork = os.fork
def told() -> int:
    child = fork()
    if child:
        print(child, port.getsockname()[1], flush=True)
    return child
os.fork = told
parts = snapshots.begin([bytes(1 << 24)])
time.sleep(60)
"""


@pytest.mark.slow
def test_the_copy_that_writes_a_snapshot_holds_nothing_and_does_not_outlive_its_campaign() -> None:
    parent = subprocess.Popen([sys.executable, "-W", "ignore", "-c", ORPHANED], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, parent.stdout:
        child, port = map(int, parent.stdout.readline().split())
        parent.kill()
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the copy waits for ever for a reader")
    socket.create_server(("127.0.0.1", port), reuse_port=False).close()


def told_until(campaign: fp.Campaign, most: int) -> int | None:
    """Tell pulls one by one until there is a snapshot; return after which event it was taken."""
    store = campaign.core.store
    for _ in range(most):
        campaign.tell("ann", "A", 0.5)
        if (found := snapshots.newest(store, "onboarding")) is not None:
            return found
    return None


def test_one_is_taken_as_soon_as_the_log_would_take_long_to_read(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "WORKED", 1e-3)
    with create(url, clock, snapshot_every=4_000) as campaign:
        event = told_until(campaign, 3_000)
    assert event is not None
    assert 20 <= event < 4_000, "a 200th of what is usual at least"
    assert verify(url, "onboarding").snapshots == 1


def test_it_is_not_taken_where_few_were_asked_for_or_others_were_dear(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "WORKED", 0.0)
    with create(sqlite, clock, snapshot_every=10**9) as campaign:
        assert told_until(campaign, 100) is None
    monkeypatch.setattr(snapshots, "RESTS", 1e9)
    with fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshot_every=2_000) as campaign:
        assert told_until(campaign, 100) is None, "it would be dear by what is known beforehand"
    monkeypatch.setattr(snapshots, "STREAM", 0.0)
    with fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshot_every=2_000) as campaign:
        first = told_until(campaign, 3_000)
        assert first is not None
        for _ in range(100):
            campaign.tell("ann", "A", 0.5)
        assert snapshots.newest(campaign.core.store, "onboarding") == first


def test_who_has_read_for_long_takes_one_at_once(sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(sqlite, clock) as campaign:
        for _ in range(50):
            campaign.tell("ann", "A", 0.5)
        assert snapshots.newest(campaign.core.store, "onboarding") is None
    monkeypatch.setattr(snapshots, "REPLAYED", 1e9)
    with fp.Campaign.open(sqlite, "onboarding", clock=clock, snapshot_every=1_000) as campaign:
        campaign.tell("ann", "A", 0.5)
    assert verify(sqlite, "onboarding").snapshots == 1
