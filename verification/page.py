"""The findings as a table on the terminal and as a page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import tables
from .crowds import Crowds
from .judging import Bar, Bars
from .money import Money
from .pictures import COSTS, FALLS, FREEZERS
from .results import Results

Say = Callable[[str], None]
MONEY = "### Money"
READING = """\
Every error rate stands with the number of runs behind it and with an exact one-sided 99.9 % limit (Clopper and
Pearson). A bar of an error rate is met if the *upper* limit is within δ, so too few runs miss it. Where something must
be *seen* to break, the *lower* limit must be beyond δ. Costs are numbers of bonuses, undecided runs included."""
SEEDS = (
    "Seeds: the i-th case has seed 1000 + i, the i-th panel of freezers 1500 + i, the i-th game of moved means "
    "1700 + i, the i-th case with an ε 1600 + i, the forbidden designs 1900, the i-th population 5000 + i and "
    "both kinds of leavers 5000, the i-th world of checks 8000 + 2·10⁴·i plus the run, 508,000 + 10⁴·i "
    "where an assumption is wrong, the i-th game of displayed "
    "bounds 3000 + i (all from 0); the toy has 20241, the people 20242 and 20243, the games with K = 30 "
    "have 20240 + M; exact ties under `Comparisons` have 9000 to 9003, its i-th crowd 9010 + i, the adversary 9050, "
    "late reports without `late` 9060, its panels 9100 to 9103; who follows or deviates has 7000, error rates under "
    "prices 7010 to 7031. Run numbers start at 0."
)
ABOUT_A = """\
The statistic is the largest evidence ever held against a *given* best arm, at the end of any round. The rule runs at
δ = .01, and one set of runs is judged at δ′ = .01, .05 and .1: the evidence may reach 1/δ′ with probability δ′ at most.
The cases are a pairwise cover: every two values of every two factors stand together in at least one case. The factors
are the numbers of agents and arms, how agents pick, rewards, weights, offers, refusals under Take-or-Ban, leavers
(policy `wait`), the design, an exact or a near tie (the others worse by .002), agents alike or not, and κ. Some cases
without any trouble are added, because most rounds close there. Three combinations are left out, in which nothing would
happen: freezers with constants, freezers with κ = .1·T, and refusals together with leavers.

