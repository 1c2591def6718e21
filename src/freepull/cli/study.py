"""`freepull study` and `freepull reproduce`: simulations over a grid of parameters, the paper's among them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from freepull.cli.screen import AsJson, console, number, percent, sentence_errors

if TYPE_CHECKING:
    from freepull.studies import Store


RATES = ("decided", "certified", "correct")


def show_table(store: Store) -> None:
    """Print means with 95 % intervals for every cell."""
    from freepull.studies import summary

    study = store.study
    if study.title:
        console.print(f"[bold]{study.title}[/bold]", markup=True)
    table = Table("principal", *study.axes, "runs", "paid", "spent", *RATES)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in summary(store).iter_rows(named=True):
        swept = ("–" if row[axis] is None else str(row[axis]) for axis in study.axes)
        runs = f"{row['runs']:,}" if row["runs"] >= row["wanted"] else f"{row['runs']:,} of {row['wanted']:,}"
        rates = (_rate(row, name) for name in RATES)
        table.add_row(row["principal"], *swept, runs, _mean(row, "paid"), _mean(row, "spent"), *rates)
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


app = typer.Typer(help="Run, show and draw studies: simulations over a grid of parameters.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The folder of a study, begun or finished.")]

RUN = """Run a study, or what is missing of it.

Example: freepull study run paper-2c --runs 5 --out out/2c

FILE is a TOML file, or a study that comes with freepull, as in docs/studies.md. Stop it at any time with Ctrl-C; the
same command continues it. A file that has changed since is refused, and the difference shown."""
SHOW = """Show what a study found so far: one row per cell, with 95 % intervals.

Example: freepull study show out/2c"""
CHART = """Draw the cost, or another quantity, against what was swept, with 95 % intervals.

Example: freepull study chart out/2c --out out/2c.pdf --quantity regret --no-labels

Quantities are spent, paid, decided, certified, correct, error, regret, reward, offered, refused and others."""


@app.command(help=RUN)
@sentence_errors
def run(
    file: Annotated[str, typer.Argument(help="A study file, or the name of a shipped study.")],
    out: Annotated[Path | None, typer.Option(help="The folder for the results; out/NAME by default.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of every cell, instead of the file's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed than the file's.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads of this machine; all cores by default.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on the Dask cluster at this address, as in tcp://host:8786.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See RUN."""
    from freepull import studies

    study = studies.read(file, seed)
    if runs is not None:
        study = study.with_runs(runs)
    folder = Path("out") / study.name if out is None else out
    try:
        done = studies.run(study, folder, workers=workers, scheduler=scheduler, progress=False if as_json else None)
    except studies.Changed as changed:
        print(changed.difference, file=sys.stderr)
        raise
    store = studies.Store.open(folder)
    if as_json:
        told = {"folder": str(folder), "wanted": done.wanted, "kept": done.kept, "new": done.new}
        typer.echo(json.dumps({**told, "interrupted": done.interrupted, "cells": as_rows(store)}))
    else:
        show_table(store)
        kept = f", {done.kept:,} were there before" if done.kept else ""
        console.print(f"{done.new:,} of {done.wanted:,} runs simulated in {done.seconds:.3g} s{kept}; kept in {folder}")
        if done.interrupted:
            console.print("interrupted: every finished run is kept; the same command continues")
    if done.interrupted:
        raise typer.Exit(130)


@app.command(help=SHOW)
@sentence_errors
def show(folder: Folder, as_json: AsJson = False) -> None:
    """See SHOW."""
    from freepull import studies

    store = studies.Store.open(folder)
    if as_json:
        told: dict[str, Any] = {"folder": str(folder), "title": store.study.title, "cells": as_rows(store)}
        typer.echo(json.dumps(told))
    else:
        show_table(store)


