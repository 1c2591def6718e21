"""What commands load: nothing that they do not need, so that they start at once."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from freepull import cli
from support.program import inside

HEAVY = ("numpy", "numba", "llvmlite", "polars", "scipy", "scipy.stats", "matplotlib", "httpx", "litestar", "apsw")
LOADED = (
    "import sys\n"
    "from freepull.cli import main\n"
    "try: main()\n"
    "except SystemExit: pass\n"
    f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
)


def loaded(*words: str) -> set[str]:
    """What of `HEAVY` a command loads."""
    command = [sys.executable, "-c", LOADED, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "120"})
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "may"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["simulate", "--help"], {"numpy"}),
        (["plan", "--help"], {"numpy"}),
        (["campaign", "--help"], {"numpy"}),
        (["token", "--help"], set()),
        (["serve", "--help"], set()),
        (["study", "--help"], set()),
        (["reproduce", "--help"], set()),
        (["plan", "--arms", "2", "--agents", "20", "--horizon", "40", "--gap", "0.2", "--quick"], {"numpy"}),
        (["simulate", "--horizon", "100", "--runs", "1"], {"numpy", "numba", "llvmlite", "polars"}),
    ],
    ids=lambda told: " ".join(sorted(told) if isinstance(told, set) else told),
)
def test_a_command_loads_only_what_it_needs(words: list[str], may: set[str]) -> None:
    assert loaded(*words) <= may


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    """The list is written down apart, so that it can be shown without loading any of them."""
    command = cli.COMMANDS[name]
    module = importlib.import_module(f"freepull.cli.{command.module}")
    own = module.app.info.help if command.part == "app" else getattr(module, cli.HELPS.get(command.part, "HELP"))
    assert own.partition("\n\n")[0] == command.about


def test_the_list_names_every_command_and_an_unknown_one_is_refused() -> None:
    shown = inside("--help").stdout
    assert all(f" {name} " in shown for name in cli.COMMANDS)
    done = inside("simulat")
    assert done.returncode == 2
    assert "simulate" in done.stderr
