"""The folder of a study: shards of finished runs, a manifest of them, and what they say as a table and a chart."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from freepull import charts, validation
from freepull.errors import ResultError, StudyError
from freepull.files import UNFINISHED, finish
from freepull.simulation import Result
from freepull.simulation.experiment import ranges
from freepull.simulation.results import SCHEMA, join
from freepull.studies.study import FILE, RUNS, Cell, Study, identity, key
from freepull.version import __version__

NAME = "manifest.json"


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
            unfinished.write_bytes(content)
            finish(unfinished, folder / name)

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


DIGITS = 16


def write(folder: Path, study: Study, cell: Cell, result: Result) -> Result:
    """Write finished runs with their provenance; the file gets its name when it is on the disk."""
    told = {"name": study.name, "title": study.title, "identity": study.identity}
    stamp = {**told, "cell": cell.name, "coordinates": cell.coordinates, "key": cell.key, "parameters": cell.parameters}
    stamped = replace(result, provenance={**result.provenance, "study": stamp})
    stem = f"{cell.stem}-{result.frame['run'][0]}"
    unfinished = folder / (stem + UNFINISHED)
    stamped.write(unfinished)
    finish(unfinished, folder / f"{stem}.{_checksum(unfinished)}.parquet")
    return stamped


def load(path: Path) -> Result:
    """Read a shard, and refuse it if a bit of it has changed."""
    try:
        if not path.stem.endswith("." + _checksum(path)):
            raise _damaged(path, "its content does not match the checksum in its name")
        result = Result.load(path)
        key_of(result)
    except (OSError, ResultError, KeyError, pl.exceptions.PanicException) as error:
        raise _damaged(path, str(error).partition(";")[0]) from None
    return result


def key_of(result: Result) -> str:
    """Return the key of the cell that a shard belongs to, whichever version wrote it."""
    stamp = result.provenance["study"]
    return key(stamp["cell"], stamp["parameters"])


def clean(folder: Path) -> None:
    """Remove what an interrupted process left unfinished."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink()


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


def _damaged(path: Path, why: str) -> StudyError:
    return StudyError(f"{path} is damaged: {' '.join(why.split())}; delete it, and its runs are simulated again.")


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
            result = load(path)
            cell = cells.get(key_of(result))
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
            clean(path / SHARDS)
            yield cls(path, study)

    def add(self, cell: Cell, result: Result) -> None:
        """Keep finished runs."""
        self._keep(cell, write(self.folder / SHARDS, self.study, cell, result))

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


QUANTITIES = ("paid", "spent", "decided", "certified", "correct", "decided_at")
ALL = (*QUANTITIES, "offered", "refused", "banned", "free_pulls", "reward", "regret")
"""What `summary` has of every cell by default, and what there is."""


def result(store: Store, cell: Cell) -> Result:
    """Return all finished runs of a cell as one result, as `simulate` would have returned it."""
    shards = store.shards[cell.name]
    if not shards:
        nothing = np.zeros(cell.shape, np.int64)
        return Result(pl.DataFrame(schema=SCHEMA), nothing, nothing, {"finished": 0, "interrupted": cell.runs > 0})
    found = join(shards)
    told = found.provenance
    told |= {
        "parameters": told["parameters"] | {"runs": ranges(tuple(found.frame["run"].to_list()))},
        "study": told["study"] | {"parameters": cell.parameters},
        "interrupted": found.frame.height < cell.runs,
    }
    return replace(found, provenance=told)


def summary(store: Store, quantities: Sequence[str] = QUANTITIES) -> pl.DataFrame:
    """Return one row per cell: where it lies, how many runs are finished, and means with 95 % intervals."""
    rows = [_row(store, cell, quantities) for cell in store.study.cells]
    return pl.DataFrame(rows, infer_schema_length=None)


def frame(store: Store) -> pl.DataFrame:
    """Return one row per run of all cells, with the cell and its coordinates in front."""
    parts = []
    for cell in store.study.cells:
        found = result(store, cell).frame
        where = {"cell": cell.name, "principal": cell.principal, **_coordinates(store, cell)}
        parts.append(found.select([pl.lit(value).alias(name) for name, value in where.items()] + [pl.all()]))
    return pl.concat(parts, how="diagonal_relaxed")


def _row(store: Store, cell: Cell, quantities: Sequence[str]) -> dict[str, Any]:
    row = {"cell": cell.name, "principal": cell.principal, **_coordinates(store, cell)}
    row |= {"runs": store.finished(cell), "wanted": cell.runs}
    for name, mean, low, high, _ in result(store, cell).summary().iter_rows():
        if name in quantities:
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return row


def _coordinates(store: Store, cell: Cell) -> dict[str, Any]:
    return {axis: cell.coordinates.get(axis) for axis in store.study.axes}


def chart(
    store: Store,
    x: str | None = None,
    ax: Axes | None = None,
    quantity: str = "spent",
    labels: bool = True,
    **look: Any,
) -> Axes:
    """Draw a quantity against ``x``, the first swept key by default, one line for each principal and other swept value.

    Without a sweep, draw a bar of the cost for each principal. ``labels`` are the shares of runs decided; ``look`` is
    handed on to `charts.sweep`: xlabel, ylabel, logx, logy, legend.
    """
    axes = store.study.axes
    if x is not None:
        validation.one_of("x", x, axes)
    validation.one_of("quantity", quantity, charts.results.QUANTITIES)
    if not any(store.shards.values()):
        raise StudyError(f"{store.folder} has no finished runs to draw yet; run the study first.")
    if not axes:
        ax = charts.spend({cell.name: result(store, cell) for cell in store.study.cells}, ax=ax)
    else:
        x = x or axes[0]
        rows = summary(store, ALL)
        others = [pl.format(f", {axis}={{}}", pl.col(axis)).fill_null("") for axis in axes if axis != x]
        rows = rows.with_columns(line=pl.concat_str("principal", *others))
        if labels and "ylabel" not in look:
            look["ylabel"] = f"{charts.results.QUANTITIES[quantity]}; % of runs decided"
        ax = charts.sweep(rows, x, quantity, "line", ax, labels=labels, **look)
    ax.set_title(charts.plain(store.study.title), fontsize=10)
    return ax
