"""Other libraries: one UCB agent of each step by step, or many at once, in a virtual environment of their own.

`run` makes the environment and starts this file in it; nothing here needs freepull.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGES = ["SMPyBandits", "mabwiser", "jax", "scipy<1.14"]
"""SMPyBandits asks for a function that later versions of SciPy have not."""
REPEATS = 3
Step = tuple[Callable[[], None], int]
"""What is timed, and how many steps of one agent that are."""


def run(folder: Path, install: bool) -> dict[str, Any] | str:
    """Return what was measured, by library, or a sentence that says why nothing was."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    ready = folder / "ready"
    if not ready.exists():
        if not install:
            return "Other libraries were left out, because installing them takes a minute."
        make = [sys.executable, "-m", "venv", "--clear", str(folder)]
        fetch = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        for command in (make, fetch):
            if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode != 0:
                return "Other libraries were left out, because they could not be installed."
        ready.touch()
    done = subprocess.run([str(python), __file__], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return "Other libraries were left out, because they did not run."
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def smpybandits(arms: int) -> Step:
    """Its UCBalpha has α/2 where the paper has α, so 4 is the paper's 2."""
    policies: Any = importlib.import_module("SMPyBandits.Policies")
    agent = policies.UCBalpha(arms, alpha=4.0)
    agent.startGame()

    def step() -> None:
        arm = agent.choice()
        agent.getReward(arm, float(random.random() < 0.5))

    for _ in range(arms):
        step()
    return step, 1


def mabwiser(arms: int) -> Step:
    """Its UCB1 has α·√(2·log t / N), so 1 is the paper's 2."""
    mab: Any = importlib.import_module("mabwiser.mab")
    agent = mab.MAB(list(range(arms)), mab.LearningPolicy.UCB1(alpha=1.0))
    agent.fit(list(range(arms)), [float(random.random() < 0.5) for _ in range(arms)])

    def step() -> None:
        arm = agent.predict()
        agent.partial_fit([arm], [float(random.random() < 0.5)])

    return step, 1


def jax(arms: int) -> Step:
    """A thousand agents at once, arms by rows, a thousand steps in one compiled loop: the fastest of what we tried."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    library: Any = importlib.import_module("jax")
    np, agents, steps = library.numpy, 1024, 1_000
    means, rows = np.linspace(0.9, 0.1, arms), np.arange(arms)[:, None]

    def one(t: Any, state: Any) -> Any:
        pulls, sums, key = state
        key, now = library.random.split(key)
        root = np.sqrt(2 * np.log(t.astype(np.float32)) / pulls)
        arm = np.argmax(np.where(pulls > 0, sums / pulls + root, np.inf), axis=0)
        heads = (library.random.uniform(now, (agents,)) < means[arm]).astype(np.float32)
        pulled = (rows == arm[None, :]).astype(np.float32)
        return pulls + pulled, sums + pulled * heads[None, :], key

    play = library.jit(lambda first, state: library.lax.fori_loop(first, first + steps, one, state))
    begun = np.zeros((arms, agents)), np.zeros((arms, agents)), library.random.key(0)
    now = [1, library.block_until_ready(play(1, begun))]

    def step() -> None:
        now[0] += steps
        now[1] = library.block_until_ready(play(*now))

    step()
    return step, agents * steps


def measure(make: Callable[[int], Step], arms: int, times: int) -> list[float]:
    """Return ns of processor time per step of an agent, several times."""
    step, size = make(arms)
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(times):
            step()
        found.append((time.process_time() - began) / times / size * 1e9)
    return found


def main() -> None:
    """Print what was measured as one line of JSON."""
    found: dict[str, Any] = {}
    for name, make, times in (("SMPyBandits", smpybandits, 5_000), ("mabwiser", mabwiser, 500), ("jax", jax, 2)):
        try:
            figures = {arms: measure(make, arms, times) for arms in (3, 30)}
            found[name] = {"version": importlib.metadata.version(name), "ns": figures}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
