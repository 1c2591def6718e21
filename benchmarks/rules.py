"""What the rules cost beside the paper's: time per agent-step while paying, 120 agents and 30 arms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import ours
from cases import INCENTIVIZING_LARGE
from findings import Effort, Findings, ns
from timing import in_turn

import freepull as fp

BAR = 2.0
STRICT = 1e-90
"""Strict enough that nothing is eliminated: all arms stay in, the most work."""


def measure(found: Findings, effort: Effort) -> None:
    """How many times as long as the paper's rule, on the same game and steps: the first after half of the horizon."""
    half = INCENTIVIZING_LARGE.horizon // 2
    for offers in ("one", "each"):
        paper = replace(INCENTIVIZING_LARGE, offers=offers, first=half + 1, last=half + 3_000)
        for name, rule in (("Certified", fp.rules.Certified(STRICT)), ("Pairwise", fp.rules.Pairwise(STRICT))):
            case = replace(paper, rule=rule)
            our, its = in_turn([partial(ours.measure, case), partial(ours.measure, paper)], effort.few)
            part, what = "times the paper's rule", f"{name}, offers {offers}, {case.name}"
            detail = f"{ns(our.median)} beside {ns(its.median)}"
            if name == "Certified":
                found.at_most(part, what, our.ratio(its), BAR, "×", detail)
            else:
                found.plain(part, what, f"{our.ratio(its):.3g}×", detail)
