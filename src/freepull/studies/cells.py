"""From a study file to its cells: parts that are completed, axes that are swept, experiments to run.

Every mistake is told with its line.
"""

from __future__ import annotations

import copy
import difflib
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freepull import registry, validation
from freepull.errors import InvalidInput, StudyError
from freepull.game import Game
from freepull.instances import PAPER_MEANS, Family, means_from_csv, toy
from freepull.panels import PANELS, Panel
from freepull.principal import Principal
from freepull.registry import KEYS, Table
from freepull.simulation.experiment import Experiment, GameMaker, check
from freepull.studies.study import (
    AGENT_PARTS,
    FILE,
    MOST_RUNS,
    PRINCIPAL_PARTS,
    Cell,
    Keys,
    Misplaced,
    Study,
    at,
    identity,
    line_of,
    parse,
    seeded,
    shipped,
    text_of,
)


def read(file: str | Path, seed: int | None = None) -> Study:
    """Read a study file, or one of the shipped studies by its name, and check every cell of it.

    ``seed`` takes the place of the file's.

    >>> [cell.name for cell in read("paper-2c").cells][:2]
    ['paper,delta=0.999', 'paper,delta=0.135335']
    """
    path = shipped().get(str(file), Path(file))
    if not path.is_file():
        try:
            validation.one_of("the study", str(file), shipped())
        except InvalidInput as error:
            shown = str(error).removeprefix("the study must be one of ")
            raise StudyError(f"the study must be a TOML file that exists, or one of {shown}") from None
    texts = {FILE: text_of(path) if seed is None else seeded(text_of(path), validation.whole("seed", seed, 0))}

    def beside(name: str) -> str:
        if name not in texts:
            try:
                texts[name] = text_of(path.parent / name)
            except StudyError as error:
                raise InvalidInput(str(error)) from None
        return texts[name]

    try:
        return _parsed(path.stem, texts, beside)
    except Misplaced as wrong:
        line = line_of(texts[FILE], wrong.path)
        raise StudyError(f"{path.name}{'' if line is None else f', line {line}'}: {wrong.sentence}") from None
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", place)
        last = found[1] if found else len(texts[FILE].splitlines())
        raise StudyError(f"{path.name}, line {last}: this is not TOML: {what}; mend the line.") from None


def _parsed(name: str, texts: dict[str, str], beside: Any) -> Study:
    file = parse(tomllib.loads(texts[FILE]))
    axes = axes_of(file["sweep"])
    cells = []
    for point in points(file, axes, beside):
        with swept(point.axes, point.principal):
            shape = experiment(point.parameters).shape
        cells.append(Cell(point.name, point.principal, point.coordinates, point.parameters, shape))
    if len({cell.name for cell in cells}) < len(cells):
        raise Misplaced(
            ("sweep",), "sweep must give cells of different names; name the values, or the principals, anew."
        )
    axes_swept, said = tuple(axis.label for axis in axes), identity(file["title"], cells)
    return Study(name, file["title"], axes_swept, tuple(cells), texts, said)


GAMES: dict[str, Table] = {
    "toy": {"rewards": "bernoulli", "weights": None},
    "family": {"agents": None, "means": list(PAPER_MEANS), "sd": 0.1, "gap": [4.5e-3, 5.5e-3]},
    "means": {"means": None, "rewards": "bernoulli", "weights": None},
    "file": {"path": None, "rewards": "bernoulli", "weights": None},
    "street": {"agents": 500, "arms": 4, "gap": 0.05},
    "ideal": {"agents": 500, "arms": 4, "gap": 0.05},
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
        name: {**own, **{kind: _table(kind, own[kind], ("principals", name, kind)) for kind in _given(own)}}
        for name, own in file["principals"].items()
    }
    people = {**_people(game), **{name: it for name, it in file.items() if it is not None}}
    each = {kind: _each(kind, people[kind], _table) for kind in (*AGENT_PARTS, "disturbances")}
    return {**file, **each, "horizon": people.get("horizon"), "game": game, "principals": principals}


def _given(principal: Table) -> list[str]:
    """Return which parts a principal has; it need not have a pricing, which version 0.1 did not know."""
    return [kind for kind in PRINCIPAL_PARTS if principal.get(kind) is not None]


