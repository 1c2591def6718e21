"""Observing schedules: κ, the last step in which the principal only watches (docs/statistics.md, schedules).

Whatever κ is, and however it was found, the guarantee of a proven rule stays; only cost and time change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from freepull import validation
from freepull.errors import InvalidInput
from freepull.registry import part

if TYPE_CHECKING:
    from freepull.principal.rules.base import Rule, Setting

__all__ = ["Adaptive", "KnownGap", "Root", "Schedule", "Share", "Steps"]


class Schedule(ABC):
    """When to stop observing."""

    @abstractmethod
    def kappa(self, setting: Setting, rule: Rule) -> int | None:
        """Return κ, or None if it is found on the way (see `Adaptive`)."""


@part("observe", "share", kernel=0)
@dataclass(frozen=True)
class Share(Schedule):
    """κ = ⌊ρ·T⌋; the paper has ρ = ½."""

    rho: float = 0.5

    def __post_init__(self) -> None:
        validation.keep_real(self, "rho", 0.0, 1.0)

    def kappa(self, setting: Setting, rule: Rule) -> int:
        """A share of the horizon, of the decimal number as written; a last digit more makes thirds of 3 whole."""
        return math.floor((Fraction(str(self.rho)) + Fraction(1, 10**15)) * setting.horizon_for("observe.Share"))


@part("observe", "root", kernel=1)
@dataclass(frozen=True)
class Root(Schedule):
    """κ = ⌊√T⌋."""

    def kappa(self, setting: Setting, rule: Rule) -> int:
        """The root of the horizon."""
        return math.isqrt(setting.horizon_for("observe.Root"))


@part("observe", "steps", kernel=2)
@dataclass(frozen=True)
class Steps(Schedule):
    """κ = n, whatever the horizon."""

    n: int

    def __post_init__(self) -> None:
        validation.keep_whole(self, "n", 0)

    def kappa(self, setting: Setting, rule: Rule) -> int:
        """A number of steps, at most the horizon."""
        return int(self.n if setting.horizon is None else min(self.n, setting.horizon))


@part("observe", "known-gap", kernel=3)
@dataclass(frozen=True)
class KnownGap(Schedule):
    """κ_o of the paper's appendix, its sign mended, for a known Δ_min (docs/statistics.md, kappa_o)."""

    gap: float

    def __post_init__(self) -> None:
        validation.keep_real(self, "gap", 0.0, 1.0, open_low=True)

    def kappa(self, setting: Setting, rule: Rule) -> int:
        """Leave the time that the theorems say is enough."""
        if rule.delta is None:
            raise InvalidInput(f"observe.KnownGap needs a rule with a delta, got {validation.shown(rule)}.")
        T, K, M = setting.horizon_for("observe.KnownGap"), setting.arms, setting.agents
        L = math.log(K * T / rule.delta)
        return max(0, min(T, math.floor(T - (16 * K * L + 64 * M * K * math.log(L)) / self.gap**2)))


@part("observe", "adaptive", kernel=4)
@dataclass(frozen=True)
class Adaptive(Schedule):
    """Pay while the time left is at most ``slack`` times what is still missing (docs/statistics.md, adaptive).

    Under `Certified` it is checked at every look, from half of the horizon on: what is missing follows from the
    evidence, and paying pauses when there is time again. Under other rules it looks until it has started, and then
    never again; early estimates of what is missing are far too large there, so it costs too much, and a principal that
    uses it warns.
    """

    slack: float = 3.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "slack", 0.0, open_low=True)

    def kappa(self, setting: Setting, rule: Rule) -> None:
        """Found on the way."""
        setting.horizon_for("observe.Adaptive")

    def looks(self, t: int, setting: Setting) -> bool:
        """Say whether step t is one at whose end the schedule looks."""
        return looks_at(t, setting.horizon_for("observe.Adaptive"), setting.arms)

    def pays(self, t: int, owed: float, setting: Setting) -> bool:
        """Say whether to pay after step t, under a rule that forecasts what is owed until a verdict."""
        T = setting.horizon_for("observe.Adaptive")
        return 2 * t >= T and T - t <= self.slack * owed

    def starts(self, t: int, missing: list[list[float]], setting: Setting) -> bool:
        """Say whether to start at the end of step t, from the pulls that are missing by agent and arm."""
        return self.due(t, *in_all(missing), setting)

    def due(self, t: int, total: float, most: float, setting: Setting) -> bool:
        """T − t ≤ slack · w: w is all that is missing ("one"), or the most that one agent misses ("each")."""
        w = total if setting.offers == "one" else most
        return setting.horizon_for("observe.Adaptive") - t <= self.slack * w


def looks_at(t: int, horizon: int, arms: int) -> bool:
    """Say whether forecasts are made at the end of step t: every T/1000 steps from T/10 on, and at the last."""
    return t == horizon or (t % max(1, horizon // 1000) == 0 and t >= arms and 10 * t >= horizon)


def in_all(missing: list[list[float]]) -> tuple[float, float]:
    """Return how many pulls are missing in all, and of the agent who misses most; added up in their order."""
    total = most = 0.0
    for row in missing:
        own = 0.0
        for pulls in row:
            own += pulls
        total += own
        most = max(most, own)
    return total, most


def within(kappa: int | None, horizon: int | None) -> int | None:
    """Return κ as a whole number from 0 to T."""
    if kappa is None:
        return None
    return max(0, int(kappa) if horizon is None else min(int(kappa), horizon))