@app.command(help=CHART)
@sentence_errors
def chart(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The picture to write: .png, .pdf or .svg.")],
    x: Annotated[str | None, typer.Option(help="The swept key to draw against; the first by default.")] = None,
    quantity: Annotated[str, typer.Option(help="What to draw.")] = "spent",
    labels: Annotated[bool, typer.Option(help="Write the share of runs decided above every point.")] = True,
    legend: Annotated[bool, typer.Option(help="Name the lines.")] = True,
    log_x: Annotated[
        bool | None, typer.Option(help="A logarithmic axis, or none; by default, if values span a decade.")
    ] = None,
    log_y: Annotated[bool, typer.Option(help="A logarithmic axis of the quantity.")] = False,
    x_label: Annotated[str | None, typer.Option(help='What the axis is called; "" for nothing.')] = None,
    y_label: Annotated[str | None, typer.Option(help='What the axis is called; "" for nothing.')] = None,
    as_json: AsJson = False,
) -> None:
    """See CHART."""
    from matplotlib.figure import Figure

    from freepull import charts, studies
    from freepull.errors import InvalidInput
    from freepull.studies.store import chart as draw

    if out.suffix not in (".png", ".pdf", ".svg"):
        raise InvalidInput(f"--out must be a picture that ends in .png, .pdf or .svg, got {str(out)!r}.")
    store = studies.Store.open(folder)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=150)
    named = {name: text for name, text in (("xlabel", x_label), ("ylabel", y_label)) if text is not None}
    ax = draw(store, x, figure.subplots(), quantity, labels, legend=legend, logx=log_x, logy=log_y, **named)
    try:
        charts.save(ax, out)
    except InvalidInput as error:
        raise InvalidInput(f"--out {str(error).removeprefix('path ')}") from None
    if as_json:
        typer.echo(json.dumps({"picture": str(out)}))
    else:
        console.print(f"picture: {out}")


HELP = """Reproduce the paper: every figure in three settings, lemmas, baselines, and a report.

Example: freepull reproduce --figure 2a --figure 2c --runs 20

All of it with 100 runs takes a few minutes. Stop it at any time with Ctrl-C; the same command continues. The report is
one HTML file; figures (PNG, SVG, PDF) and their numbers (Parquet) stand beside it."""


@sentence_errors
def command(
    runs: Annotated[int, typer.Option(help="Runs of every cell; the paper has 100.")] = 100,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="2a, 2b, 2c, 2d, 3, kappa, protocols, theory, lemma1, agents or baselines; may be repeated."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="paper, authors or certified; may be repeated; all by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("out/reproduction"),
    as_json: AsJson = False,
) -> None:
    """See HELP."""
    from freepull import reproduction

    def say(name: str) -> None:
        if not as_json:
            console.print(f"[dim]{name}[/dim]")

    try:
        found = reproduction.reproduce(
            out, runs=runs, seed=seed, figures=figure or tuple(reproduction.FIGURES),
            settings=setting or tuple(reproduction.SETTINGS), progress=False if as_json else None, say=say,
        )  # fmt: skip
    except (reproduction.Interrupted, KeyboardInterrupt):
        console.print("interrupted: every finished run is kept; the same command continues")
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(_plain(found)))
    else:
        _show(found)
    if found.disagreements:
        raise typer.Exit(1)


def _show(found: Any) -> None:
    for section in found.sections:
        console.print(f"\n[bold]{section.title}[/bold]")
        for finding in section.findings:
            console.print(f"  {finding.claim}", style="italic")
            for name, measured in finding.measured.items():
                console.print(f"    {name}: {measured}", markup=False)
            console.print(f"    → {finding.truth}", markup=False)
    if found.checks:
        agree = len(found.checks) - len(found.disagreements)
        console.print(f"\n{agree} of {len(found.checks)} figures agree with those of an independent program")
        for check in found.disagreements:
            console.print(f"  [red]{check.what}[/red]: {check.ours} here, {check.theirs} there ({check.distance})")
    console.print(f"report: {found.report} ({found.seconds:.0f} s)")


def _plain(found: Any) -> dict[str, Any]:
    sections = [
        {"name": section.name, "title": section.title,
         "findings": [{"claim": one.claim, "measured": dict(one.measured), "truth": one.truth}
                      for one in section.findings]}
        for section in found.sections
    ]  # fmt: skip
    compared = [
        {"what": one.what, "ours": one.ours, "theirs": one.theirs, "distance": one.distance, "agrees": one.agrees}
        for one in found.checks
    ]
    return {"report": str(found.report), "seconds": found.seconds, "sections": sections, "checks": compared}
