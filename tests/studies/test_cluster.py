"""The same study on a Dask cluster: a real scheduler and two worker processes, one of which is killed in the middle."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import freepull as fp
from benchmarks.cluster import Cluster
from freepull import studies
from freepull.errors import StudyError
from freepull.studies import runner as cluster
from freepull.studies.runner import Chunk
from support.sample import LONG, rows, shards, started, wait_for, written


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


@functools.cache
def maker(path: Path) -> int:
    return int(fp.Result.load(path).provenance["process"])


def makers(folder: Path) -> set[int]:
    """The processes that have simulated the runs of a folder."""
    return {maker(path) for path in (folder / "shards").glob("*.parquet")}


@pytest.mark.slow
def test_begun_here_continued_there_and_a_worker_killed_in_the_middle(running: Cluster, tmp_path: Path) -> None:
    file, out = written(tmp_path, LONG.replace("horizon = 20_000", "horizon = 40_000")), tmp_path / "out"
    study = studies.read(file)
    alone = studies.run(study, tmp_path / "alone")
    studies.run(study.with_runs(2), out)
    begun = shards(out)
    workers = running.workers(2)
    child = started("study", "run", file, "--out", out, "--scheduler", running.address, "--json")
    both = {os.getpid(), *(worker.pid for worker in workers)}
    wait_for(lambda: makers(out) == both)
    workers[0].kill()
    at_death = len(shards(out))
    said, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert at_death < 60
    told = json.loads(said)
    assert (told["kept"], told["new"]) == (60, alone.new - 60)
    assert begun.items() <= shards(out).items()
    assert makers(out) == both
    assert rows(out).equals(rows(tmp_path / "alone"))


@pytest.mark.slow
def test_a_worker_that_hangs_holds_nobody_up(running: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "GRACE", 0.1)
    monkeypatch.setattr(cluster, "GLANCE", 0.1)
    study = studies.read(written(tmp_path, LONG)).with_runs(4)
    hanging, healthy = running.workers(2)
    hanging.send_signal(signal.SIGSTOP)
    report = studies.run(study, tmp_path / "out", scheduler=running.address, progress=False)
    assert report.new == report.wanted == 120
    assert makers(tmp_path / "out") == {healthy.pid}
    studies.run(study, tmp_path / "alone", progress=False)
    assert rows(tmp_path / "out").equals(rows(tmp_path / "alone"))


def test_a_cluster_gets_chunks_for_all_of_its_threads(tmp_path: Path) -> None:
    text = 'horizon = 1_000_000\nruns = 500\ngame = "toy"\nprincipals.p.rule = "passive"\n'
    study = studies.read(written(tmp_path, text))
    with studies.Store.begin(tmp_path / "out", study) as store:
        sizes = {
            threads: [len(chunk.runs) for chunk in cluster.missing(store, study.cells, 1, threads)]
            for threads in (0, 1, 4, 100)
        }
    assert all(sum(found) == 500 for found in sizes.values())
    assert (len(sizes[0]), len(sizes[1]), len(sizes[4]), len(sizes[100])) == (5, 9, 34, 100)


AGENT = """\
class Stubborn:
    def __init__(self, arm=0):
        self.arm = arm

    def pick(self, t):
        return self.arm

    def learn(self, arm, reward):
        pass
"""
OWN = 'horizon = 30\nruns = 3\ngame = "toy"\nagents = "clustered:Stubborn:1"\nprincipals.p.rule = "passive"\n'


@pytest.mark.slow
def test_an_agent_of_ones_own_is_imported_by_the_workers(
    running: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clustered.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    study = studies.read(written(tmp_path, OWN))
    (worker,) = running.workers(1)
    report = studies.run(study, tmp_path / "out", scheduler=running.address, progress=False)
    assert report.new == 3
    assert makers(tmp_path / "out") == {worker.pid}
    (tmp_path / "clustered.py").unlink()
    monkeypatch.delitem(sys.modules, "clustered")
    importlib.invalidate_caches()
    with pytest.raises(StudyError, match=r"^agents.part clustered:Stubborn cannot be imported .*; it must be"):
        Chunk(study.cells[0], (0,)).play()


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    study = studies.read(written(tmp_path, LONG)).with_runs(1)
    with pytest.raises(StudyError, match=r"^scheduler tcp://127.0.0.1:9 cannot be reached: [^\n]*; give one that runs"):
        studies.run(study, tmp_path / "out", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(StudyError, match=r"cannot be reached"):
        studies.run(study, tmp_path / "out", scheduler="nonsense://")


def test_without_dask_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    study = studies.read(written(tmp_path, LONG)).with_runs(1)
    with pytest.raises(StudyError, match=r"pip install 'freepull\[cluster\]'"):
        studies.run(study, tmp_path / "out", scheduler="tcp://127.0.0.1:9")


@pytest.mark.slow
def test_workers_of_another_kind_are_refused(tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, LONG)).with_runs(1)
    result = Chunk(study.cells[0], (0,)).play()
    other = dataclasses.replace(result, provenance={**result.provenance, "freepull": "0.0.0"})
    done: Future[fp.Result] = Future()
    done.set_result(other)
    with pytest.raises(StudyError, match=r"a worker of here has freepull 0.0.0 on .*; install the same everywhere"):
        cluster._checked(done, "here")
    failed: Future[fp.Result] = Future()
    failed.set_exception(MemoryError("too much"))
    with pytest.raises(StudyError, match=r"failed \(MemoryError: too much\); run the study again to continue it"):
        cluster._checked(failed, "here")
