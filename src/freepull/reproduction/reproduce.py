"""The whole reproduction: its figures, run and written as one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from freepull import validation
from freepull.errors import InvalidInput
from freepull.files import UNFINISHED, finish
from freepull.pages import inline
from freepull.reproduction import figures as costs
from freepull.reproduction import figures as toy
from freepull.reproduction import others, reference, theory
from freepull.reproduction import others as choices
from freepull.reproduction.reference import THRESHOLD, Check
from freepull.reproduction.section import SETTINGS, STUDIES, Finding, Request, Section, gather, together
from freepull.version import __version__

PICTURES, REPORT = "figures", "report.html"
"""What is written beside the studies."""
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --good: #009e73; --bad: #d55e00; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .soft { opacity: .75; font-size: .9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
blockquote { margin: 1rem 0 .4rem; padding: .2rem .8rem; border-left: 4px solid #56b4e9; }
.truth { background: var(--soft); padding: .6rem .8rem; border-radius: 4px; }
.yes { color: var(--good); } .no { color: var(--bad); font-weight: bold; }
nav a { margin-right: .8rem; } @media print { h2 { break-before: page; } }
"""


def write(folder: Path, sections: Sequence[Section], checks: Sequence[Check], request: Request, seconds: float) -> Path:
    """Write everything, and return the path of the report."""
    figures = folder / PICTURES
    figures.mkdir(exist_ok=True)
    for old in figures.iterdir():
        if old.stem not in {section.name for section in sections}:
            old.unlink()
    for section in sections:
        for ending in ("png", "svg", "pdf"):
            section.figure.savefig(figures / f"{section.name}.{ending}", metadata={"Creator": f"freepull {__version__}"}
                                   if ending != "png" else {"Software": f"freepull {__version__}"})  # fmt: skip
        section.rows.write_parquet(figures / f"{section.name}.parquet")
    unfinished = folder / ("report" + UNFINISHED)
    unfinished.write_text(_page(sections, checks, request, seconds), encoding="utf-8")
    return finish(unfinished, folder / REPORT)


def _page(sections: Sequence[Section], checks: Sequence[Check], request: Request, seconds: float) -> str:
    links = "".join(f'<a href="#{section.name}">{escape(section.title.partition(":")[0])}</a>' for section in sections)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        "<h1>(Almost) Free Incentivized Exploration, reproduced</h1>",
        "<p>Every experiment of the paper “(Almost) Free Incentivized Exploration from Decentralized Learning Agents” "
        "(NeurIPS 2021) in three settings, and some beyond it. For each claim: what the paper says, what we measured, "
        "with standard errors, and what is true of it.</p>",
        _table(("setting", "what it is"), ((name, SETTINGS[name]) for name in request.settings)),
        f'<p class="soft">freepull {__version__}, {_runs(sections, request)} runs of every cell, '
        f"seed {request.seed}, {made}, "
        f"{seconds:.0f} s for what was missing. Numbers: mean ± standard error. The same numbers are in "
        f"<code>{PICTURES}/</code> as Parquet, with the figures as PNG, SVG and PDF; the runs themselves, with their "
        f"provenance, in <code>{STUDIES}/</code>.</p>",
        f"<nav>{links}</nav>",
        *(_section(section) for section in sections),
        _compared(checks),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>freepull: the paper reproduced</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts) + "\n</body></html>\n"
    )  # fmt: skip


def _runs(sections: Sequence[Section], request: Request) -> int:
    """How many there are; a folder may hold more than were asked for now."""
    kept = [max(section.rows["runs"].to_list()) for section in sections if "runs" in section.rows.columns]
    return max(kept, default=request.runs)


def _section(section: Section) -> str:
    found = "\n".join(_finding(finding) for finding in section.findings)
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2><p>{escape(section.about)}</p>'
        f'<figure><img src="{inline(section.figure)}" alt="{escape(section.shown)}">'
        f"<figcaption>{escape(section.shown)}</figcaption></figure>\n{found}</section>"
    )


def _finding(finding: Finding) -> str:
    return (
        f"<blockquote>{escape(finding.claim)}</blockquote>"
        + _table(("", "measured"), finding.measured.items())
        + f'<p class="truth">{escape(finding.truth)}</p>'
    )


def _compared(checks: Sequence[Check]) -> str:
    if not checks:
        return ""
    wrong = [check.what for check in checks if not check.agrees]
    verdict = f"These do not agree: {together(wrong)}." if wrong else "All agree."
    rows = ((check.what, check.ours, check.theirs, check.distance, "yes" if check.agrees else "no") for check in checks)
    return (
        '<section id="compared"><h2>Compared with an independent program</h2>'
        f"<p>{len(checks)} figures beside those of a program that was written apart from this one. Means may differ by "
        f"{THRESHOLD:g} standard errors of both together; shares are compared by Fisher’s exact test at the same "
        f"probability. {escape(verdict)}</p>"
        + _table(("", "here", "there", "apart", "agrees"), rows) + "</section>"
    )  # fmt: skip


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join("<tr>" + "".join(f"<td{_mark(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _mark(cell: str) -> str:
    return f' class="{cell}"' if cell in ("yes", "no") else ""


FIGURES: dict[str, Callable[[Request], Section]] = {
    "2a": toy.accuracy, "2b": toy.assignment, "2c": costs.against_delta, "2d": costs.against_agents,
    "3": toy.stochastic, "kappa": choices.observing, "protocols": choices.protocols, "theory": theory.theory,
    "lemma1": theory.lemma_1, "agents": others.agents, "baselines": others.baselines,
}  # fmt: skip
"""The parts of the report, by the names that `--figure` takes."""
COMPARED = {"2a": "paper-2ab", "2b": "paper-2ab", "2c": "paper-2c", "2d": "paper-2d", "3": "paper-3"}
"""The figures that have a reference, and their studies."""
OWN = (STUDIES, PICTURES, REPORT, "report" + UNFINISHED)
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
        validation.one_of("figure", figure, FIGURES)
    for setting in settings:
        validation.one_of("setting", setting, SETTINGS)
    runs, seed = validation.whole("runs", runs, 2, 1_000_000), validation.whole("seed", seed, 0)
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
    page = write(folder, sections, compared, request, seconds)
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
