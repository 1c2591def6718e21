"""The second answer: simulation of the trial itself, then of its variants, in the time that there is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from freepull.planning import curves
from freepull.planning.curves import Curve, Panels, Point, curve
from freepull.planning.forecast import Case, Forecast
from freepull.planning.work import Work
from freepull.principal.schedules import Share

PANELS, OTHERS = 0.2, 0.25
"""Shares of the time left for one more panel, and for one more curve."""


@dataclass
class Simulated:
    """What was found; whatever was finished is kept if it is interrupted."""

    forecast: Forecast | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    agents_needed: int | None = None
    agents_free: int | None = None
    interrupted: bool = False


def simulated(case: Case, work: Work, with_curves: bool) -> Simulated:
    """Simulate."""
    found = Simulated()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted: ")
        try:
            _fill(found, case, work, with_curves)
        except KeyboardInterrupt:
            found.interrupted = True
    return found


def _fill(found: Simulated, case: Case, work: Work, with_curves: bool) -> None:
    work.tell("the trial itself")
    own = found.forecast = work.trial(case)
    if not with_curves:
        return
    principal = case.principal
    rule, delta = principal.rule, float(principal.rule.delta or 0.0)
    rho = principal.observe.rho if isinstance(principal.observe, Share) else None
    observing = None if rho is None else Point(rho, own, planned=True)
    found.curves["observing"] = curve("observing", curves.observing(case), observing, work, OTHERS)
    found.curves["delta"] = curve("delta", curves.deltas(case), Point(delta, own, True), work, OTHERS)
    found.curves["horizon"] = curve("horizon", curves.horizons(case), Point(case.horizon, own, True), work, OTHERS)
    gap = case.beliefs.centre().minimum_gap
    if gap > 0:
        found.curves["epsilon"] = curve("epsilon", curves.epsilons(case, gap), None, work, OTHERS)
    panels = Panels(case, own, work)
    if case.sized(2 * case.agents) is not None:
        found.agents_needed = panels.smallest(lambda forecast: forecast.chance[0], PANELS)
        found.agents_free = panels.smallest(lambda forecast: forecast.free, PANELS)
        found.curves["agents"] = panels.curve()
