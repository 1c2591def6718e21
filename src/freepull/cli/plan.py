"""`freepull plan`: its command and its screen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from freepull import registry, validation
from freepull.cli import options
from freepull.cli.options import build, of_output, of_principal, of_runs
from freepull.cli.screen import check_target, console, sentence_errors
from freepull.errors import InvalidInput
from freepull.fitting import DAY
from freepull.planning import Plan, plan
from freepull.planning.facade import CAMPAIGN, COLUMNS, cells
from freepull.planning.search import Curve
from freepull.principal import OFFERS, Principal
from freepull.principal.rules import Comparisons
from freepull.registry import choices

TITLES = {
    "agents": "more or fewer agents",
    "horizon": "a longer or shorter horizon",
    "observing": "watching longer: κ/T",
    "delta": "another δ",
    "epsilon": "best up to ε",
    "cap": "at most so many comparisons of one agent",
}


def show_first(plan: Plan) -> None:
    """Print the first answer while the second is worked on."""
    how = "At once, by formulas" if plan.first.known else "First, by simulation only"
    console.print(f"[bold]{how}[/bold] ({plan.provenance['seconds']:.2f} s)")
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


HELP = """Plan a trial before you pay: what it will cost, how long it will take, how many people it needs.

Example: freepull plan --arms 4 --agents 500 --horizon 60 --gap 0.05 --delta 0.05

