"""What a stranger waits for: starting the program, compiling, and `make run` in a fresh clone.

Starting is measured beside `python -c "import numba"`, in turn, so that slow machines are held to the same bars.
`python -m benchmarks.first_hour` prints these rows alone; with `--clone` it also clones, installs and runs the example.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from . import report
from .findings import FULL, QUICK, Effort, Findings
from .timing import in_turn

ROOT = Path(__file__).parent.parent
PROGRAM = ["-c", "from freepull.cli import main; main()"]
HELP = [*PROGRAM, "--help"]
SIMULATE = [*PROGRAM, "simulate", "--horizon", "100", "--runs", "1"]
PLAN = [*PROGRAM, "plan", "--arms", "4", "--agents", "500", "--horizon", "60", "--gap", "0.05"]
FIRST_ANSWER = "At once"
WARMED = ("certified", "paper", "passive")
"""What the Makefile compiles ahead for its example."""
EXAMPLE = ROOT / "examples" / "toy.py"
HELP_BAR, START_BAR, COLD_BAR, CLONE_BAR = 0.6, 2.2, 15.0, 100.0
PART = "starting"


def measure(found: Findings, effort: Effort) -> None:
    """Add rows for starting and compiling."""
    commands: dict[str, tuple[Callable[[], float], float]] = {
        "`freepull --help`": (partial(_run, HELP), HELP_BAR),
        "`freepull simulate --horizon 100 --runs 1`": (partial(_run, SIMULATE), START_BAR),
        "the first answer of `freepull plan`": (_first_answer, START_BAR),
    }
    numba = partial(_run, ["-c", "import numba"])
    theirs, *ours = in_turn([numba, *(command for command, _ in commands.values())], effort.few)
    for (what, (_, bar)), our in zip(commands.items(), ours, strict=True):
        detail = f"{our.median:.2f} s beside {theirs.median:.2f} s"
        found.at_most(PART, f"{what}, times `import numba`", our.ratio(theirs), bar, "×", detail)
    cold, warm = _example()
    detail = f"the first `make run` takes {cold:.1f} s, the next {warm:.1f} s"
    found.at_most(PART, "compiling all that `make run` needs, nothing kept", cold - warm, COLD_BAR, " s", detail)


def clone(found: Findings) -> None:
    """Add a row for `make run` in a fresh clone, with installing."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "freepull"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
        began = time.perf_counter()
        subprocess.run(["make", "run"], check=True, cwd=target, capture_output=True, env=_outside())
        seconds = time.perf_counter() - began
    found.at_most(PART, "`make run` in a fresh clone, with installing", seconds, CLONE_BAR, " s")


def _run(words: Sequence[str], **environment: str) -> float:
    """Seconds that a program takes from its start to its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env={**os.environ, **environment})
    return time.perf_counter() - began


def _first_answer() -> float:
    """Seconds until a plan's first answer is on the screen; what follows is not waited for."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *PLAN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(FIRST_ANSWER):
                break
        seconds = time.perf_counter() - began
        process.kill()
    return seconds


def _example() -> tuple[float, float]:
    """Seconds of what `make run` does once everything is installed, with no machine code kept, and again with it."""
    with tempfile.TemporaryDirectory() as kept:
        ahead = _run([*PROGRAM, "warm", *WARMED], NUMBA_CACHE_DIR=kept)
        first, again = (_run([str(EXAMPLE)], NUMBA_CACHE_DIR=kept) for _ in range(2))
    return ahead + first, again


def _outside() -> dict[str, str]:
    """The environment without what points to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each once")
    parser.add_argument("--clone", action="store_true", help="also `make run` in a fresh clone")
    chosen, found = parser.parse_args(), Findings()
    measure(found, QUICK if chosen.quick else FULL)
    if chosen.clone:
        clone(found)
    report.show(found, Console(highlight=False, width=None if sys.stdout.isatty() else 140))


if __name__ == "__main__":
    main()
