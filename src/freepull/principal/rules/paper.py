"""The paper's rule: its confidence bounds, and best arms eliminated by them; and the passive rule beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput
from freepull.principal.record import ONE, STREAMS, Record, Work, finish, pieces
from freepull.principal.rules.base import SMALLEST, STACKS, Floats, Rule, RuleState, Setting, Want, Wanted
from freepull.principal.rules.rounds import Ints, NeedingState, gap_window, neediest
from freepull.registry import part


def equation(arms: int, agents: int, horizon: int, delta: float) -> float:
    """Eq. (2) of the paper (docs/statistics.md, equation). Proven wherever it is at least `finite_time`."""
    L = math.log(arms * horizon / delta)
    return L + 4 * agents * math.log(L)


def simplified(arms: int, agents: int, horizon: int, delta: float, scale: float) -> float:
    """The appendix's bound (docs/statistics.md, simplified); the authors' code has scale = 0.1. **Heuristic.**"""
    return scale * math.log(arms * horizon / delta)


@lru_cache
def finite_time(arms: int, agents: int, horizon: int, delta: float) -> float:
    """θ*/2, **proven for every T** (docs/statistics.md, finite_time).

    On each interval where ⌈θ·log T⌉ = c, log B falls, from what it would be with θ·log T + 1 for the ceiling. So the
    last interval on which B exceeds δ/(KT) is the one in which that smooth function falls to δ/(KT); then we find where
    B itself does.
    """
    M, log_T = agents, math.log(horizon)
    target = math.log(delta / (arms * horizon))

    def excess(theta: float, c: float) -> float:
        return (M + 1) + M * math.log((theta - 1) * c / M) - theta - target

    enough = 2.0 * (M + 1)
    while excess(enough, enough * log_T + 1) > 0:
        enough *= 2
    enough = _last_positive(lambda theta: excess(theta, theta * log_T + 1), 2.0 * (M + 1), enough)
    c = math.ceil(enough * log_T)
    return _last_positive(lambda theta: excess(theta, c), max(M + 1.0, (c - 1) / log_T), c / log_T) / 2


def _last_positive(falling: Callable[[float], float], low: float, high: float) -> float:
    """Halve [low, high] down to the point where a falling function stops being positive; the upper end is returned."""
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)


BOUNDS = ("equation", "simplified", "finite_time")
PAY = ("widest", "uniform")
STEPS = (*STACKS, "every agent acts at most once in each step")
"""What the proof of `finite_time` assumes, in the words of the other rules (docs/statistics.md, model)."""


@part("rule", "paper", kernel=3)
@dataclass(frozen=True)
class Paper(Rule):
    """Algorithm 1 of the paper, with one of three confidence bounds.

    Parameters
    ----------
    delta
        The most that the probability of a wrong certified verdict may be, at least 1e-100 and at most 1;
        ``finite_time``, which is proven, takes less than 1.
    bound
        ``equation`` is Eq. (2) as printed; ``simplified`` is the appendix's, times ``scale``, a **heuristic** (the
        authors' code has scale 0.1); ``finite_time`` is proven for every horizon.
    scale
        Only for ``simplified``.
    pay
        ``widest`` is the paper's: where the bound is widest, for the agent with the fewest pulls. ``uniform``, a
        baseline, pays for the pulls of all active arms and all agents in turn.

    >>> Paper(delta=0.01, bound="simplified", scale=0.1).theta(arms=3, agents=2, horizon=100_000)  # doctest: +ELLIPSIS
    1.7216...
    """

    delta: float
    bound: str = "equation"
    scale: float = 1.0
    pay: str = "widest"

    def __post_init__(self) -> None:
        validation.keep_word(self, "bound", BOUNDS)
        validation.keep_word(self, "pay", PAY)
        validation.keep_real(self, "delta", SMALLEST, 1.0, open_high=self.bound == "finite_time")
        validation.keep_real(self, "scale", 0.0, open_low=True)
        if self.scale != 1.0 and self.bound != "simplified":
            raise InvalidInput(
                f"scale must be 1 unless bound is 'simplified', got {validation.shown(self.scale)} for {self.bound!r}."
            )

    def theta(self, arms: int, agents: int, horizon: int) -> float:
        """Return θ of the bound (docs/statistics.md, bounds)."""
        if self.bound == "simplified":
            return simplified(arms, agents, horizon, self.delta, self.scale)
        formula = equation if self.bound == "equation" else finite_time
        return formula(arms, agents, horizon, self.delta)

    def proven(self, arms: int, agents: int, horizon: int) -> bool:
        """Say whether a decision is proven: θ is at least that of `finite_time`, and not by a heuristic's luck."""
        if self.bound == "simplified" or self.delta >= 1:
            return False
        return self.theta(arms, agents, horizon) >= finite_time(arms, agents, horizon, self.delta)

    def start(self, setting: Setting, record: Record) -> PaperState:
        """Begin a trial."""
        if setting.weighted:
            raise InvalidInput(
                "weights must be equal with rules.Paper, whose bound is for plain averages; leave them out."
            )
        return PaperState(self, setting, record)


