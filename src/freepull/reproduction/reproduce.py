"""The whole reproduction: its figures, run, compared with those of an independent program, and written as one report.

The other program was written apart from this package, for the same games (T = 10⁵). Means are compared in units of
both standard errors together; shares by Fisher's exact test, and costs that are mostly 0 by their share of zeros. The
threshold is 5.5 standard errors, or the same probability: with few runs Student's, which is wider.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import stdtrit
from scipy.stats import fisher_exact

from freepull import validation
from freepull.errors import InvalidInput
from freepull.files import UNFINISHED, finish
from freepull.pages import inline
from freepull.reproduction import figures as costs
from freepull.reproduction import figures as toy
from freepull.reproduction import mechanisms, others, theory
from freepull.reproduction import others as choices
from freepull.reproduction.section import (
    SETTINGS,
    STUDIES,
    Finding,
    Found,
    Request,
    Section,
    free,
    gather,
    mean,
    share,
    together,
    told,
)
from freepull.version import __version__

THRESHOLD = 5.5
CHANCE = math.erfc(THRESHOLD / math.sqrt(2))
TOY_RUNS, FAMILY_RUNS = 1024, 100
FEW = 30
"""Below this many runs, the error of a mean is itself uncertain."""
MOSTLY = 0.5
"""From this share of zeros on, a mean is not compared."""

PASSIVE = (6000, 10016)
FULL = ((0.0, 15999.0, 9000.0), (9001.0, 16000.0, 0.0))
TOY = {
    "paper": (50000.0, 0.0, 0, FULL), "paper-appendix": (50000.0, 0.0, 0, FULL),
    "authors-at-01": (25336.0, 309.0, 1004, ((0.0, 8369.0, 4290.0), (4306.0, 8371.0, 0.0))),
}  # fmt: skip
"""C(T), its standard error, runs decided of 1,024, and payments by agent and arm; all are right in every run."""
AUTHORS_AT_05 = (23025.0, 302.0)
STOCHASTIC = (25079.0, 281.0, 924, 31347.0)
"""Fig. 3 under the authors' constant: C(T), its error, runs decided, offers."""
DELTAS = dict(zip(range(0, 21, 2), (18189, 21327, 24299, 27560, 30612, 33492, 36255, 38803, 41096, 42926, 44499),
                  strict=True))  # fmt: skip
DELTAS_ERROR = 324.0
"""The largest of their standard errors; they lie between 234 and 324."""
FAMILY = {
    (0.005, 30): (28118.0, 1971.0, 13, 69), (0.005, 60): (12100.0, 1444.0, 36, 97),
    (0.005, 90): (2195.0, 532.0, 76, 100), (0.005, 120): (476.0, 196.0, 91, 100),
    (0.1, 30): (49695.0, 286.0, 0, 2), (0.1, 60): (49017.0, 456.0, 0, 6),
    (0.1, 90): (47298.0, 875.0, 0, 12), (0.1, 120): (44581.0, 1340.0, 0, 17),
}  # fmt: skip
"""Fig. 2(d) under the authors' constant: C(T), its error, runs that paid nothing and runs decided, of 100."""


@dataclass(frozen=True)
class Check:
    """One figure beside its reference."""

    what: str
    ours: str
    theirs: str
    distance: str
    agrees: bool


def checks(found: dict[str, Found]) -> list[Check]:
    """Compare all that was run and that has a reference."""
    parts: dict[str, Callable[[Found], Iterator[Check]]] = {
        "paper-2ab": _toy, "paper-2c": _deltas, "paper-2d": _family, "paper-3": _stochastic
    }  # fmt: skip
    return [check for name, part in parts.items() if name in found for check in part(found[name])]


def _toy(found: Found) -> Iterator[Check]:
    none = found.get("none")
    if none is not None:
        yield _shares("2(a): right without incentives", share(none, "correct"), PASSIVE)
    for name, (paid, error, decided, payments) in TOY.items():
        result = found.get(name)
        if result is None:
            continue
        yield _shares(f"2(a): right, {name}", share(result, "correct"), (TOY_RUNS, TOY_RUNS))
        yield _shares(f"2(a): decided, {name}", share(result, "decided"), (decided, TOY_RUNS))
        yield _means(f"2(b): C(T), {name}", mean(result, "paid"), (paid, error), result.frame.height)
        for m, k in ((m, k) for m in range(2) for k in range(3)):
            own = float(result.paid[m, k]), float(result.paid_error[m, k])
            theirs = payments[m][k], own[1] * math.sqrt(result.frame.height / TOY_RUNS)
            yield _means(f"2(b): agent {m + 1}, arm {k + 1}, {name}", own, theirs, result.frame.height, 1.0)
    at_05 = found.get("authors")
    if at_05 is not None:
        yield _means("2(b): C(T), authors, δ = .05", mean(at_05, "paid"), AUTHORS_AT_05, at_05.frame.height)


