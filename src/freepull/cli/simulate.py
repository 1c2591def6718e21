"""`freepull simulate`: the mechanism on a game, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from freepull.cli import options
from freepull.cli.options import build, build_game
from freepull.cli.screen import check_target, console, sentence_errors, show_result
from freepull.errors import InvalidInput
from freepull.registry import choices
from freepull.simulation import Result, simulate
from freepull.simulation.experiment import UNTIL

HELP = """Simulate the mechanism: watch, then pay for what is missing.

Example: freepull simulate --rule certified --delta 0.01 --runs 100

The default is the paper's game of 2 agents and 3 arms. The authors' own setting, a heuristic, is
--rule paper --bound simplified --scale 0.1."""
MODEL, RUN, OUTPUT = "The game and its agents", "The runs", "Output"


@sentence_errors
def command(
    game: Annotated[
        str,
        typer.Option(help="toy, family:agents=M,sd=σ, or a CSV file of means, a row an agent.", rich_help_panel=MODEL),
    ] = "toy",
    rewards: Annotated[
        str, typer.Option(help=f"Reward law: {choices('rewards')}.", rich_help_panel=MODEL)
    ] = "bernoulli",
    weights: Annotated[str | None, typer.Option(help="Weights of agents, 1,2,…", rich_help_panel=MODEL)] = None,
    agents: Annotated[
        list[str], typer.Option(help=f"{choices('agents')}; once for all, or once an agent.", rich_help_panel=MODEL)
    ] = ["alpha-ucb:2"],  # noqa: B006
    answers: Annotated[
        list[str], typer.Option(help=f"{choices('answers')}; once for all, or once an agent.", rich_help_panel=MODEL)
    ] = ["always"],  # noqa: B006
    rule: options.RuleName = "certified",
    delta: options.Delta = 0.01,
    gap: options.Gap = None,
    robust: options.Robust = None,
    epsilon: options.Epsilon = None,
    pulls: options.Pulls = None,
    bound: options.Bound = None,
    scale: options.Scale = None,
    observe: options.Observe = "share:0.5",
    protocol: options.Protocol = "take-or-ban",
    offers: options.Offers = "one",
    bonus: options.Bonus = 1.0,
    budget: options.Budget = None,
    horizon: Annotated[int, typer.Option(help="T, the steps of a run.", rich_help_panel=RUN)] = 100_000,
    runs: Annotated[int, typer.Option(help="How many runs.", rich_help_panel=RUN)] = 10,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.", rich_help_panel=RUN)] = 0,
    until: Annotated[str, typer.Option(help="horizon, or decided: stop there.", rich_help_panel=RUN)] = "horizon",
    workers: Annotated[int | None, typer.Option(help="How many at once.", rich_help_panel=RUN)] = None,
    engine: Annotated[str, typer.Option(help="auto, compiled or readable.", rich_help_panel=RUN)] = "auto",
    trace: Annotated[
        int | None, typer.Option(help="Record the state every so many steps (with --save).", rich_help_panel=OUTPUT)
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="runs, agents: a row an agent too, survives, or checks (with --save).", rich_help_panel=OUTPUT
        ),
    ] = "runs",
    save: Annotated[
        Path | None, typer.Option(help="Write the runs to this Parquet file.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON and nothing else.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """See HELP, which is shown as the command's help."""
    from freepull import validation

    if save is not None:
        check_target("--save", save, ".parquet")
    if save is None and (trace is not None or keep != "runs"):
        raise InvalidInput("--trace and --keep need --save, a file to write to; add it or leave them out.")
    validation.one_of("--until", until, UNTIL)
    principal = options.build_principal(
        rule=rule,
        delta=delta,
        gap=gap,
        robust=robust,
        epsilon=epsilon,
        pulls=pulls,
        bound=bound,
        scale=scale,
        observe=observe,
        protocol=protocol,
        offers=offers,
        bonus=bonus,
        budget=budget,
    )
    strategies = [build("agents", text) for text in agents]
    replies = [build("answers", text) for text in answers]
    result = simulate(
        build_game(game, rewards, weights),
        agents=strategies[0] if len(strategies) == 1 else strategies,
        answers=replies[0] if len(replies) == 1 else replies,
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
