"""The folder of a study: `study.toml` as it was given, `manifest.json`, and `shards/` with the finished runs."""

from __future__ import annotations

import fcntl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from freepull.errors import StudyError
from freepull.simulation import Result
from freepull.studies import shards
from freepull.studies.manifest import Manifest
from freepull.studies.study import Cell, Study
from freepull.version import __version__

SHARDS, LOCK = "shards", ".lock"


class Store:
    """A study and its finished runs, on disk."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder, self.study = folder, study
        self.shards: dict[str, list[Result]] = {cell.name: [] for cell in study.cells}
        """The shards of every cell."""
        self._done: dict[str, set[int]] = {cell.name: set() for cell in study.cells}
        cells = {cell.key: cell for cell in study.cells}
        for path in sorted((folder / SHARDS).glob("*.parquet")):
            result = shards.load(path)
            cell = cells.get(shards.key_of(result))
            if cell is None or self._done[cell.name] & set(result.frame["run"].to_list()):
                what = "belongs to another study" if cell is None else "holds runs that another shard holds too"
                raise StudyError(f"{path} {what}; move it out of the folder.")
            self._keep(cell, result)

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """Open the folder of a study to look at it, while it runs or later."""
        path = Path(folder)
        begun = Manifest.read(path)
        if begun is None:
            raise StudyError(f"{path} is not the folder of a study; give one that `freepull study run` has made.")
        return cls(path, begun.study())

    @classmethod
    @contextmanager
    def begin(cls, folder: str | Path, study: Study) -> Iterator[Store]:
        """Begin a study in a folder, or continue it there, alone; refuse a study that has changed."""
        path = Path(folder)
        begun = Manifest.read(path)
        if begun is not None:
            begun.continued(path, study)
        _make(path)
        with _alone(path):
            begun = Manifest.read(path)
            if begun is not None and begun.freepull != __version__:
                warnings.warn(f"freepull {begun.freepull} began this study, {__version__} continues it.", stacklevel=4)
            (Manifest.of(study) if begun is None else begun.continued(path, study)).write(path)
            shards.clean(path / SHARDS)
            yield cls(path, study)

    def add(self, cell: Cell, result: Result) -> None:
        """Keep finished runs."""
        self._keep(cell, shards.write(self.folder / SHARDS, self.study, cell, result))

    def missing(self, cell: Cell) -> list[int]:
        """Return the runs that are not finished yet."""
        return [run for run in range(cell.runs) if run not in self._done[cell.name]]

    def finished(self, cell: Cell) -> int:
        """Return how many runs of a cell are finished."""
        return len(self._done[cell.name])

    def _keep(self, cell: Cell, result: Result) -> None:
        self.shards[cell.name].append(result)
        self._done[cell.name].update(result.frame["run"].to_list())


def _make(path: Path) -> None:
    try:
        if path.is_dir() and not (path / LOCK).exists() and any(path.iterdir()):
            raise StudyError(f"{path} must be a new folder, or that of the same study, but it holds other files.")
        (path / SHARDS).mkdir(parents=True, exist_ok=True)
        (path / LOCK).touch()
    except OSError as error:
        raise StudyError(f"{path} cannot be used: {error.strerror}; choose another folder.") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time write to a folder; the lock falls with the process, however it ends."""
    with (path / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(f"{path} is in use by another process; wait for it, or choose another folder.") from None
        yield
