"""The second answer: simulation of the trial itself, then of its variants, in the time that there is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from freepull.planning import curves
from freepull.planning.case import Case
from freepull.planning.curves import Curve, Panels, Point, curve
from freepull.planning.first import First
from freepull.planning.forecast import Forecast
from freepull.planning.work import Work
from freepull.principal.rules import Pairwise
from freepull.principal.schedules import Share

OWN, OBSERVING, DELTA, EPSILON, HORIZON, AGENTS = 0.3, 0.38, 0.45, 0.52, 0.6, 1.0
"""What share of the time is over after each part."""
PANELS = 8
"""How many numbers of agents are tried, about."""
ORDER = ("agents", "horizon", "observing", "delta", "epsilon")


@dataclass
class Simulated:
    """What was found; whatever was finished is kept if it is interrupted."""

    forecast: Forecast | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    agents_needed: int | None = None
    agents_free: int | None = None
    interrupted: bool = False

    @property
    def most_agents(self) -> float:
        """The largest panel that was simulated."""
        return max((point.x for point in self.curves["agents"].points), default=0) if "agents" in self.curves else 0


def simulated(case: Case, at_once: First, work: Work, with_curves: bool) -> Simulated:
    """Simulate."""
    found = Simulated()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted: ")
        try:
            found.forecast = work.trial(case, OWN if with_curves else 1.0)
            found.interrupted = work.interrupted
            if with_curves and not found.interrupted:
                _fill(found, found.forecast, case, at_once, work)
        except KeyboardInterrupt:
            found.interrupted = True
    found.curves = {name: found.curves[name] for name in ORDER if name in found.curves}
    return found


def _fill(found: Simulated, own: Forecast, case: Case, at_once: First, work: Work) -> None:
    principal = case.principal
    observing = Point(principal.observe.rho, own, True) if isinstance(principal.observe, Share) else None
    delta = Point(float(principal.rule.delta or 0.0), own, True)
    horizon = Point(case.horizon, own, True)
    gap = case.beliefs.centre().minimum_gap
    found.curves["observing"] = curve("observing", curves.observing(case), observing, work, OBSERVING)
    found.curves["delta"] = curve("delta", curves.deltas(case), delta, work, DELTA)
    if gap > 0:
        rule = principal.rule
        epsilon = Point(rule.epsilon, own, True) if isinstance(rule, Pairwise) else None
        found.curves["epsilon"] = curve("epsilon", curves.epsilons(case, gap), epsilon, work, EPSILON)
    found.curves["horizon"] = curve("horizon", curves.horizons(case), horizon, work, HORIZON)
    if case.sized(2 * case.agents) is None:
        return
    panels = Panels(case, own, work, max(work.left(AGENTS), 0.0) / PANELS)
    try:
        found.agents_needed = panels.smallest(lambda forecast: forecast.chance[0], at_once.agents_needed)
        free = panels.smallest(lambda forecast: forecast.free, at_once.agents_free)
        found.agents_free = free if free is None else max(free, found.agents_needed or 0)  # free are certified ones
    finally:
        found.curves["agents"] = panels.curve()
