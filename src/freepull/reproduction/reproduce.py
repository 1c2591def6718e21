"""Everything in one call: run what is missing, draw, compare, and write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from freepull import checks
from freepull.errors import InvalidInput
from freepull.reproduction import choices, costs, lemma1, others, reference, report, theory, toy
from freepull.reproduction.gathering import STUDIES, Request, gather
from freepull.reproduction.section import SETTINGS, Section

FIGURES: dict[str, Callable[[Request], Section]] = {
    "2a": toy.accuracy, "2b": toy.assignment, "2c": costs.against_delta, "2d": costs.against_agents,
    "3": toy.stochastic, "kappa": choices.observing, "protocols": choices.protocols, "theory": theory.theory,
    "lemma1": lemma1.lemma_1, "agents": others.agents, "baselines": others.baselines,
}  # fmt: skip
"""The parts of the report, by the names that `--figure` takes."""
COMPARED = {"2a": "paper-2ab", "2b": "paper-2ab", "2c": "paper-2c", "2d": "paper-2d", "3": "paper-3"}
"""The figures that have a reference, and their studies."""
OWN = (STUDIES, report.FIGURES, report.REPORT, report.UNFINISHED)
"""What the folder of a reproduction holds; the last only if it was stopped at the wrong moment."""


@dataclass(frozen=True)
class Reproduction:
    """What was found."""

    report: Path
    sections: tuple[Section, ...]
    checks: tuple[reference.Check, ...]
    seconds: float

    @property
    def disagreements(self) -> list[reference.Check]:
        """The figures that an independent program does not confirm."""
        return [check for check in self.checks if not check.agrees]


def reproduce(
    out: str | Path,
    *,
    runs: int = 100,
    seed: int = 1,
    figures: Sequence[str] = tuple(FIGURES),
    settings: Sequence[str] = tuple(SETTINGS),
    progress: bool | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Reproduction:
    """Reproduce the paper into a folder; finished runs that are there already are not repeated.

    Parameters
    ----------
    out
        The folder for report.html, the figures and their numbers.
    runs
        Runs of every cell; the paper has 100.
    figures, settings
        All by default; see `FIGURES` and `SETTINGS`.
    say
        Told what is being done.
    """
    for figure in figures:
        checks.one_of("figure", figure, FIGURES)
    for setting in settings:
        checks.one_of("setting", setting, SETTINGS)
    runs, seed = checks.whole("runs", runs, 2, 1_000_000), checks.whole("seed", seed, 0)
    began, folder = time.perf_counter(), Path(out)
    request = Request(_usable(folder), runs, seed, tuple(settings), progress)
    sections = []
    for name, section in FIGURES.items():
        if name in figures:
            say(name)
            sections.append(section(request))
    wanted = dict.fromkeys(study for name, study in COMPARED.items() if name in figures)
    compared = reference.checks({study: gather(study, request) for study in wanted})
    seconds = time.perf_counter() - began
    page = report.write(folder, sections, compared, request, seconds)
    return Reproduction(page, tuple(sections), tuple(compared), seconds)


def _usable(folder: Path) -> Path:
    """Make the folder; refuse one that holds other things."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir() if path.name not in OWN]
    except OSError as error:
        raise InvalidInput(f"out cannot be {folder}: {error.strerror}; choose another folder.") from None
    if strange:
        raise InvalidInput(f"out must be a new folder, or that of a reproduction; {folder} holds {strange[0]!r}.")
    return folder
