"""Pages in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from html import escape
from math import isnan

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from freepull.charts import chance_by_budget, spend_by_agents, spend_by_horizon, spend_by_observing
from freepull.planning import Plan, words
from freepull.planning.facade import COLUMNS, cells
from freepull.planning.formulas import POWER
from freepull.planning.search import CHANCE, Curve, Point


def inline(figure: Figure) -> str:
    """Return a figure as the source of an image: letters as shapes, and the same text for the same figure."""
    file = io.BytesIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "freepull"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


STYLE = """
:root{--ink:#111;--ground:#fff;--soft:#555;--line:#ddd;--card:#eef4f9;--mark:#0072B2}
@media (prefers-color-scheme:dark){:root{--ink:#e8edf3;--ground:#0d1117;--soft:#a1acba;--line:#2b3440;--card:#161c24;
--mark:#6cb0ff} img{filter:invert(.92) hue-rotate(180deg)}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:46rem;margin:2rem auto;
padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1rem 0 .2rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.7rem;margin:1rem 0}
.tile{background:var(--card);border-radius:.6rem;padding:.7rem 1rem} .tile p{margin:.1rem 0;font-size:.9rem}
.tile .name,.from,figcaption,footer{color:var(--soft);font-size:.85rem} .tile .big{font-size:1.25rem;font-weight:650}
.first{background:var(--card);border-left:4px solid var(--mark);padding:.2rem 1rem;margin:1rem 0}
.scroll{overflow-x:auto;overflow-wrap:normal} table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.n{text-align:right} .plan td{font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(19rem,100%),1fr));gap:1rem}
figure{margin:0;break-inside:avoid} img{width:100%;height:auto}
@media print{body{max-width:none;margin:0;font-size:11pt} h2{break-after:avoid} tr{break-inside:avoid}}
@media (max-width:30rem){body{margin:1rem auto} table{font-size:.85rem}}
"""
CHARTS: tuple[tuple[str, Callable[[Plan, Axes], Axes], str], ...] = (
    ("agents", spend_by_agents, "What trials pay with fewer and with more people"),
    ("budget", chance_by_budget, "The chance of a certified answer within a budget"),
    ("horizon", spend_by_horizon, "What trials pay if they are shorter or longer"),
    ("observing", spend_by_observing, "What trials pay if paying starts earlier or later"),
)
TABLES = {
    "agents": ("How many people", "people"),
    "horizon": ("How long", "steps"),
    "observing": ("How long to watch before paying", "share of the horizon"),
    "delta": ("How much risk", "δ"),
    "epsilon": ("If an arm nearly as good will do", "best up to ε"),
    "cap": ("If nobody counts more often than this", "comparisons of one person"),
}
OFFERS = {"one": "one offer a step", "each": "up to one offer to everybody in each step"}


def plan_page(plan: Plan, title: str = "What the trial will cost") -> str:
    """Return the page as HTML."""
    asked = plan.question
    what = f"{asked['agents']:,} people, {asked['arms']} options, {asked['horizon']:,} steps"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p>{what}.</p>",
        *_short(plan),
        "<h2>The figures</h2>",
        _table(("", "", "from"), ((row.what, row.value, row.source) for row in plan.rows())),
        *_charts(plan),
        *(part for name, curve in plan.curves.items() for part in _curve(plan, name, curve)),
        *_reading(plan),
        f"<footer><p>{escape(_made(plan))}</p></footer></body></html>",
    ]
    return "\n".join(parts) + "\n"


MUST = (
    "People come, choose and answer offers about as the plan has them.",
    "Rewards do not drift while it runs, and nothing happens that moves many people's at once.",
    "Everybody asks before acting, and every pull is told, whatever came of it.",
)
"""What has to be so besides what is believed."""


def _short(plan: Plan) -> list[str]:
    """What somebody who decides reads first: cost, time, chance, what must be true, and what else could be done."""
    found, horizon = plan.forecast, plan.question["horizon"]
    parts = []
    if found is not None:
        middle, late = found.decided(0.5), found.decided(0.95)
        never = middle is None or late is None
        rate, low, high = found.chance
        tiles = (
            (
                "Cost",
                words.spend(found.mean, plan.price, " bonuses"),
                f"9 of 10 trials: {words.between(*found.range(0.9), plan.price)}",
            ),
            (
                "Time",
                "no verdict" if never else f"step {middle:,.0f} of {horizon:,}",
                f"in none of {found.runs:,} simulated trials" if never else f"95 % of the verdicts by step {late:,.0f}",
            ),
            ("Chance of a certified answer", words.percent(rate), f"{words.percent(low)} to {words.percent(high)}"),
        )
        parts = ['<div class="tiles">', *(_tile(*it) for it in tiles), "</div>"]
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in plan.sentences)
    believed, _, more = plan.question["beliefs"].partition("; ")
    must = (f"The truth is like what is believed: {believed}.{' More below.' if more else ''}", *MUST)
    listed = "".join(f"<li>{escape(it)}</li>" for it in must)
    instead = (
        "If options can simply be assigned, a randomised test pays no bonus: "
        f"{plan.randomised}, at the same δ and a power of {100 * POWER:g} %, looked "
        "at once, at the end. It takes people's choice away for so long, and is no use where nobody can be made to "
        "take an option."
    )
    parts += [f'<div class="first">{said}</div>', "<h3>What must be true</h3>", f"<ul>{listed}</ul>"]
    return [*parts, "<h3>What else could be done</h3>", f"<p>{escape(instead)}</p>"]


def _tile(name: str, big: str, small: str) -> str:
    return (
        f'<div class="tile"><p class="name">{escape(name)}</p><p class="big">{escape(big)}</p>'
        f"<p>{escape(small)}</p></div>"
    )


def _charts(plan: Plan) -> list[str]:
    if plan.forecast is None:
        return []
    drawn = [
        f'<figure><img alt="{escape(caption)}" src="{_picture(draw, plan)}"><figcaption>{caption}</figcaption></figure>'
        for name, draw, caption in CHARTS
        if name == "budget" or len(plan.curves[name].points if name in plan.curves else ()) > 1
    ]
    note = "<p>Shaded: half, and nine of ten, of single trials. Percentages: how many end with a certified answer. "
    note += "Dots are simulated, with 95 % intervals of the mean; lines are as smooth as these errors allow.</p>"
    return ["<h2>In pictures</h2>", note, f'<div class="charts">{"".join(drawn)}</div>']


def _picture(draw: Callable[[Plan, Axes], Axes], plan: Plan) -> str:
    figure = Figure(figsize=(4.5, 3.2), layout="constrained")
    draw(plan, figure.subplots())
    return inline(figure)


def _curve(plan: Plan, name: str, curve: Curve) -> list[str]:
    title, head = TABLES[name]
    heads = "".join(f'<th class="n">{text}</th>' for text in (head, *COLUMNS))
    rows = "".join(_point(plan, point) for point in curve.points)
    told = [] if curve.complete else ["<p>There was no time for all of these; give the plan more seconds.</p>"]
    return [f"<h2>{title}</h2>", f'<div class="scroll"><table><tr>{heads}</tr>{rows}</table></div>', *told]


def _point(plan: Plan, point: Point) -> str:
    shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells(plan, point))
    return f"<tr{' class=plan' if point.planned else ''}>{shown}</tr>"


def _table(heads: Iterable[str], rows: Iterable[tuple[str, str, str]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f'<tr><td>{escape(what)}</td><td>{escape(value)}</td><td class="from">{escape(source)}</td></tr>'
        for what, value, source in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _reading(plan: Plan) -> list[str]:
    asked, at = plan.question, plan.first
    whom = "people who take part"
    if asked["rule"].startswith("Comparisons("):
        whom = "comparisons that it opened, each of one person who came"
    believed = asked["beliefs"]
    lines = [f"What is believed, in full: {believed}."] if "; " in believed else []
    lines += [
        "A bonus is one paid pull. Every simulated trial draws a new truth from what is believed, so ranges are for "
        "one trial, and contain that the guesses may be wrong.",
        "Certified means: named by a rule for which it is proven that the probability that such a trial ends with a "
        f"wrong certified answer is at most δ, for the average over the {whom}.",
        f"The budget counts trials that are decided before it is spent. {100 * CHANCE:g} % stands for sure enough.",
    ]
    if not isnan(at.fixed_test):
        lines.append(
            "The fixed A/B test gives everybody every option equally often, looks once at the end and pays for every "
            "pull; it has the same δ, shared out among the rivals of the best option, and a power of "
            f"{100 * POWER:g} %, the guesses taken as exact."
        )
    lines.append(
        "Other settings are compared with the plan on runs with the same luck; ± is a 95 % interval of the mean."
    )
    if at.known:
        lines.append(
            "Formulas are rules of thumb. The lower bound is a yardstick: what somebody would have to pay who knew the "
            "game and had the free pulls of the whole horizon, to name the best option with the same δ."
        )
    lines += [
        f"The principal only watches until step {at.kappa:,}; after that she makes {OFFERS[asked['offers']]}.",
        f"Settings: {asked['rule']}, {asked['observe']}, {asked['protocol']}; people pick by {_some(asked['strategy'])}"
        f", answer offers by {_some(asked['answers'])}, come by {_some(asked['activity'])} and leave by "
        f"{_some(asked['leaving'])}.",
    ]
    return ["<h2>How to read it</h2>", "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"]


def _some(parts: list[str]) -> str:
    """Name the first few different ones."""
    told = list(dict.fromkeys(parts))
    return ", ".join(told[:5]) + (", …" if len(told) > 5 else "")


def _made(plan: Plan) -> str:
    made = plan.provenance
    return (
        f"freepull {made['freepull']}, seed {made['seed']}, {made['finished']}, {made['seconds']:.1f} s of computing."
    )


__all__ = ["plan_page"]
