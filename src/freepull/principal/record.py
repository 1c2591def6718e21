"""What was pulled: the record of all rewards, how pulls enter it, and the pulls whose outcomes are to come.

A rule that compares within people (`Rule.designates`) settles what a pull counts for when it is made, so outcomes may
come in any order. Every other rule needs an agent's rewards in the order of its pulls: what an agent pulls while an
outcome of its own is awaited is kept back until that has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.numerics import zeros
from freepull.rewards import UNITS as UNITS

Found = TypeVar("Found")
Work = Generator[None, None, Found]
STREAMS = 1 << 15
"""Streams that one slice visits: a millisecond or two."""


def finish(work: Work[Found]) -> Found:
    """Do all of it, and return what it finds."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Found = end.value
            return found


def pieces(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut 0…total into ranges of a size, at least 1.

    >>> list(pieces(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, size)
    return ((first, min(first + step, total)) for first in range(0, total, step))


def tiles(arms: int, agents: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut arms × agents into ranges of arms and agents: whole arms, or one arm's agents, in their order.

    >>> list(tiles(3, 2, 4)), list(tiles(2, 3, 2))
    ([(0, 2, 0, 2), (2, 3, 0, 2)], [(0, 1, 0, 2), (0, 1, 2, 3), (1, 2, 0, 2), (1, 2, 2, 3)])
    """
    if agents <= size:
        return ((*some, 0, agents) for some in pieces(arms, size // agents))
    return ((k, k + 1, *some) for k in range(arms) for some in pieces(agents, size))


Floats = NDArray[np.float64]
Words = NDArray[np.uint32]
ONE = 1 << 40
"""The number 1 in the fixed-point sums over agents."""
BATCH = 1 << 20
"""This many pulls at once cannot make a change of these sums overflow."""
_FINER = ONE // UNITS
_INVERSES, _MEANS, _FIRST = range(3)


def units(reward: float) -> int:
    """Round a reward half-even to a multiple of 2⁻³⁰."""
    return round(reward * UNITS)


def many_units(rewards: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round rewards as `units` does."""
    return np.rint(rewards * UNITS).astype(np.int64)


class Record:
    """N_km and S_km, and per arm Σ_m ⌊2⁴⁰/N_km⌋ and Σ_m ⌊2⁴⁰·S_km/N_km⌋ as integers.

    Integers make the sums independent of the order in which pulls came in: buying equalises counts, so ties between
    arms are common, and with floats they would be broken at random. An unpulled stream adds 0 to both sums.

    A stream (agent, arm) is the number agent·K + arm where many are entered at once. It takes 12 bytes.
    """

    def __init__(self, agents: int, arms: int) -> None:
        self.agents, self.arms = agents, arms
        self.pulls: Words = zeros((agents, arms), np.uint32)
        self.sums: NDArray[np.int64] = zeros((agents, arms), np.int64)
        self.inverse_sums = [0] * arms
        self.mean_sums = [0] * arms
        self.unpulled = [agents] * arms
        """How many agents have never pulled the arm."""
        self.changes: NDArray[np.int64] = np.zeros((arms, 3), np.int64)
        """What compiled functions have to add to the three lists, see `note`."""

    def add(self, agent: int, arm: int, reward: int) -> None:
        """Count one pull, its reward in units of 2⁻³⁰."""
        enter(self.pulls, self.sums, self.changes, agent, arm, reward)
        self.note(arm, arm + 1)

    def add_many(self, streams: Words, rewards: Words) -> None:
        """Count pulls in their order."""
        for first, last in pieces(len(streams), BATCH):
            enter_many(self.pulls, self.sums, self.changes, streams[first:last], rewards[first:last])
            self.note(0, self.arms)

    def note(self, first: int, last: int) -> None:
        """Add the changes of a range of arms to the sums."""
        for k, change in enumerate(self.changes[first:last].tolist(), first):
            self.inverse_sums[k] += change[_INVERSES]
            self.mean_sums[k] += change[_MEANS]
            self.unpulled[k] -= change[_FIRST]
        self.changes[first:last] = 0

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        lists = {"inverse_sums": self.inverse_sums, "mean_sums": self.mean_sums, "unpulled": self.unpulled}
        return lists | {"pulls": self.pulls, "sums": self.sums}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        np.copyto(self.pulls, parts["pulls"])
        np.copyto(self.sums, parts["sums"])
        self.inverse_sums, self.mean_sums = parts["inverse_sums"], parts["mean_sums"]
        self.unpulled = parts["unpulled"]

    def take_over(self, old: Record) -> None:
        """Go on where a record of fewer agents was."""
        self.pulls[: old.agents], self.sums[: old.agents] = old.pulls, old.sums
        self.inverse_sums, self.mean_sums = old.inverse_sums, old.mean_sums
        self.unpulled = [unpulled + self.agents - old.agents for unpulled in old.unpulled]

    def global_mean(self, arm: int) -> float:
        """μ̂_k (docs/statistics.md, algorithm), with μ̂_km = 0 where N_km = 0."""
        return self.mean_sums[arm] / ONE / self.agents

    def sample_mean(self, agent: int, arm: int) -> float:
        """μ̂_km."""
        n = int(self.pulls[agent, arm])
        return int(self.sums[agent, arm]) / UNITS / n if n else 0.0

    def weighted_mean(self, arm: int, weights: Floats) -> float:
        """Σ_m p_m·μ̂_km, added up agent by agent."""
        return float(finish(self.weighted_means(weights))[arm])

    def weighted_means(self, weights: Floats) -> Work[Floats]:
        """Σ_m p_m·μ̂_km of every arm, added up agent by agent."""
        totals = np.zeros(self.arms)
        for first, last in pieces(self.agents, STREAMS // self.arms):
            add_weighted(totals, self.pulls, self.sums, weights, first, last)
            yield
        return totals


@jit
def enter(pulls: Any, sums: Any, changes: Any, m: int, k: int, reward: Any) -> None:
    """Count one pull, and note what that changes in the sums over agents."""
    n, s = np.int64(pulls[m, k]), sums[m, k]
    if n > 0:
        changes[k, _INVERSES] -= ONE // n
        changes[k, _MEANS] -= _mean(s, n)
    else:
        changes[k, _FIRST] += 1
    n, s = n + 1, s + np.int64(reward)
    changes[k, _INVERSES] += ONE // n
    changes[k, _MEANS] += _mean(s, n)
    pulls[m, k], sums[m, k] = n, s


@jit
def _mean(s: Any, n: Any) -> Any:
    """⌊2⁴⁰·S/N⌋ for a sum in units of 2⁻³⁰, in steps that cannot overflow."""
    whole = s // n
    return whole * _FINER + (s - whole * n) * _FINER // n


@jit
def enter_many(pulls: Any, sums: Any, changes: Any, streams: Any, rewards: Any) -> None:
    """Count pulls in their order."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        enter(pulls, sums, changes, streams[i] // K, streams[i] % K, rewards[i])


@jit
def add_weighted(totals: Any, pulls: Any, sums: Any, weights: Any, first: int, last: int) -> None:
    """Add p_m·μ̂_km of some agents to every arm's total."""
    for m in range(first, last):
        for k in range(totals.shape[0]):
            mean = 0.0
            if pulls[m, k] > 0:
                mean = float(sums[m, k]) * 2.0**-30 / float(pulls[m, k])
            totals[k] += weights[m] * mean


def packed(agents: Any, arms: Any, rewards: Any, size: tuple[int, int]) -> tuple[Words, Words]:
    """Return the streams agent·K + arm, and the rewards in units of 2⁻³⁰, of M agents and K arms."""
    M, K = size
    m, k = _indices("agents", agents, M), _indices("arms", arms, K)
    x = _rewards(rewards)
    if not len(m) == len(k) == len(x):
        counts = f"{len(m)}, {len(k)} and {len(x)}"
        raise InvalidInput(f"agents, arms and rewards must be equally many, got {counts}; give each pull all three.")
    streams = m.astype(np.int64) * K + k
    return streams.astype(np.uint32), many_units(x).astype(np.uint32)


def _indices(name: str, values: Any, size: int) -> NDArray[Any]:
    """Return whole numbers from 0 to size − 1."""
    given = _row(name, values)
    if given.dtype.kind not in "iu" and len(given):
        raise InvalidInput(f"{name} must be whole numbers from 0 to {size - 1}, got {validation.shown(values)}.")
    wrong = (given < 0) | (given >= size)
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInput(f"{name}[{at}] must be a whole number from 0 to {size - 1}, got {given[at]}.")
    return given


def _rewards(values: Any) -> NDArray[np.float64]:
    """Return numbers in [0, 1]."""
    given = _row("rewards", values)
    if given.dtype.kind not in "fiu":
        raise InvalidInput(f"rewards must be numbers in [0, 1], got {validation.shown(values)}.")
    wrong = ~((given >= 0) & (given <= 1))
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInput(f"rewards[{at}] must be a number in [0, 1], got {given[at]}.")
    return given.astype(np.float64)


def _row(name: str, values: Any) -> NDArray[Any]:
    try:
        given = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros((0, 0))
    if given.ndim != 1:
        raise InvalidInput(f"{name} must be a row of numbers, one for each pull, got {validation.shown(values)}.")
    return given


@jit
def mark(told: Any, agents: Any, steps: int) -> bool:
    """Note who is told of in this step; say whether nobody was so before."""
    regular = True
    for i in range(agents.shape[0]):
        regular = regular and told[agents[i]] <= steps
        told[agents[i]] = steps + 1
    return regular


NO_SAMPLE = (-1, 0)
UNKNOWN = -1
"""Stands for a reward that has not come."""


@dataclass(slots=True)
class Act:
    """One pull that was made."""

    agent: int
    arm: int
    step: int = 0
    """After how many steps it was made."""
    sample: tuple[int, int] = NO_SAMPLE
    """What it counts for, as the rule has said."""
    checked: bool = False
    """Whether the checks of assumptions wait for its outcome."""
    reward: int = UNKNOWN
    """In units of 2⁻³⁰."""


class Acts:
    """All acts of a trial whose outcomes are to come, by their numbers, which whoever drives the trial gives them."""

    def __init__(self, agents: int, ordered: bool) -> None:
        self.ordered = ordered
        """Whether rewards are passed on in the order of an agent's pulls."""
        self.open: dict[int, Act] = {}
        self.made = self.missing = 0
        """How many acts there were, and how many of their outcomes will never come and count at their worst."""
        self.muted: set[int] = set()
        """Agents of whom an outcome is missing: the checks look no further at them."""
        self._awaited: NDArray[np.uint32] = np.zeros(agents, np.uint32)
        self._behind: dict[int, deque[Act]] = {}
        """By agent, the pulls that are passed on in their order; the first one is awaited."""

    def add(self, number: int, act: Act) -> None:
        """Note a pull whose outcome is to come."""
        if number in self.open:
            raise InvalidInput(f"number must be new, got {number}, by which an act is known already.")
        self.made += 1
        self.open[number] = act
        self._awaited[act.agent] += 1
        if self.ordered:
            self._behind.setdefault(act.agent, deque()).append(act)

    def take(self, number: int) -> Act:
        """Return an act whose outcome has come, or never will."""
        act = self.open.pop(number, None)
        if act is None:
            raise InvalidInput(f"number must be that of an act whose outcome is to come, got {number}.")
        self._awaited[act.agent] -= 1
        return act

    def drop(self, act: Act) -> None:
        """Forget what an agent has pulled, of whom nothing counts any more."""
        self._behind.pop(act.agent, None)

    def released(self, agent: int) -> Iterator[Act]:
        """Return what can be passed on now, in the order of the agent's pulls."""
        waiting = self._behind.get(agent, deque())
        while waiting and waiting[0].reward != UNKNOWN:
            yield waiting.popleft()
        if not waiting:
            self._behind.pop(agent, None)

    def keep(self, agent: int, arm: int, reward: int) -> None:
        """Keep a pull back whose reward is known, because an earlier one's is not."""
        self._behind.setdefault(agent, deque()).append(Act(agent, arm, reward=reward))

    def awaits(self, agent: int) -> bool:
        """Say whether an outcome of an agent is to come."""
        return bool(self.open and self._awaited[agent] > 0)

    def quiet(self, agent: int) -> bool:
        """Say whether the checks hear nothing of an agent for now, or for good."""
        return bool(self.open and self._awaited[agent] > 0) or agent in self.muted

    def awaiting(self, agents: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Say of whom outcomes are to come; None: of nobody at all."""
        return self._awaited[agents] > 0 if self.open else None

    def silent(self, agents: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Say of whom the checks hear nothing; None: they hear everybody."""
        if not self.open and not self.muted:
            return None
        found: NDArray[np.bool_] = self._awaited[agents] > 0
        return found | np.isin(agents, list(self.muted)) if self.muted else found

    def take_over(self, old: Acts) -> None:
        """Take over from a trial of fewer agents."""
        self.restore(old.parts())

    def parts(self) -> dict[str, Any]:
        """Return all that changes; nothing while there were no acts."""
        if not self.made:
            return {}
        rows = [(n, it.agent, it.arm, it.step, *it.sample, it.checked) for n, it in self.open.items()]
        numbers = {id(act): number for number, act in self.open.items()}
        behind = [
            (it.agent, numbers.get(id(it), UNKNOWN), it.arm, it.step, it.reward)
            for waiting in self._behind.values()
            for it in waiting
        ]
        return {
            "open": np.array(rows, np.int64).reshape(-1, 7),
            "behind": np.array(behind, np.int64).reshape(-1, 5),
            "made": self.made,
            "missing": self.missing,
            "muted": sorted(self.muted),
        }

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        if not parts:
            return
        for number, agent, arm, step, place, edition, checked in parts["open"].tolist():
            self.open[number] = Act(agent, arm, step, (place, edition), bool(checked))
            self._awaited[agent] += 1
        for agent, number, arm, step, reward in parts["behind"].tolist():
            act = Act(agent, arm, step, reward=reward) if number == UNKNOWN else self.open[number]
            self._behind.setdefault(agent, deque()).append(act)
        self.made, self.missing, self.muted = parts["made"], parts["missing"], set(parts["muted"])
