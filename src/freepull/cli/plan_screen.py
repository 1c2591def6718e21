"""What `freepull plan` prints: sentences first, then every figure with where it comes from, then the variants."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from freepull.cli.screen import console
from freepull.planning import Plan
from freepull.planning.curves import Curve
from freepull.planning.variants import COLUMNS, cells

TITLES = {
    "agents": "more or fewer agents",
    "horizon": "a longer or shorter horizon",
    "observing": "watching longer: κ/T",
    "delta": "another δ",
    "epsilon": "best up to ε (rule Pairwise)",
}


def show_first(plan: Plan) -> None:
    """Print the first answer while the second is worked on."""
    console.print(f"[bold]At once, by formulas[/bold] ({plan.provenance['seconds']:.2f} s)")
    _sentences(plan)
    _figures(plan)
    console.print()


def show(plan: Plan) -> None:
    """Print a plan."""
    if plan.forecast is not None:
        told = f"By simulation ({plan.provenance['seconds']:.1f} s)"
        console.print(f"[bold]{told}[/bold]")
    _sentences(plan)
    console.print(f"Believed: {escape(plan.question['beliefs'])}.", soft_wrap=True)
    _figures(plan)
    for name, curve in plan.curves.items():
        _curve(TITLES[name], curve, plan)


def _sentences(plan: Plan) -> None:
    for sentence in plan.sentences:
        console.print(escape(sentence), soft_wrap=True)


def _figures(plan: Plan) -> None:
    table = Table("", "", "from", show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in plan.rows():
        table.add_row(row.what, row.value, f"[dim]{row.source}[/dim]")
    console.print(table)


def _curve(title: str, curve: Curve, plan: Plan) -> None:
    table = Table(title, *COLUMNS)
    for column in table.columns[1:]:
        column.justify = "right"
    for point in curve.points:
        table.add_row(*cells(plan, point), style="bold" if point.planned else None)
    console.print(table)
    if not curve.complete:
        console.print("There was no time for all of these; give more --seconds.")
