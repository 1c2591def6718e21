"""`freepull simulate`: the mechanism on a game, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from freepull.cli import options
from freepull.cli.options import build, build_game, of_output, of_runs
from freepull.cli.screen import check_target, console, sentence_errors, show_result
from freepull.errors import InvalidInput
from freepull.panels import Panel
from freepull.principal import Principal
from freepull.registry import choices
from freepull.simulation import Result, simulate
from freepull.simulation.experiment import UNTIL

HELP = """Simulate the mechanism: watch, then pay for what is missing.

Example: freepull simulate --rule certified --delta 0.01 --runs 100

The default is the paper's game of 2 agents and 3 arms. The authors' own setting, a heuristic, is
--rule paper --bound simplified --scale 0.1."""
of_model = options.panel("The game and its agents")


def _people(kind: str, default: str) -> typer.models.OptionInfo:
    return of_model(f"{choices(kind)}; once for all, or once per agent. {default}, or the panel's, by default.")


@sentence_errors
@options.describe_principal(delta=0.01, offers="one")
def command(
    *,
    game: Annotated[
        str,
        of_model(f"toy, family:agents=M,sd=σ, or a CSV file of means, one row per agent; or a panel: {options.GAMES}."),
    ] = "toy",
    rewards: Annotated[str, of_model(f"Reward law: {choices('rewards')}.")] = "bernoulli",
    weights: Annotated[str | None, of_model("Weights of the agents, such as 1,2,…")] = None,
    agents: Annotated[list[str] | None, _people("agents", "alpha-ucb:2")] = None,
    answers: Annotated[list[str] | None, _people("answers", "always")] = None,
    activity: Annotated[list[str] | None, _people("activity", "every-step")] = None,
    leaving: Annotated[list[str] | None, _people("leaving", "stays")] = None,
    principal: Principal,
    horizon: Annotated[int | None, of_runs("T, the steps of a run: 100,000, or the panel's.")] = None,
    runs: Annotated[int, of_runs("How many runs.")] = 10,
    seed: Annotated[int, of_runs("Same seed, same bits.")] = 0,
    until: Annotated[str, of_runs("Where runs end: at the horizon, or once decided.")] = "horizon",
    workers: options.Workers = None,
    engine: Annotated[str, of_runs("auto, compiled or readable.")] = "auto",
    trace: Annotated[int | None, of_output("Record the state every so many steps (with --save).")] = None,
    keep: Annotated[
        str, of_output("runs; agents: one row per agent as well; survives; or checks (with --save).")
    ] = "runs",
    save: Annotated[Path | None, of_output("Write the runs to this Parquet file.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """See HELP, which is shown as the command's help."""
    from freepull import validation

    if save is not None:
        check_target("--save", save, ".parquet")
    if save is None and (trace is not None or keep != "runs"):
        raise InvalidInput("--trace and --keep need --save, a file to write to; add it or leave them out.")
    validation.one_of("--until", until, UNTIL)
    played = build_game(game, rewards, weights)
    if horizon is None and not isinstance(played, Panel):
        horizon = 100_000
    given = {"agents": agents, "answers": answers, "activity": activity, "leaving": leaving}
    people = {kind: [build(kind, text) for text in texts] for kind, texts in given.items() if texts}
    result = simulate(
        played,
        **{kind: parts[0] if len(parts) == 1 else parts for kind, parts in people.items()},
        principal=principal,
        horizon=horizon,
        runs=runs,
        seed=seed,
        until=until,
        workers=workers,
        engine=engine,
        keep=keep,
        trace=trace,
        progress=False if as_json else None,
    )
    if save is not None:
        result.save(save)
    if as_json:
        typer.echo(json.dumps(as_dict(result)))
    else:
        show_result(result)
        if save is not None:
            console.print(f"saved to {save}")
    if result.interrupted:
        raise typer.Exit(130)


def as_dict(result: Result) -> dict[str, object]:
    """Return the summary, the payment matrix and the provenance as plain data; what is not a number becomes null."""
    rows = {
        row.pop("quantity"): {name: value if value == value else None for name, value in row.items()}
        for row in result.summary().iter_rows(named=True)
    }
    return {"summary": rows, "paid": result.paid.tolist(), "provenance": result.provenance}
