"""The same study on a Dask cluster: a real scheduler and two worker processes, one of which is killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sample import LONG, rows, shards, started, wait_for, written

from freepull import studies
from freepull.errors import StudyError
from freepull.studies import cluster


class Cluster:
    """A scheduler and its workers, as processes."""

    def __init__(self, folder: Path) -> None:
        self.file, self.processes = folder / "scheduler.json", list[subprocess.Popen[bytes]]()
        self.log = (folder / "cluster.log").open("wb")
        self.start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self.file))
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address: str = json.loads(self.file.read_text())["address"]

    def start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
        process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=self.file.parent)
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker that has loaded the engine when it joins, so that it takes part from the first chunk on."""
        engine = ["--preload", "freepull.simulation.compiled.engine"]
        before = self.joined()
        process = self.start("worker", self.address, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", *engine)
        wait_for(lambda: self.joined() > before)
        return process

    def joined(self) -> int:
        return Path(self.log.name).read_text().count("Register worker addr")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.log.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def makers(folder: Path) -> set[int]:
    """The processes that have simulated the runs of a folder."""
    found = studies.Store.open(folder).shards.values()
    return {shard.provenance["process"] for cell in found for shard in cell}


def test_same_bits_though_a_worker_is_killed_in_the_middle(running: Cluster, tmp_path: Path) -> None:
    text = LONG.replace("horizon = 20_000", "horizon = 100_000")
    file, out = written(tmp_path, text), tmp_path / "out"
    alone = studies.run(studies.read(file), tmp_path / "alone")
    workers = [running.worker(), running.worker()]
    child = started("study", "run", file, "--out", out, "--scheduler", running.address, "--json")
    wait_for(lambda: len(shards(out)) >= 4 and len(makers(out)) == 2)
    workers[0].kill()
    at_death = len(shards(out))
    said, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert at_death < 30
    assert json.loads(said)["new"] == alone.new == 1200
    assert makers(out) == {worker.pid for worker in workers}
    assert rows(out).equals(rows(tmp_path / "alone"))


def test_a_study_begun_here_is_continued_on_a_cluster(running: Cluster, tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, LONG))
    studies.run(study.with_runs(3), tmp_path / "out")
    before = shards(tmp_path / "out")
    running.worker()
    child = started(
        "study", "run", tmp_path / "small.toml", "--out", tmp_path / "out", "--runs", 5, "--scheduler", running.address
    )
    said, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert "60 of 150 runs simulated" in said
    assert before.items() <= shards(tmp_path / "out").items()
    studies.run(study.with_runs(5), tmp_path / "alone")
    assert rows(tmp_path / "out").equals(rows(tmp_path / "alone"))


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
