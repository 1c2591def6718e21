"""Beyond the figures: the appendix on κ, milder protocols, other agents and other principals."""

from __future__ import annotations

import math

import polars as pl

from freepull import charts
from freepull.instances import toy
from freepull.reproduction.figures import OWN_BEST
from freepull.reproduction.section import (
    Finding,
    Found,
    Request,
    Section,
    figure,
    gather,
    mean,
    outcome,
    percent,
    row,
    share,
    spend_bars,
    together,
    told,
)
from freepull.simulation import Result
from freepull.theory import natural_pulls

HORIZON = 100_000


def observing(request: Request) -> Section:
    """How long to observe."""
    found = gather("paper-kappa", request)
    rows = found.rows()
    measured = {
        name: "; ".join(
            f"{cell.coordinates['observe']}: {told(mean(result, 'spent'))}, {percent(share(result, 'decided'))} decided"
            for cell, result in found if cell.principal == name
        )
        for name in found.principals()
    }  # fmt: skip
    return Section(
        "kappa", "The appendix: how long to observe",
        "The toy game: κ = √T, T/4, T/2, .9 T, the κ of a known gap, and the adaptive schedule, which starts to "
        "pay when the time left falls to three times what is missing. For a known gap of .02 the paper's formula "
        "leaves no time to observe at T = 10⁵: κ = 0.",
        (Finding("The free pulls that different κ provide do not differ much.", measured,
                 f"{_natural()} {_spread(found)}"),),
        spend_bars(rows, "observe", 4.6),
        "Bars: bonuses by κ and setting, with 95 % intervals and the share of runs decided.", rows,
    )  # fmt: skip


