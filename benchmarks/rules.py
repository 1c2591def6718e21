"""What the rules cost beside the paper's: time per agent-step while paying, 120 agents and 30 arms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import freepull as fp

from . import ours, street
from .cases import INCENTIVIZING_LARGE, Case
from .findings import Effort, Findings, ns
from .timing import in_turn

BAR = 2.0
STRICT = 1e-90
"""Strict enough that nothing is eliminated: all arms stay in, the most work."""


FIRST = 3_000
"""Steps after the first look, in which the certified rule catches up with all the samples that waited for it."""


def measure(found: Findings, effort: Effort) -> None:
    """How many times as long as the paper's rule, on the same game and steps: all that follow half of the horizon."""
    half = INCENTIVIZING_LARGE.horizon // 2
    for offers in ("one", "each"):
        paper = replace(INCENTIVIZING_LARGE, offers=offers, first=half + 1, last=2 * half)
        rule = fp.rules.Certified(STRICT)
        ratio, detail = _beside(paper, replace(paper, rule=rule), effort)
        part, what = "times the paper's rule", f"Certified, offers {offers}, {paper.name}"
        found.at_most(part, what, ratio, BAR, "×", detail)
        early = replace(paper, last=half + FIRST)
        ratio, detail = _beside(early, replace(early, rule=rule), effort)
        found.plain(part, f"{what}, the first {FIRST:,} steps", f"{ratio:.3g}×", detail)
    our, its = street.beside_paper(effort.few)
    what, detail = "Comparisons, offers each, street panel, per act", f"{ns(our.median)} beside {ns(its.median)}"
    found.at_most("times the paper's rule", what, our.ratio(its), street.BAR, "×", detail)


def _beside(paper: Case, case: Case, effort: Effort) -> tuple[float, str]:
    our, its = in_turn([partial(ours.measure, case), partial(ours.measure, paper)], effort.few)
    return our.ratio(its), f"{ns(our.median)} beside {ns(its.median)}"
