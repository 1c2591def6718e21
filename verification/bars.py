"""The bars: what must hold for the suite to pass."""

from __future__ import annotations

import math

import numpy as np

from . import crowds, money
from .checked import CHECKS
from .costs import Cost
from .elimination import DELTA
from .judging import Bars, Rate
from .results import Results
from .settings import AFTER, AUTHORS, ORACLE, PLANNED, up_to

ERRORS, CHECKED, DISPLAYED, COSTS = "error rates", "checks of assumptions", "displayed bounds", "costs"


def judge(found: Results) -> Bars:
    """Hold everything that was measured against its bar."""
    bars = Bars()
    _errors(bars, found)
    _checked(bars, found)
    _displayed(bars, found)
    _costs(bars, found)
    crowds.judge_costs(bars, found.crowds)
    money.judge(bars, found.money)
    return bars


def _errors(bars: Bars, found: Results) -> None:
    bars.holds(ERRORS, "a given best arm falls, Certified", [r for row in found.rows for r in row.rates()])
    bars.holds(ERRORS, "freezers, Certified", [r for row in found.freezing for r in row.rates()])
    many = [row for row in found.freezing if row.case.agents >= 10]
    bars.breaks(ERRORS, "freezers with 10 agents or more break the authors' constant",
                [row.others["authors' ×0.1"] for row in many])  # fmt: skip
    bars.breaks(ERRORS, "freezers break the z-test", [row.others["z-test"] for row in found.freezing])
    proven = [row.others[name] for row in found.freezing for name in ("equation", "finite_time")]
    bars.holds(ERRORS, "freezers, the paper's equation and finite_time", proven)
    bars.holds(ERRORS, "the rule waits, then looks: honest designs", found.contest["honest"])
    for name in ("block sizes chosen after a look", "blocks of all that waits"):
        bars.breaks(ERRORS, f"forbidden design: {name}", [found.contest[name][i] for i in (-3, -2, -1)])
    bars.holds(ERRORS, "every mean moved by γ, Certified(robust=γ)", found.moved["robust"])
    bars.breaks(ERRORS, "every mean moved by γ breaks Certified without it", found.moved["plain"])
    bars.holds(ERRORS, "an arm is named that is not best up to ε, Certified(epsilon=ε)", found.near)
    bars.holds(ERRORS, "a best arm of the population loses, Population",
               [rate for _, rule, rate in found.population if rule == "Population"])  # fmt: skip
    spread = [rate for panel, rule, rate in found.population if rule != "Population" and "sd" in panel]
    bars.breaks(ERRORS, "the panel's rule is wrong about the population", spread)
    bars.holds(ERRORS, "people who leave when pleased, Comparisons", [found.leavers["Comparisons"]])
    parked, dropped = found.ignoring.values()
    bars.holds(ERRORS, "people who ignore offers of an arm that disappointed them, parked", [parked])
    bars.breaks(ERRORS, "the same people, parked and then dropped by hand", [dropped])
    crowds.judge_errors(bars, found.crowds, ERRORS)
    money.judge_errors(bars, found.money, ERRORS)


def judge_crowds(found: crowds.Crowds) -> Bars:
    """Hold the rule for people as they are against its bars, alone."""
    bars = Bars()
    crowds.judge_errors(bars, found, ERRORS)
    crowds.judge_costs(bars, found)
    return bars


def judge_money(found: money.Money) -> Bars:
    """Hold what is spent against its bars, alone."""
    bars = Bars()
    money.judge_errors(bars, found, ERRORS)
    money.judge(bars, found)
    return bars


