"""What commands share on the screen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from freepull.errors import FreepullError, InvalidInput

if TYPE_CHECKING:
    from freepull.simulation import Result


console = Console(highlight=False, emoji=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Command = TypeVar("Command", bound=Callable[..., Any])


def sentence_errors(command: Command) -> Command:
    """Turn freepull's own errors, and those of disk and memory, into one sentence on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except FreepullError as error:
            said = str(error)
        except MemoryError:
            said = "this needs more memory than there is; ask for less, or take a larger machine."
        except OSError as error:
            said = f"{error.filename or 'a file'} could not be read or written: {error.strerror or error}."
        Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(f"[red]error:[/red] {escape(said)}")
        raise typer.Exit(2)

    return cast(Command, wrapped)


def show_result(result: Result) -> None:
    """Print the summary and the payment matrix."""
    from freepull.simulation.results import RATES

    told = result.provenance
    finished, seconds = told["finished"], told["seconds"]
    console.print(f"[bold]{told['parameters']['rule']}[/bold]")
    console.print(f"about {told['parameters']['target']}")
    if result.interrupted:
        console.print("interrupted: only the runs that were finished are counted")
    console.print(
        f"{finished} runs of {told['parameters']['horizon']:,} steps in {seconds:.3g} s ({told['engine']} engine)"
    )
    table = Table("", "mean", "95 % interval", "runs")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, mean, low, high, runs in result.summary().iter_rows():
        show = percent if name in RATES else number
        table.add_row(name, show(mean), f"{show(low)} … {show(high)}" if low == low else "–", str(runs))
    console.print(table)
    if result.paid.any():
        console.print(payments(result))


def payments(result: Result) -> Table:
    """Return the mean number of bonuses per agent and arm; the ten agents who got most, if there are many."""
    agents, arms = result.paid.shape
    table = Table("paid to", *(f"arm {k}" for k in range(arms)) if arms <= 8 else ("all arms",))
    for column in table.columns[1:]:
        column.justify = "right"
    most = sorted(range(agents), key=lambda m: (-result.paid[m].sum(), m))[:10]
    for m in sorted(most):
        cells = result.paid[m] if arms <= 8 else [result.paid[m].sum()]
        table.add_row(f"agent {m}", *(number(float(x)) for x in cells))
    if agents > 10:
        table.add_row(f"{agents - 10} others", *([""] * (len(table.columns) - 1)))
    return table


def number(value: float) -> str:
    """Show a number so that people can read it."""
    if value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def percent(value: float) -> str:
    """Show a rate."""
    return "–" if value != value else f"{100 * value:.1f} %"


def check_target(option: str, target: Path, suffix: str) -> None:
    """Refuse a target that cannot be written, in one sentence."""
    if target.suffix != suffix or target.is_dir():
        raise InvalidInput(f"{option} must be a file that ends in {suffix}, got {str(target)!r}.")
    if not target.parent.is_dir():
        raise InvalidInput(
            f"{option} cannot be written to {target}, because there is no folder {target.parent}; make it first."
        )
    there = target.exists()
    try:
        target.open("a").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise InvalidInput(
            f"{option} cannot be written to {target}, because you may not write there ({error.strerror}); choose "
            "another place."
        ) from None
