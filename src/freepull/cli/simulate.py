"""`freepull simulate`: the mechanism on a game, from the command line; and `freepull warm`, what is compiled for it and
for all other commands ahead."""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from freepull.cli import options
from freepull.cli.options import build, build_game, of_output, of_runs
from freepull.cli.screen import check_target, console, sentence_errors, show_result
from freepull.compiling import Compiled
from freepull.errors import FreepullError, InvalidInput
from freepull.instances import toy
from freepull.numerics import mix
from freepull.panels import Panel, ideal, street
from freepull.principal import Principal, rules
from freepull.principal.rules import Rule
from freepull.principal.schedules import Steps
from freepull.registry import choices

if TYPE_CHECKING:
    from freepull.simulation import Result

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
    disturbances: Annotated[
        list[str] | None, of_model(f"How the world is not as assumed: {choices('disturbances')}; may be given often.")
    ] = None,
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
    from freepull.simulation import simulate
    from freepull.simulation.experiment import UNTIL

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
        disturbances=[build("disturbances", text) for text in disturbances or ()] or None,
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


WARM = """Compile what simulations, plans and the service need, ahead of the first use.

Machine code is kept in NUMBA_CACHE_DIR, or beside the sources; a second run finds it there. With names of rules, only
what simulating them takes where everybody acts in every step.

Example: NUMBA_CACHE_DIR=/opt/freepull/kernels freepull warm"""
WARMED: dict[str, list[Rule]] = {
    "certified": [rules.Certified(0.1)],
    "comparisons": [rules.Comparisons(0.1)],
    "paper": [rules.Paper(0.1, "finite_time"), rules.Paper(0.1, "simplified", pay="uniform")],
    "population": [rules.Population(0.1), rules.Population(0.1, pulls=3)],
    "passive": [rules.Passive()],
}
"""Every rule that is compiled, in each of its forms; what takes longest first."""


@sentence_errors
def warm(
    rule: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(WARMED)}; everything if left out.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at once; all cores by default.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """See WARM."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from freepull import validation
    from freepull.simulation.readable import end_with_parent

    for name in rule or ():
        validation.one_of("rule", name, list(WARMED))
    work = [("simulate", name) for name in rule or WARMED]
    if not rule:
        work += [("people", name) for name in WARMED] + [("serve", name) for name in WARMED] + [("plan", "")]
    count = validation.whole("--workers", workers, 1) if workers is not None else os.cpu_count() or 1
    begun, compiled = time.perf_counter(), dict.fromkeys((kind for kind, _ in work), 0)
    with ProcessPoolExecutor(min(count, len(work)), get_context("spawn"), end_with_parent) as pool:
        for (kind, _), found in zip(work, pool.map(_warm, *zip(*work, strict=True)), strict=True):
            compiled[kind] += found
    seconds = round(time.perf_counter() - begun, 2)
    folder = Path(cast(Compiled, mix).folder)
    folder = folder.parent if os.environ.get("NUMBA_CACHE_DIR") else folder
    if any(compiled.values()) and not os.access(folder, os.W_OK):
        raise InvalidInput(
            f"nothing of this could be kept, because {folder} cannot be written to; let NUMBA_CACHE_DIR name a folder "
            "that can."
        )
    if as_json:
        print(json.dumps({"compiled": compiled, "seconds": seconds, "folder": str(folder)}))
    else:
        told = ", ".join(f"{number:,} for {kind}" for kind, number in compiled.items())
        where = f"in {folder}" if os.environ.get("NUMBA_CACHE_DIR") else "beside the sources"
        console.print(f"functions compiled: {told}; {seconds:.1f} s; kept {where}", soft_wrap=True)


def _warm(kind: str, name: str) -> int:
    """Do one piece of it, in a process of its own; return how many functions had to be compiled."""
    from numba.core import event

    with warnings.catch_warnings(), event.install_recorder("numba:compile") as seen:
        warnings.simplefilter("ignore")
        if kind == "plan":
            _warm_plan()
        for rule in WARMED.get(name, ()):
            if kind == "serve":
                _warm_serve(rule)
            else:
                _warm_simulate(rule, people=kind == "people")
    return sum(it.is_start for _, it in seen.buffer)


def _warm_simulate(rule: Rule, people: bool) -> None:
    from freepull.simulation import simulate

    principal = Principal(rule, observe=Steps(2), offers="each")
    if not people:
        simulate(toy(), principal=principal, horizon=40, runs=2, progress=False, workers=1)
        return
    with suppress(FreepullError):  # not every rule takes people who come and go
        simulate(street(agents=4, arms=2), principal=principal, horizon=20, runs=2, progress=False, workers=1)


def _warm_plan() -> None:
    from freepull.planning import plan

    for panel in (street(agents=6, arms=2), ideal(agents=4, arms=2)):
        plan(panel, horizon=20, runs=40, curves=False, seconds=1.0, workers=1, progress=False)


def _warm_serve(rule: Rule) -> None:
    from freepull.campaigns import Campaign

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/warm.db"
        for name, principal in (("a", None), ("b", Principal(rule, observe=Steps(0), offers="each"))):
            with Campaign.create(
                url, name=name, arms=3, agents=4, price="1 EUR", principal=principal, horizon=50
            ) as campaign:
                campaign.start()
                for pull in range(16):
                    offer = campaign.ask(pull % 4)
                    arm = (pull // 4) % 3 if offer is None else offer.arm
                    campaign.tell(pull % 4, arm, (pull % 3) / 2)
                campaign.tell_many([(m, k, (m + k) % 3 / 2) for m in range(4) for k in range(3)] * 6)
                campaign.snapshot()
            Campaign.open(url, name, snapshots=False).close()