def _checked(bars: Bars, found: Results) -> None:
    for i, name in enumerate(CHECKS):
        bars.holds(CHECKED, f"false alarms: {name}", [alarms.rates[i] for alarms in found.false_alarms])
    bars.breaks(
        CHECKED, "pairing what is there raises false alarms", [alarms.rates[3] for alarms in found.false_alarms]
    )
    for world, at, least in (
        ("a step moves all means by ± 0.1", 0, 0.95), ("a step moves all means by ± 0.05", 0, 0.5),
        ("means move by +0.2 over the trial", 1, 0.9), ("means move by -0.2 over the trial", 1, 0.9),
        ("a paid pull is worth +0.1", 2, 0.6), ("a paid pull is worth -0.1", 2, 0.6),
    ):  # fmt: skip
        rate = next(alarms.rates[at] for alarms in found.seen if alarms.world.name == world)
        told = f"{rate.failures} of {rate.runs}"
        bars.number(CHECKED, f"seen: {world}, {CHECKS[at]}", f"≥ {least:.0%}", told, rate.share >= least)


def _displayed(bars: Bars, found: Results) -> None:
    rates = [Rate(d.game, d.runs, d.wrong, d.bound) for d in found.displayed]
    what = "Certified: worse by more than x, each arm, at a random step and at the worst moment"
    bars.holds(DISPLAYED, what, rates)


def _costs(bars: Bars, found: Results) -> None:
    for setting, rule, most in (
        ("toy", AFTER, 15_000), ("toy", PLANNED, 13_500), ("500 people", AFTER, 420),
        ("2,000 people, gap .02", AFTER, 4_500), ("K = 30, σ = 0.1, M = 30", AFTER, 560_000),
        ("K = 30, σ = 0.1, M = 120", AFTER, 320_000), ("2,000 people, gap .02", up_to(0.01), 900),
        ("2,000 people, gap .02", up_to(0.02), 80),
    ):  # fmt: skip
        cost = found.cost(setting, rule)
        if cost is not None:
            told = f"{cost.mean:,.0f} ± {cost.error:,.0f} ({cost.runs} runs)"
            bars.number(COSTS, f"{setting}, {rule}: mean", f"≤ {most:,}", told, cost.mean <= most)
    for setting, rule, least in (
        ("toy", AFTER, 0.99), ("500 people", AFTER, 0.99), ("2,000 people, gap .02", AFTER, 0.95),
        ("2,000 people, gap .02", up_to(0.01), 0.99), ("2,000 people, gap .02", up_to(0.02), 0.99),
    ):  # fmt: skip
        cost = found.cost(setting, rule)
        if cost is not None:
            share = cost.decided / cost.runs
            bars.number(COSTS, f"{setting}, {rule}: decided", f"≥ {least:.0%}", f"{share:.1%}", share >= least)
    people = found.cost("500 people", AFTER)
    if people is not None:
        bars.number(COSTS, "500 people: median", "≤ 60", f"{people.median:,.0f}", people.median <= 60)
    for agents in (30, 120):
        _against_authors(bars, found, f"K = 30, σ = 0.1, M = {agents}")
    proven = [cost for cost in found.costs if cost.rule not in (AUTHORS, ORACLE)]
    wrong = [Rate(c.setting, c.runs, c.decided - c.correct, _delta(c)) for c in proven]
    worst = max(wrong, key=lambda rate: rate.share / rate.bound)
    told = f"most: {worst.failures} of {worst.runs} ({worst.what})"
    bars.number(COSTS, "wrong verdicts of the proven rules", "lower limit ≤ δ", told, not any(r.broken for r in wrong))


def _against_authors(bars: Bars, found: Results, setting: str) -> None:
    """The difference on the same games, with its standard error."""
    ours, theirs = found.cost(setting, AFTER), found.cost(setting, AUTHORS)
    if ours is None or theirs is None:
        return
    difference = ours.paid - theirs.paid
    error = float(np.std(difference, ddof=1)) / math.sqrt(len(difference))
    told = f"{difference.mean():,.0f} ± {error:,.0f}"
    bars.number(COSTS, f"{setting}: Certified − authors' ×0.1, same games", "≤ 0", told, difference.mean() <= 0)


def _delta(cost: Cost) -> float:
    return DELTA if "people" in cost.setting else 0.01