def _people(game: Table) -> Table:
    """Return what a panel says of its people and its time, or what holds where nobody says it."""
    if game["kind"] not in PANELS:
        return {kind: {"part": name} for kind, name in AGENT_PARTS.items()} | {"disturbances": []}
    panel = _panel(game)
    each = {kind: registry.encode(getattr(panel, kind)) for kind in AGENT_PARTS}
    return each | {"disturbances": [], "horizon": panel.horizon}


def _panel(game: Table) -> Panel:
    with at(("game",), game):
        return PANELS[game["kind"]](**{name: value for name, value in game.items() if name != "kind"})


def complete(tree: Table, principal: str, read: Reader) -> Table:
    """Return the parameters of one cell as plain data, everything written out; a file of means is read in."""
    own = tree["principals"][principal]
    full = {kind: _complete(kind, own[kind], ("principals", principal, kind)) for kind in _given(own)}
    return {
        "game": _complete_game(tree["game"], read),
        **{kind: _each(kind, tree[kind], _complete) for kind in (*AGENT_PARTS, "disturbances")},
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
        **{kind: _build_all(kind, parameters.get(kind, {"part": name})) for kind, name in AGENT_PARTS.items()},
        "disturbances": _build_all("disturbances", parameters.get("disturbances", [])),
        "principal": build_principal(parameters["principal"]),
        **{name: parameters[name] for name in ("horizon", "seed", "until")},
    }


def build_game(full: Table) -> Game | GameMaker:
    """Make the game, or what draws one for every run."""
    kind = full["kind"]
    if kind in PANELS:
        return _panel(full).game
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
    for kind in _given(full):
        with at((*path, kind), full[kind]):
            built[kind] = registry.build(kind, full[kind], ".".join((*path, kind)), own=True)
    rest = {name: full[name] for name in ("offers", "bonus", "budget", "futility") if name in full}
    with at(path, full):
        return Principal(**built, **rest)


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


MOST = 10_000
"""Cells that a study may have."""


@dataclass(frozen=True)
class Axis:
    """One swept key: its place in the file, and the values that it takes, each with a name."""

    path: str
    label: str
    values: tuple[tuple[str, Any], ...]
    named: bool = False
    """Whether the values were given as a table, with names."""

    def place(self, principal: str) -> Keys:
        """Return the place that is changed for one principal."""
        steps = self.path.split(".")
        if len(steps) > 1 and steps[0] == "principals" and steps[1] == "*":
            steps[1] = principal
        if steps[-1] == "kind" and steps != ["game", "kind"]:
            steps[-1] = "part"
        return tuple(steps)


@dataclass(frozen=True)
class Point:
    """One combination: what is swept, and the parameters that follow."""

    principal: str
    axes: tuple[Axis, ...]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    parameters: Table

    @property
    def name(self) -> str:
        """Return a name for people and files."""
        pairs = (f"{axis.label}={name}" for axis, name in zip(self.axes, self.names, strict=True))
        return ",".join((self.principal, *pairs))

    @property
    def coordinates(self) -> dict[str, Any]:
        """Return where the point lies: numbers as they are, other values by their names."""
        pairs = zip(self.axes, self.names, self.values, strict=True)
        return {axis.label: value if _is_number(value) else name for axis, name, value in pairs}


def axes_of(sweep: dict[str, Any]) -> list[Axis]:
    """Read `[sweep]`: a list of values, or a table of named ones, for every swept key."""
    short = [_label(path) for path in sweep]
    axes = []
    for path, given in sweep.items():
        with at(("sweep", path)):
            label = _label(path) if short.count(_label(path)) == 1 else path
            axes.append(Axis(path, label, _values(path, given), isinstance(given, dict)))
    return axes


