"""How a forecast changes with the number of agents, the horizon, the observing phase, δ and ε."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from freepull.planning.case import Case
from freepull.planning.forecast import Forecast
from freepull.planning.work import Work
from freepull.principal.rules import Certified, Pairwise
from freepull.principal.schedules import Share

CHANCE = 0.95
"""What counts as sure enough."""
CLOSE = 1.25
"""How near the search comes to the number of agents."""
LARGEST = 1 << 10
"""The search goes up to this many times the planned number of agents."""
TIMES = (0.25, 0.5, 2.0, 4.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
DELTAS = (0.1, 0.05, 0.01, 0.001)


@dataclass(frozen=True)
class Point:
    """One variant of the trial."""

    x: float
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
    """Best up to ε, which takes the pairwise rule; ε = 0 stands beside for comparison."""
    for times in (0.0, 0.5, 1.0, 2.0):
        epsilon = min(round(times * gap, 9), 1.0)
        rule = Pairwise(float(_rule(case).delta), epsilon=epsilon)
        yield epsilon, replace(case, principal=replace(case.principal, rule=rule))


def _rule(case: Case) -> Certified | Pairwise:
    rule = case.principal.rule
    assert isinstance(rule, Certified | Pairwise)
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
        """Return the forecast for so many agents; None if nothing is believed of them, or time is short."""
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
        high = int(min(max(guess, 2 * low), most))
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
