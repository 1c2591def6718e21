"""The program `freepull`: one file per command group."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any, cast

import typer

app = typer.Typer(
    help="Incentivized exploration: watch first, pay for what is missing, name the best arm with confidence.",
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


def _note(message: Any, *_: Any) -> None:
    """Show a warning as a person wants to read it."""
    print(f"note: {message}", file=sys.stderr)


def main() -> None:
    """Run the program. Starting makes many objects and no garbage, so it is looked for more seldom than usual."""
    gc.set_threshold(200_000)
    warnings.showwarning = cast(Any, _note)
    from freepull.cli import campaign_data, serve, simulate, token

    app.command("simulate", help=simulate.EXAMPLE)(simulate.command)
    app.add_typer(campaign_data.app, name="campaign")
    app.command("serve", help=serve.EXAMPLE)(serve.command)
    app.add_typer(token.app, name="token")
    app()
