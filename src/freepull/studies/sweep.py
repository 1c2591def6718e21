"""Sweeps: every combination of the swept values, for every principal they touch, is one cell."""

from __future__ import annotations

import copy
import difflib
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.errors import InvalidInput
from freepull.registry import KEYS, Table
from freepull.studies.building import Reader, complete, tabled
from freepull.studies.study import Keys, Misplaced, at

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
