"""Pulls that were made and whose outcomes are to come.

A rule that compares within people (`Rule.designates`) settles what a pull counts for when it is made, so outcomes may
come in any order. Every other rule needs an agent's rewards in the order of its pulls: what an agent pulls while an
outcome of its own is awaited is kept back until that has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput

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