def _natural() -> str:
    """Tell what agent 1 has pulled of arm 2, which is nobody's best, by κ: the fluid count."""
    steps = {"√T": math.isqrt(HORIZON), "T/4": HORIZON // 4, "T/2": HORIZON // 2, ".9 T": 9 * HORIZON // 10}
    counts = (f"{natural_pulls(toy().means, t)[0, 1]:.0f} by {name}" for name, t in steps.items())
    return (
        f"An α-UCB agent will have pulled arm 2 about {together(counts)}: from T/4 on they hardly differ. What is paid:"
    )


def _spread(found: Found) -> str:
    sentences = []
    for name in found.principals():
        cells = [
            (str(cell.coordinates["observe"]), mean(result, "spent")[0], share(result, "decided"))
            for cell, result in found
            if cell.principal == name
        ]
        settled = [(where, paid) for where, paid, (decided, of) in cells if decided >= 0.9 * of]
        if len(settled) < 2:
            sentences.append(f"{name}: hardly anything is decided, and the cost is the time that is left after κ.")
            continue
        low, high = min(settled, key=lambda one: one[1]), max(settled, key=lambda one: one[1])
        late = [where for where, _, (decided, of) in cells if decided < 0.9 * of]
        tail = f" With {together(late)} more than a tenth of the runs is not decided in time." if late else ""
        sentences.append(f"{name}: from {low[1]:,.0f} ({low[0]}) to {high[1]:,.0f} ({high[0]}) bonuses.{tail}")
    return " ".join(sentences)


def protocols(request: Request) -> Section:
    """Milder protocols."""
    found = gather("paper-protocols", request)
    rows = found.rows()
    findings = []
    for protocol, cells in found.by("protocol").items():
        decided = [f"{name} {share(result, 'decided')[0]}" for name, result in cells.items()]
        truth = f"Decided, of {max(result.frame.height for result in cells.values())} runs: {', '.join(decided)}."
        banned = max(mean(result, "banned")[0] for result in cells.values())
        truth += f" {banned:.2g} of 2 agents are banned at least once, at most. {_wasted(cells)}"
        findings.append(Finding(protocol, {name: outcome(result) for name, result in cells.items()}, truth))
    return Section(
        "protocols", "Milder protocols",
        "The paper expects that banning for a while, or after some refusals, serves as well. The toy game, "
        "agents who take an offer with probability 0.8. Under Take-or-Ban the first refusal ends all payments to "
        "an agent, so such agents are soon banned. While one is banned, the paper's rule goes on paying the other for "
        "what is left, its own best arm, which it pulls anyway. The certified rule waits.",
        tuple(findings), spend_bars(rows, "protocol", 3.8),
        "Bars: bonuses by protocol and setting, with 95 % intervals and the share of runs decided.",
        rows,
    )  # fmt: skip


def _wasted(cells: dict[str, Result]) -> str:
    """Tell how much goes to agents for what they like best: all that is left to buy while the other is banned."""
    own = [
        f"{name} {100 * sum(float(result.paid[m, k]) for m, k in enumerate(OWN_BEST)) / float(result.paid.sum()):.0f} %"
        for name, result in cells.items()
        if result.paid.sum() > 0
    ]
    return f"Of the bonuses, this went to agents for their own best arm: {', '.join(own)}." if own else ""


BASELINES = (
    ("baselines", "none", "watch only"),
    ("baselines", "authors", "Observe-then-Incentivize, authors"),
    ("baselines", "authors-uniform", "pay for all pulls in turn, authors"),
    ("baselines", "certified", "Observe-then-Incentivize, certified"),
    ("baselines", "certified-obedient", "obedient agents, certified"),
    ("baselines-myopic", "none", "temporary myopic agents, watch only"),
    ("baselines-myopic", "authors", "temporary myopic agents, authors"),
    ("baselines-myopic", "certified", "temporary myopic agents, certified"),
)
"""The study, the principal in it, and the name that it has in the report."""
PANELS = {"paid": "pulls paid for, or instructed", "regret": "regret of both agents"}


def agents(request: Request) -> Section:
    """Other learners."""
    found = gather("agents", request)
    rows = found.rows()
    findings = []
    for kind, cells in found.by("agents").items():
        regret = {name: told(mean(result, "regret")) for name, result in cells.items()}
        measured = {name: f"{outcome(result)}; regret {regret[name]}" for name, result in cells.items()}
        findings.append(Finding(f"{kind} agents", measured, _wrong(cells)))
    return Section(
        "agents", "Agents who learn in other ways",
        "The toy game, beyond the paper. The certified rule's forecast of free pulls has α-UCB agents in mind; "
        "it may cost money where they learn otherwise, never validity. Myopic agents take what looks best and "
        "never explore. The last panel mixes an α-UCB agent with a Thompson sampler.",
        tuple(findings), spend_bars(rows, "agents", 4.8),
        "Bars: bonuses by kind of agent and setting, with 95 % intervals and the share of runs decided.", rows,
    )  # fmt: skip


def _wrong(cells: dict[str, Result]) -> str:
    wrong = {
        name: int((result.frame["decided"] & ~result.frame["correct"]).sum()) for name, result in cells.items()
    }  # fmt: skip
    decided = {name: percent(share(result, "decided")) for name, result in cells.items()}
    told_of = "; ".join(f"{name} decides {decided[name]}, wrongly {count} times" for name, count in wrong.items())
    return f"{told_of[0].upper()}{told_of[1:]}."


def baselines(request: Request) -> Section:
    """Other principals, and what each costs both sides."""
    studies = {name: gather(name, request) for name in ("baselines", "baselines-myopic")}
    cells = [
        (label, result)
        for study, principal, label in BASELINES
        if (result := studies[study].get(principal)) is not None
    ]
    rows = pl.DataFrame(
        [{"principal": label, "price": _price(label, result), **row(result)} for label, result in cells]
    )
    drawn = figure(9.6, 3.8, 2)
    for ax, (value, what) in zip(drawn.axes, PANELS.items(), strict=True):
        charts.grouped(rows.with_columns(all=pl.lit("")), "principal", "all", value, ax=ax).set_xlabel(what)
    drawn.axes[1].set_yticklabels([])
    findings = [Finding(label, {"measured": _both(label, result)}, _meaning(label, result)) for label, result in cells]
    return Section(
        "baselines", "Baselines: what each costs the principal and the agents",
        "The toy game, T = 10⁵, beyond the paper. Regret is what both agents lose against their own best arms by "
        "T, bonuses not counted. Temporary myopic agents are those of earlier work: a new one in each place "
        "every step, who knows what was seen there, and is paid to explore from the first step on. Obedient "
        "agents are those of federated bandits: both pull what they are told to, from the first step on, for "
        "nothing, until the certified rule decides. Most of what temporary agents cost more is the price of κ = "
        "0, which learners would cost as well (see how long to observe).",
        tuple(findings), drawn, "Bars: bonuses (left) and regret (right) by principal, with 95 % intervals.", rows,
    )  # fmt: skip


def _price(label: str, result: Result) -> float:
    """What the least bonus would have been: for temporary agents their loss, for obedient ones nothing."""
    if label.startswith("obedient"):
        return 0.0
    if label.startswith("temporary"):
        return float((result.paid * (toy().means.max(axis=1)[:, None] - toy().means)).sum())
    return mean(result, "spent")[0]


def _both(label: str, result: Result) -> str:
    what = "instructions" if label.startswith("obedient") else "bonuses"
    return (
        f"right {percent(share(result, 'correct'))}, decided {percent(share(result, 'decided'))}, "
        f"{told(mean(result, 'paid'))} {what}; agents: reward {told(mean(result, 'reward'))}, "
        f"regret {told(mean(result, 'regret'))}"
    )


def _meaning(label: str, result: Result) -> str:
    regret = told(mean(result, "regret"))
    if label.startswith("obedient"):
        return f"The principal pays nothing, and the agents lose {regret}, for which nobody makes up."
    if label.startswith("temporary") and "watch" not in label:
        least = _price(label, result)
        return (
            f"Nobody waits for free pulls here. A temporary agent takes less than 1: its expected loss, {least:,.0f} "
            "for all pulls together; the bonus of 1 is for agents who come back."
        )
    if "watch" in label:
        return "Nothing is paid, and nothing is guaranteed."
    return f"The agents lose {regret} in reward and are paid {told(mean(result, 'spent'))} for it."
