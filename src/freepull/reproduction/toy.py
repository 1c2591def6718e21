"""Fig. 2(a), 2(b) and 3: the game of 2 agents and 3 arms."""

from __future__ import annotations

import numpy as np
import polars as pl

from freepull import charts
from freepull.reproduction.section import (
    SETTINGS,
    Finding,
    Found,
    Request,
    Section,
    figure,
    gather,
    mean,
    outcome,
    percent,
    share,
    spread,
    together,
    told,
)
from freepull.simulation import Result

LABELS = {
    "none": "no incentives", "paper": "paper", "paper-appendix": "paper, appendix's bound", "authors": "authors",
    "authors-at-01": "authors, δ = .01", "certified": "certified",
}  # fmt: skip
OWN_BEST = (0, 2)
"""The arm that each agent likes best."""


def accuracy(request: Request) -> Section:
    """Fig. 2(a): with and without incentives."""
    found = gather("paper-2ab", request)
    drawn = figure(7.2, 3.4)
    charts.accuracy({_wrapped(name): found.get(name) for name in found.principals()}, ax=drawn.axes[0])  # type: ignore[misc]
    measured = {LABELS[name]: outcome(result) for name, result in _named(found)}
    return Section(
        "2a", "Fig. 2(a): accuracy with and without incentives",
        "The toy game: agent 1 has means .89, .47, .01, agent 2 has .01, .47, .89; the best arm on average is "
        "the second, which is nobody's own. T = 10⁵, κ = T/2, α-UCB agents with α = 2.",
        (
            Finding(
                "Without incentives the principal names the right arm in 53 % of 100 runs; with them, always.",
                measured,
                " ".join((_passive(found), _always(found), _undecided(found))),
            ),
        ),
        drawn, "Bars: the share of runs in which the right arm is named, by principal, with 95 % intervals.",
        found.rows(),
    )  # fmt: skip


def _passive(found: Found) -> str:
    none = found.get("none")
    assert none is not None
    return (
        f"A principal who only watches is right in {percent(share(none, 'correct'))} of our runs; the 53 of 100 "
        "that the paper reports are within chance of it."
        if _near(none, 0.53, 100)
        else f"A principal who only watches is right in {percent(share(none, 'correct'))} of our runs, not in 53 %."
    )


def _near(result: Result, rate: float, runs: int) -> bool:
    """Whether two shares differ by less than three standard errors."""
    right, of = share(result, "correct")
    pooled = (right + rate * runs) / (of + runs)
    return abs(right / of - rate) <= 3 * float(np.sqrt(pooled * (1 - pooled) * (1 / of + 1 / runs)))


def _always(found: Found) -> str:
    rates = {name: share(result, "correct") for name, result in _named(found) if name != "none"}
    wrong = [f"{LABELS[name]} in {of - right} of {of}" for name, (right, of) in rates.items() if right < of]
    return (
        f"With incentives the wrong arm was named by {together(wrong)}." if wrong else "With incentives none was wrong."
    )


def _undecided(found: Found) -> str:
    """Tell what the accuracy hides: whether anything was decided."""
    told_of = []
    for name in ("paper", "paper-appendix"):
        result = found.get(name)
        if result is not None and share(result, "decided")[0] == 0:
            told_of.append(LABELS[name])
    if not told_of:
        return ""
    return (
        f"But with the bound as printed ({together(told_of)}) no run is decided within T: the principal pays in every "
        "step of the second half, and what she names is the largest sample mean, without any guarantee."
    )


def assignment(request: Request) -> Section:
    """Fig. 2(b): who is paid for what."""
    found = gather("paper-2ab", request)
    shown = [(name, result) for name, result in _named(found) if name in SETTINGS]
    drawn = figure(3.4 * len(shown), 3.2, len(shown))
    measured = {}
    for ax, (name, result) in zip(drawn.axes, shown, strict=True):
        charts.payments(result, ax=ax, first=1)
        ax.set_title(LABELS[name], fontsize=10)
        agents = (" / ".join(f"{x:,.0f}" for x in row) for row in result.paid)
        measured[name] = "; ".join(f"agent {m + 1}: {row}" for m, row in enumerate(agents))
    own = sum(float(result.paid[m, k]) for _, result in shown for m, k in enumerate(OWN_BEST))
    middle = {name: float(result.paid[:, 1].sum() / max(result.paid.sum(), 1e-9)) for name, result in shown}
    truth = (
        "Nobody was ever paid for its own best arm." if own == 0 else
        f"Agents were paid for their own best arm {own:,.1f} times a run, on average over the settings together."
    )  # fmt: skip
    truth += " The share of the bonuses on arm 2: " + together(
        f"{100 * x:.0f} % ({name})" for name, x in middle.items()
    )
    truth += ". It is the arm that is nobody's best, and each rule splits the rest as its own bound asks."
    rows = [
        {"principal": name, "agent": m, "arm": k, "paid": float(result.paid[m, k]),
         "paid_error": float(result.paid_error[m, k])}
        for name, result in _named(found) for m in range(2) for k in range(3)
    ]  # fmt: skip
    return Section(
        "2b", "Fig. 2(b): who is paid for what",
        "The runs of Fig. 2(a): bonuses per agent and arm, arms 1 / 2 / 3.",
        (Finding("Nobody is paid for its own best arm; most incentives are on arm 2.", measured, truth),),
        drawn, "Bars: mean bonuses by agent and arm, one panel a setting, with 95 % error bars.", pl.DataFrame(rows),
    )  # fmt: skip


def stochastic(request: Request) -> Section:
    """Fig. 3: agents who take an offer with probability 0.8, and no bans."""
    found, full = gather("paper-3", request), gather("paper-2ab", request)
    names = [name for name, _ in _named(found)]
    drawn = figure(3.4 * len(names), 3.2, len(names))
    measured, less = {}, []
    for ax, (name, result) in zip(drawn.axes, _named(found), strict=True):
        charts.payments(result, ax=ax, first=1)
        ax.set_title(LABELS[name], fontsize=10)
        measured[name] = f"{outcome(result)}; {told(mean(result, 'offered'))} offers"
        before = full.get("authors-at-01" if name == "authors" else name)
        assert before is not None
        change = spread((result.frame["bonus"] - before.frame["bonus"]).to_list())
        decided = share(before, "decided")[0] - share(result, "decided")[0]
        less.append(f"{name} {told(change)} bonuses and {decided:+d} undecided of {result.frame.height} runs")
    truth = (
        f"{_always(found)} The change against agents who take every offer, on the same luck: {together(less)}. A "
        "refused offer costs no bonus, but a step: what is decided late otherwise may not be decided within T."
    )
    return Section(
        "3", "Fig. 3: agents who refuse one offer in five, and nobody is banned",
        "The toy game; offers are taken with probability 0.8. δ = .01 in all three settings.",
        (Finding("OTI still always identifies the best arm, and even spends slightly less.", measured, truth),),
        drawn, "Bars: mean bonuses by agent and arm, one panel a setting, with 95 % error bars.", found.rows(),
    )  # fmt: skip


def _named(found: Found) -> list[tuple[str, Result]]:
    return [(cell.principal, result) for cell, result in found]


def _wrapped(name: str) -> str:
    return LABELS[name].replace(", ", ",\n").replace("no inc", "no\ninc")
