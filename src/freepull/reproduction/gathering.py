"""Runs the shipped studies, and finds their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from freepull import studies
from freepull.reproduction.section import SETTINGS, row, setting_of
from freepull.simulation import Result

STUDIES = "studies"
"""The folder of the studies, inside that of the report."""


class Interrupted(Exception):
    """Ctrl-C was pressed; every finished run is kept."""


@dataclass(frozen=True)
class Request:
    """What is wanted: how many runs, with which seed, in which settings."""

    folder: Path
    runs: int = 100
    seed: int = 1
    settings: tuple[str, ...] = tuple(SETTINGS)
    progress: bool | None = None

    def wants(self, principal: str) -> bool:
        """Say whether a principal belongs to what is wanted."""
        return setting_of(principal) in (None, *self.settings)


@dataclass(frozen=True)
class Found:
    """The finished runs of one study, cell by cell."""

    cells: tuple[tuple[studies.Cell, Result], ...]

    def __iter__(self) -> Iterator[tuple[studies.Cell, Result]]:
        return iter(self.cells)

    def get(self, principal: str, **where: Any) -> Result | None:
        """Return one cell, named by its principal and by some of its coordinates (the last part of their names)."""
        for cell, result in self.cells:
            at = {key.rpartition(".")[2]: value for key, value in cell.coordinates.items()}
            if cell.principal == principal and all(at.get(key) == value for key, value in where.items()):
                return result
        return None

    def principals(self) -> list[str]:
        """Return the principals that were run."""
        return list(dict.fromkeys(cell.principal for cell, _ in self.cells))

    def rows(self) -> pl.DataFrame:
        """Return a row a cell: where it lies and what was found."""
        return pl.DataFrame([
            {"principal": cell.principal, **{key.rpartition(".")[2]: value for key, value in cell.coordinates.items()},
             **row(result)}
            for cell, result in self.cells
        ])  # fmt: skip


def gather(name: str, request: Request) -> Found:
    """Run a shipped study, or what is missing of it, and return its cells."""
    study = studies.read(name, request.seed).with_runs(request.runs)
    folder = request.folder / STUDIES / name
    report = studies.run(study, folder, progress=request.progress, only=lambda cell: request.wants(cell.principal))
    if report.interrupted:
        raise Interrupted
    store = studies.Store.open(folder)
    cells = [cell for cell in study.cells if request.wants(cell.principal)]
    return Found(tuple((cell, studies.result(store, cell)) for cell in cells))
