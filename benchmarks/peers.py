"""Other people's libraries: one UCB agent of each, step by step, in a virtual environment of their own.

`run` makes the environment and starts this file in it; nothing here needs freepull.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGES = ["SMPyBandits", "mabwiser", "scipy<1.14"]
"""SMPyBandits asks for a function that later versions of SciPy have not."""
REPEATS = 3


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


def smpybandits(arms: int) -> Callable[[], None]:
    """Its UCBalpha has α/2 where the paper has α, so 4 is the paper's 2."""
    policies: Any = importlib.import_module("SMPyBandits.Policies")
    agent = policies.UCBalpha(arms, alpha=4.0)
    agent.startGame()

    def step() -> None:
        arm = agent.choice()
        agent.getReward(arm, float(random.random() < 0.5))

    for _ in range(arms):
        step()
    return step


def mabwiser(arms: int) -> Callable[[], None]:
    """Its UCB1 has α·√(2·log t / N), so 1 is the paper's 2."""
    mab: Any = importlib.import_module("mabwiser.mab")
    agent = mab.MAB(list(range(arms)), mab.LearningPolicy.UCB1(alpha=1.0))
    agent.fit(list(range(arms)), [float(random.random() < 0.5) for _ in range(arms)])

    def step() -> None:
        arm = agent.predict()
        agent.partial_fit([arm], [float(random.random() < 0.5)])

    return step


def measure(make: Callable[[int], Callable[[], None]], arms: int, steps: int) -> list[float]:
    """Return ns per step, several times."""
    step = make(arms)
    found = []
    for _ in range(REPEATS):
        began = time.thread_time()
        for _ in range(steps):
            step()
        found.append((time.thread_time() - began) / steps * 1e9)
    return found


def main() -> None:
    """Print what was measured as one line of JSON."""
    found: dict[str, Any] = {}
    for name, make, steps in (("SMPyBandits", smpybandits, 5_000), ("mabwiser", mabwiser, 500)):
        try:
            figures = {arms: measure(make, arms, steps) for arms in (3, 30)}
            found[name] = {"version": importlib.metadata.version(name), "ns": figures}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
