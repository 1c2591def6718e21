"""A study of 10⁹ agent-steps on a Dask cluster of this machine's processes: speed, same bits, deaths and stragglers.

`python -m benchmarks.scale_out` takes some minutes, prints a table, and writes it into docs/studies.md. What a cluster
of many machines would bring follows from what one process alone can do: hand chunks out, and write what comes back.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil

import freepull as fp
from benchmarks.cluster import Cluster, wait_for
from freepull import studies

PAGE = Path(__file__).parents[1] / "docs" / "studies.md"
BEGIN, END = "<!-- measured by benchmarks.scale_out -->", "<!-- end -->"
STUDY = """
title = "10⁹ agent-steps"
horizon = 100_000
runs = RUNS
game = "toy"

[principals.passive]
rule = "passive"

[principals.authors]
rule = { kind = "paper", bound = "simplified", scale = 0.1, delta = 0.05 }

[sweep]
seed = [1, 2, 3, 4, 5]
"""
CELLS, AGENTS, HORIZON = 10, 2, 100_000


class Bench:
    """Runs the study in every way, and compares what it finds with what one process found."""

    def __init__(self, folder: Path, runs: int) -> None:
        self.folder, self.steps = folder, CELLS * AGENTS * HORIZON * runs
        (folder / "billion.toml").write_text(STUDY.replace("RUNS", str(runs)))
        self.study = studies.read(folder / "billion.toml")
        self.rows: list[tuple[str, str, str]] = []
        self.handling: list[float] = []
        """Seconds of CPU that this process needed for every chunk of a cluster, to hand it out and to write it."""
        studies.run(self.study.with_runs(1), folder / "warm", progress=False)
        began, began_cpu = time.perf_counter(), time.process_time()
        studies.run(self.study, folder / "alone", workers=1, progress=False)
        self.alone, self.cpu = time.perf_counter() - began, time.process_time() - began_cpu
        self.truth = studies.frame(studies.Store.open(folder / "alone"))
        self._note("one process, one thread", self.alone, f"; CPU: {self.cpu:.1f} s")

    def _note(self, how: str, seconds: float, more: str) -> None:
        pace = f"{self.steps / seconds / 1e6:,.0f} million steps/s, {self.alone / seconds:.2f}×"
        self.rows.append((how, f"{seconds:.1f} s", pace + more))
        print(*self.rows[-1], sep=" | ", flush=True)

    def local(self, threads: int) -> None:
        """Run it on threads of this process."""
        began = time.perf_counter()
        studies.run(self.study, self.folder / f"threads-{threads}", workers=threads, progress=False)
        self._note(f"one process, {threads} threads", time.perf_counter() - began, "")

    def cluster(
        self, workers: int, how: str = "", disturb: Callable[[Path, list[subprocess.Popen[bytes]]], None] | None = None
    ) -> None:
        """Run it on a cluster, in which something may go wrong in the middle."""
        home = self.folder / f"cluster-{workers}{how[:9]}"
        home.mkdir()
        with Cluster(home) as cluster:
            hands, out = cluster.workers(workers), home / "out"
            helper = threading.Thread(target=disturb, args=(out, hands)) if disturb else None
            began, before, mine = time.perf_counter(), [cpu(hand) for hand in hands], time.process_time()
            if helper is not None:
                helper.start()
            studies.run(self.study, out, scheduler=cluster.address, progress=False)
            seconds, mine = time.perf_counter() - began, time.process_time() - mine
            theirs = sum(cpu(hand) - old for hand, old in zip(hands, before, strict=True) if hand.poll() is None)
            if helper is not None:
                helper.join()
        found = studies.frame(studies.Store.open(out))
        same = "same bits" if found.equals(self.truth) else "OTHER BITS"
        count = len(list((out / "shards").glob("*.parquet")))
        who = f"cluster, {workers} worker{'s'[: workers > 1]}{how}"
        self.handling.append(mine / count)
        used = f"CPU: workers {theirs:.1f} s, writer {mine:.1f} s"
        self._note(who, seconds, f"; {count} chunks, {same}; {used}")


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of CPU that a process has had, which do not depend on who else uses the machine."""
    try:
        had = psutil.Process(process.pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(had.user + had.system)


def some(out: Path) -> None:
    """Wait until a part of the study is written."""
    wait_for(lambda: len(list((out / "shards").glob("*.parquet"))) >= 4, 1200.0)


def kill_one(out: Path, hands: list[subprocess.Popen[bytes]]) -> None:
    """Kill a worker in the middle."""
    some(out)
    hands[0].kill()


def stop_one(out: Path, hands: list[subprocess.Popen[bytes]]) -> None:
    """Stop a worker in the middle: it is there, and does nothing."""
    some(out)
    hands[0].send_signal(signal.SIGSTOP)


def table(bench: Bench) -> str:
    """Return what was measured, and what follows for many machines."""
    cores = os.cpu_count() or 1
    lines = ["| how | time | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in bench.rows)]
    pace = bench.steps / bench.cpu
    chunk = 200_000_000 / pace
    writing = median(bench.handling)
    most = chunk / writing
    return "\n".join(
        [
            f"`python -m benchmarks.scale_out` ran a study of {bench.steps:.0e} agent-steps on {cores} cores"
            f" (freepull {fp.__version__}; load average {os.getloadavg()[0]:.1f} at the end, so other programs had a"
            " share):",
            "",
            *lines,
            "",
            f"**What ten machines would bring.** A chunk of a long study, 2·10⁸ steps, takes a thread {chunk:.1f} s"
            f" here. The process that writes the folder needs {1000 * writing:.0f} ms for it, and does nothing else. So"
            f" it can keep about {most:,.0f} threads busy: of ten machines of 16 threads {min(160.0, most):.0f},"
            f" which do {min(160.0, most) * pace / 1e9:.1f}·10⁹ steps a second. Beyond that, run"
            " several studies, each with a process and a folder of its own; `fp.Result.concat` puts runs together. This"
            " is arithmetic from figures of one machine: nobody has run it on ten.",
        ]
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="of every cell; 500 make 10⁹ agent-steps")
    parser.add_argument("--keep", action="store_true", help="leave docs/studies.md as it is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), chosen.runs)
        bench.local(2)
        for workers in (1, 2, 4):
            bench.cluster(workers)
        bench.cluster(4, ", one killed in the middle", kill_one)
        bench.cluster(4, ", one stopped in the middle", stop_one)
        told = table(bench)
    print(told)
    if not chosen.keep:
        page = PAGE.read_text(encoding="utf-8")
        new = f"{BEGIN}\n{told}\n{END}"
        PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: new, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