*Coins .02* and the like are Bernoulli rewards. *Differ* means that agents disagree about every arm by ± .3 (± .015 near
0 and 1) and tie on average. *Freezers* know the means. They take arms in turn, but skip an arm after at least four
pulls if it misleads them by a standard error: the tested arm if it looks bad, another one if it looks good. Leavers *in
anger* go in the second half, when the tested arm looks bad to them; others go at a random time. Freezers and leavers
run on a driver of the suite's own, which calls the rules' functions; with built-in agents its paths are the engine's,
bit by bit."""


def show(bars: Bars, console: Console) -> None:
    """Print the bars."""
    table = Table("", "bar", "measured", "", title="freepull's verification")
    for part, rows in groupby(bars.rows, key=lambda row: row.part):
        table.add_section()
        table.add_row(f"[bold]{part}[/bold]")
        for row in rows:
            colour = {True: "green", False: "red", None: "yellow"}[row.met]
            table.add_row(f"  {row.what}", row.bar, row.measured, f"[{colour}]{row.verdict}[/{colour}]")
    console.print(table)


def crowds(found: Crowds) -> list[str]:
    """What is said of people as they are: errors, costs, time."""
    return [
        "## People as they are",
        "### What is said and false",
        tables.ABOUT_CROWDS,
        tables.crowds_table(found),
        "### What a verdict costs",
        tables.ABOUT_CROWD_COSTS,
        tables.crowd_costs_table(found),
        tables.missed_by_crowds(found),
        tables.speed_of_crowds(found),
    ]


def money(found: Money) -> list[str]:
    """What is said of money: what is spent, who gains by not following, and errors."""
    return [
        MONEY,
        tables.ABOUT_MONEY,
        tables.money_table(found),
        "#### Following every offer, or not",
        tables.ABOUT_CONDUCT,
        tables.conduct_table(found),
        "#### Error rates under prices",
        tables.ABOUT_PRICED_ERRORS,
        tables.priced_errors_table(found),
    ]


def write_money(found: Money, bars: Bars, docs: Path) -> Path:
    """Write that part alone into the page, in the place of the one that is there, and its bars into the table."""
    path = docs / "verification.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition("### What a wrong forecast costs\n")
    parts = "\n\n".join(part.strip("\n") for part in money(found))
    text = f"{before.partition(MONEY)[0]}{parts}\n\n### What a wrong forecast costs\n{rest}"
    lines, known = text.splitlines(), {row.what for row in bars.rows}
    kept = [line for line in lines if not (line.startswith("| ") and line.split(" | ")[0][2:] in known)]
    summary = [i for i, line in enumerate(kept) if line.endswith(("| met |", "| **missed** |", "| **cannot tell** |"))]
    kept[summary[-1] + 1 : summary[-1] + 1] = [_bar(row) for row in bars.rows]
    met = sum(line.endswith("| met |") for line in kept)
    count = sum(line.endswith(("| met |", "| **missed** |", "| **cannot tell** |")) for line in kept)
    text = re.sub(r"\d+ of \d+ bars are met", f"{met} of {count} bars are met", "\n".join(kept) + "\n")
    path.write_text(text, encoding="utf-8")
    return path


def _bar(row: Bar) -> str:
    return f"| {row.what} | {row.bar} | {row.measured} | {row.verdict if row.met else f'**{row.verdict}**'} |"


def write(found: Results, bars: Bars, docs: Path) -> Path:
    """Write the page and return its path."""
    met = len(bars.rows) - len(bars.missed)
    parts = [
        "# Verification",
        f"`make verify` writes this page. {met} of {len(bars.rows)} bars are met. Seeds are fixed: a repetition gives "
        "the same numbers on the same architecture with the locked versions, but for times.",
        READING,
        SEEDS,
        "\n".join([tables.table(("", "bar", "measured", ""), []), *map(_bar, bars.rows)]),
        "## False elimination of a best arm",
        ABOUT_A,
        f"![False elimination, case by case]({FALLS})",
        tables.cases_table(found.rows),
        "### The paper's bounds and a z-test, beside",
        tables.ABOUT_OTHERS,
        tables.others_table(found.rows),
        "### Freezers",
        tables.ABOUT_FREEZERS,
        f"![Freezers: which rules break]({FREEZERS})",
        tables.freezing_table(found.freezing),
        "### Designs that look at what they must not",
        tables.ABOUT_CONTEST,
        tables.contest_table(found.contest),
        "### Assumptions that are wrong by γ",
        tables.ABOUT_MOVED,
        tables.moved_table(found.moved),
        "### Best up to ε",
        tables.ABOUT_NEAR,
        tables.near_table(found.near),
        "### Claims about a population",
        tables.ABOUT_POPULATION,
        tables.population_table(found.population),
        "### People who leave because of their rewards",
        tables.ABOUT_LEAVERS,
        tables.leavers_table(found.leavers),
        tables.ABOUT_IGNORING,
        tables.ignoring_table(found.ignoring),
        "## Checks of assumptions",
        tables.ABOUT_CHECKS,
        "False alarms, with the upper limit.",
        tables.alarms_table(found.false_alarms, limits=True),
        tables.ABOUT_SEEN,
        tables.alarms_table(found.seen, limits=False),
        "## Displayed bounds",
        tables.ABOUT_DISPLAYED,
        tables.displayed_table(found.displayed),
        "## Costs",
        tables.ABOUT_COSTS,
        f"![Costs beside the lower bound]({COSTS})",
        tables.costs_table(found),
        *money(found.money),
        "### What a wrong forecast costs",
        tables.ABOUT_FORECASTS,
        tables.forecasts_table(found.forecasts),
        *crowds(found.crowds),
    ]
    path = docs / "verification.md"
    path.write_text("\n\n".join(part.strip("\n") for part in parts) + "\n", encoding="utf-8")
    return path
