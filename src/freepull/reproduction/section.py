"""What a part of the report is made of, how it gathers its runs, and how numbers are told in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from freepull import charts, studies
from freepull.simulation import Result
from freepull.simulation.results import wilson

SETTINGS = {
    "paper": "as printed: the bound of Eq. (2), δ = .01, σ = .1",
    "authors": "as in the authors' code: the appendix's bound × 0.1 (heuristic), σ = .005, δ = .05 in Fig. 2(a, b)",
    "certified": "freepull's own rule, proven at any time, δ = .01",
}


@dataclass(frozen=True)
class Finding:
    """One claim of the paper: what it says, what was measured in each setting, and what is true of it."""

    claim: str
    measured: Mapping[str, str]
    truth: str


@dataclass(frozen=True)
class Section:
    """One part of the report: its claims, its figure, and the numbers behind it."""

    name: str
    title: str
    about: str
    findings: tuple[Finding, ...]
    figure: Figure
    shown: str
    """What the figure shows, in words."""
    rows: pl.DataFrame


def setting_of(principal: str) -> str | None:
    """Return the setting that a principal of a shipped study belongs to; None if it belongs to all.

    >>> setting_of("authors-at-01"), setting_of("none")
    ('authors', None)
    """
    found = principal.split("-")[0]
    return found if found in SETTINGS else None


def figure(width: float, height: float, panels: int = 1, rows: int = 1) -> Figure:
    """Return an empty figure with panels side by side, in one row or in several."""
    empty = Figure(figsize=(width, height), layout="constrained", dpi=150)
    empty.subplots(rows, panels)
    return empty


def spend_bars(rows: pl.DataFrame, category: str, height: float) -> Figure:
    """Return a figure of what each category costs every principal, with the share of runs decided."""
    drawn = figure(7.2, height)
    ax = charts.grouped(rows, category, "principal", "spent", "decided", ax=drawn.axes[0])
    ax.set_xlabel("bonuses paid, C(T), and the share of runs decided")
    return drawn


def mean(result: Result, column: str) -> tuple[float, float]:
    """Return a mean with its standard error; NaN for a single run."""
    values = result.frame[column].drop_nulls().to_numpy().astype(float)
    return spread(values.tolist())


def spread(values: list[float]) -> tuple[float, float]:
    """Return the mean of some values with its standard error."""
    if not values:
        return math.nan, math.nan
    centre = math.fsum(values) / len(values)
    if len(values) < 2:
        return centre, math.nan
    return centre, math.sqrt(math.fsum((x - centre) ** 2 for x in values) / (len(values) - 1) / len(values))


def told(pair: tuple[float, float]) -> str:
    """Tell a mean with its standard error: 25,336 ± 309."""
    centre, error = pair
    digits = 0 if abs(centre) >= 100 or (centre == int(centre) and not error > 0) else 3 if abs(centre) < 1 else 1
    return f"{centre:,.{digits}f}" + ("" if math.isnan(error) else f" ± {error:,.{digits}f}")


def share(result: Result, column: str) -> tuple[int, int]:
    """Return how many runs have something, of how many."""
    return int(result.frame[column].sum()), result.frame.height


def free(result: Result) -> tuple[int, int]:
    """Return how many runs paid nothing, of how many."""
    return int((result.frame["paid"] == 0).sum()), result.frame.height


def percent(pair: tuple[int, int]) -> str:
    """Tell a share with its standard error: 60 ± 5 %."""
    count, runs = pair
    if runs == 0:
        return "–"
    rate = count / runs
    error = math.sqrt(rate * (1 - rate) / runs)
    return f"{100 * rate:.0f} %" if error == 0 else f"{100 * rate:.1f} ± {100 * error:.1f} %"


def outcome(result: Result) -> str:
    """Tell how a principal fared: right, decided, paid."""
    right, decided = percent(share(result, "correct")), percent(share(result, "decided"))
    return f"right in {right} of the runs, decided in {decided}, C(T) = {told(mean(result, 'paid'))}"


def compensated(result: Result) -> str:
    """Tell what the same bonuses cost in a study that compensates; nothing where none was paid."""
    return f", {told(mean(result, 'spent'))} if compensated" if float(result.frame["paid"].sum()) > 0 else ""


def row(result: Result) -> dict[str, float | int]:
    """Return the numbers of one cell for tables and Parquet, with 95 % intervals for charts."""
    found: dict[str, float | int] = {"runs": result.frame.height}
    for name in ("correct", "decided", "certified"):
        found |= dict(zip((name, f"{name}_low", f"{name}_high"), wilson(*share(result, name)), strict=True))
    for name in ("spent", "paid", "offered", "refused", "free_pulls", "reward", "regret", "decided_at"):
        centre, error = mean(result, name)
        half = 1.96 * error
        found |= {name: centre, f"{name}_error": error, f"{name}_low": centre - half, f"{name}_high": centre + half}
    unpaid, runs = free(result)
    found["free"] = unpaid / runs
    return found


def together(names: Iterable[str]) -> str:
    """Join words as a person would: a, b and c."""
    words = list(names)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


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

    def by(self, axis: str) -> dict[str, dict[str, Result]]:
        """Return, for each value of an axis, the cells of every principal."""
        found: dict[str, dict[str, Result]] = {}
        for cell, result in self.cells:
            found.setdefault(cell.coordinates[axis], {})[cell.principal] = result
        return found

    def principals(self) -> list[str]:
        """Return the principals that were run."""
        return list(dict.fromkeys(cell.principal for cell, _ in self.cells))

    def rows(self) -> pl.DataFrame:
        """Return one row per cell: where it lies and what was found."""
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
