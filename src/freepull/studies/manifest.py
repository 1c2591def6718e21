"""The manifest of a study's folder: what was begun, by which version, and whether a file still says the same."""

from __future__ import annotations

import difflib
import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from freepull.errors import StudyError
from freepull.studies.schema import RUNS
from freepull.studies.study import FILE, Cell, Study, identity
from freepull.version import __version__

NAME = "manifest.json"
UNFINISHED = ".unfinished"


class Changed(StudyError):
    """The study file is not the one that the folder was begun with."""

    def __init__(self, sentence: str, difference: str) -> None:
        super().__init__(sentence)
        self.difference = difference
        """What changed, line by line; empty if the files are the same."""


class Manifest(msgspec.Struct, kw_only=True):
    """What a folder remembers of its study."""

    freepull: str
    begun: str
    name: str
    title: str
    axes: tuple[str, ...]
    cells: tuple[Cell, ...]
    """With the number of runs that were asked for last."""
    texts: dict[str, str]

    @classmethod
    def of(cls, study: Study) -> Manifest:
        """Begin a study now."""
        return cls(
            freepull=__version__,
            begun=datetime.now(UTC).isoformat(timespec="seconds"),
            name=study.name,
            title=study.title,
            axes=study.axes,
            cells=study.cells,
            texts=study.texts,
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a folder; None if nothing was begun there."""
        path = folder / NAME
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StudyError(f"{path} is damaged: {error}; begin the study again in another folder.") from None

    def write(self, folder: Path) -> None:
        """Write the study file and the manifest, each as a whole or not at all."""
        for name, content in ((FILE, self.texts[FILE].encode()), (NAME, msgspec.json.encode(self))):
            unfinished = folder / (name + UNFINISHED)
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, folder / name)

    @property
    def identity(self) -> str:
        """What the study said when it was begun, in the words of this version, whichever version began it."""
        runs = tomllib.loads(self.texts[FILE]).get("runs", RUNS)
        cells = self.cells if "runs" in self.axes else tuple(cell.with_runs(runs) for cell in self.cells)
        return identity(self.title, cells)

    def study(self) -> Study:
        """Return the study."""
        return Study(self.name, self.title, self.axes, self.cells, self.texts, self.identity)

    def continued(self, folder: Path, study: Study) -> Manifest:
        """Return the manifest with as many runs as are wanted now; refuse a study that says something else."""
        if study.identity != self.identity:
            difference = _difference(self.texts, study.texts)
            what = "the study has changed since it was begun" if difference else f"freepull {self.freepull} began it"
            remedy = "choose another folder with --out, or undo the change (and add runs with --runs)"
            raise Changed(f"{folder} holds another study: {what}; {remedy}.", difference)
        pairs = zip(self.cells, study.cells, strict=True)
        cells = tuple(mine.with_runs(max(mine.runs, wanted.runs)) for mine, wanted in pairs)
        return msgspec.structs.replace(self, cells=cells)


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    lines: list[str] = []
    for name in dict.fromkeys((*before, *after)):
        old, new = (texts.get(name, "").splitlines() for texts in (before, after))
        lines += difflib.unified_diff(old, new, f"{name} (begun)", f"{name} (now)", lineterm="", n=1)
    return "\n".join(lines)
