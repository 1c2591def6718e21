"""Shards: Parquet files of finished runs. A shard is there as a whole or not at all, and a damaged one is found."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from freepull.errors import ResultError, StudyError
from freepull.simulation import Result
from freepull.simulation.collector import SCHEMA
from freepull.studies.manifest import UNFINISHED
from freepull.studies.study import Cell, Study, digest


def write(folder: Path, study: Study, cell: Cell, result: Result) -> Result:
    """Write finished runs with their provenance: first to a file of another name, renamed when it is on the disk."""
    told = {"name": study.name, "title": study.title, "identity": study.identity}
    stamp = {**told, "cell": cell.name, "coordinates": cell.coordinates, "key": cell.key, "parameters": cell.parameters}
    stamped = replace(result, provenance={**result.provenance, "study": stamp})
    stamp["sha256"] = _sum(stamped)
    target = folder / f"{cell.stem}-{result.frame['run'][0]}.parquet"
    unfinished = target.with_name(target.name + UNFINISHED)
    stamped.save(unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, target)
    _sync(folder)
    return stamped


def load(path: Path) -> Result:
    """Read a shard, and refuse it if a bit of it has changed."""
    try:
        result = Result.load(path)
        whole = result.frame.schema == pl.Schema(SCHEMA) and result.provenance["study"]["sha256"] == _sum(result)
    except (ResultError, KeyError, TypeError, pl.exceptions.PanicException) as error:
        raise _damaged(path, str(error).split(";")[0]) from None
    if not whole:
        raise _damaged(path, "its content does not match its checksum")
    return result


def clean(folder: Path) -> None:
    """Remove what an interrupted process left unfinished."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink()


def _damaged(path: Path, why: str) -> StudyError:
    return StudyError(f"{path} is damaged: {' '.join(why.split())}; delete it, and its runs are simulated again.")


def _sum(result: Result) -> str:
    """Return the SHA-256 of the rows, the payments and the provenance."""
    stamp = {name: value for name, value in result.provenance["study"].items() if name != "sha256"}
    head: dict[str, Any] = {**result.provenance, "study": stamp, "columns": result.frame.columns}
    total = hashlib.sha256(digest(head).encode())
    for column in result.frame.get_columns():
        total.update(column.is_null().to_numpy().tobytes())
        total.update(column.fill_null(strategy="zero").to_numpy().tobytes())
    for array in (result.paid, result.paid_error):
        total.update(array.tobytes())
    return total.hexdigest()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
