"""A Dask cluster of processes on this machine: a scheduler, and workers that can be killed and stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


class Cluster:
    """A scheduler and its workers, as processes; closed, they are gone."""

    def __init__(self, folder: Path) -> None:
        self.file, self.processes = folder / "scheduler.json", list[subprocess.Popen[bytes]]()
        self.log = (folder / "cluster.log").open("wb")
        self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self.file))
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address: str = json.loads(self.file.read_text())["address"]
        self.started = 0

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.log.close()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
        process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=self.file.parent)
        self.processes.append(process)
        return process

    def workers(self, count: int) -> list[subprocess.Popen[bytes]]:
        """Start workers that have loaded the engine when they join, so that all take part from the first chunk on."""
        options = ["--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--preload", "freepull.studies.runner"]
        new = [self._start("worker", self.address, *options) for _ in range(count)]
        self.started += count
        wait_for(lambda: Path(self.log.name).read_text().count("Register worker addr") >= self.started)
        return new
