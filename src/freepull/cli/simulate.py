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
from typing import Annotated

import typer

from freepull.cli import options
from freepull.cli.options import build, build_game, of_output, of_runs
from freepull.cli.screen import check_target, console, sentence_errors, show_result
from freepull.errors import FreepullError, InvalidInput
from freepull.instances import toy
from freepull.numerics import mix
from freepull.panels import Panel, ideal, street
from freepull.principal import Principal, rules
from freepull.principal.rules import Rule
from freepull.principal.schedules import Steps
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


WARM = """Compile what simulations, plans and the service need, ahead of the first use.

Machine code is kept in NUMBA_CACHE_DIR, or beside the sources; a second run finds it there.

Example: NUMBA_CACHE_DIR=/opt/freepull/kernels freepull warm"""


@sentence_errors
def warm(as_json: options.AsJson = False) -> None:
    """See WARM."""
    from numba.core import event

    done = []
    for name, work in (("simulate", _warm_simulate), ("plan", _warm_plan), ("serve", _warm_serve)):
        begun = time.perf_counter()
        with warnings.catch_warnings(), event.install_recorder("numba:compile") as seen:
            warnings.simplefilter("ignore")
            work()
        compiled = sum(it.is_start for _, it in seen.buffer)
        done.append({"what": name, "compiled": compiled, "seconds": round(time.perf_counter() - begun, 2)})
        if not as_json:
            console.print(f"{name}: {compiled} functions compiled, {done[-1]['seconds']:.1f} s")
    folder = Path(mix._cache.cache_path)  # type: ignore[attr-defined]
    folder = folder.parent if os.environ.get("NUMBA_CACHE_DIR") else folder
    if sum(it["compiled"] for it in done) and not os.access(folder, os.W_OK):
        raise InvalidInput(
            f"nothing of this could be kept, because {folder} cannot be written to; let NUMBA_CACHE_DIR name a folder "
            "that can."
        )
    if as_json:
        print(json.dumps({"steps": done, "folder": str(folder)}))
    else:
        console.print(f"kept in {folder}" if os.environ.get("NUMBA_CACHE_DIR") else "kept beside the sources")


def _warm_rules() -> list[Rule]:
    """Return every rule that is compiled, in each of its forms."""
    return [
        rules.Paper(0.1, "finite_time"), rules.Paper(0.1, "simplified", pay="uniform"), rules.Certified(0.1),
        rules.Population(0.1), rules.Population(0.1, pulls=3), rules.Comparisons(0.1),
        rules.Passive(),
    ]  # fmt: skip


def _warm_simulate() -> None:
    for rule in _warm_rules():
        principal = Principal(rule, observe=Steps(2), offers="each")
        simulate(toy(), principal=principal, horizon=40, runs=2, progress=False, workers=1)
        with suppress(FreepullError):  # not every rule takes people who come and go
            simulate(street(agents=4, arms=2), principal=principal, horizon=20, runs=2, progress=False, workers=1)


def _warm_plan() -> None:
    from freepull.planning import plan

    for panel in (street(agents=6, arms=2), ideal(agents=4, arms=2)):
        plan(panel, horizon=20, runs=40, curves=False, seconds=1.0, workers=1, progress=False)


def _warm_serve() -> None:
    from freepull.campaigns import Campaign

    with tempfile.TemporaryDirectory() as folder:
        for rule in [None, *_warm_rules()]:
            principal = None if rule is None else Principal(rule, observe=Steps(0), offers="each")
            url, name = f"sqlite:///{folder}/warm.db", "default" if rule is None else repr(rule)
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