Give guesses (--gap or --means), a log of past observations (--log) or a panel (--panel street). The first answer comes
from formulas, where these know such people, the second from simulation; every figure says which."""
of_game, of_people = options.panel("What is known of the game"), options.panel("The people")
RULES = ("certified", "comparisons")


def _people(kind: str, usual: str) -> typer.models.OptionInfo:
    return of_people(f"{choices(kind)}; of several, at random [{usual}, or as the panel or the log says].")


@sentence_errors
def command(
    horizon: Annotated[int | None, of_game("T, the number of steps; a panel has its own.")] = None,
    arms: Annotated[int | None, of_game("K, how many options there are.")] = None,
    agents: Annotated[
        int | None,
        of_game("M, how many people take part (with --log: others like them)."),
    ] = None,
    gap: Annotated[
        str | None,
        of_game("How far the best arm is ahead of the next, or of each of the others: 0.05,0.1,…"),
    ] = None,
    means: Annotated[str | None, of_game("Instead of --gap: every arm's mean, 0.5,0.45,…")] = None,
    level: Annotated[float | None, of_game("The best arm's mean [0.5].")] = None,
    spread: Annotated[float | None, of_game("How much people differ, a standard deviation [0.1].")] = None,
    error: Annotated[float | None, of_game("How far off the guesses may be [0.25: a quarter].")] = None,
    rewards: Annotated[str | None, of_game("Reward law: bernoulli or beta:concentration [bernoulli].")] = None,
    log: Annotated[
        Path | None,
        of_game("Past observations, CSV or Parquet: agent, arm, reward; perhaps step or at, and outcome."),
    ] = None,
    scale: Annotated[
        str | None, of_game("On which scale the log's rewards are, such as 1..5, 0..50 EUR or yes/no [0..1].")
    ] = None,
    columns: Annotated[
        str | None, of_game("What the log calls its columns, such as agent=user_id,arm=slot,reward=stars.")
    ] = None,
    day: Annotated[int, of_game("How many steps a day has, where the log has dates.")] = DAY,
    panel: Annotated[str | None, of_game(f"Instead of all that: {options.GAMES}.")] = None,
    delta: options.Delta = 0.05,
    rule: Annotated[
        str | None,
        of_principal("certified or comparisons [certified; comparisons if people may be absent or refuse]."),
    ] = None,
    epsilon: Annotated[
        float | None,
        of_principal("Stop at an arm within ε of the best [comparisons: 0.02; others: 0]."),
    ] = None,
    observe: Annotated[
        str | None, of_principal(f"{choices('observe')} [share:0.5; share:0.1 with comparisons].")
    ] = None,
    protocol: Annotated[
        str | None, of_principal(f"{choices('protocol')} [take-or-ban; never-ban with comparisons].")
    ] = None,
    offers: options.Offers = "each",
    pricing: Annotated[
        str | None, of_principal(f"What an offer pays, if not the same to all: {choices('pricing')}.")
    ] = None,
    budget: Annotated[
        float | None, of_principal("The most bonuses that may be paid; with --pricing, in bonuses of 1.")
    ] = None,
    futility: options.Futility = 0.0,
    price: Annotated[
        str | None, of_principal('What a bonus costs, as in "0.50 EUR"; with --pricing, one of 1.')
    ] = None,
    strategy: Annotated[list[str] | None, _people("agents", "alpha-ucb:2")] = None,
    answers: Annotated[list[str] | None, _people("answers", "always")] = None,
    activity: Annotated[list[str] | None, _people("activity", "every-step")] = None,
    leaving: Annotated[list[str] | None, _people("leaving", "stays")] = None,
    strategic: Annotated[
        bool, of_runs("Search for what a strategic user could extract; takes some minutes with many.", "--strategic")
    ] = False,
    quick: Annotated[bool, of_runs("Only the first answer.", "--quick")] = False,
    seconds: Annotated[float, of_runs("About how long to simulate.")] = 15.0,
    runs: Annotated[int | None, of_runs("How many runs, instead of --seconds.")] = None,
    seed: Annotated[int, of_runs("Same seed and --runs, same figures.")] = 0,
    workers: options.Workers = None,
    html: Annotated[Path | None, of_output("Write a page for whoever has to approve it.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """See HELP, which is shown as the command's help."""
    if rule is not None:
        registry.still("rule", rule, "--rule", RULES)
        validation.one_of("--rule", rule, RULES)

    def principal(ideal: bool) -> Principal:
        name = rule or ("certified" if ideal and epsilon is None else "comparisons")
        usual = CAMPAIGN if name == "comparisons" else Principal(offers="each")
        up_to = usual.rule.epsilon if isinstance(usual.rule, Comparisons) else None
        validation.one_of("--offers", offers, OFFERS)
        return replace(
            usual,
            rule=options.build_rule(name, delta, epsilon=up_to if epsilon is None else epsilon),
            observe=usual.observe if observe is None else build("observe", observe),
            protocol=usual.protocol if protocol is None else build("protocol", protocol),
            offers=offers,
            pricing=None if pricing is None else build("pricing", pricing),
            budget=budget,
            futility=futility,
        )

    if html is not None:
        check_target("--html", html, ".html")
    made = plan(
        None if panel is None else options.build_panel(panel),
        horizon=horizon,
        arms=arms,
        agents=agents,
        gap=None if gap is None else _numbers("--gap", gap),
        means=None if means is None else _numbers("--means", means),
        level=level,
        spread=spread,
        error=error,
        rewards=None if rewards is None else build("rewards", rewards),
        log=log,
        scale=scale,
        columns=columns,
        day=day,
        principal=principal,
        strategy=[build("agents", text, "strategy") for text in strategy] if strategy else None,
        answers=[build("answers", text) for text in answers] if answers else None,
        activity=[build("activity", text) for text in activity] if activity else None,
        leaving=[build("leaving", text) for text in leaving] if leaving else None,
        price=price,
        quick=quick,
        strategic=strategic,
        runs=runs,
        seconds=seconds,
        seed=seed,
        workers=workers,
        progress=False if as_json else None,
        on_first=None if as_json or quick else show_first,
    )
    if html is not None:
        from freepull.pages import plan_page

        html.write_text(plan_page(made), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(made.to_dict()))
    else:
        show(made)
        if html is not None:
            console.print(f"written to {html}", soft_wrap=True)
    if made.provenance["interrupted"]:
        raise typer.Exit(130)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{option} must be a number, or several as in 0.05,0.1, got {text!r}.") from None
