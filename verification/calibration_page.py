"""The calibration of plans as lines, as a page of the documentation and as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from freepull.charts.looks import COLOURS, axes
from freepull.planning.forecast import SHARES

from .calibration import (
    CHANCE,
    FLUID,
    HIGH,
    LOW,
    RUNS,
    SEED,
    TRIALS,
    Found,
    Tried,
    pooled,
    priced_met,
    street_met,
    too_sure,
)
from .calibration_worlds import ERROR, PRICED, STREET
from .tables import table

PICTURE = "images/calibration.png"
ABOUT = f"""\
A plan's 90 % range says: nine of ten such trials will cost between these two numbers. Here plans are held to that. For
every setting a *true* game is drawn, the planner is told of it with errors, a plan is made, and then {TRIALS} trials
are run on the true game. Games are not drawn by the code that plans draw from, and nothing was tuned on these seeds.

What the planner is told: the gap between the two best arms (in half of some families every gap), the best arm's mean
and how much agents differ, each off by a factor e^({ERROR:g}·z), z standard normal, which is what `error={ERROR:g}`
says; or a log. Every plan has {RUNS} runs of its own."""
FAMILIES = """\
- **few agents, toy-like**: 2 to 6 agents, 3 or 4 arms, 4,000 to 16,000 steps, one offer a step or one each, agents'
  means uniform and up to ± .4 apart, gaps .03 to .12.
- **many arms, the paper's family**: 10 to 30 arms, 5 to 15 agents, 3,000 to 9,000 steps, truncated normal means with
  sd .01, .03 or .1, gaps about .01 to .03.
- **people**: 100 to 800 people, 2 to 5 arms, 20 to 80 steps, Beta distributed means with sd .05 to .2, gaps .02 to .1.
- **mixed agents**: people or few agents of two or three kinds (α-UCB with α = 2 or ½, Thompson, ε-greedy). The planner
  knows the kinds, not who is which. In two of five settings agents refuse at random.
- **planned from a log**: people of whom there are 5 to 40 logged pulls each, by ε-greedy learners. In half of the
  settings the trial is run with these people, in half with others of the same population."""
ATOMS = """\
**How ties are counted.** Spends have lumps: at 0, where free pulls suffice, and at what can be paid within the horizon.
If a third of a plan's runs pay nothing, a range that starts at 0 cannot leave out just the lowest 5 %. So a trial whose
spend equals that of some runs of the plan is placed among them at random, and is inside if its place is between 5 % and
95 %. Without ties this is exactly "inside the printed range". The column *as printed* counts both ends of the printed
range as inside, and is larger where there are lumps."""
HEADS = (
    "family", "settings", "50 % range", "90 % range", "95 % range", "as printed", "below", "above",
    "certified: planned", "happened",
)  # fmt: skip


def lines(found: Found) -> list[str]:
    """What is said on the terminal."""
    told = []
    for name, rows in found.families().items():
        parts = [f"{100 * share:g} %: {_rate(rows, share)}" for share in SHARES]
        told.append(
            f"{name} ({len(rows)}): {'; '.join(parts)}; as printed {_printed(rows)}; {'; '.join(_beyond(rows))}"
        )
    fluid, coverage = ("met" if met else "MISSED" for met in (found.fluid_met, found.coverage_met))
    told += [f"formulas: {_formulas(found)}", f"fluid counts: {_fluid(found)}: the bar is {fluid}"]
    told += [*street_lines(found.street), *(priced_lines(found.priced) if found.priced else [])]
    return [*told, f"coverage {100 * found.coverage:.1f} %: the bar is {coverage}"]


def priced_lines(rows: list[Tried]) -> list[str]:
    """What is said of prices that differ."""
    held = "; ".join(f"{100 * share:g} %: {_rate(rows, share)}" for share in SHARES)
    return [f"{PRICED} ({len(rows)}): {held}", f"{PRICED}: the bar is {'met' if priced_met(rows) else 'MISSED'}"]


def street_lines(rows: list[Tried]) -> list[str]:
    """What is said of street panels."""
    told = []
    for name, some in _halves(rows).items():
        held = "; ".join(f"{100 * share:g} %: {_rate(some, share)}" for share in SHARES)
        told.append(f"{name} ({len(some)}): {held}; certified: planned less happened {_more(some)} points")
    return [*told, f"{STREET}: the bar is {'met' if street_met(rows) else 'MISSED'}"]


def _halves(rows: list[Tried]) -> dict[str, list[Tried]]:
    """Plans by what the planner had, then all of them."""
    halves = {
        f"{STREET}, told": [it for it in rows if not it.logged],
        f"{STREET}, from a log": [it for it in rows if it.logged],
    }
    return {name: some for name, some in halves.items() if len(some) > 1} | {f"{STREET}, all": rows}


def _more(rows: list[Tried]) -> str:
    more, error = too_sure(rows)
    return f"{100 * more:+.1f} ± {100 * error:.1f}"


def _rate(rows: list[Tried], share: float) -> str:
    mean, error = pooled(rows, share)
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def _printed(rows: list[Tried]) -> str:
    return f"{100 * np.mean([inside for row in rows for inside in row.inside]):.1f}"


def _beyond(rows: list[Tried]) -> tuple[str, str]:
    places = np.array([place for row in rows for place in row.places])
    return f"{100 * (places < 0.05).mean():.1f}", f"{100 * (places > 0.95).mean():.1f}"


def _fluid(found: Found) -> str:
    worst = max(found.fluid, key=lambda pair: abs(pair[0]))
    return f"{len(found.fluid)} of at least 100, the worst off by {100 * worst[0]:.1f} % ± {100 * worst[1]:.1f} %"


def _formulas(found: Found) -> str:
    ratios = [row.formula / row.planned for row in found.rows if row.formula is not None and row.planned > 0]
    if not ratios:
        return "shown nowhere"
    low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
    return (
        f"shown in {len(ratios)} of {len(found.rows)} settings; there the formula is {middle:.2f} times what the "
        f"simulation expects (90 % of them: {low:.2f} to {high:.2f})"
    )


def _certified(rows: list[Tried]) -> tuple[str, str]:
    planned, happened = np.mean([row.certain for row in rows]), np.mean([row.certified for row in rows])
    return f"{100 * planned:.0f} %", f"{100 * happened:.0f} %"


STREETS = f"""\
People who come now and then, under `rules.Comparisons` with ε = 0, .02 or .05: 200 to 800 of them, 2 to 5 arms, 300 to
700 steps, Beta distributed means with sd .05 to .2, gaps .03 to .1. Rates a step are log-normal with medians .02 to .12
and σ .4 to 1.2; 1 to 12 % never come, 2 to 25 % leave at some time, 1 to 10 % are angry, 5 to 40 % refuse offers with
probabilities .1 to .5; they pick by α-UCB or Thompson sampling. In half of the settings the planner is told all these
numbers, each off by a factor e^({ERROR:g}·z) (shares: their odds), and the strategy. In the other half there is a log
of 150 to 500 others, 150 to 400 steps long, and the planner is told nothing else: rates, leaving, silence, refusals and
the strategy are fitted. What the fit does not know: that some leave in anger."""


WHY = """\
**Why plans from logs are too careful here.** A log of 150 to 500 people leaves the gap between the two best arms open
by a few hundredths, and what is believed then allows for gaps near 0, with which hardly any trial ends with a certified
answer. In these worlds every gap is at least .03, which a planner with nothing but a log does not know. Tried beside
this page on 40 settings with a log for each of three seeds, 100 runs a plan, planned less happened in points, ± one
standard error:

