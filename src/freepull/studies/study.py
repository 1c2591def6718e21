"""A study and its cells, the form of its file, and on which line of it a mistake is."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from freepull import registry, validation
from freepull.errors import InvalidInput, StudyError
from freepull.registry import Table

Part = str | dict[str, Any]
Keys = tuple[str, ...]
RUNS = 100
"""Runs of a cell, if the file does not say."""
MOST_RUNS = 10_000_000
"""Runs that a cell may have."""


class Misplaced(Exception):
    """A sentence about one place of a study file; the reader turns the place into a line."""

    def __init__(self, path: Keys, sentence: str) -> None:
        super().__init__(sentence)
        self.path, self.sentence = path, sentence


class PrincipalTable(msgspec.Struct, kw_only=True):
    """One of `[principals]`; the names are those of `freepull.Principal`."""

    rule: Part = "certified"
    observe: Part = "share"
    protocol: Part = "take-or-ban"
    offers: str = "one"
    bonus: float = 1.0
    budget: float | None = None
    pricing: Part | None = None
    futility: float = 0.0


class StudyFile(msgspec.Struct, kw_only=True):
    """A whole study file."""

    title: str = ""
    game: Part
    agents: Part | list[Part] | None = None
    answers: Part | list[Part] | None = None
    activity: Part | list[Part] | None = None
    leaving: Part | list[Part] | None = None
    disturbances: Part | list[Part] | None = None
    principals: dict[str, dict[str, Any]]
    horizon: int | None = None
    runs: int = RUNS
    seed: int = 0
    until: str = "horizon"
    sweep: dict[str, Any] = {}


_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "array": "a list", "object": "a table"}


def parse(data: dict[str, Any]) -> dict[str, Any]:
    """Return the file as plain data with all defaults, or say which key is wrong."""
    file = _convert(data, StudyFile, ())
    if not file["principals"]:
        raise Misplaced(("principals",), "principals must name at least one principal, as in [principals.certified].")
    named = file["principals"].items()
    file["principals"] = {name: _convert(given, PrincipalTable, ("principals", name)) for name, given in named}
    return file


def _convert(given: dict[str, Any], kind: type[msgspec.Struct], path: Keys) -> dict[str, Any]:
    for key in given:
        with at((*path, key)):
            validation.one_of(
                "a key" + (f" of {'.'.join(path)}" if path else " of the file"), key, kind.__struct_fields__
            )
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            raise Misplaced(path, f"{field.name} must be given, as in docs/studies.md; it is missing.")
    try:
        return msgspec.structs.asdict(msgspec.convert(given, kind))
    except msgspec.ValidationError as error:
        raise _sentence(str(error), given, path) from None


def _sentence(message: str, given: dict[str, Any], path: Keys) -> Misplaced:
    """Say what msgspec says, in the words of this package."""
    expected, _, place = message.partition(" - at ")
    found = re.match(r"`\$\.(\w+)", place)
    key = found[1] if found else ""
    types = re.match(r"Expected `([^`]+)`", expected)
    where = (*path, key) if key else path
    if types is None:
        return Misplaced(where, f"{'.'.join(where)}: {message}.")
    must = " or ".join(dict.fromkeys(_WORDS[name] for name in types[1].split(" | ") if name in _WORDS))
    return Misplaced(where, f"{'.'.join(where)} must be {must}, got {validation.shown(given.get(key))}.")


@contextmanager
def at(path: Keys, node: Any = None) -> Iterator[None]:
    """Say of a wrong parameter where it stands: at ``path``, or at the key of ``node`` that the sentence is about."""
    try:
        yield
    except InvalidInput as error:
        sentence = str(error)
        about = [sentence.split(" ", 1)[0].rpartition(".")[2], *re.findall(r"got '(\w+)'", sentence)]
        inside = [place for word in about for place in _places(node, word)]
        raise Misplaced((*path, *(inside or [()])[0]), sentence) from None


def _places(node: Any, key: str) -> Iterator[Keys]:
    """Find a key in tables within tables."""
    if isinstance(node, dict):
        if key in node:
            yield (key,)
        for name, inner in node.items():
            yield from ((name, *place) for place in _places(inner, key))


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the line on which the key, or the nearest table around it, begins; None for the whole file.

    >>> line_of("runs = 3\\n\\n[game]\\nkind = 'toy'", ("game", "kind"))
    4
    """
    for length in range(len(path), 0, -1):
        found = _first(text, path[:length])
        if found is not None:
            return found
    return None


def _first(text: str, path: Sequence[str]) -> int | None:
    lines = text.splitlines()
    begins = 0
    for end in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value
        if _holds(data, path):
            while not lines[begins].strip() or lines[begins].lstrip().startswith("#"):
                begins += 1
            return begins + 1
        begins = end
    return None


def _holds(data: Any, path: Sequence[str]) -> bool:
    for key in path:
        if isinstance(data, list):
            data = dict(zip(map(str, range(len(data))), data, strict=True))
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def shipped() -> dict[str, Path]:
    """Return the studies that come with the package, by name."""
    folder = Path(str(resources.files("freepull.studies"))) / "files"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def seeded(text: str, seed: int) -> str:
    """Return the text with another seed, in the line of the old one or in a new first line."""
    changed, count = re.subn(r"(?m)^seed *=.*$", f"seed = {seed}", text, count=1)
    return changed if count else f"seed = {seed}\n{text}"


def text_of(path: Path) -> str:
    """Return what a file says."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StudyError(f"{path} cannot be read: {what}; give a file that exists.") from None


FILE = "study.toml"
PRINCIPAL_PARTS = ("rule", "observe", "protocol", "pricing")
LATER: Table = {"pricing": None, "futility": 0.0}
"""What is said of a principal that version 0.1 did not know, and what holds where it is not said."""
AGENT_PARTS = {"agents": "AlphaUCB", "answers": "Always", "activity": "EveryStep", "leaving": "Stays"}
"""What is said of every agent, and what holds where neither the file nor a panel says it."""


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
        wanted = validation.whole("runs", runs, 1, MOST_RUNS)
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
    places = [*((found, kind) for kind in (*AGENT_PARTS, "disturbances")), (found["game"], "rewards")]
    for holder, kind in places + [(found["principal"], kind) for kind in PRINCIPAL_PARTS]:
        held = holder.get(kind)
        if isinstance(held, list):
            holder[kind] = [registry.short(kind, part) for part in held]
        elif held is not None:
            holder[kind] = registry.short(kind, held)
    found["principal"] = {
        name: value for name, value in found["principal"].items() if name not in LATER or value != LATER[name]
    }
    late = [kind for kind in ("activity", "leaving") if found.get(kind) == {"part": AGENT_PARTS[kind]}]
    late += [kind for kind in ("disturbances",) if not found.get(kind)]
    return {name: value for name, value in found.items() if name not in late}  # version 0.1 had none of these


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data; 2 and 2.0 are the same number."""
    return hashlib.sha256(msgspec.json.encode(_plain(value), order="sorted")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
