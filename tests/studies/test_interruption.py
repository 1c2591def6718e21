"""A study that was killed or stopped continues where it was: no finished run is repeated, and the bits are the same."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

import freepull as fp
from freepull import studies
from support.sample import LONG, rows, shards, started, wait_for, written

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    studies.run(studies.read(written(folder, LONG)), folder / "out")
    return folder / "out"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_study_continues_where_it_was(how: signal.Signals, uninterrupted: Path, tmp_path: Path) -> None:
    file, out = written(tmp_path, LONG), tmp_path / "out"
    child = started("study", "run", file, "--out", out, "--workers", 1)
    wait_for(lambda: len(shards(out)) >= 5)
    child.send_signal(how)
    said, errors = child.communicate(timeout=60)
    before = shards(out)
    assert 5 <= len(before) < 30
    assert child.returncode == (130 if how == signal.SIGINT else -how)
    if how == signal.SIGINT:
        assert "every finished run is kept" in said
        assert errors == ""
    kept = rows(out).height
    child = started("study", "run", file, "--out", out, "--json")
    said, errors = child.communicate(timeout=120)
    assert errors == ""
    told = json.loads(said)
    assert (told["kept"], told["new"], told["wanted"]) == (kept, 900 - kept, 900)
    assert before.items() <= shards(out).items()
    assert rows(out).equals(rows(uninterrupted))
    assert [path for path in out.rglob("*") if path.name.endswith(".unfinished")] == []


def test_an_unfinished_shard_counts_for_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, LONG)).with_runs(1)
    studies.run(study, tmp_path / "out")
    half = next((uninterrupted / "shards").glob("authors,seed=0-0.*")).read_bytes()[:999]
    left = tmp_path / "out" / "shards" / "authors,seed=0-30.unfinished"
    left.write_bytes(half)
    assert rows(tmp_path / "out").height == 30
    assert studies.run(study.with_runs(2), tmp_path / "out").new == 30
    assert rows(tmp_path / "out").height == 60
    assert not left.exists()


def test_control_c_keeps_the_finished_runs_of_a_chunk(tmp_path: Path) -> None:
    text = 'horizon = 3000\nruns = 1_000_000\ngame = "toy"\nprincipals.p.rule = "passive"\n'
    file = written(tmp_path, text)
    for patience in (2, 10, 40):  # on a busy machine it takes a while until a run is finished
        out = tmp_path / f"out{patience}"
        child = started("study", "run", file, "--out", out)
        wait_for((out / "manifest.json").exists)
        time.sleep(patience)
        child.send_signal(signal.SIGINT)
        asked = time.monotonic()
        child.communicate(timeout=120)
        assert time.monotonic() - asked < 10.0 + patience
        assert child.returncode == 130
        store = studies.Store.open(out)
        (cell,) = store.study.cells
        found = studies.result(store, cell).frame
        if found.height:
            break
    assert 0 < found.height < 1_000_000
    assert found["run"].is_unique().all()
    assert len(store.missing(cell)) == 1_000_000 - found.height
    some = found["run"].to_list()[-20:]
    principal = fp.Principal(fp.rules.Passive())
    alone = fp.simulate(fp.instances.toy(), principal=principal, horizon=3000, runs=some)
    assert found[-20:].equals(alone.frame)
