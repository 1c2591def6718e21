"""Shards: Parquet files of finished runs. A shard is there as a whole or not at all, and a damaged one is found.

The name of a shard ends in the checksum of its content: `certified,delta=0.01-0.5f0c9a6b1e2d3c4a.parquet`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import polars as pl

from freepull.errors import ResultError, StudyError
from freepull.simulation import Result
from freepull.studies.manifest import UNFINISHED
from freepull.studies.study import Cell, Study, key

DIGITS = 16


def write(folder: Path, study: Study, cell: Cell, result: Result) -> Result:
    """Write finished runs with their provenance; the file gets its name when it is on the disk."""
    told = {"name": study.name, "title": study.title, "identity": study.identity}
    stamp = {**told, "cell": cell.name, "coordinates": cell.coordinates, "key": cell.key, "parameters": cell.parameters}
    stamped = replace(result, provenance={**result.provenance, "study": stamp})
    stem = f"{cell.stem}-{result.frame['run'][0]}"
    unfinished = folder / (stem + UNFINISHED)
    stamped.write(unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, folder / f"{stem}.{_checksum(unfinished)}.parquet")
    _sync(folder)
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


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
