"""The program `freepull` as tests call it from the outside, and how it must refuse bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def command(*args: object) -> list[str]:
    return [sys.executable, "-c", "from freepull.cli import main; main()", *map(str, args)]


def freepull(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False)


def check_refusal(code: int, out: str, errors: str, words: Iterable[str]) -> None:
    """Check for exit code 2, and one sentence with these words on standard error."""
    assert code == 2
    assert out == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    for word in words:
        assert word in errors, errors
