"""From the plain parameters of a cell to the parts of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from freepull import registry, validation
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.instances import PAPER_MEANS, Family, means_from_csv, toy
from freepull.principal import Principal
from freepull.registry import Table
from freepull.simulation.experiment import Experiment, check
from freepull.studies.study import MOST_RUNS, PRINCIPAL_PARTS, Keys, Misplaced, at

GAMES: dict[str, Table] = {
    "toy": {"rewards": "bernoulli", "weights": None},
    "family": {"agents": None, "means": list(PAPER_MEANS), "sd": 0.1, "gap": [4.5e-3, 5.5e-3]},
    "means": {"means": None, "rewards": "bernoulli", "weights": None},
    "file": {"path": None, "rewards": "bernoulli", "weights": None},
}
"""The kinds of games, and their parameters with defaults."""
Reader = Callable[[str], str]
"""Gives the text of a file that a study names."""


def tabled(file: Table) -> Table:
    """Return the file with every part as a table, so that a sweep can reach into it."""
    game = _game_table(file["game"])
    if "rewards" in game:
        game["rewards"] = _table("rewards", game["rewards"], ("game", "rewards"))
    principals = {
        name: {**own, **{kind: _table(kind, own[kind], ("principals", name, kind)) for kind in PRINCIPAL_PARTS}}
        for name, own in file["principals"].items()
    }
    each = {kind: _each(kind, file[kind], _table) for kind in ("agents", "answers")}
    return {**file, **each, "game": game, "principals": principals}


def complete(tree: Table, principal: str, read: Reader) -> Table:
    """Return the parameters of one cell as plain data, everything written out; a file of means is read in."""
    own = tree["principals"][principal]
    full = {kind: _complete(kind, own[kind], ("principals", principal, kind)) for kind in PRINCIPAL_PARTS}
    return {
        "game": _complete_game(tree["game"], read),
        "agents": _each("agents", tree["agents"], _complete),
        "answers": _each("answers", tree["answers"], _complete),
        "principal": {"name": principal, **own, **full},
        **{name: tree[name] for name in ("horizon", "runs", "seed", "until")},
    }


def _game_table(given: Any) -> Table:
    with at(("game",), given):
        if isinstance(given, str):
            if given.endswith(".csv"):
                return {"kind": "file", "path": given}
            name, _, rest = given.partition(":")
            name = validation.one_of("game", name, GAMES)
            return {"kind": name, **registry.read(f"game {name}", registry.numeric(GAMES[name]), rest)}
        if not isinstance(given, Mapping) or "kind" not in given:
            raise InvalidInput(f"game must be a name, or a table with a kind, got {validation.shown(given)}.")
        name = validation.one_of("kind", given["kind"], GAMES)
        registry.known(f"the parameter of game {name}", (key for key in given if key != "kind"), GAMES[name])
        return dict(given)


def _complete_game(given: Any, read: Reader) -> Table:
    short = _game_table(given)
    full = {"kind": short["kind"], **GAMES[short["kind"]], **short}
    if full["kind"] == "file" and full["path"] is not None:
        with at(("game", "path")):
            if not isinstance(full["path"], str):
                raise InvalidInput(f"path must be the name of a CSV file, got {validation.shown(full['path'])}.")
            full["means"] = means_from_csv(full["path"], read(full["path"]))
    if "rewards" in full:
        full["rewards"] = _complete("rewards", full["rewards"], ("game", "rewards"))
    return full


def experiment(parameters: Table) -> Experiment:
    """Build everything and check it together, so that a study fails before its first run or not at all."""
    built = arguments(parameters)
    try:
        validation.whole("runs", parameters["runs"], 1, MOST_RUNS)
        return check(**built, runs=1, trace=None)
    except InvalidInput as error:
        about = str(error).split(" ", 1)[0]
        homes = [(), ("game",), ("principals", parameters["principal"]["name"])]
        tables = [parameters, parameters["game"], parameters["principal"]]
        found = [(*home, about) for home, table in zip(homes, tables, strict=True) if about in table]
        raise Misplaced(found[0] if found else homes[-1], str(error)) from None


def arguments(parameters: Table) -> Table:
    """Return the arguments of `simulate`, all but the runs."""
    with at(("game",), parameters["game"]):
        game = build_game(parameters["game"])
    return {
        "game": game,
        "agents": _build_all("agents", parameters["agents"]),
        "answers": _build_all("answers", parameters["answers"]),
        "principal": build_principal(parameters["principal"]),
        **{name: parameters[name] for name in ("horizon", "seed", "until")},
    }


def build_game(full: Table) -> Game | Family:
    """Make the game, or the family from which every run draws one."""
    kind = full["kind"]
    for needed in ("agents", "means", "path"):
        if needed in full and full[needed] is None:
            raise InvalidInput(f"game {kind} must be given {needed}, as in {needed} = …; it is missing.")
    if kind == "family":
        gap = None if full["gap"] == "any" else full["gap"]
        return Family(full["agents"], full["means"], full["sd"], tuple(gap) if isinstance(gap, list) else gap)
    means = toy().means if kind == "toy" else full["means"]
    with at(("game", "rewards"), full["rewards"]):
        law = registry.build("rewards", full["rewards"], "game.rewards", own=True)
    return Game(means, rewards=law, weights=full["weights"])


def build_principal(full: Table) -> Principal:
    """Make the principal's settings."""
    path: Keys = ("principals", full["name"])
    built = {}
    for kind in PRINCIPAL_PARTS:
        with at((*path, kind), full[kind]):
            built[kind] = registry.build(kind, full[kind], ".".join((*path, kind)), own=True)
    with at(path, full):
        return Principal(**built, offers=full["offers"], bonus=full["bonus"], budget=full["budget"])


def _table(kind: str, given: Any, path: Keys) -> Table:
    with at(path, given):
        return registry.table(kind, given, ".".join(path), own=True)


def _complete(kind: str, given: Any, path: Keys) -> Table:
    with at(path, given):
        return registry.complete(kind, given, ".".join(path), own=True)


def _each(kind: str, given: Any, change: Callable[[str, Any, Keys], Table]) -> Table | list[Table]:
    """Change one part for all agents, or a list of them."""
    if isinstance(given, list):
        return [change(kind, one, (kind, str(i))) for i, one in enumerate(given)]
    return change(kind, given, (kind,))


def _build_all(kind: str, full: Table | list[Table]) -> Any:
    with at((kind,), full):
        if isinstance(full, list):
            return [registry.build(kind, one, f"{kind}.{i}", own=True) for i, one in enumerate(full)]
        return registry.build(kind, full, kind, own=True)
