"""The program `freepull` as tests call it, in a process of its own or in this one, and how it must refuse bad input."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from freepull import cli

TOLD = {"COLUMNS": "200", "NO_COLOR": "1"}
ENVIRONMENT = {**os.environ, **TOLD}


def command(*args: object) -> list[str]:
    return [sys.executable, "-c", "from freepull.cli import main; main()", *map(str, args)]


def freepull(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, which takes seconds to start."""
    return subprocess.run(command(*args), capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False)


def inside(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in this process: the same `main`, and afterwards everything is as it was."""
    words, out, errors, code = ["freepull", *map(str, args)], io.StringIO(), io.StringIO(), 0
    commands, groups = list(cli.app.registered_commands), list(cli.app.registered_groups)
    with (
        patch.object(sys, "argv", words), patch.dict(os.environ, TOLD),
        patch.object(gc, "set_threshold"), warnings.catch_warnings(), chdir(cwd or Path.cwd()),
        redirect_stdout(out), redirect_stderr(errors),
    ):  # fmt: skip
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        finally:
            cli.app.registered_commands[:], cli.app.registered_groups[:] = commands, groups
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def check_refusal(done: subprocess.CompletedProcess[str], words: Iterable[str]) -> None:
    """Check for exit code 2, and one sentence with these words on standard error."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr, done.stderr
