"""How the cost of one agent-step grows as M, K and T grow tenfold."""

from __future__ import annotations

from functools import partial

from . import ours
from .cases import Case
from .findings import Effort, Findings
from .timing import in_turn

PHASES = ("observing", "incentivizing")
FLAT = 20.0
PART = "ns per agent-step as one size grows tenfold"


def measure(found: Findings, effort: Effort) -> None:
    """Add a row for each phase and each size."""
    for phase in PHASES:
        by_agents = [Case(phase, M, 30, 1_000 // M, 1_001, 2_000) for M in (10, 100, 1_000)]
        _row(found, effort, f"{phase}, M = 10, 100, 1000 (K = 30)", by_agents)
    for phase in PHASES:
        by_arms = [Case(phase, 100, K, 2, 1_001, 2_000) for K in (3, 30, 300)]
        _row(found, effort, f"{phase}, K = 3, 30, 300 (M = 100)", by_arms)
    for agents, arms, runs in ((2, 3, 32), (120, 30, 1)):
        for phase in PHASES:
            by_steps = [_long(phase, agents, arms, runs, T) for T in (10_000, 100_000, 1_000_000)]
            if effort.quick:
                by_steps.pop()
            what = f"{phase} {agents}×{arms}, T = {', '.join(f'{case.horizon:.0e}' for case in by_steps)}"
            _row(found, effort, what.replace("e+0", "e"), by_steps, flat=True)


def _long(phase: str, agents: int, arms: int, runs: int, T: int) -> Case:
    """The first half of a run, or the second; several runs where they are short."""
    first, last = (1, T // 2) if phase == "observing" else (T // 2 + 1, T)
    return Case(phase, agents, arms, runs * max(1, 100_000 // T), first, last, T)


def _row(found: Findings, effort: Effort, what: str, cases: list[Case], flat: bool = False) -> None:
    repeats = max(1, effort.few // 2) if flat else effort.few
    samples = in_turn([partial(ours.measure, case) for case in cases], repeats, warm_up=not flat)
    medians = [sample.median for sample in samples]
    figures = " → ".join(f"{x:.3g}" for x in medians)
    if flat:
        rise = 100.0 * max(later / one - 1.0 for i, one in enumerate(medians) for later in medians[i + 1 :])
        found.at_most(PART, what, rise, FLAT, " % more", figures)
    else:
        found.plain(PART, what, figures)
