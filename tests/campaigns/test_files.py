"""Exports and imports."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import freepull as fp
from chaos.uploads import BOMBS, Page, parquet, pull
from freepull import errors
from freepull.campaigns import files
from freepull.campaigns.files import observations
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.rehearsal import play
from freepull.campaigns.state import REHEARSAL
from support.staging import Clock, contents, create, reopen


def test_observations_and_the_ledger_are_exported(url: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(url, clock, agents=["=cmd()", "bob", "cy"], arms=["@A", "B", "C"])
    offer = campaign.ask("=cmd()")
    assert offer is not None
    campaign.tell("=cmd()", offer.arm, 1 / 3)
    campaign.tell("bob", "B", 0.5)
    campaign.add_agents(["late"])
    campaign.tell("late", "C", 1.0)
    for form in ("parquet", "csv"):
        assert campaign.export(tmp_path / f"o.{form}") == 3
        assert campaign.export(tmp_path / f"l.{form}", "ledger") == 1
    told = pl.read_parquet(tmp_path / "o.parquet")
    assert told["agent"].to_list() == ["=cmd()", "bob", "late"]
    assert told["arm"].to_list() == [offer.arm, "B", "C"]
    assert told["reward"].to_list() == [round(2**30 / 3) / 2**30, 0.5, 1.0]
    assert told["outcome"].to_list() == ["paid", None, None]
    assert told["offer"].to_list() == [1, None, None]
    assert told["counted"].to_list() == [True, True, False]
    assert told["at"].dt.epoch("us").to_list() == [clock.now] * 3
    ledger = pl.read_parquet(tmp_path / "l.parquet").row(0, named=True)
    assert (ledger["agent"], ledger["minor_units"], ledger["currency"], ledger["amount"]) == (
        *("=cmd()", 50),
        *("EUR", "0.50 EUR"),
    )
    for file in ("o.csv", "l.csv"):
        cells = [cell for line in (tmp_path / file).read_text().splitlines() for cell in line.split(",")]
        assert not [cell for cell in cells if cell[:1] in "=+-@" and cell]
        assert "'=cmd()" in cells
    with pytest.raises(errors.InvalidInput, match=r"path must end in .parquet or .csv"):
        campaign.export(tmp_path / "o.xlsx")
    with pytest.raises(errors.InvalidInput, match="what must be one of"):
        campaign.export(tmp_path / "o.csv", "everything")
    campaign.close()


def test_an_import_is_told_once_however_often_it_is_repeated(url: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(url, clock)
    file = tmp_path / "day.csv"
    file.write_text("agent,arm,reward,note\nann,A,0.5,x\nbob,B,1,y\ncy,C,0,z\n")
    assert campaign.import_observations(file, by="ops") == 3
    assert campaign.status().observations == 3
    campaign = reopen(campaign, url, clock)
    file.rename(tmp_path / "other.csv")
    assert campaign.import_observations(tmp_path / "other.csv") == 0
    file.write_text((tmp_path / "other.csv").read_text() + "ann,B,0.25,w\n")
    before = contents(campaign)
    with pytest.raises(errors.InvalidInput, match=r"day.csv begins with all rows of a file that was imported before"):
        campaign.import_observations(file)
    assert contents(campaign) == before
    file.write_text("agent,arm,reward\nann,B,0.25\n")  # another day, the same name
    assert campaign.import_observations(file) == 1
    assert campaign.status().observations == 4
    assert [entry.detail for entry in campaign.audit() if entry.action == "noted"] == [{"told": 3}]
    campaign.tell("ann", "A", 0.5, "e1")
    before = contents(campaign)
    file.write_text("agent,arm,reward,event\n" + "bob,A,0.6,\n" * 9_000 + "ann,A,0.6,e1\n")
    with pytest.raises(errors.EventConflict, match=r"row 9001 of day.csv is wrong: agent ann has used this event id"):
        campaign.import_observations(file)
    assert contents(campaign) == before
    campaign.export(tmp_path / "all.parquet")
    pl.read_parquet(tmp_path / "all.parquet").reverse().write_parquet(tmp_path / "again.parquet")
    assert campaign.import_observations(tmp_path / "again.parquet") == 5
    assert campaign.status().observations == 10
    campaign.close()


def test_a_file_with_a_wrong_row_is_refused_as_a_whole(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock)
    before = contents(campaign)
    file = tmp_path / "day.csv"
    for text, said in (
        (
            "agent,arm,reward\nann,A,0.5\ndan,A,0.5\n",
            "row 2 of day.csv is wrong: campaign 'onboarding' has no agent 'dan'",
        ),
        ("agent,arm,reward\nann,A,1.5\n", "row 1 of day.csv is wrong: reward must be"),
        ("agent,arm,reward\nann,A,high\n", "row 1 of day.csv is wrong: reward must be"),
        ("agent,arm,reward\nann,A,0.5\nbob,A,N/A\n", r"row 2 of day.csv is wrong: reward must be .*, got 'N/A'"),
        ("agent,arm,reward\nann,A,1\nbob,A,nan\n", r"row 2 of day.csv is wrong: reward must be .*, got nan"),
        ("agent,arm,reward\nann,A,1\nbob,A,\n", r"row 2 of day.csv is wrong: reward must be .*, got None"),
        ("agent;arm;reward\nann;A;0,5\n", "day.csv has no agent"),
        ("agent,arm,reward\nann,A,0.5,7,8\n", r"day.csv cannot be read as .csv: [^\n]*[^.]\.$"),
        ("agent,arm\nann,A\n", "day.csv has no reward"),
        ("", "day.csv cannot be read as .csv"),
    ):
        file.write_text(text)
        with pytest.raises(errors.InvalidInput, match=said):
            campaign.import_observations(file)
        assert contents(campaign) == before
    with pytest.raises(errors.InvalidInput, match="path must be a"):
        campaign.import_observations(tmp_path / "none.csv")
    campaign.close()


def test_a_file_is_counted_and_looked_at_before_it_is_read(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock)
    before = contents(campaign)
    pull = {"agent": ["ann"], "arm": ["A"], "reward": [0.5]}
    many = tmp_path / "many.parquet"
    pl.DataFrame(pull).select(pl.all().repeat_by(4_000_000).explode()).write_parquet(many)
    assert many.stat().st_size < 50_000
    with (tmp_path / "many.csv").open("w") as file:
        file.write("agent,arm,reward\n" + "ann,A,0.5\n" * 500_001)
    pl.DataFrame(pull | {"agent": [["ann"]]}).write_parquet(tmp_path / "nested.parquet")
    pl.DataFrame(pull | {"arm": ["A" * 2_000_000]}).write_parquet(tmp_path / "long.parquet")
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"agent,arm,reward\nann,A,0.5\n"))
    for name, said in (
        ("many.parquet", r"path must have at most 500,000 rows, .* but many.parquet has 4,000,000; import it in parts"),
        ("many.csv", r"path must have at most 500,000 rows, .* but many.csv has 500,001"),
        ("nested.parquet", r"nested.parquet cannot be read as .parquet: its column agent must hold texts or numbers"),
        ("long.parquet", r"row 1 of long.parquet is wrong: its arm must have at most 1,000 characters, got 2,000,000"),
        ("packed.csv", "packed.csv is compressed; unpack it"),
    ):
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(errors.InvalidInput, match=said):
            campaign.import_observations(tmp_path / name)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown < 100_000
        assert contents(campaign) == before


BOMBED = {
    "one page in a hundred groups.parquet": r"must unpack to at most 128 MB, .* unpacks to 1\d\d MB or more",
    "a page of a gigabyte.parquet": r"says that it unpacks to 1,024 MB or more",
    "values from the last.parquet": "its column agent has encoding 7; write it with plain values",
    "a page that says much.parquet": "says that it unpacks to 2,047 MB or more; import it in parts",
    "a page that says little.parquet": "cannot be read as .parquet: ",
    "a page that says nothing.parquet": "a page of its column agent has not got the size that it says",
    "more values than rows.parquet": r"path must have at most 500,000 rows, .* has 1,073,741,824",
    "rows that are not there.parquet": "its groups have not got as many rows as it says",
    "fewer rows than there are.parquet": "its groups have not got as many rows as it says",
    "too deep.parquet": "fields, and there may be 10,000",
    "too wide.parquet": r"its footer has .* bytes, and there may be 1,048,576",
    "a header without end.csv": "the first line of a header without end.csv must name its columns",
    "a quoted header.csv": "the first line of a quoted header.csv must name its columns",
}


@pytest.mark.parametrize("name", BOMBED)
def test_a_file_that_unpacks_to_much_is_refused_before_it_does(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(BOMBS[name]())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidInput, match=BOMBED[name]):
        files.read(tmp_path / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown < 100_000


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"])
def test_files_that_others_write_are_read(compression: Any, tmp_path: Path) -> None:
    rows = [("ann", "A", 0.5, 1, False), ("bob", "B", 0.25, None, False), (None, "A", 1.0, 3, False)] * 5_000
    frame = pl.DataFrame(rows, schema=["agent", "arm", "reward", "event", "rehearsal"], orient="row")
    for size in (1_000, None):
        frame.write_parquet(tmp_path / "it.parquet", compression=compression, row_group_size=size)
        assert files.read(tmp_path / "it.parquet").equals(frame)
    for kind in (pl.Int64, pl.Int32, pl.UInt8, pl.Float32, pl.Decimal(10, 2), pl.Categorical):
        if kind != pl.Categorical or compression == "zstd":
            other = pl.DataFrame({"agent": pl.Series(["1", "7", "12"] * 9_000).cast(kind)})
            other = other.with_columns(arm=pl.lit("A"), reward=pl.int_range(pl.len()) / 27_000)
            other.write_parquet(tmp_path / "it.parquet", compression=compression)
            assert files.read(tmp_path / "it.parquet").equals(other)
    pl.DataFrame({"agent": [], "arm": [], "reward": []}).write_parquet(tmp_path / "it.parquet", compression=compression)
    assert files.read(tmp_path / "it.parquet").height == 0
    (tmp_path / "own.parquet").write_bytes(parquet(pull(Page.of(b"ann", b"bob"), 2), groups=3))
    assert files.read(tmp_path / "own.parquet").height == 6


def test_pieces_of_a_file_are_told_as_one(
    sqlite: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, file = create(sqlite, clock), tmp_path / "day.csv"
    rows = [f"{agent},{arm},0.5\n" for agent in ("ann", "bob", "cy") for arm in "ABC"]
    file.write_text("agent,arm,reward\n" + "".join(rows))
    assert campaign.import_observations(file) == 9
    for piece in (1, 2, 4, 9):
        monkeypatch.setattr(files, "PIECE", piece)
        assert campaign.import_observations(file) == 0
        file.with_name("more.csv").write_text(file.read_text() + "ann,A,1\n")
        with pytest.raises(errors.InvalidInput, match="begins with all rows of a file that was imported before"):
            campaign.import_observations(file.with_name("more.csv"))
        file.with_name("bad.csv").write_text("agent,arm,reward\n" + "".join(rows[1:]) + "ann,D,1\n")
        with pytest.raises(errors.InvalidInput, match=r"row 9 of bad\.csv is wrong: arm must be"):
            campaign.import_observations(file.with_name("bad.csv"))
    assert campaign.status().observations == 9


def test_names_that_look_like_formulas_survive_a_spreadsheet(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, agents=["=cmd()", "-ann", "bob"])
    for agent in ("=cmd()", "-ann", "bob"):
        campaign.tell(agent, "A", 0.5)
    campaign.export(tmp_path / "o.csv")
    assert campaign.import_observations(tmp_path / "o.csv") == 3
    assert campaign.core.register.numbers == {"=cmd()": 0, "-ann": 1, "bob": 2}
    with pytest.raises(errors.InvalidInput, match="begin with an apostrophe"):
        campaign.add_agents(["'=cmd()"])
    campaign.close()


def test_a_csv_is_read_with_names_as_they_are(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, agents=["7", "007", "1e3"], arms=["1", "01", "1.0"])
    (tmp_path / "o.csv").write_text("agent,arm,reward\n007,01,0.5\n1e3,1.0,0.5\n")
    assert campaign.import_observations(tmp_path / "o.csv") == 2
    pulls = observations(campaign.core.store, campaign.core.register).select("agent", "arm").rows()
    assert pulls == [("007", "01"), ("1e3", "1.0")]
    campaign.close()


def test_event_ids_of_a_csv_stay_what_they_are_when_the_file_grows(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign, file = create(sqlite, clock), tmp_path / "o.csv"
    file.write_text("agent,arm,reward,event\nann,A,0.5,4711\nbob,A, 1 ,007\n")
    assert campaign.import_observations(file) == 2
    file.write_text(file.read_text() + "cy,A,0.5,v1\nann,B,0.5,7\n")
    assert campaign.import_observations(file) == 2
    assert campaign.status().observations == 4
    campaign.close()


def test_a_rehearsal_stays_away_from_real_pulls_and_has_new_luck_each_time(sqlite: str, clock: Clock) -> None:
    game = fp.Game([[0.6, 0.5, 0.4]] * 3)
    campaign = create(sqlite, clock)
    parts: dict[str, Any] = {"agents": fp.agents.AlphaUCB(), "answers": fp.answers.Always(), "steps": 30}
    played = [play(campaign, game, **parts) for _ in range(2)]
    assert [entry.detail["run"] for entry in campaign.audit() if entry.action == "noted"] == [0, 1]
    pulls = observations(campaign.core.store, campaign.core.register).select("agent", "arm", "reward").rows()
    assert pulls[: played[0]] != pulls[played[0] :]
    real = create(sqlite, clock, name="real")
    real.tell("ann", "A", 0.5)
    before = contents(real)
    with pytest.raises(errors.WrongMoment, match="has 1 pulls and 0 offers that were no rehearsal"):
        play(real, game, **parts)
    assert contents(real) == before
    asked = create(sqlite, clock, name="asked")
    assert asked.ask("ann") is not None
    with pytest.raises(errors.WrongMoment, match="has 0 pulls and 1 offers that were no rehearsal"):
        play(asked, game, **parts)


def test_real_agents_are_kept_out_of_a_rehearsal(url: str, clock: Clock, tmp_path: Path) -> None:
    game = fp.Game([[0.9, 0.1, 0.1]] * 3)
    campaign = create(url, clock)
    parts: dict[str, Any] = {"agents": fp.agents.AlphaUCB(), "answers": fp.answers.Always()}
    with pytest.raises(errors.InvalidInput):
        play(campaign, game, **parts, steps=5, until="whenever")
    assert not campaign.status().rehearsal
    played = play(campaign, game, **parts, steps=5)
    (tmp_path / "o.csv").write_text("agent,arm,reward\nann,A,0.5\n")
    told: list[Callable[[], Any]] = [
        lambda: campaign.tell("ann", "A", 0.5),
        lambda: campaign.tell("ann", "A", 0.5, 1),
        lambda: campaign.tell_many([("ann", "A", 0.5, "e")]),
        lambda: campaign.import_observations(tmp_path / "o.csv"),
        lambda: campaign.ask("ann"),
    ]
    for again in (False, True):
        before = contents(campaign)
        for tell in told:
            with pytest.raises(errors.WrongMoment, match="is a rehearsal, played by simulated agents, so it is closed"):
                tell()
        (refused,) = campaign.tell_each([("ann", "A", 0.5)])
        assert isinstance(refused, errors.WrongMoment)
        assert contents(campaign) == before
        assert campaign.status().observations == played
        if not again:
            campaign.snapshot()
            campaign = reopen(campaign, url, clock)
    play(campaign, game, **parts, steps=1000, until="decided")
    verdict, status = campaign.verdict(), campaign.status()
    assert (verdict.decided, verdict.certified, status.certified, status.rehearsal) == (True, False, False, True)
    assert verdict.why.endswith(REHEARSAL)
    decided = [entry.detail["decided"] for entry in campaign.audit() if "decided" in entry.detail]
    assert [it["certified"] for it in decided] == [False]
    for form in ("parquet", "csv"):
        campaign.export(tmp_path / f"all.{form}")
        campaign.export(tmp_path / f"paid.{form}", "ledger")
    assert pl.read_parquet(tmp_path / "all.parquet")["rehearsal"].all()
    assert pl.read_parquet(tmp_path / "paid.parquet")["rehearsal"].all()
    real = create(url, clock, name="real")
    for form in ("parquet", "csv"):
        with pytest.raises(errors.InvalidInput, match=f"path must have real pulls, but all.{form} is of a rehearsal"):
            real.import_observations(tmp_path / f"all.{form}")
    real.tell("ann", "A", 0.5)
    real.export(tmp_path / "real.csv")
    assert real.import_observations(tmp_path / "real.csv") == 1
    campaign.close()
    verify(url, campaign.name)


def test_means_are_over_those_who_have_pulled(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    for agent, reward in (("ann", 0.5), ("ann", 0.7), ("bob", 0.2)):
        campaign.tell(agent, "A", reward)
    assert [arm.mean for arm in campaign.status().arms] == [pytest.approx(0.4), None, None]
    campaign.close()
