"""Rules that need certain samples of every stream: pay for the streams that owe most."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.principal.rules.base import Plan, Want
from freepull.principal.rules.need import NeedingState
from freepull.principal.work import STREAMS, Work, finish, pieces

Ints = NDArray[np.int64]


class OwingState(NeedingState):
    """A rule to which streams owe samples."""

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

    def planning(self, payable: NDArray[np.bool_], room: int) -> Work[Plan]:
        """Find the wants in slices, at most ``room`` of them."""
        most, arms = yield from self._most(payable)
        if self.setting.offers == "each":
            return (yield from neediest(-most, arms, room))
        leave_one(most, arms)
        return arms

    def _most(self, payable: NDArray[np.bool_]) -> Work[tuple[Ints, Plan]]:
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


def neediest(rank: Ints, arms: Plan, room: int) -> Work[Plan]:
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
