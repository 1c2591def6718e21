"""What a trial that is driven from outside takes: memory, time per ask and tell, and its longest single wait.

Each size runs in a process of its own, because memory is that of a process. `python -m benchmarks.trial M K` prints
one of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from .findings import Effort, Findings

MEMORY, RATE, WAIT, SAVING = 2.0, 200_000.0, 50.0, 5.0
"""The bars: GB at M = 10⁶ and K = 30, pulls a second in bulk, ms of one call, seconds to save and to restore."""
BATCH, BUDGET, SINGLE = 1_000, 0.01, 5_000
PART = "a live trial, certified rule"
SIZES = [(1_000, 4), (10_000, 4), (100_000, 4), (1_000_000, 4), (1_000_000, 30)]


def measure(found: Findings, effort: Effort) -> None:
    """Add rows for every size, those of M = 10⁶ with bars."""
    told = [_job(M, K) for M, K in (SIZES[:3] if effort.quick else SIZES)]
    for one in told:
        size = f"M = {one['agents']:,}, K = {one['arms']}"
        a_stream = f"{one['stream']:.0f} bytes a stream"
        if one["agents"] == 1_000_000 and one["arms"] == 30:
            found.at_most(PART, f"memory of the process, {size}", one["memory"], MEMORY, " GB", a_stream)
        else:
            found.plain(PART, f"memory of the process, {size}", f"{one['memory']:.3g} GB", a_stream)
        detail = f"{one['pulls']:,.0f} pulls in batches of {BATCH:,}; the longest {one['batch']:.1f} ms"
        found.at_least(PART, f"tell_many, {size}", one["rate"], RATE, "/s", detail)
        detail = f"{one['closing']:.2f} s in {one['slices']:,.0f} calls of {1e3 * BUDGET:.0f} ms"
        found.at_most(PART, f"the longest call while a round is closed, {size}", one["wait"], WAIT, " ms", detail)
        detail = f"{one['size']:.2f} GB; restored in {one['restoring']:.2f} s"
        found.at_most(PART, f"saving the state, {size}", max(one["saving"], one["restoring"]), SAVING, " s", detail)
    for name, what in (
        ("ask", "ask"),
        ("tell", "tell"),
        ("step", "the longest call at the end of a step without a round"),
    ):
        unit = "ms" if name == "step" else "µs"
        figures = " → ".join(f"{one[name]:.3g}" for one in told)
        sizes = ", ".join(f"{one['agents']:,} × {one['arms']}" for one in told)
        found.plain(PART, f"{what}, M × K = {sizes}", f"{figures} {unit}")


def _job(agents: int, arms: int) -> dict[str, Any]:
    """Run one size in a fresh process."""
    command = [sys.executable, "-m", __name__, str(agents), str(arms)]
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told


def size(agents: int, arms: int) -> dict[str, float]:
    """Drive one trial: every stream is told of once and some twice, a round is closed, the state saved and restored."""
    import freepull as fp

    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")
    _drive(principal.start(arms=2, agents=2))  # compiles, or loads what was compiled
    before = memory("VmRSS")
    trial = principal.start(arms=arms, agents=agents)
    told = _drive(trial)
    told |= {"memory": memory("VmHWM") / 1e9, "stream": (memory("VmRSS") - before) / (agents * arms)}
    with tempfile.TemporaryFile() as file:
        told["saving"] = _longest([partial(_save, trial, file)])[1]
        told["size"] = file.tell() / 1e9
        del trial
        told["restoring"] = _longest([partial(_restore, principal, file)])[1]
    return told | {"agents": agents, "arms": arms}


def _drive(trial: Any) -> dict[str, float]:
    M, K, rng = trial.setting.agents, trial.setting.arms, np.random.default_rng(1)
    pulls, telling, batch = 0, 0.0, 0.0
    for k in range(-1, K):
        agents = rng.permutation(M) if k >= 0 else rng.integers(0, M, min(M, 100_000))
        arms = np.full(M, k) if k >= 0 else rng.integers(0, K, len(agents))
        cuts = [slice(at, at + BATCH) for at in range(0, len(agents), BATCH)]
        rewards = rng.random(len(agents))
        longest, total = _longest([partial(trial.tell_many, agents[c], arms[c], rewards[c]) for c in cuts])
        pulls, telling, batch = pulls + len(agents), telling + total, max(batch, longest)
    wait, closing, slices = _closed(trial)
    step, _, _ = _closed(trial)
    some = rng.integers(0, M, SINGLE).tolist()
    _, ask = _longest([partial(trial.ask, m) for m in some])
    _, tell = _longest([partial(trial.tell, m, m % K, 0.5) for m in some])
    return {
        "pulls": pulls, "rate": pulls / telling, "batch": 1e3 * batch, "wait": 1e3 * wait, "closing": closing,
        "slices": slices, "step": 1e3 * step, "ask": 1e6 * ask / SINGLE, "tell": 1e6 * tell / SINGLE,
    }  # fmt: skip


def _closed(trial: Any) -> tuple[float, float, int]:
    """End a step and close it slice by slice; return the longest call, all of them together, and their number."""
    longest, total = _longest([partial(trial.end_step, at_once=False)])
    slices = 1
    while trial.closing:
        took, _ = _longest([partial(trial.work, BUDGET)])
        longest, total, slices = max(longest, took), total + took, slices + 1
    return longest, total, slices


def _longest(calls: list[Callable[[], object]]) -> tuple[float, float]:
    """Return the processor time of the longest call, which other programs disturb less than the clock, and of all."""
    longest = total = 0.0
    for call in calls:
        began = time.thread_time()
        call()
        took = time.thread_time() - began
        longest, total = max(longest, took), total + took
    return longest, total


def _save(trial: Any, file: Any) -> None:
    file.writelines(trial.state_pieces())
    file.flush()


def _restore(principal: Any, file: Any) -> None:
    with mmap(file.fileno(), 0, access=ACCESS_READ) as state:
        principal.restore(state)


def memory(which: str) -> float:
    """The memory of this process in bytes: now (VmRSS), or the most it ever had (VmHWM)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(which)), float("nan"))


if __name__ == "__main__":
    print(json.dumps(size(*map(int, sys.argv[1:]))))
