"""`freepull reproduce`: the paper's experiments in three settings, with a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from freepull.cli.screen import AsJson, console, sentence_errors

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
