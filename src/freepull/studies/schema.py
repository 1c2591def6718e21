"""What may stand in a study file: the keys, their types and their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from freepull import checks
from freepull.errors import InvalidInput

Part = str | dict[str, Any]
Path = tuple[str, ...]
RUNS = 100
"""Runs of a cell, if the file does not say."""
MOST_RUNS = 10_000_000
"""Runs that a cell may have."""


class Misplaced(Exception):
    """A sentence about one place of a study file; the reader turns the place into a line."""

    def __init__(self, path: Path, sentence: str) -> None:
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


class StudyFile(msgspec.Struct, kw_only=True):
    """A whole study file."""

    title: str = ""
    game: Part
    agents: Part | list[Part] = "alpha-ucb"
    answers: Part | list[Part] = "always"
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


def _convert(given: dict[str, Any], kind: type[msgspec.Struct], path: Path) -> dict[str, Any]:
    for key in given:
        with at((*path, key)):
            checks.one_of("a key" + (f" of {'.'.join(path)}" if path else " of the file"), key, kind.__struct_fields__)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            raise Misplaced(path, f"{field.name} must be given, as in docs/studies.md; it is missing.")
    try:
        return msgspec.structs.asdict(msgspec.convert(given, kind))
    except msgspec.ValidationError as error:
        raise _sentence(str(error), given, path) from None


def _sentence(message: str, given: dict[str, Any], path: Path) -> Misplaced:
    """Say what msgspec says, in the words of this package."""
    expected, _, place = message.partition(" - at ")
    found = re.match(r"`\$\.(\w+)", place)
    key = found[1] if found else ""
    types = re.match(r"Expected `([^`]+)`", expected)
    where = (*path, key) if key else path
    if types is None:
        return Misplaced(where, f"{'.'.join(where)}: {message}.")
    must = " or ".join(dict.fromkeys(_WORDS[name] for name in types[1].split(" | ") if name in _WORDS))
    return Misplaced(where, f"{'.'.join(where)} must be {must}, got {checks.shown(given.get(key))}.")


@contextmanager
def at(path: Path, node: Any = None) -> Iterator[None]:
    """Say of a wrong parameter where it stands: at ``path``, or at the key of ``node`` that the sentence is about."""
    try:
        yield
    except InvalidInput as error:
        sentence = str(error)
        about = [sentence.split(" ", 1)[0].rpartition(".")[2], *re.findall(r"got '(\w+)'", sentence)]
        inside = [place for word in about for place in _places(node, word)]
        raise Misplaced((*path, *(inside or [()])[0]), sentence) from None


def _places(node: Any, key: str) -> Iterator[Path]:
    """Find a key in tables within tables."""
    if isinstance(node, dict):
        if key in node:
            yield (key,)
        for name, inner in node.items():
            yield from ((name, *place) for place in _places(inner, key))
