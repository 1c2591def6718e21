"""Reading a study from TOML, where every mistake is told with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from freepull import validation
from freepull.errors import InvalidInput, StudyError
from freepull.studies.cells import axes_of, experiment, points, swept
from freepull.studies.study import FILE, Cell, Misplaced, Study, identity, parse


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
    texts = {FILE: _text(path) if seed is None else _seeded(_text(path), validation.whole("seed", seed, 0))}

    def beside(name: str) -> str:
        if name not in texts:
            try:
                texts[name] = _text(path.parent / name)
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


def _seeded(text: str, seed: int) -> str:
    """Return the text with another seed, in the line of the old one or in a new first line."""
    changed, count = re.subn(r"(?m)^seed *=.*$", f"seed = {seed}", text, count=1)
    return changed if count else f"seed = {seed}\n{text}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StudyError(f"{path} cannot be read: {what}; give a file that exists.") from None
