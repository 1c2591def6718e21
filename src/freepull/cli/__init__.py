"""The program `freepull`: one file per command group."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer


class Command(NamedTuple):
    """Where a command is, and what the list of all commands says of it."""

    module: str
    part: str
    about: str


COMMANDS = {
    name: Command(module, part, about)
    for name, module, part, about in (
        ("plan", "plan", "command",
         "Plan a trial before you pay: what it will cost, how long it will take, how many people it needs."),
        ("simulate", "simulate", "command", "Simulate the mechanism: watch, then pay for what is missing."),
        ("study", "study", "app", "Run, show and draw studies: simulations over a grid of parameters."),
        ("reproduce", "study", "command",
         "Reproduce the paper: every figure in three settings, lemmas, baselines, and a report."),
        ("serve", "service", "command", "Serve all campaigns of a store over HTTP, with a dashboard at /."),
        ("token", "service", "app", "Tokens for the service."),
        ("campaign", "campaign_data", "app",
         "Live campaigns: a trial made durable, with a log, a ledger and a verdict."),
        ("warm", "simulate", "warm", "Compile what simulations, plans and the service need, ahead of the first use."),
    )
}  # fmt: skip
"""Only the module of the command that is asked for is loaded, and none for the list of all."""
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


def load(name: str) -> None:
    """Add a command, with its options and its whole help, to the program."""
    module_name, part, _ = COMMANDS[name]
    module = importlib.import_module(f"freepull.cli.{module_name}")
    if part == "app":
        app.add_typer(module.app, name=name)
    else:
        app.command(name, help=getattr(module, HELPS.get(part, "HELP")))(getattr(module, part))


def main() -> None:
    """Run the program. Starting makes many objects and no garbage, so it is looked for less often than usual."""
    gc.set_threshold(200_000)
    warnings.showwarning = cast(Any, _note)
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if named != "serve":  # parts of one's own may lie in this folder; last, so that they hide nothing
        sys.path.append(os.getcwd())
    if named in COMMANDS:
        load(named)
    else:
        for name, command in COMMANDS.items():
            app.command(name, help=command.about)(lambda: None)
    app()
