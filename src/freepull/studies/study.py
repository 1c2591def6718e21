"""A study: cells, each one set of parameters for `simulate`, with names, keys and the texts they were read from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from freepull import checks, registry
from freepull.errors import InvalidInput
from freepull.registry import Table
from freepull.studies.schema import MOST_RUNS

FILE = "study.toml"
PRINCIPAL_PARTS = ("rule", "observe", "protocol")


@dataclass(frozen=True)
class Cell:
    """One full set of parameters, simulated as many times as the study has runs."""

    name: str
    principal: str
    coordinates: dict[str, Any]
    """The swept values: numbers as they are, everything else by its name."""
    parameters: Table
    """Plain data; the names are those of the study file."""
    shape: tuple[int, int]
    """(M, K)."""

    @property
    def runs(self) -> int:
        """How many runs are wanted: 0…runs−1."""
        return int(self.parameters["runs"])

    @property
    def steps(self) -> int:
        """How many steps all agents make in a run."""
        return self.shape[0] * int(self.parameters["horizon"])

    def with_runs(self, runs: int) -> Cell:
        """Return the same cell with another number of runs."""
        return replace(self, parameters={**self.parameters, "runs": runs})

    @cached_property
    def key(self) -> str:
        """Return what tells this cell from all others, and what the bits of its runs depend on."""
        return key(self.name, self.parameters)

    @property
    def stem(self) -> str:
        """Return the name as it stands in file names."""
        if re.fullmatch(r"[\w.,=+-]{1,100}", self.name, re.ASCII):
            return self.name
        return re.sub(r"[^\w.,=+-]", "_", self.name, flags=re.ASCII)[:80] + "~" + self.key[:10]


@dataclass(frozen=True)
class Study:
    """What a study file says."""

    name: str
    title: str
    axes: tuple[str, ...]
    """The labels of what is swept."""
    cells: tuple[Cell, ...]
    texts: dict[str, str]
    """The study file under `study.toml`, and every file it names."""

    identity: str
    """What must not change while a study is continued: everything that the file says, but not how it says it."""

    def with_runs(self, runs: int) -> Study:
        """Return the same study with another number of runs in every cell."""
        if "runs" in self.axes:
            raise InvalidInput("runs must be left out here, because the study sweeps them.")
        wanted = checks.whole("runs", runs, 1, MOST_RUNS)
        return replace(self, cells=tuple(cell.with_runs(wanted) for cell in self.cells))


def key(name: str, parameters: Table) -> str:
    """Return the key of a cell."""
    return digest([name, {name: value for name, value in canonical(parameters).items() if name != "runs"}])


def identity(title: str, cells: Iterable[Cell]) -> str:
    """Return what a study says, in one word."""
    return digest([title, [[cell.name, canonical(cell.parameters)] for cell in cells]])


def canonical(parameters: Table) -> Table:
    """Return the parameters of a cell with every part as short as can be, whichever version wrote them."""
    found = {**parameters, "game": dict(parameters["game"]), "principal": dict(parameters["principal"])}
    places = [(found, "agents"), (found, "answers"), (found["game"], "rewards")]
    for holder, kind in places + [(found["principal"], kind) for kind in PRINCIPAL_PARTS]:
        held = holder.get(kind)
        if isinstance(held, list):
            holder[kind] = [registry.short(kind, part) for part in held]
        elif held is not None:
            holder[kind] = registry.short(kind, held)
    return found


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data; 2 and 2.0 are the same number."""
    return hashlib.sha256(msgspec.json.encode(_plain(value), order="sorted")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
