"""What a durable campaign takes on SQLite: pulls a second, the longest wait while a round is closed, and memory.

Each size runs in a process of its own, because memory is that of a process. `python -m benchmarks.durable M K` prints
one of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from .findings import Effort, Findings
from .trial import memory

RATE, MEMORY, WAIT = 50_000.0, 2.0, 100.0
"""The bars: durable pulls a second, GB, and ms that 99 of 100 requests may wait while a round is filled and closed."""
PART = "a durable campaign on SQLite, certified rule"
SIZES = [(10_000, 4), (1_000_000, 30)]
BATCHES = ((100, 200), (1_000, 50), (20_000, 5))
"""Pulls in a batch, and how many batches are told."""
BARRED = 1_000
"""Batches of so many pulls have to reach the rate."""


def measure(found: Findings, effort: Effort) -> None:
    """Add rows for every size."""
    for M, K in SIZES[:1] if effort.quick else SIZES:
        command = [sys.executable, "-m", __name__, str(M), str(K)]
        told: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        size, synced = f"M = {M:,}, K = {K}", f"an fsync took {told['fsync']:.2g} ms"
        for batch, (plain, numbered, named) in told["rates"].items():
            what = f"tell_many by one client, {int(batch):,} a batch, {size}"
            detail = f"{numbered:,.0f}/s with agents' own numbers, {named:,.0f}/s with event ids; {synced}"
            if int(batch) < BARRED:  # one commit a batch: this is the disk's speed
                found.plain(PART, what, f"{plain:,.0f}/s", detail)
            else:
                found.at_least(PART, what, plain, RATE, "/s", detail)
        detail = (
            f"of {told['asks']:,} requests; median {told['median']:.2g} ms, longest {told['longest']:.3g} ms; {synced}"
        )
        what = f"99 % of waits, while another client fills a round and it is closed, {size}"
        found.at_most(PART, what, told["most"], WAIT, " ms", detail)
        found.at_most(PART, f"memory of the process, {size}", told["memory"], MEMORY, " GB")


def size(agents: int, arms: int) -> dict[str, Any]:
    """Fill a round of a campaign in batches of several sizes, then ask and tell while it is closed."""
    import freepull as fp

    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")
    with tempfile.TemporaryDirectory() as folder:
        chosen: dict[str, Any] = {"arms": arms, "principal": principal, "price": "0.50 EUR"}
        url, rng, numbers = f"sqlite:///{folder}/trial.db", np.random.default_rng(1), Counter[int]()
        ids = count()
        with fp.Campaign.create(url, name="small", agents=50, **chosen) as campaign:
            campaign.start()
            campaign.tell_many([(m, k, 0.5) for m in range(50) for k in range(arms)])  # compiles, or loads
        with fp.Campaign.create(url, name="trial", agents=agents, snapshot_every=10**9, **chosen) as campaign:
            campaign.start()
            ways: list[Callable[[int], tuple[object, ...]]] = [
                lambda agent: (),
                lambda agent: (_next(numbers, agent),),
                lambda agent: (f"visit {next(ids)}",),
            ]
            rates = {
                batch: [batch * times / _seconds(campaign, rng, batch, times, way) for way in ways]
                for batch, times in BATCHES
            }
            waits = 1e3 * np.array(_closing(campaign, agents, arms))
            median, most, longest = np.quantile(waits, [0.5, 0.99, 1.0]).tolist()
            told: dict[str, Any] = {"rates": rates, "asks": len(waits), "median": median, "most": most}
            return told | {"longest": longest, "memory": memory("VmHWM") / 1e9, "fsync": 1e3 * _fsync(Path(folder))}


def _next(numbers: Counter[int], agent: int) -> int:
    numbers[agent] += 1
    return numbers[agent]


def _seconds(campaign: Any, rng: np.random.Generator, batch: int, times: int, event: Any) -> float:
    """Tell batches one after the other, as a gateway would; return how long that took, by the clock."""
    took, agents, arms = 0.0, campaign.status().agents, len(campaign.settings.arms)
    for _ in range(times):
        drawn = rng.integers(0, agents, batch), rng.integers(0, arms, batch), rng.random(batch)
        pulls = [(m, k, x, *event(m)) for m, k, x in zip(*(column.tolist() for column in drawn), strict=True)]
        began = time.perf_counter()
        campaign.tell_many(pulls)
        took += time.perf_counter() - began
    return took


def _closing(campaign: Any, agents: int, arms: int) -> list[float]:
    """Tell what the first round still needs from another thread, and ask and tell meanwhile; return all waits."""
    rest = threading.Thread(target=_fill, args=(campaign, agents, arms))
    waits, rounds = list[float](), count()
    rest.start()
    while rest.is_alive() or campaign.core.writer.decider.busy:
        began = time.perf_counter()
        turn = next(rounds)
        campaign.ask(turn % agents) if turn % 2 else campaign.tell(turn % agents, turn % arms, 0.5)
        waits.append(time.perf_counter() - began)
    return waits


def _fill(campaign: Any, agents: int, arms: int) -> None:
    """Tell every stream once, so that a round is complete; the last pull also ends a step."""
    for arm in range(arms):
        for first in range(0, agents, 2_000):
            campaign.tell_many([(m, arm, 0.5) for m in range(first, min(first + 2_000, agents))])


def _fsync(folder: Path) -> float:
    """Return how long this disk takes to sync a page, in the middle of several tries."""
    took = []
    with open(folder / "page", "wb") as file:
        for _ in range(50):
            file.write(bytes(4096))
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return float(np.median(took))


if __name__ == "__main__":
    print(json.dumps(size(*map(int, sys.argv[1:]))))
