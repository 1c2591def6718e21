"""What needs a process of its own: the memory that a simulation takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .findings import Effort, Findings


def measure(found: Findings, effort: Effort) -> None:
    """Add rows for memory."""
    sizes = [(100_000, 120)] if effort.quick else [(100_000, 120), (1_000_000, 1_000)]
    for steps, agents in sizes:
        told = _job(str(steps), str(agents))
        what = f"one run, T = {steps:,}, M = {agents:,}, K = 30"
        detail = f"{told['before']:,.0f} MB before it began; {told['seconds']:.1f} s"
        found.plain("peak memory", what, f"{told['peak']:,.0f} MB", detail)


def _job(*arguments: str) -> dict[str, Any]:
    """Do the job below in a fresh process."""
    command = [sys.executable, "-m", __name__, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


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
    print(json.dumps(memory(*map(int, sys.argv[1:]))))
