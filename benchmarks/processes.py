"""What needs a process of its own: compiling from nothing, starting, and the memory it takes."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from .findings import Effort, Findings

TOY = Path(__file__).parent.parent / "examples" / "toy.py"
START = ["-c", "from freepull.cli import main; main()", "simulate", "--horizon", "100", "--runs", "1"]
COLD, WARM = 15.0, 1.5


def measure(found: Findings, effort: Effort) -> None:
    """Add rows for starting and for memory."""
    with tempfile.TemporaryDirectory() as empty:
        began = time.perf_counter()
        seconds = _job("cold", NUMBA_CACHE_DIR=empty)["seconds"]
        whole = time.perf_counter() - began
    part = "starting"
    what, detail = "compiling all that `make run` needs, nothing cached", f"the whole process {whole:.1f} s"
    found.at_most(part, what, seconds, COLD, " s", detail)

    times = []
    for _ in range(6):
        began = time.perf_counter()
        subprocess.run([sys.executable, *START], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    warm = median(times[1:])
    found.at_most(part, "`freepull simulate --horizon 100 --runs 1`", warm, WARM, " s", f"best {min(times[1:]):.2f} s")

    sizes = [(100_000, 120)] if effort.quick else [(100_000, 120), (1_000_000, 1_000)]
    for steps, agents in sizes:
        told = _job("memory", str(steps), str(agents))
        what = f"one run, T = {steps:,}, M = {agents:,}, K = 30"
        detail = f"{told['before']:,.0f} MB before it began; {told['seconds']:.1f} s"
        found.plain("peak memory", what, f"{told['peak']:,.0f} MB", detail)


def _job(*arguments: str, **environment: str) -> dict[str, Any]:
    """Run one of the jobs below in a fresh process."""
    command = [sys.executable, "-m", __name__, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def cold() -> dict[str, float]:
    """The example's three principals, in a game so short that compiling is all that takes time."""
    import freepull as fp

    principals = runpy.run_path(str(TOY))["PRINCIPALS"]
    began = time.perf_counter()
    for rule in principals.values():
        fp.simulate(fp.instances.toy(), principal=fp.Principal(rule), horizon=1_000, runs=2, progress=False)
    return {"seconds": time.perf_counter() - began}


def memory(steps: int, agents: int) -> dict[str, float]:
    """One run of the paper's random family on one thread."""
    import freepull as fp

    game, principal = fp.instances.Family(agents=agents, sd=0.1), fp.Principal(fp.rules.Paper(delta=0.01))
    fp.simulate(game, principal=principal, horizon=100, runs=1, workers=1, progress=False)
    before, began = _peak(), time.perf_counter()
    fp.simulate(game, principal=principal, horizon=steps, runs=1, workers=1, progress=False)
    return {"before": before, "seconds": time.perf_counter() - began, "peak": _peak()}


def _peak() -> float:
    """The most memory this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent in: its peak survives the start of another program
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e3
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


if __name__ == "__main__":
    job, *numbers = sys.argv[1:]
    print(json.dumps(cold() if job == "cold" else memory(*map(int, numbers))))
