"""The report: one HTML file that needs nothing else, and the figures as PNG, SVG, PDF and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from freepull.pages.inline import inline
from freepull.reproduction.gathering import STUDIES, Request
from freepull.reproduction.reference import THRESHOLD, Check
from freepull.reproduction.section import SETTINGS, Finding, Section, together
from freepull.version import __version__

FIGURES, REPORT, UNFINISHED = "figures", "report.html", "report.unfinished"
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
    figures = folder / FIGURES
    figures.mkdir(exist_ok=True)
    for old in figures.iterdir():
        if old.stem not in {section.name for section in sections}:
            old.unlink()
    for section in sections:
        for ending in ("png", "svg", "pdf"):
            section.figure.savefig(figures / f"{section.name}.{ending}", metadata={"Creator": f"freepull {__version__}"}
                                   if ending != "png" else {"Software": f"freepull {__version__}"})  # fmt: skip
        section.rows.write_parquet(figures / f"{section.name}.parquet")
    unfinished = folder / UNFINISHED
    unfinished.write_text(_page(sections, checks, request, seconds), encoding="utf-8")
    return unfinished.replace(folder / REPORT)


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
        f"<code>{FIGURES}/</code> as Parquet, with the figures as PNG, SVG and PDF; the runs themselves, with their "
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
