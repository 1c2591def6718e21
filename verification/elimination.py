"""Part (a): how often a given best arm falls, case by case, under the certified rule and beside it under others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import freepull as fp

from .by_driver import by_driver, paper_by_driver, z_test_by_driver
from .by_engine import by_engine
from .covered import DESIGNS, EPSILON, PLAIN, SHARP, Case, cover
from .found import Found
from .judging import LEVELS, Rate
from .peeking_adversary import CHOOSES_SIZES, HONEST, TAKES_ALL

SEED = 1_000
DELTA = 0.05
"""The δ of the rules that are compared; the certified one is judged at all levels."""
PAPER = {
    "equation": fp.rules.Paper(DELTA),
    "finite_time": fp.rules.Paper(DELTA, "finite_time"),
    "simplified": fp.rules.Paper(DELTA, "simplified"),
    "authors' ×0.1": fp.rules.Paper(DELTA, "simplified", 0.1),
}
OTHERS = [*PAPER, "z-test"]
FREEZING = [
    replace(PLAIN, agents=agents, arms=arms, strategy="freezers", watched=0.5)
    for agents in (2, 10, 120, 500)
    for arms in (2, 3)
]
CONTEST = [replace(PLAIN, agents=agents, design="long rounds", watched=1.0) for agents in (10, 120)]
"""Where designs look at what waits: nobody is paid, and the rule looks for the first time at T/2."""

MOVED = [
    (replace(PLAIN, agents=agents, arms=arms, strategy=strategy, law=law, watched=watched), gamma, follows)
    for agents, arms, strategy, law, watched, gamma, follows in (
        (2, 2, "α-UCB", "coins .5", 0.1, 0.06, False),
        (10, 3, "α-UCB", "coins .5", 0.1, 0.03, False),
        (10, 3, "ε-greedy", "Beta(.1, .1)", 0.1, 0.03, True),
        (120, 2, "α-UCB", "coins .98", 0.1, 0.01, False),
        (120, 3, "freezers", "coins .5", 0.5, 0.03, False),
        (500, 2, "α-UCB", "coins .5", 0.1, 0.03, True),
    )
]
"""Exact ties in which the mean of every sample is moved by γ, and whether that follows what was seen."""


@dataclass(frozen=True)
class Row:
    """One case under the certified rule: runs, rounds closed, and failures at every level; and under others."""

    case: Case
    runs: int
    certified: Found
    others: dict[str, Rate]

    def rates(self) -> list[Rate]:
        """Failures of the certified rule at every level: sup of the evidence ≥ 1/δ'."""
        return [Rate(self.case.name, self.runs, int((self.certified.peaks >= 1 / d).sum()), d) for d in LEVELS]


def certified(case: Case, runs: int, seed: int) -> Found:
    """Run the certified rule at δ = .01, on the engine where it can play the case."""
    rule = fp.rules.Certified(0.01, design=DESIGNS[case.design])
    return by_engine(case, rule, runs, seed) if case.compiled else by_driver(case, rule, runs, seed)


def others(case: Case, runs: int, seed: int) -> dict[str, Rate]:
    """The paper's bounds and a z-test; none of them knows weights."""
    if case.weights != "equal":
        return {}
    found = {name: _paper(case, rule, runs, seed) for name, rule in PAPER.items()}
    found["z-test"] = z_test_by_driver(case, DELTA, runs, seed)
    return {name: Rate(case.name, runs, int(one.gone.sum()), DELTA) for name, one in found.items()}


def _paper(case: Case, rule: fp.rules.Paper, runs: int, seed: int) -> Found:
    return by_engine(case, rule, runs, seed) if case.compiled else paper_by_driver(case, rule, runs, seed)


def false_elimination(cases: list[Case], scale: float, say: Callable[[str], None]) -> list[Row]:
    """Play all cases; ``scale`` is the share of the runs."""
    rows = []
    for i, case in enumerate(cases):
        say(f"{i + 1} of {len(cases)}: {case.name}")
        runs = max(20, int(case.runs * scale))
        beside = others(case, max(20, int(500 * scale)), SEED + i)
        rows.append(Row(case, runs, certified(case, runs, SEED + i), beside))
    return rows


def freezing(scale: float) -> list[Row]:
    """Freezers, exact ties: all rules side by side."""
    runs = max(100, int(3_000 * scale))
    rows = []
    for i, case in enumerate(FREEZING):
        seed = SEED + 500 + i
        rows.append(Row(case, runs, certified(case, runs, seed), others(case, runs, seed)))
    return rows


def moved(scale: float) -> dict[str, list[Rate]]:
    """Assumptions that are wrong by γ, with a rule that allows for it and with one that does not."""
    runs, found = max(100, int(3_000 * scale)), dict[str, list[Rate]]()
    for i, (case, gamma, follows) in enumerate(MOVED):
        for robust in (gamma, 0.0):
            rule = fp.rules.Certified(0.01, robust=robust)
            seen = by_driver(case, rule, runs, SEED + 700 + i, gamma=gamma, follows=follows)
            who = f"{case.agents}×{case.arms}, {case.strategy}, {case.law}, ± {gamma:g}" + ", follows" * follows
            rates = [Rate(who, runs, int((seen.peaks >= 1 / d).sum()), d) for d in LEVELS]
            found.setdefault("robust" if robust else "plain", []).extend(rates)
    return found


def up_to_epsilon(scale: float) -> list[Rate]:
    """All arms but the tested one are ε worse, the least that must not be named: how often one could have been."""
    runs, found = max(20, int(3_000 * scale)), list[Rate]()
    near = [case for case in cover() if case.gap == "near tie" and case.arms < 30 and case.law != "coins .02"]
    for i, case in enumerate(replace(case, gap="ε worse") for case in (*SHARP, *near)):
        rule = fp.rules.Certified(0.01, design=DESIGNS[case.design], epsilon=EPSILON)
        play = by_engine if case.compiled else by_driver
        seen = play(case, rule, runs, SEED + 600 + i)
        found += [Rate(case.name, runs, int((seen.peaks >= 1 / d).sum()), d) for d in LEVELS]
    return found


def contest(scale: float) -> dict[str, list[Rate]]:
    """Honest and forbidden designs on the same samples."""
    runs, found = max(200, int(3_000 * scale)), dict[str, list[Rate]]()
    for case in CONTEST:
        freezers = replace(case, strategy="freezers")
        for name, one, how in (
            ("honest", case, HONEST),
            ("honest", freezers, HONEST),
            ("block sizes chosen after a look", case, CHOOSES_SIZES),
            ("blocks of all that waits", freezers, TAKES_ALL),
        ):
            rule = fp.rules.Certified(0.01, design=DESIGNS[one.design])
            seen = by_driver(one, rule, runs, SEED + 900, first_look=one.horizon // 2, peeks=how)
            who = f"{one.agents} agents, {one.strategy}"
            rates = [Rate(who, runs, int((seen.peaks >= 1 / d).sum()), d) for d in LEVELS]
            found.setdefault(name, []).extend(rates)
    return found