def _deltas(found: Found) -> Iterator[Check]:
    for cell, result in found:
        exponent = round(-math.log(cell.coordinates["delta"]))
        if cell.principal == "authors":
            theirs = DELTAS[exponent], DELTAS_ERROR
            yield _means(f"2(c): −ln δ = {exponent}, authors", mean(result, "paid"), theirs, result.frame.height)


def _family(found: Found) -> Iterator[Check]:
    for (sd, agents), (paid, error, unpaid, decided) in FAMILY.items():
        where = f"M = {agents}, σ = {sd:g}"
        result = found.get("authors", sd=sd, agents=agents)
        if result is not None:
            yield _shares(f"2(d): decided, {where}, authors", share(result, "decided"), (decided, FAMILY_RUNS))
            yield _shares(f"2(d): free, {where}, authors", free(result), (unpaid, FAMILY_RUNS))
            if unpaid / FAMILY_RUNS < MOSTLY:
                yield _means(f"2(d): C(T), {where}, authors", mean(result, "paid"), (paid, error), result.frame.height)
        printed = found.get("paper", sd=sd, agents=agents)
        if printed is not None:
            yield _shares(f"2(d): decided, {where}, paper", share(printed, "decided"), (0, FAMILY_RUNS))
            yield _means(f"2(d): C(T), {where}, paper", mean(printed, "paid"), (50000.0, 0.0), printed.frame.height)


def _stochastic(found: Found) -> Iterator[Check]:
    result = found.get("authors")
    if result is not None:
        paid, error, decided, offered = STOCHASTIC
        yield _shares("3: decided, authors", share(result, "decided"), (decided, TOY_RUNS))
        yield _means("3: C(T), authors", mean(result, "paid"), (paid, error), result.frame.height)
        ours = mean(result, "offered")
        theirs = offered, ours[1] * math.sqrt(result.frame.height / TOY_RUNS)
        yield _means("3: offers, authors", ours, theirs, result.frame.height)


def mechanism_checks(rows: pl.DataFrame) -> Iterator[Check]:
    """Compare what mechanisms of others cost, and lose, with what an independent program found."""
    for value, reference in (("spent", mechanisms.COMPENSATION), ("regret", mechanisms.REGRETS)):
        for policy, numbers in reference.items():
            own = rows.filter(policy=policy)
            for T, theirs in zip(mechanisms.HORIZONS, numbers, strict=True):
                one = own.row(by_predicate=pl.col("horizon") == T, named=True)
                ours = one[value], one[f"{value}_error"]
                yield _means(f"mechanisms: {value}, {policy}, T = {T:,}", ours, theirs, one["runs"], 0.0)


def _means(
    what: str, ours: tuple[float, float], theirs: tuple[float, float], runs: int, rounding: float = 0.5
) -> Check:
    """Compare two means; the reference is rounded to whole bonuses."""
    both = math.hypot(*(0.0 if math.isnan(error) else error for _, error in (ours, theirs)))
    apart = max(0.0, abs(ours[0] - theirs[0]) - rounding)
    distance = 0.0 if apart == 0.0 else apart / both if both > 0 else math.inf
    here, there = told(ours), told(theirs)
    limit = max(THRESHOLD, float(-stdtrit(runs - 1, CHANCE / 2))) if runs < FEW else THRESHOLD
    return Check(what, here, there, f"{distance:.1f} se", distance <= limit)


def _shares(what: str, ours: tuple[int, int], theirs: tuple[int, int]) -> Check:
    """Compare two shares."""
    table = np.array([[count, of - count] for count, of in (ours, theirs)])
    chance = float(fisher_exact(table).pvalue)
    here, there = (f"{count:,} of {of:,}" for count, of in (ours, theirs))
    return Check(what, here, there, f"p = {chance:.2g}", chance >= CHANCE)


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
        section.figure.draw_without_rendering()
        section.figure.set_layout_engine("none")  # it is laid out once, which takes longer than to draw it
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
    "lemma1": theory.lemma_1, "defences": theory.defences, "agents": others.agents, "baselines": others.baselines,
    "mechanisms": mechanisms.mechanisms,
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
    checks: tuple[Check, ...]
    seconds: float

    @property
    def disagreements(self) -> list[Check]:
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
    compared = checks({study: gather(study, request) for study in wanted})
    compared += [
        check for section in sections if section.name == "mechanisms" for check in mechanism_checks(section.rows)
    ]
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
