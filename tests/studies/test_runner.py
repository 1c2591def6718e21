"""A study gives the bits of `simulate`, keeps what is finished, and refuses what has changed or is damaged."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull import studies
from freepull.errors import InvalidInput, StudyError
from freepull.studies import runner as chunks
from support.sample import STUDY, rows, shards, written


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    studies.run(studies.read(written(folder, STUDY)), folder / "out")
    return folder / "out"


def shard_of(folder: Path, cell: str) -> Path:
    (found,) = (folder / "shards").glob(f"{cell}-*.parquet")
    return found


def again(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "out"))


def test_the_bits_are_those_of_simulate(done: Path) -> None:
    store = studies.Store.open(done)
    rules = {0.01: fp.rules.Paper(0.01, "simplified", 0.1), 0.05: fp.rules.Paper(0.05, "simplified", 0.1)}
    for cell in store.study.cells:
        rule = rules[cell.coordinates["delta"]] if cell.principal == "authors" else fp.rules.Passive()
        horizon = cell.coordinates["horizon"]
        alone = fp.simulate(fp.instances.toy(), principal=fp.Principal(rule), horizon=horizon, runs=6, seed=3)
        found = studies.result(store, cell)
        assert found.frame.equals(alone.frame)
        assert np.array_equal(found.paid, alone.paid)
        assert np.array_equal(found.paid_error, alone.paid_error)
        assert not found.interrupted


def test_chunks_workers_and_added_runs_change_no_bit(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = studies.read(written(tmp_path, STUDY))
    monkeypatch.setattr(chunks, "STEPS", 2 * 600)
    first = studies.run(study.with_runs(2), tmp_path / "out", workers=1)
    assert (first.kept, first.new, first.wanted) == (0, 12, 12)
    before = shards(tmp_path / "out")
    assert len(before) == 12
    second = studies.run(study, tmp_path / "out", workers=2)
    assert (second.kept, second.new, second.wanted) == (12, 24, 36)
    after = shards(tmp_path / "out")
    assert before.items() <= after.items()
    assert rows(tmp_path / "out").equals(rows(done))
    store = studies.Store.open(tmp_path / "out")
    for cell, whole in zip(store.study.cells, studies.Store.open(done).study.cells, strict=True):
        ours, theirs = studies.result(store, cell), studies.result(studies.Store.open(done), whole)
        assert np.array_equal(ours.paid_error, theirs.paid_error)


def test_a_finished_study_is_not_touched(done: Path) -> None:
    before = shards(done)
    report = studies.run(studies.read(written(done.parent, STUDY)), done)
    assert (report.kept, report.new) == (36, 0)
    assert shards(done) == before


def test_fewer_runs_throw_nothing_away(done: Path) -> None:
    study = studies.read(written(done.parent, STUDY))
    report = studies.run(study.with_runs(4), done)
    assert (report.kept, report.new, report.wanted) == (24, 0, 24)
    assert rows(done).height == 36
    assert {cell.runs for cell in studies.Store.open(done).study.cells} == {6}


def test_an_extended_study_says_what_it_holds(done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    studies.run(studies.read(written(tmp_path, STUDY)).with_runs(9), folder)
    store = studies.Store.open(folder)
    for cell in store.study.cells:
        told = studies.result(store, cell).provenance
        assert told["finished"] == told["parameters"]["runs"] == told["study"]["parameters"]["runs"] == 9
        seconds = [shard.provenance["seconds"] for shard in store.shards[cell.name]]
        assert told["seconds"] == pytest.approx(sum(seconds), abs=1e-3)
        assert len(seconds) == 2
    cell = store.study.cells[0]
    store.shards[cell.name] = [shard for shard in store.shards[cell.name] if shard.frame["run"][0] > 0]
    assert studies.result(store, cell).provenance["parameters"]["runs"] == [6, 7, 8]


def test_runs_beyond_those_wanted_are_not_counted(done: Path, tmp_path: Path) -> None:
    folder, study = again(done, tmp_path), studies.read(written(tmp_path, STUDY))
    studies.run(study.with_runs(9), folder)
    for cell in ("passive,horizon=400", "passive,horizon=600"):
        next((folder / "shards").glob(f"{cell}-0.*")).unlink()
    report = studies.run(study, folder)
    assert (report.kept, report.new, report.wanted) == (24, 12, 36)


def test_shards_carry_their_provenance_and_are_results(done: Path) -> None:
    shard = fp.Result.load(shard_of(done, "authors,delta=0.01,horizon=400"))
    told = shard.provenance
    assert told["study"]["title"] == "Small"
    assert told["study"]["coordinates"] == {"delta": 0.01, "horizon": 400}
    assert told["study"]["parameters"]["agents"] == {"part": "AlphaUCB", "alpha": 2.0}
    assert told["freepull"] == fp.__version__
    assert told["parameters"]["runs"] == 6
    assert shard.frame["run"].to_list() == [0, 1, 2, 3, 4, 5]
    assert (done / "study.toml").read_text() == STUDY


def test_comments_and_layout_may_change(done: Path, tmp_path: Path) -> None:
    other = "# more\n\n" + STUDY.replace("alpha = 2.0", "alpha   = 2").replace("horizon = 600", "horizon = 6_00 # six")
    assert studies.run(studies.read(written(tmp_path, other)), done).new == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [("alpha = 2.0", "alpha = 2.5"), ("seed = 3", "seed = 4"), ("runs = 6", "runs = 7"), ("0.05]", "0.04]"),
     ('title = "Small"', 'title = "Other"'), ("[principals.passive]", "[principals.watcher]")],
)  # fmt: skip
def test_a_changed_file_is_refused_with_the_difference(old: str, new: str, done: Path, tmp_path: Path) -> None:
    before = shards(done)
    with pytest.raises(studies.Changed, match="holds another study: the study has changed") as caught:
        studies.run(studies.read(written(tmp_path, STUDY.replace(old, new))), done)
    lines = caught.value.difference.splitlines()
    assert lines[:2] == ["--- study.toml (begun)", "+++ study.toml (now)"]
    assert len([line for line in lines if line.startswith("-")]) == 2
    assert any(line.startswith("+") and new in line for line in lines[2:])
    assert shards(done) == before


def test_a_changed_file_of_means_is_refused_too(tmp_path: Path) -> None:
    text = 'horizon = 20\nruns = 1\ngame = "means.csv"\nprincipals.p.rule = "passive"\n'
    (tmp_path / "means.csv").write_text("0.9,0.1\n")
    studies.run(studies.read(written(tmp_path, text)), tmp_path / "out")
    (tmp_path / "means.csv").write_text("0.9,0.2\n")
    with pytest.raises(studies.Changed) as caught:
        studies.run(studies.read(written(tmp_path, text)), tmp_path / "out")
    assert "-0.9,0.1\n+0.9,0.2" in caught.value.difference


@pytest.mark.parametrize("where", [0.0, 0.02, 0.5, 0.99])
def test_a_damaged_shard_is_named(where: float, done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    shard = shard_of(folder, "passive,horizon=400")
    content = bytearray(shard.read_bytes())
    content[int(where * len(content))] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(StudyError, match=r"passive,horizon=400-0.\w+.parquet is damaged: .*; delete it") as caught:
        studies.Store.open(folder)
    assert "\n" not in str(caught.value)
    shard.unlink()
    study = studies.read(written(tmp_path, STUDY))
    assert studies.run(study, folder).new == 6
    assert rows(folder).equals(rows(done))


def test_truncated_and_edited_shards_are_found(done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    shard = shard_of(folder, "passive,horizon=600")
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StudyError, match="is damaged"):
        studies.Store.open(folder)
    shard.write_bytes(whole)
    result = fp.Result.load(shard)
    edited = result.frame.with_columns(reward=pl.col("reward") + 1.0)
    replace(result, frame=edited).save(shard)
    with pytest.raises(StudyError, match="does not match the checksum in its name"):
        studies.Store.open(folder)


def test_foreign_and_doubled_shards_are_refused(done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    shard = shard_of(folder, "passive,horizon=600")
    shutil.copy(shard, shard.with_name(f"copy.{shard.name}"))
    with pytest.raises(StudyError, match="holds runs that another shard holds too"):
        studies.Store.open(folder)
    other = studies.read(written(tmp_path, STUDY.replace("alpha = 2.0", "alpha = 3.0")))
    studies.run(other.with_runs(1), tmp_path / "other")
    shard.with_name(f"copy.{shard.name}").unlink()
    shutil.copy(shard_of(tmp_path / "other", "passive,horizon=600"), folder / "shards")
    with pytest.raises(StudyError, match=r"passive,horizon=600-0.\w+.parquet belongs to another study"):
        studies.Store.open(folder)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, STUDY))
    with pytest.raises(StudyError, match="holds other files"):
        studies.run(study, tmp_path)
    with pytest.raises(StudyError, match="is not the folder of a study"):
        studies.Store.open(tmp_path)
    with pytest.raises(StudyError, match="cannot be used"):
        studies.run(study, tmp_path / "small.toml" / "x")


def test_a_damaged_manifest_is_named(done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(StudyError, match=r"manifest.json is damaged"):
        studies.Store.open(folder)


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, STUDY)).with_runs(1)
    with (
        studies.Store.begin(tmp_path / "out", study),
        pytest.raises(StudyError, match="is in use by another process"),
    ):
        studies.run(study, tmp_path / "out")
    assert studies.run(study, tmp_path / "out").new == 6


def test_another_version_says_so_when_it_continues(done: Path, tmp_path: Path) -> None:
    folder = again(done, tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "freepull": "0.0.0"}))
    with pytest.warns(UserWarning, match=r"freepull 0.0.0 began this study"):
        studies.run(studies.read(written(tmp_path, STUDY)), folder)


def test_swept_runs_stay_as_they_are(tmp_path: Path) -> None:
    text = 'horizon = 50\ngame = "toy"\nprincipals.p.rule = "passive"\nsweep.runs = [2, 3]\n'
    study = studies.read(written(tmp_path, text))
    studies.run(study, tmp_path / "out")
    assert rows(tmp_path / "out")["run"].to_list() == [0, 1, 0, 1, 2]
    with pytest.raises(InvalidInput, match="runs must be left out"):
        study.with_runs(5)


def test_names_that_no_file_can_have_are_changed(tmp_path: Path) -> None:
    text = f'horizon = 9\nruns = 1\ngame = "toy"\n["principals"."a/b: ü{"x" * 200}"]\nrule = "passive"\n'
    studies.run(studies.read(written(tmp_path, text)), tmp_path / "out")
    assert rows(tmp_path / "out").height == 1


def test_the_summary_counts_every_run(done: Path) -> None:
    table = studies.summary(studies.Store.open(done))
    assert table["cell"].to_list() == [cell.name for cell in studies.Store.open(done).study.cells]
    assert table["runs"].to_list() == [6] * 6
    assert table["delta"].to_list() == [0.01, 0.01, 0.05, 0.05, None, None]
    paid = rows(done).filter(pl.col("cell") == "authors,delta=0.01,horizon=600")["paid"].mean()
    assert table["paid"][1] == paid