class PaperState(NeedingState):
    """S(t), the active arms; everything else is in the record."""

    def __init__(self, rule: Paper, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        T = setting.horizon_for("rules.Paper")
        size = (setting.arms, setting.agents, T)
        self.delta, self.theta, self.proven = rule.delta, rule.theta(*size), rule.proven(*size)
        self.assumptions = STEPS if self.proven else ()
        self.uniform = rule.pay == "uniform"
        scaled = f" × {rule.scale:g}" if rule.bound == "simplified" else ""
        status = "proven" if self.proven else "heuristic"
        paying = ", paying uniformly," if self.uniform else ""
        self.title = f"the paper's rule with the bound '{rule.bound}'{scaled}{paying} at δ = {rule.delta:g} ({status})"

    def width(self, arm: int) -> float:
        """M·CB_k, infinite while some agent has never pulled the arm."""
        if self.record.unpulled[arm]:
            return math.inf
        return math.sqrt(self.record.inverse_sums[arm] / ONE * self.theta)

    def bounds(self) -> list[float]:
        """CB_k of every arm."""
        return [self.width(k) / self.setting.agents for k in range(self.setting.arms)]

    def awaits(self, agent: int) -> bool:
        """Say whether this agent has never pulled some active arm, whose bound has no limit then."""
        return bool((self.record.pulls[agent, self.active] == 0).any())

    def evaluate(self, incentivizing: bool) -> None:
        """Eq. (3), both sides times M (docs/statistics.md, elimination); nothing goes before κ."""
        if not incentivizing:
            return
        arms = range(self.setting.arms)
        total, width = [self.record.mean_sums[k] / ONE for k in arms], [self.width(k) for k in arms]
        highest = max(total[j] - width[j] for j in arms if self.active[j])
        self.active = [self.active[k] and total[k] + width[k] >= highest for k in arms]

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """One: (argmax CB among active, argmin N among payable). Each: everybody's least pulled active arm."""
        if self.uniform:
            return self._in_turn(np.flatnonzero(payable).tolist())
        if self.setting.offers == "each":
            fewest, arms = finish(self._fewest())
            agents = np.flatnonzero(payable)
            order = agents[np.lexsort((arms[agents], fewest[agents]))]
            return [Want(m, int(arms[m]), -int(fewest[m])) for m in order.tolist()]
        wanted = finish(self.wanting(np.asarray(payable, bool), 1))
        return [
            Want(m, int(wanted[m]), -int(self.record.pulls[m, wanted[m]])) for m in np.flatnonzero(wanted >= 0).tolist()
        ]

    def wanting(self, payable: NDArray[np.bool_], room: int) -> Work[Wanted]:
        """Find the wants in slices, at most ``room`` of them."""
        if self.uniform:
            return (yield from super().wanting(payable, room))
        if self.setting.offers == "each":
            fewest, arms = yield from self._fewest()
            arms[~payable] = -1
            return (yield from neediest(fewest, arms, room))
        wanted, agents = np.full(self.setting.agents, -1, np.int32), np.flatnonzero(payable)
        for arm in sorted((k for k in range(self.setting.arms) if self.active[k]), key=self._widest_first):
            if len(agents):
                pulls = self.record.pulls[agents, arm]
                at = int(pulls.argmin())
                if pulls[at] == 0 or not self.record.unpulled[arm]:
                    wanted[agents[at]] = arm
                    break
            yield
        return wanted

    def _fewest(self) -> Work[tuple[Ints, Wanted]]:
        """Find of every agent how often it pulled the active arm that it pulled least, and that arm (the lowest)."""
        M, arms = self.setting.agents, np.flatnonzero(self.active)
        fewest, least = np.zeros(M, np.int64), np.zeros(M, np.int32)
        for first, last in pieces(M, STREAMS // self.setting.arms):
            pulls = self.record.pulls[first:last, arms]
            least[first:last] = arms[pulls.argmin(axis=1)]
            fewest[first:last] = pulls.min(axis=1)
            yield
        return fewest, least

    def _in_turn(self, agents: list[int]) -> list[Want]:
        """One: active arms in turn, and payable agents in turn for each. Each: everybody's next arm."""
        arms = [k for k in range(self.setting.arms) if self.active[k]]
        turn = int(self.record.pulls.sum()) // self.setting.agents
        if self.setting.offers == "each":
            return sorted((Want(m, arms[(turn + m) % len(arms)], 0) for m in agents), key=lambda want: want[1::-1])
        if not agents:
            return []
        return [Want(agents[turn // len(arms) % len(agents)], arms[turn % len(arms)], 0)]

    def _widest_first(self, arm: int) -> tuple[int, int, int]:
        """Order arms by falling CB_k, infinite ones first, ties by number; Σ1/N decides it, in exact integers."""
        return (0, 0, arm) if self.record.unpulled[arm] else (1, -self.record.inverse_sums[arm], arm)

    def needed(self) -> Work[Floats]:
        """What is typically enough (docs/statistics.md, pulls_enough), gaps at least lo; 0 for eliminated arms."""
        setting, K = self.setting, self.setting.arms
        T = setting.horizon_for("rules.Paper")
        lo, _ = gap_window(K, setting.agents, T, T // 2, self.delta, setting.offers)
        mean = (yield from self.means()).tolist()
        leader = self.leader()
        rivals = [mean[leader] - mean[k] for k in range(K) if k != leader and self.active[k]]
        gaps = [min(rivals, default=1.0) if k == leader else mean[leader] - mean[k] for k in range(K)]
        gaps = [max(gap, lo) for gap in gaps]
        return np.array([4 * self.theta / (setting.agents * (gap * gap)) for gap in gaps]) * self.active

    def parts(self) -> dict[str, Any]:
        """Return the active arms; the rest is in the record."""
        return {"active": self.active}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        self.active = parts["active"]


@part("rule", "passive", kernel=4)
@dataclass(frozen=True)
class Passive(Rule):
    """Pay for nothing, eliminate nothing, claim nothing: the paper's "without incentives"."""

    waits: ClassVar[bool] = False

    delta: None = field(default=None, init=False, repr=False)

    def start(self, setting: Setting, record: Record) -> PassiveState:
        """Begin to watch."""
        return PassiveState(setting, record)


class PassiveState(RuleState):
    """Nothing to keep beyond the record."""

    proven = False
    title = "the passive principal, who claims nothing"

    def evaluate(self, incentivizing: bool) -> None:
        """Do nothing."""

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """Return no pull."""
        return []

    def missing(self) -> list[list[float]]:
        """Nothing is missing to somebody who decides nothing."""
        return [[0.0] * self.setting.arms for _ in range(self.setting.agents)]

    def lacking(self) -> Work[tuple[float, float]]:
        """Nothing."""
        yield
        return 0.0, 0.0

    def parts(self) -> dict[str, Any]:
        """Nothing changes but the record."""
        return {}

    def restore(self, parts: dict[str, Any]) -> None:
        """Do nothing."""

    def bounds(self) -> list[float]:
        """No bound is used."""
        return [float("inf")] * self.setting.arms
