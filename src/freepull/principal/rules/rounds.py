"""What rules that go by rounds share: windows of gaps, and who still owes pulls."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.principal.record import STREAMS, Work, finish, pieces
from freepull.principal.rules.base import Floats, RuleState, Setting, Want, Wanted


def gap_window(arms: int, agents: float, horizon: int, kappa: int, delta: float, offers: str) -> tuple[float, float]:
    """Return (lo, hi) for K arms, M agents and horizon T (docs/statistics.md, window)."""
    beta = math.log(1 / delta) + 2.5
    free = max(1.0, min(2 * math.log(max(kappa, 2)) / 0.16, kappa / (2 * arms)))
    most = free + (horizon - kappa) / (arms * (agents if offers == "one" else 1))
    hi = min(1.5 * math.sqrt(beta / (free * agents)), 0.4)
    return min(math.sqrt(beta / (most * agents)), hi / 2), hi


def smallest_gap(setting: Setting, delta: float) -> float:
    """Return the window's lo for κ = T/2: no estimated gap counts as smaller."""
    T = setting.horizon_for("an estimate of what is missing")
    agents = 1 / float((setting.weights**2).sum())
    return gap_window(setting.arms, agents, T, T // 2, delta, setting.offers)[0]


MARGIN = 1.05


class NeedingState(RuleState):
    """A rule that can tell how many pulls of an arm it needs of every agent."""

    @abstractmethod
    def needed(self) -> Work[Floats]:
        """Find n_k in slices, 0 for arms that are not active."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The agents whose pulls are needed."""
        return np.asarray(self.setting.weights > 0)

    def missing(self) -> list[list[float]]:
        """(n_k − N_km)⁺."""
        lacks = np.maximum(finish(self.needed()) - self.record.pulls, 0.0)
        lacks[~self.counted] = 0.0
        rows: list[list[float]] = lacks.tolist()
        return rows

    def lacking(self) -> Work[tuple[float, float]]:
        """Σ (n_k − N_km)⁺ over all, and the most of one agent."""
        needed, counted, found = (yield from self.needed()), self.counted, np.zeros(2)
        for first, last in pieces(self.setting.agents, STREAMS // self.setting.arms):
            add_lacks(found, needed, self.record.pulls, counted, first, last)
            yield
        return float(found[0]), float(found[1])


@jit
def add_lacks(found: Any, needed: Any, pulls: Any, counted: Any, first: int, last: int) -> None:
    """Add what some agents miss to the total, and to the most of one agent."""
    for m in range(first, last):
        own = 0.0
        if counted[m]:
            for k in range(needed.shape[0]):
                own += max(needed[k] - float(pulls[m, k]), 0.0)
        found[0] += own
        found[1] = max(found[1], own)


@jit
def fill_needed(
    needed: Any, means: Any, active: Any, spreads: Any, beta: float, smallest: float, margin: float = 0.0
) -> None:
    """Fill in n_k (docs/statistics.md, need), gaps less the margin that has to be shown, and at least ``smallest``.

    0 for arms that are not active.
    """
    leader, most = -1, 0.0
    for k in range(means.shape[0]):
        if active[k] and (leader < 0 or means[k] > means[leader]):
            leader = k
    for j in range(means.shape[0]):
        needed[j] = 0.0
        if active[j] and j != leader:
            gap = max(means[leader] - means[j] - margin, smallest)
            needed[j] = MARGIN * 2.0 * beta * (spreads[leader] + spreads[j]) / (gap * gap)
            most = max(most, needed[j])
    needed[leader] = most


SCORE, REACH = range(2)
"""Columns of an outlook, by arm: the z-score of what has to be shown of it, and the one that is enough."""
DOUBT = 0.5
"""Standard errors that are taken off a gap where it is asked how much is still needed."""
MOST_RATIO, HALVINGS = 64.0, 14
"""How far it is looked ahead where a chance is forecast, and how finely."""
LONGEST = 1e6
"""No forecast needs more than so many times the samples that there are."""


@jit
def fill_ratios(ratios: Any, outlook: Any, active: Any) -> None:
    """How many times as many samples again each arm needs, by its z-score less some doubt; −1 for arms that are out."""
    most = 0.0
    for k in range(ratios.shape[0]):
        ratios[k] = -1.0
        if active[k] == 1:
            score = outlook[k, SCORE] - DOUBT
            short = outlook[k, REACH] / score if score > 0.0 else math.inf
            ratios[k] = min(max(short * short - 1.0, 0.0), LONGEST) if outlook[k, REACH] > 0.0 else 0.0
            most = max(most, ratios[k])
    for k in range(ratios.shape[0]):
        if active[k] == 1 and outlook[k, SCORE] == math.inf:
            ratios[k] = most


@jit
def chance_of(outlook: Any, active: Any, ratio: float) -> float:
    """How likely every arm reaches its z with ``ratio`` times as many samples again; two arms may change places."""
    least = 1.0
    for k in range(active.shape[0]):
        if active[k] == 1 and outlook[k, REACH] > 0.0:
            reach, score = outlook[k, REACH], outlook[k, SCORE]
            least = min(least, reaching(reach, score, ratio) + reaching(reach, -score, ratio))
    return least


@jit
def reaching(reach: float, score: float, ratio: float) -> float:
    """How likely a z-score gets to ``reach`` at some time, what is not known of the gap included.

    The sample gap is a martingale from ``score``, here by its own variance up to u; it has to come to reach·√(1 − u),
    for which stands the chord.
    """
    short, u = reach - score, max(ratio / (1.0 + ratio), 1e-12)
    if short <= 0.0:
        return 1.0
    fall, away = reach * (1.0 - math.sqrt(1.0 - u)), math.sqrt(2.0 * u)
    there = 0.5 * math.erfc((short - fall) / away)
    back = 0.5 * math.erfc((short + fall) / away)
    return there + math.exp(min(2.0 * fall / u * short, 700.0)) * back


@jit
def still_owed(ratio: float, used: Any, block: Any, pulls: Any) -> float:
    """What a stream owes until it has ``ratio`` times its used samples again, the coming round at least."""
    return max(math.ceil(float(used) * (1.0 + ratio)), float(used) + float(block)) - float(pulls)


@jit
def add_owed(found: Any, ratios: Any, used: Any, blocks: Any, pulls: Any, pace: float, first: int, last: int) -> None:
    """Add what some agents still owe to the total, to the most of one agent, and to what comes only if it is paid for.

    The last is what is owed beyond ``pace`` times the pulls up to now, which come for free if people go on like that.
    """
    for m in range(first, last):
        own, unpaid = 0.0, 0.0
        for k in range(ratios.shape[0]):
            if blocks[k, m] > 0:
                owed = max(still_owed(ratios[k], used[k, m], blocks[k, m], pulls[m, k]), 0.0)
                own += owed
                unpaid += max(owed - pace * float(pulls[m, k]), 0.0)
        found[0] += own
        found[1] = max(found[1], own)
        found[2] += unpaid


Ints = NDArray[np.int64]


class OwingState(NeedingState):
    """A rule to which streams owe samples; what it proves holds at any pace of its agents."""

    proven = True
    stepwise = False

    @abstractmethod
    def owed_by(self, agents: Any) -> Ints:
        """Return how many samples every stream of some agents (a slice or an array of them) still owes, by agent."""

    def owed(self, agent: int, arm: int) -> int:
        """Return how many samples a stream still owes."""
        return int(self.owed_by(slice(agent, agent + 1))[0, arm])

    def awaits(self, agent: int) -> bool:
        """Say whether a sample of this agent is owed."""
        return bool(self.owed_by(slice(agent, agent + 1)).any())

    def awaited(self, agents: Ints) -> list[int]:
        """Return those of some agents who owe a sample."""
        found: list[int] = []
        for first, last in pieces(len(agents), STREAMS // self.setting.arms):
            some = agents[first:last]
            found += some[self.owed_by(some).any(axis=1)].tolist()
        return found

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """One: the payable stream that owes most. Each: of every payable agent the arm it owes most of."""
        most, arms = finish(self._most(np.asarray(payable, bool)))
        order = np.lexsort((arms, -most))
        found = np.count_nonzero(most) if self.setting.offers == "each" else int(most.any())
        return [Want(m, int(arms[m]), int(most[m])) for m in order[:found].tolist()]

    def wanting(self, payable: NDArray[np.bool_], room: int) -> Work[Wanted]:
        """Find the wants in slices, at most ``room`` of them."""
        most, arms = yield from self._most(payable)
        if self.setting.offers == "each":
            return (yield from neediest(-most, arms, room))
        leave_one(most, arms)
        return arms

    def _most(self, payable: NDArray[np.bool_]) -> Work[tuple[Ints, Wanted]]:
        """Find of every payable agent how much it owes of the arm it owes most of, and that arm (the lowest), or −1."""
        M, K = self.setting.agents, self.setting.arms
        most, arms = np.zeros(M, np.int64), np.zeros(M, np.int32)
        for first, last in pieces(M, STREAMS // K):
            fill_most(most, arms, self.owed_by(slice(first, last)), payable, first)
            yield
        return most, arms


@jit
def fill_most(most: Any, arms: Any, owed: Any, payable: Any, first: int) -> None:
    """Write down how much payable agents owe of the arm they owe most of, and that arm (the lowest), or −1."""
    for m in range(first, first + owed.shape[0]):
        most[m], arms[m] = 0, -1
        if payable[m]:
            for k in range(owed.shape[1]):
                if owed[m - first, k] > most[m]:
                    most[m], arms[m] = owed[m - first, k], k


@jit
def leave_one(most: Any, arms: Any) -> None:
    """Leave the arm of the agent who owes most: the lowest arm, then the lowest agent; −1 for the others."""
    best = -1
    for m in range(arms.shape[0]):
        if arms[m] >= 0 and (best < 0 or most[m] > most[best] or (most[m] == most[best] and arms[m] < arms[best])):
            best = m
    for m in range(arms.shape[0]):
        if m != best:
            arms[m] = -1


def neediest(rank: Ints, arms: Wanted, room: int) -> Work[Wanted]:
    """Leave the arms of at most ``room`` agents, those with the lowest ranks; −1 for the others, as for who has none.

    Of equal ranks the lowest arm comes first, then the lowest agent.
    """
    yield
    wanted = np.flatnonzero(arms >= 0)
    if len(wanted) > room:
        yield
        key = (rank[wanted] << 30) + arms[wanted]
        yield
        last = np.partition(key, room - 1)[room - 1]
        yield
        spare = room - np.count_nonzero(key < last)
        arms[wanted[key > last]] = -1
        arms[wanted[key == last][spare:]] = -1
    return arms
