"""The program `freepull`: one file per command group."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import typer

from freepull import compiling

COMMANDS = {
    "plan": "plan:command",
    "simulate": "simulate:command",
    "study": "study:app",
    "reproduce": "study:command",
    "serve": "service:command",
    "token": "service:app",
    "campaign": "campaign_data:app",
    "warm": "simulate:warm",
}
"""Where every command is; only the module of the one that is asked for is loaded."""
SIMULATED = ("--panel", "--log", "--rule", "--epsilon", "--activity", "--leaving", "--answers")
"""Options of a plan with which its first answer may be a simulation."""
HELPS = {"warm": "WARM"}
"""Where the help of a command is, if its module has that of another."""
app = typer.Typer(
    help="Incentivized exploration: watch first, pay for what is missing, name the best arm at a proven risk.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from freepull import __version__

        typer.echo(f"freepull {__version__}")
        raise typer.Exit
    file = os.environ.get("FREEPULL_PASSWORD_FILE")
    if file:
        from freepull.cli.screen import sentence_errors, use_password

        sentence_errors(use_password)(Path(file))


def _note(message: Any, *_: Any) -> None:
    """Show a warning as a person wants to read it."""
    print(f"note: {message}", file=sys.stderr)


def _simulates(words: list[str]) -> bool:
    """Say whether a plan is for people or a rule that the formulas do not know, so that its first answer simulates."""
    return any(word.partition("=")[0] in SIMULATED for word in words)


def main() -> None:
    """Run the program. Starting makes many objects and no garbage, so it is looked for less often than usual."""
    gc.set_threshold(200_000)
    warnings.showwarning = cast(Any, _note)
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    compiling.OFF = named == "plan" and "--quick" in sys.argv and not _simulates(sys.argv)
    if named != "serve":  # parts of one's own may lie in this folder; last, so that they hide nothing
        sys.path.append(os.getcwd())
    for name in (named,) if named in COMMANDS else COMMANDS:
        place, part = COMMANDS[name].split(":")
        module = importlib.import_module(f"freepull.cli.{place}")
        if part == "app":
            app.add_typer(module.app, name=name)
        else:
            app.command(name, help=getattr(module, HELPS.get(part, "HELP")))(getattr(module, part))
    app()
