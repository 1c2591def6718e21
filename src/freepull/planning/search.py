"""The plan by simulation: runs shared by all variants, curves over budgets and times, and the search along them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from freepull.planning.forecast import Forecast
from freepull.planning.formulas import First
from freepull.planning.question import Case
from freepull.principal.rules import Certified, Comparisons
from freepull.principal.schedules import Share

FIRST, MOST = 40, 4096
"""Runs of the trial itself: in its first batch, with which a 95 % range has ends, and at most."""
LEAST, POINT = 32, 256
"""Runs of a variant: this many at least, or none, and at most."""
STEPS, DEARER = 30_000_000, 8
"""With a fixed number of runs, a variant may take this many steps of agents, or this many times those of the trial."""
HASTE = 3.0
"""A variant whose first runs seem to take this many times its share of the time is left out."""


@dataclass
class Work:
    """A clock, and what a run has cost so far."""

    seconds: float
    runs: int | None
    """This many runs, whatever they take; None: as many as are needed and fit."""
    tell: Callable[[str], None] = lambda _: None
    """Told what is being done."""
    began: float = field(default_factory=time.perf_counter)
    cost: float = 0.0
    """Seconds that one step of one agent takes."""
    interrupted: bool = False
    """Whether the runs of the trial itself were cut short by Ctrl-C."""
    own: int = 0
    """Steps that a variant may take with a fixed number of runs."""
    ready: set[type] = field(default_factory=set)
    """Rules whose kernels have been compiled and loaded; that is not part of the time."""

    def first(self, case: Case) -> Forecast:
        """Simulate the first runs of the trial itself."""
        return self._batch(case, 0, FIRST)

    def trial(self, case: Case, share: float, found: Forecast | None = None) -> Forecast:
        """Simulate the trial itself, from ``found`` on, until its range is tight or its share of the time is over."""
        if self.runs is not None:
            self.own = DEARER * self.runs * case.agents * case.horizon
            if found is None:
                return self._batch(case, 0, self.runs)
            more = self.runs - found.runs
            return found.joined(self._batch(case, found.runs, more)) if more else found
        found = found or self.first(case)
        while not found.tight and found.runs < MOST:
            self.tell(f"the trial itself, {found.runs:,} runs so far")
            left = share * self.seconds - (time.perf_counter() - self.began)
            more = min(found.runs, MOST - found.runs, max(FIRST, int(left / self._price(case))))
            if left <= 0:
                break
            try:
                found = found.joined(self._batch(case, found.runs, more))
            except KeyboardInterrupt:
                self.interrupted = True
                break
        return found

    def point(self, case: Case, seconds: float) -> Forecast | None:
        """Simulate a variant for about this many seconds; None if that is far too short."""
        if self.runs is not None:
            runs = min(self.runs, POINT, max(self.own, STEPS) // (case.agents * case.horizon))
            return self._batch(case, 0, runs) if runs >= min(self.runs, LEAST) else None
        if type(case.principal.rule) in self.ready and LEAST * self._price(case) > HASTE * seconds:
            return None
        began = time.perf_counter()
        found = self._batch(case, 0, LEAST)
        while found.runs < POINT and 2 * (time.perf_counter() - began) < seconds:
            found = found.joined(self._batch(case, found.runs, min(found.runs, POINT - found.runs)))
        return found

    def left(self, share: float) -> float:
        """Seconds that are left until this share of the time is over."""
        return self.began + share * self.seconds - time.perf_counter()

    def _price(self, case: Case) -> float:
        return max(self.cost * case.agents * case.horizon, 1e-9)

    def _batch(self, case: Case, start: int, runs: int) -> Forecast:
        began, kind = time.perf_counter(), type(case.principal.rule)
        if kind not in self.ready:
            case.forecast([start])
            self.ready.add(kind)
            self.began += time.perf_counter() - began
            began = time.perf_counter()
        found = case.forecast(range(start, start + runs))
        self.cost = (time.perf_counter() - began) / (runs * case.agents * case.horizon)
        return found


CHANCE = 0.95
"""What counts as sure enough."""
CLOSE = 1.25
"""How near the search comes to the number of agents."""
LARGEST = 1 << 10
"""The search goes up to this many times the planned number of agents."""
TIMES = (0.25, 0.5, 2.0, 4.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
DELTAS = (0.1, 0.05, 0.01, 0.001)
TOLERANCES = (0.0, 0.02, 0.05)
CAPS = (1.0, 3.0, 10.0, math.inf)


@dataclass(frozen=True)
class Point:
    """One variant of the trial."""

    x: float
    """The quantity that is varied."""
    forecast: Forecast
    planned: bool = False
    """Whether it is the trial itself."""


@dataclass(frozen=True)
class Curve:
    """What trials pay, and how often they are certified, against one quantity."""

    quantity: str
    points: tuple[Point, ...]
    complete: bool = True
    """Whether there was time for all points."""

    def after(self) -> Point | None:
        """Return the next point after the trial itself, if there is one."""
        return self._beside(self.points)

    def before(self) -> Point | None:
        """Return the last point before the trial itself, if there is one."""
        return self._beside(self.points[::-1])

    @staticmethod
    def _beside(points: tuple[Point, ...]) -> Point | None:
        return next((point for own, point in pairwise(points) if own.planned), None)


Variant = tuple[float, Case]


def horizons(case: Case) -> Iterator[Variant]:
    """Shorter and longer trials."""
    for times in TIMES:
        horizon = int(times * case.horizon)
        if horizon >= 2 * case.arms:
            yield horizon, replace(case, horizon=horizon)


def observing(case: Case) -> Iterator[Variant]:
    """Shorter and longer observing phases, as shares of the horizon."""
    for rho in SHARES:
        yield rho, replace(case, principal=replace(case.principal, observe=Share(rho)))


def deltas(case: Case) -> Iterator[Variant]:
    """Smaller and larger δ."""
    for delta in DELTAS:
        yield delta, replace(case, principal=replace(case.principal, rule=replace(_rule(case), delta=delta)))


def epsilons(case: Case, gap: float) -> Iterator[Variant]:
    """Best up to ε."""
    own = _rule(case)
    usual = [min(round(times * gap, 9), 1.0) for times in (0.0, 0.5, 1.0, 2.0)]
    for epsilon in TOLERANCES if isinstance(own, Comparisons) else usual:
        yield epsilon, replace(case, principal=replace(case.principal, rule=replace(own, epsilon=epsilon)))


def caps(case: Case) -> Iterator[Variant]:
    """At most so many comparisons of one agent."""
    own = _rule(case)
    assert isinstance(own, Comparisons)
    for cap in CAPS:
        rule = replace(own, cap=None if cap == math.inf else int(cap))
        yield cap, replace(case, principal=replace(case.principal, rule=rule))


def _rule(case: Case) -> Certified | Comparisons:
    rule = case.principal.rule
    assert isinstance(rule, Certified | Comparisons)
    return rule


def curve(quantity: str, variants: Iterator[Variant], own: Point | None, work: Work, share: float) -> Curve:
    """Simulate the variants until this share of the time is over; the trial itself is a point already."""
    todo = [(x, case) for x, case in variants if own is None or x != own.x]
    points, complete = [] if own is None else [own], True
    for i, (x, case) in enumerate(todo):
        work.tell(f"{quantity} {x:g}")
        found = work.point(case, work.left(share) / (len(todo) - i))
        complete = complete and found is not None
        if found is not None:
            points.append(Point(x, found))
    return Curve(quantity, tuple(sorted(points, key=lambda point: point.x)), complete)


class Panels:
    """Trials with other numbers of agents, simulated when they are asked for."""

    def __init__(self, case: Case, own: Forecast, work: Work, seconds: float) -> None:
        self.case, self.work, self.seconds = case, work, seconds
        self.found: dict[int, Forecast] = {case.agents: own}

    def at(self, agents: int) -> Forecast | None:
        """Return the forecast for this many agents; None if nothing is believed of them, or time is short."""
        if agents not in self.found:
            case = self.case.sized(agents)
            self.work.tell(f"{agents:,} agents")
            found = None if case is None else self.work.point(case, self.seconds)
            if found is None:
                return None
            self.found[agents] = found
        return self.found[agents]

    def smallest(self, chance: Callable[[Forecast], float], guess: float) -> int | None:
        """Search for the least number of agents with a chance of at least 95 %; None if it was not found.

        ``guess`` is where to look first if more agents are needed.
        """
        bracket = self._bracket(chance, guess)
        if bracket is None:
            return None
        low, high = bracket
        while high / low > CLOSE and high - low > 1:
            middle = round((low * high) ** 0.5)
            found = self.at(middle)
            if found is None:
                break
            low, high = (low, middle) if chance(found) >= CHANCE else (middle, high)
        return high

    def _bracket(self, chance: Callable[[Forecast], float], guess: float) -> tuple[int, int] | None:
        """Return a number that is too small and one that is not; the same one twice if nothing smaller is known."""
        low = high = self.case.agents
        most = LARGEST * high
        if chance(self.found[high]) >= CHANCE:
            while low > 1:
                found = self.at(low // 2)
                if found is None:
                    return high, high
                low //= 2
                if chance(found) < CHANCE:
                    break
                high = low
            return low, high
        high = int(min(max(2 * low, guess), most))  # what is not a number is never the larger one
        while (found := self.at(high)) is not None:
            if chance(found) >= CHANCE:
                return low, high
            low, high = high, 2 * high
            if high > most:
                break
        return None

    def curve(self) -> Curve:
        """All numbers of agents that were tried."""
        own = self.case.agents
        return Curve(
            "agents", tuple(Point(agents, found, agents == own) for agents, found in sorted(self.found.items()))
        )


OWN, OBSERVING, DELTA, EPSILON, CAP, HORIZON, AGENTS = 0.3, 0.38, 0.45, 0.52, 0.56, 0.6, 1.0
"""What share of the time is over after each part."""
PANELS = 8
"""How many numbers of agents are tried, about."""
ORDER = ("agents", "horizon", "observing", "delta", "epsilon", "cap")


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


def simulated(case: Case, at_once: First, work: Work, with_curves: bool, begun: Forecast | None = None) -> Simulated:
    """Simulate, going on from the first runs if these were done."""
    found = Simulated(begun)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="interrupted: ")
        try:
            found.forecast = work.trial(case, OWN if with_curves else 1.0, begun)
            found.interrupted = work.interrupted
            if with_curves and not found.interrupted:
                _fill(found, found.forecast, case, at_once, work)
        except KeyboardInterrupt:
            found.interrupted = True
    found.curves = {name: found.curves[name] for name in ORDER if name in found.curves}
    return found


def _fill(found: Simulated, own: Forecast, case: Case, at_once: First, work: Work) -> None:
    principal = case.principal
    observed = Point(principal.observe.rho, own, True) if isinstance(principal.observe, Share) else None
    delta = Point(float(principal.rule.delta or 0.0), own, True)
    horizon = Point(case.horizon, own, True)
    gap = case.beliefs.centre().minimum_gap
    found.curves["observing"] = curve("observing", observing(case), observed, work, OBSERVING)
    found.curves["delta"] = curve("delta", deltas(case), delta, work, DELTA)
    rule = principal.rule
    if gap > 0 or isinstance(rule, Comparisons):
        epsilon = Point(_rule(case).epsilon, own, True)
        found.curves["epsilon"] = curve("epsilon", epsilons(case, gap), epsilon, work, EPSILON)
    if isinstance(rule, Comparisons):
        cap = Point(math.inf if rule.cap is None else float(rule.cap), own, True)
        found.curves["cap"] = curve("cap", caps(case), cap, work, CAP)
    found.curves["horizon"] = curve("horizon", horizons(case), horizon, work, HORIZON)
    if case.sized(2 * case.agents) is None:
        return
    panels = Panels(case, own, work, max(work.left(AGENTS), 0.0) / PANELS)
    try:
        found.agents_needed = panels.smallest(lambda forecast: forecast.chance[0], at_once.agents_needed)
        free = panels.smallest(lambda forecast: forecast.free, at_once.agents_free)
        found.agents_free = free if free is None else max(free, found.agents_needed or 0)  # free are certified ones
    finally:
        found.curves["agents"] = panels.curve()