def points(file: Table, axes: list[Axis], read: Reader) -> Iterator[Point]:
    """Yield every combination, principal by principal; a principal without the swept key is not multiplied by it."""
    written = tabled(file)
    plain = {name: complete(written, name, read) for name in file["principals"]}
    touched = {name: [axis for axis in axes if _has(full, axis.place(name))] for name, full in plain.items()}
    for axis in axes:
        if axis.named and any(
            _has(full, (*axis.place(who), name)) for who, full in plain.items() for name, _ in axis.values
        ):
            dotted = f"{axis.path}.{axis.values[0][0]}"
            raise Misplaced(("sweep", axis.path), f'{dotted} must be in quotes to be swept, as in "{dotted}" = […].')
        if not any(axis in found for found in touched.values()):
            raise Misplaced(("sweep", axis.path), _unknown(axis, plain))
    if (count := sum(math.prod(len(axis.values) for axis in found) for found in touched.values())) > MOST:
        raise Misplaced(("sweep",), f"sweep must give at most {MOST:,} cells, got {count:,}; sweep fewer values.")
    for name, found in touched.items():
        for chosen in itertools.product(*(axis.values for axis in found)):
            tree = copy.deepcopy(written)
            for axis, (_, value) in zip(found, chosen, strict=True):
                _put(tree, axis, axis.place(name), value)
            with swept(found, name):
                parameters = complete(tree, name, read)
            names, values = tuple(label for label, _ in chosen), tuple(value for _, value in chosen)
            yield Point(name, tuple(found), names, values, parameters)


@contextmanager
def swept(axes: Sequence[Axis], principal: str) -> Iterator[None]:
    """Move a complaint about a swept key to the line of the sweep, where its value stands."""
    try:
        yield
    except Misplaced as error:
        places = {axis.place(principal): axis for axis in axes}
        around = [error.path[:length] for length in range(len(error.path), 0, -1)]
        found = [places[place] for place in around if place in places]
        raise Misplaced(("sweep", found[0].path) if found else error.path, error.sentence) from None


def _has(full: Table, place: Keys) -> bool:
    """Say whether a place exists in the parameters of a principal."""
    tree = {**full, "principals": {full["principal"]["name"]: full["principal"]}}
    node: Any = tree
    for step in place:
        if isinstance(node, list) and validation.is_index(int(step) if step.isdecimal() else -1, len(node)):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return False
    return place[-1] not in ("name", "principal")


def _put(tree: Table, axis: Axis, place: Keys, value: Any) -> None:
    node: Any = tree
    for step in place[:-1]:
        node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
        if not isinstance(node, dict | list):
            sentence = f"{axis.path} must lie inside a table, but {step} is the text {node!r}; sweep one of the two."
            raise Misplaced(("sweep", axis.path), sentence)
    node[int(place[-1]) if isinstance(node, list) else place[-1]] = copy.deepcopy(value)


def _unknown(axis: Axis, plain: dict[str, Table]) -> str:
    """Say that a swept key does not exist, and which ones do nearby."""
    known = [
        f"principals.{who}{path}" for who in ("*", *plain) for path in _paths(next(iter(plain.values()))["principal"])
    ]
    known += [
        path[1:] for full in plain.values() for path in _paths({k: v for k, v in full.items() if k != "principal"})
    ]
    close = difflib.get_close_matches(axis.path, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else "it must be a key of this file, as in 'principals.*.rule.delta'."
    return f"there is no {axis.path} to sweep; {hint}"


def _paths(node: Any, before: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield f"{before}.{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{before}.{key}")


def _label(path: str) -> str:
    steps = path.split(".")
    if steps[0] == "principals":
        steps = steps[2:]
    return ".".join(steps[1:] if steps[0:1] == ["rule"] and len(steps) > 1 else steps)


def _values(path: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(given, list | dict):
        raise InvalidInput(f"the sweep of {path} must be a list of values, or a table of named ones, got {given!r}.")
    if not given:
        raise InvalidInput(f"the sweep of {path} must have at least one value, got {validation.shown(given)}.")
    if len(given) > MOST:
        raise InvalidInput(f"the sweep of {path} must have at most {MOST:,} values, got {len(given):,}.")
    if isinstance(given, dict):
        return tuple(given.items())
    if any(given.index(value) < i for i, value in enumerate(given)):
        raise InvalidInput(f"the sweep of {path} must have different values, got {validation.shown(given)}.")
    names = [_name(value) for value in given]
    return tuple(
        (name if names.count(name) == 1 else f"{name}#{i + 1}", value)
        for i, (name, value) in enumerate(zip(names, given, strict=True))
    )


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return str(next((value[key] for key in KEYS if key in value), "table"))
    return "list" if isinstance(value, list) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
