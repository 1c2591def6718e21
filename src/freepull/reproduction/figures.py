"""The paper's figures: 2(a), 2(b) and 3 on the game of 2 agents and 3 arms, 2(c) and 2(d) on costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl

from freepull import charts
from freepull.game import Game
from freepull.instances import toy
from freepull.reproduction.section import (
    SETTINGS,
    Finding,
    Found,
    Request,
    Section,
    compensated,
    figure,
    free,
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
from freepull.theory import cost_of, lower_bound, natural_pulls

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
    measured = {LABELS[name]: outcome(result) + compensated(result) for name, result in _named(found)}
    return Section(
        "2a", "Fig. 2(a): accuracy with and without incentives",
        "The toy game: agent 1 has means .89, .47, .01, agent 2 has .01, .47, .89; the best arm on average is "
        "the second, which is nobody's own. T = 10⁵, κ = T/2, α-UCB agents with α = 2. Beside C(T), which is in "
        "bonuses of 1, stands what the same pulls cost if agents are paid what they give up by their own records.",
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
        change = spread((result.frame["paid"] - before.frame["paid"]).to_list())
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


HORIZON = 100_000
SIZES = (30, 60, 90, 120)
PAPERS_OWN = {"paper": 0.1, "authors": 0.005}
"""σ of each setting; the certified rule is shown for both."""


def against_delta(request: Request) -> Section:
    """Fig. 2(c)."""
    found = gather("paper-2c", request)
    rows = found.rows().with_columns((-pl.col("delta").log()).round(2).alias("−ln δ"))
    limits = {delta: _limits(toy(), delta) for delta in rows["delta"].unique().to_list() if delta < 0.5}
    for i, name in enumerate(("lower_bound", "lower_money")):
        known = {delta: pair[i] for delta, pair in limits.items()}
        rows = rows.with_columns(
            pl.col("delta").replace_strict(known, default=None, return_dtype=pl.Float64).alias(name)
        )
    drawn = figure(11.0, 4.2, 2)
    charts.against(rows, "−ln δ", ax=drawn.axes[0], cost="paid")
    charts.against(rows.with_columns(lower_bound="lower_money"), "−ln δ", ax=drawn.axes[1])
    drawn.axes[0].set_title("bonuses of 1", fontsize=10)
    drawn.axes[1].set_title("the same pulls, compensated", fontsize=10)
    by_name = {name: rows.filter(pl.col("principal") == name) for name in found.principals()}
    return Section(
        "2c", "Fig. 2(c): cost against δ",
        "The toy game. The dotted lines are the reference lower bound (docs/statistics.md), a yardstick: with the "
        "free pulls up to κ, no principal can tell normal arms apart for less, in bonuses, and in money if everybody "
        "is paid its true gap. The percentages are the runs decided within T.",
        (
            Finding("The cumulative incentives are nearly proportional to log(1/δ).",
                    {name: _course(own, "paid") for name, own in by_name.items()}, _linear(rows)),
            Finding("Not in the paper: what the same pulls cost if agents are paid what they give up.",
                    {name: _course(own, "spent") for name, own in by_name.items()}, _cheaper(rows)),
        ),
        drawn, "Lines: bonuses, and what compensation costs, against −ln δ, one a setting, with 95 % intervals and the "
        "share decided.", rows,
    )  # fmt: skip


def _limits(game: Game, delta: float) -> tuple[float, float]:
    """The lower bound in bonuses, and in units of reward where everybody is paid its true gap."""
    free = natural_pulls(game.means, HORIZON // 2)
    cheapest = lower_bound(game, free, delta, game.losses)
    return float(lower_bound(game, free, delta).sum()), cost_of(cheapest, game.losses)


def _cheaper(rows: pl.DataFrame) -> str:
    """Tell which part of the bonuses compensation costs, and how far that is from the lower bound in money."""
    paid, spent = float(rows["paid"].sum()), float(rows["spent"].sum())
    known = rows.filter(pl.col("lower_money").is_not_null(), principal="certified")
    close = known.sort((pl.col("delta").log() - np.log(0.01)).abs()).head(1)
    bound = "".join(
        f" At δ = {row['delta']:.3g} the certified rule spends {told((row['spent'], row['spent_error']))}, and the "
        f"lower bound in money is {row['lower_money']:,.0f}."
        for row in close.iter_rows(named=True)
    )
    return (
        f"{100 * spent / max(paid, 1e-9):.0f} % of the bonuses of 1, over all settings together.{bound} Whether agents "
        "take such offers is another question: Lemma 1 in its extended form (docs/mechanics.md) has its conditions."
    )


def _course(rows: pl.DataFrame, cost: str) -> str:
    ends = [rows.sort("−ln δ").row(at, named=True) for at in (0, -1)]
    first, last = (f"{told((row[cost], row[f'{cost}_error']))} at δ = {row['delta']:.3g}" for row in ends)
    decided = " and ".join(f"{100 * row['decided']:.0f} %" for row in ends)
    return f"from {first} to {last}; decided {decided}"


def _linear(rows: pl.DataFrame) -> str:
    """Tell how far each setting is from a line, and the line from the origin."""
    sentences = []
    for name in rows["principal"].unique(maintain_order=True):
        own = rows.filter((pl.col("principal") == name) & (pl.col("decided") >= 0.9))
        if own.height < 3:
            what = "no" if rows.filter(pl.col("principal") == name)["decided"].max() == 0 else "hardly any"
            sentences.append(f"{name}: {what} run is decided, so the cost is what fits into T, whatever δ is.")
            continue
        x, y = own["−ln δ"].to_numpy(), own["paid"].to_numpy()
        slope, start = np.polyfit(x, y, 1)
        worst = float(np.abs(start + slope * x - y).max())
        sentences.append(
            f"{name}: a line {start:,.0f} + {slope:,.0f}·log(1/δ) fits within {worst:,.0f} where 90 % and more are "
            f"decided (−ln δ from {x.min():g} to {x.max():g}); "
            + ("nearly proportional." if start < 0.1 * y.max() else "not proportional.")
        )
    return " ".join(sentences)


def against_agents(request: Request) -> Section:
    """Fig. 2(d)."""
    found = gather("paper-2d", request)
    rows = found.rows()
    drawn = figure(9.6, 7.4, 2, rows=2)
    costs = {"paid": "bonuses of 1", "spent": "compensated"}
    for ax, (cost, sd) in zip(drawn.axes, product(costs, (0.1, 0.005)), strict=True):
        charts.against(rows.filter(pl.col("sd") == sd), "agents", ax=ax, cost=cost)
        ax.set_title(f"{costs[cost]}, σ = {sd:g} ({'the text' if sd == 0.1 else 'the authors’ code'})", fontsize=10)
        ax.set_xlabel("agents M")
    measured = {}
    for name in found.principals():
        for sd in (PAPERS_OWN[name],) if name in PAPERS_OWN else (0.1, 0.005):
            cells = [_cell(found, name, sd, agents) for agents in SIZES]
            measured[f"{name}, σ = {sd:g}"] = "; ".join(cells)
    return Section(
        "2d", "Fig. 2(d): cost against the number of agents",
        "K = 30, a fresh game every run, gaps between 4.5 and 5.5·10⁻³, one offer a step. The text has agents "
        "who differ with σ = .1, the authors' code σ = .005. At most T/2 = 50,000 bonuses can be paid. Every "
        "setting is drawn for both σ. A cost is told with what it is if agents are compensated, the share of runs that "
        "were decided and of those that paid nothing.",
        (Finding("Incentives diminish as M grows, and with 120 agents and more the principal spends none.", measured,
                 " ".join(filter(None, (_as_printed(found), _authors(found), _certified(found))))),),
        drawn, "Lines: bonuses, and what compensation costs, against M, by setting, a panel for each σ, with 95 % "
        "intervals and the share decided.", rows,
    )  # fmt: skip


def _cell(found: Found, name: str, sd: float, agents: int) -> str:
    result = found.get(name, sd=sd, agents=agents)
    assert result is not None
    return (
        f"M = {agents}: {told(mean(result, 'paid'))}{compensated(result)}, {percent(share(result, 'decided'))} "
        f"decided, {percent(free(result))} free"
    )


def _all(found: Found, name: str, sd: float) -> list[Result]:
    return [result for agents in SIZES if (result := found.get(name, sd=sd, agents=agents)) is not None]


def _as_printed(found: Found) -> str:
    cells = [result for sd in (0.1, 0.005) for result in _all(found, "paper", sd)]
    if not cells:
        return ""
    decided = sum(share(result, "decided")[0] for result in cells)
    paid = [mean(result, "paid")[0] for result in cells]
    if decided == 0:
        return (
            f"As printed, nothing diminishes: no run is decided at any M or σ, and {max(paid):,.0f} bonuses are paid."
        )
    return f"As printed, {decided} of {sum(share(result, 'decided')[1] for result in cells)} runs are decided."


def _authors(found: Found) -> str:
    narrow, wide = _all(found, "authors", 0.005), _all(found, "authors", 0.1)
    if not narrow:
        return ""
    unpaid = percent(free(narrow[-1]))
    return (
        f"“Free at M ≥ 120” needs the authors' setting: with their constant and σ = .005, {unpaid} of the runs pay "
        f"nothing at M = 120, and {told(mean(narrow[-1], 'paid'))} is paid on average; with σ = .1, as the text "
        f"says, it is {told(mean(wide[-1], 'paid'))}, and {percent(share(wide[-1], 'decided'))} of the runs are "
        "decided. The constant has no proof."
    )


def _certified(found: Found) -> str:
    told_of = []
    for sd in (0.1, 0.005):
        cells = _all(found, "certified", sd)
        if cells:
            shares = " / ".join(percent(share(result, "decided")) for result in cells)
            told_of.append(f"{shares} with σ = {sd:g}")
    if not told_of:
        return ""
    few = [f"{sd:g}" for sd in (0.1, 0.005) if all(2 * share(one, "decided")[0] < one.frame.height
           for one in _all(found, "certified", sd))]  # fmt: skip
    end = (
        f" With σ = {' and '.join(few)} that is a minority at every M: T is too short for one offer a step."
        if few
        else ""
    )
    return f"The certified rule decides {' and '.join(told_of)} of the runs (M = 30 / 60 / 90 / 120).{end}"