| | seed 2027 | seed 3001 | seed 3002 |
|---|---|---|---|
| as plans are made | -9.9 ± 3.3 | -1.7 ± 3.5 | -7.4 ± 2.8 |
| if draws with a gap outside .03 to .1 are left out | -5.3 ± 3.0 | +0.8 ± 3.4 | -2.5 ± 2.3 |
| if arms are not drawn towards each other | -7.2 ± 3.1 | -0.0 ± 3.8 | -6.7 ± 3.3 |

So the gap is about 4 of some 6 points, what is left is within the error, and this page's seed is the worst of
the three. Nothing was changed for it: the second row knows the answer, and the third would promise too much where arms
are nearly equal. Who knows that small gaps do not occur should plan with `gap` or `means` instead of the log."""


PRICES = """\
People or few agents as above, under `Certified` with `NeverBan`, and what counts is `spent`, in units of reward. Half
are compensated, `Compensate(margin)` with margins up to .1, and take every offer. To the others prices are posted,
`Posted(accept, start)` with accept from .8 to .97 and start from .1 to .5, and they take what is worth their true gap
and an amount of their own, drawn for each from 0 up to at most .2. The planner is told how they answer, and of the game
as above. Seeds are [2027, 2,000,000 + n]."""


def street_section(rows: list[Tried]) -> str:
    """The part of the page about street panels."""
    met = "met" if street_met(rows) else "**not met**"
    return "\n\n".join(
        [
            f"## {STREET.capitalize()}",
            STREETS,
            f"**{100 * pooled(rows, 0.9)[0]:.1f} %** of {sum(len(row.places) for row in rows):,} single trials cost "
            f"what their plan's 90 % range said. Certified answers were planned {_more(rows)} points more often than "
            f"they came, one standard error. The bars are {100 * LOW:.0f} to {100 * HIGH:.0f} %, and {100 * CHANCE:g} "
            f"points: {met}.",
            table(
                (*HEADS, "planned less happened"),
                [(*_row(name, some), _more(some)) for name, some in _halves(rows).items()],
            ),
            WHY,
        ]
    )


def priced_section(rows: list[Tried]) -> str:
    """The part of the page about prices that differ."""
    met = "met" if priced_met(rows) else "**not met**"
    kinds = {name: [row for row in rows if row.pricing == name] for name in dict.fromkeys(row.pricing for row in rows)}
    return "\n\n".join(
        [
            f"## {PRICED.capitalize()}",
            PRICES,
            f"**{100 * pooled(rows, 0.9)[0]:.1f} %** of {sum(len(row.places) for row in rows):,} single trials spent "
            f"what their plan's 90 % range said. The bar is {100 * LOW:.0f} to {100 * HIGH:.0f} %: {met}.",
            table(HEADS, [_row(f"`{name}`", some) for name, some in kinds.items()] + [_row("**all**", rows)]),
        ]
    )


def write_part(part: str, docs: Path) -> Path:
    """Write one part alone into the page, in the place of the one that is there; a new one before the last."""
    path, head = docs / "calibration.md", part.partition("\n")[0]
    parts = re.split(r"^(?=## )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    at = next((i for i, one in enumerate(parts) if one.startswith(f"{head}\n")), None)
    parts[len(parts) - 1 if at is None else at : len(parts) - 1 if at is None else at + 1] = [f"{part}\n\n"]
    path.write_text("".join(parts), encoding="utf-8")
    return path


def _row(name: str, rows: list[Tried]) -> tuple[str, ...]:
    ranges = (_rate(rows, share) for share in SHARES)
    return (name, f"{len(rows)}", *ranges, _printed(rows), *_beyond(rows), *_certified(rows))


def write(found: Found, docs: Path) -> Path:
    """Write the page with its picture, and return its path."""
    (docs / "images").mkdir(parents=True, exist_ok=True)
    _draw(found).savefig(docs / PICTURE)
    body = [_row(f"**{name}**" if name == "all" else name, rows) for name, rows in found.families().items()]
    met = "met" if found.coverage_met else "**not met**"
    trials = sum(len(row.places) for row in found.rows)
    parts = [
        "# Calibration of plans",
        f"`make calibrate` writes this page. Seeds are fixed (the n-th setting is drawn from [{SEED}, n]).",
        f"**{100 * found.coverage:.1f} %** of {trials:,} single trials, in {len(found.rows)} settings, cost what their "
        f"plan's 90 % range said, ties placed at random. The bar is {100 * LOW:.0f} to {100 * HIGH:.0f} %: {met}.",
        ABOUT,
        FAMILIES,
        ATOMS,
        f"![Where true trials lie in their plan's distribution, and how often the 90 % range held]({PICTURE})",
        "Shares of trials within the plan's ranges, in %, ± one standard error (settings are independent units); of "
        "the 90 % range also as printed, and how many lay below and above it; and the chance of a certified answer, as "
        "planned and as it came, both averages over settings.",
        table(HEADS, body),
        street_section(found.street),
        *([priced_section(found.priced)] if found.priced else []),
        "## The formulas",
        f"The fluid counts of α-UCB agents, T = 20,000, beside 2,000 simulated runs: {_fluid(found)}, one standard "
        f"error. The bar is {100 * FLUID:g} % where N ≥ 100: {'met' if found.fluid_met else '**not met**'}.",
        f"The spend by formulas is {_formulas(found)}. Elsewhere it is not shown: where most pulls are free it is "
        "unreliable, and where the horizon is too short it does not apply.",
    ]
    path = docs / "calibration.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _draw(found: Found) -> Figure:
    figure = Figure(figsize=(10, 3.6), layout="constrained", dpi=130)
    left, right = figure.subplots(1, 2)
    places = np.array([place for row in found.rows for place in row.places])
    each = np.full(len(places), 100 / len(places))
    axes(left).hist(places, bins=20, range=(0, 1), weights=each, color=COLOURS[0], edgecolor="white")
    left.axhline(5, color="black", linestyle="--", linewidth=1)
    for end in (0.05, 0.95):
        left.axvline(end, color=COLOURS[5], linewidth=1.2)
    left.set_xlabel("place of a true trial in its plan's distribution")
    left.set_ylabel("trials, %")
    left.set_title("flat is right; the lines bound the 90 % range", fontsize=9)
    families = list(found.families().items())[::-1]
    axes(right).axvspan(100 * LOW, 100 * HIGH, color=COLOURS[2], alpha=0.2, linewidth=0)
    for i, (_, rows) in enumerate(families):
        mean, error = pooled(rows, 0.9)
        right.errorbar(100 * mean, i, xerr=196 * error, fmt="o", color=COLOURS[0 if i else 5], capsize=3)
    right.axvline(90, color="black", linestyle="--", linewidth=1)
    right.set_yticks(range(len(families)), [name for name, _ in families], fontsize=8)
    right.set_xlim(75, 100)
    right.grid(axis="x", color="0.9")
    right.set_xlabel("single trials within the 90 % range, % (95 % intervals)")
    return figure
