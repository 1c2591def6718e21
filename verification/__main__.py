"""Verifies what freepull claims: error rates, displayed bounds, and what a verdict costs.

`python -m verification` takes less than half an hour on two cores and writes docs/verification.md with its
pictures; `--quick` takes about two minutes with few runs, and `--only crowds` measures the rule for people as they are
alone, `--only money` what is spent; these write nothing, unless `--docs` says where, which writes the part about money
into the page that is there. It ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from . import bars, checked, costs, crowds, displayed, drawn, elimination, money, page, pictures
from .covered import cases
from .results import Results
from .settings import SETTINGS

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Measure, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs, in about two minutes; writes nothing")
    parser.add_argument("--only", choices=["crowds", "money"], help="measure this part, and print it; writes nothing")
    parser.add_argument("--docs", type=Path, default=None, help="where to write verification.md, if not to docs")
    chosen = parser.parse_args()
    console, began = Console(highlight=False, width=None if sys.stdout.isatty() else 160), time.perf_counter()

    def say(what: str) -> None:
        console.print(f"[dim]{time.perf_counter() - began:5.0f} s  {what}[/dim]")

    scale = 0.02 if chosen.quick else 1.0
    if chosen.only == "money":
        spent = money.measure(scale, say)
        judged = bars.judge_money(spent)
        for part in page.money(spent):
            console.print(part, markup=False, soft_wrap=True)
        if chosen.docs is not None:
            console.print(f"{page.write_money(spent, judged, chosen.docs)}")
    elif chosen.only is not None:
        alone = crowds.measure(scale, say)
        judged = bars.judge_crowds(alone)
        for part in page.crowds(alone):
            console.print(part, markup=False, soft_wrap=True)
    else:
        found = measure(scale, say)
        judged = bars.judge(found)
    page.show(judged, console)
    if not chosen.quick and chosen.only is None:
        docs = chosen.docs or ROOT / "docs"
        pictures.draw(found, docs)
        console.print(f"{page.write(found, judged, docs)}")
    console.print(f"{time.perf_counter() - began:.0f} s; {len(judged.missed)} of {len(judged.rows)} bars not met")
    if chosen.quick:  # few runs tell only whether an error rate is far off
        return int(
            any(bar.met is False and bar.part not in (bars.COSTS, crowds.COSTS, money.MONEY) for bar in judged.rows)
        )
    return int(bool(judged.missed))


def measure(scale: float, say: page.Say) -> Results:
    """Do all parts, with this share of the runs."""
    found = Results()
    chosen = cases()
    found.rows = elimination.false_elimination(chosen if scale == 1.0 else chosen[::4], scale, say)
    say("freezers")
    found.freezing = elimination.freezing(scale)
    say("designs that look at what they must not")
    found.contest = elimination.contest(max(scale, 0.1))
    say("means that are moved")
    found.moved = elimination.moved(max(scale, 0.1))
    say("best up to ε")
    found.near = elimination.up_to_epsilon(scale)
    say("populations")
    found.population = drawn.populations(scale)
    say("people who leave because of their rewards")
    found.leavers = drawn.leavers(scale)
    say("people who ignore offers of what disappointed them")
    found.ignoring = drawn.ignoring(scale)
    say("checks of assumptions")
    found.false_alarms, found.seen = checked.measure(scale)
    found.crowds = crowds.measure(scale, say)
    for i, game in enumerate(displayed.GAMES):
        say(f"displayed bounds: {game.name}")
        runs = max(50, int(4_000 * scale))
        found.displayed += displayed.certified(game, runs, 3_000 + i)
    for setting in SETTINGS:
        runs = max(2, int(setting.runs * scale))
        if scale < 1.0 and setting.agents == 120:
            continue
        say(f"costs: {setting.name}")
        found.limits[setting.name] = costs.limit(setting, runs)
        for name, rule in setting.rules().items():
            found.costs.append(costs.measure(setting, name, rule, runs))
        found.costs.append(costs.oracle(setting, runs))
    found.money = money.measure(scale, say)
    say("wrong forecasts")
    found.forecasts = costs.wrong_forecasts(scale)
    return found


if __name__ == "__main__":
    sys.exit(main())
