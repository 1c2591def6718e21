"""A study on the screen: a row a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from freepull.cli.screen import console, number, percent

if TYPE_CHECKING:
    from freepull.studies import Store

RATES = ("decided", "certified", "correct")


def show_table(store: Store) -> None:
    """Print means with 95 % intervals for every cell."""
    from freepull.studies import summary

    study = store.study
    if study.title:
        console.print(f"[bold]{study.title}[/bold]", markup=True)
    table = Table("principal", *study.axes, "runs", "paid", *RATES)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in summary(store).iter_rows(named=True):
        swept = ("–" if row[axis] is None else str(row[axis]) for axis in study.axes)
        runs = f"{row['runs']:,}" if row["runs"] >= row["wanted"] else f"{row['runs']:,} of {row['wanted']:,}"
        rates = (_rate(row, name) for name in RATES)
        table.add_row(row["principal"], *swept, runs, _mean(row, "paid"), *rates)
    console.print(table)
    console.print("means ± half of the 95 % interval; rates with 95 % intervals")


def as_rows(store: Store) -> list[dict[str, Any]]:
    """Return the rows as plain data; what is not a number becomes null."""
    from freepull.studies import summary

    rows = summary(store).iter_rows(named=True)
    return [{name: value if value == value else None for name, value in row.items()} for row in rows]


def _mean(row: dict[str, Any], name: str) -> str:
    half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
    return number(row[name]) + (f" ± {number(half)}" if half == half else "")


def _rate(row: dict[str, Any], name: str) -> str:
    if row[name] != row[name]:
        return "–"
    low, high = 100 * row[f"{name}_low"], 100 * row[f"{name}_high"]
    return f"{percent(row[name])} ({low:.0f} … {high:.0f})"
