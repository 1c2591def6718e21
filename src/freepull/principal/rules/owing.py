"""Rules that need certain samples of every stream: pay for the streams that owe most."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from freepull.principal.rules.base import RuleState, Want


class OwingState(RuleState):
    """A rule to which streams owe samples."""

    @abstractmethod
    def owed(self, agent: int, arm: int) -> int:
        """Return how many samples a stream still owes."""

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """One: the payable stream that owes most. Each: of every payable agent the arm it owes most of."""
        most: list[tuple[int, int, int]] = []
        for m in range(self.setting.agents):
            if payable[m]:
                owed, k = min((-self.owed(m, k), k) for k in range(self.setting.arms))
                if owed < 0:
                    most.append((owed, k, m))
        most.sort()
        return [Want(m, k, -owed) for owed, k, m in (most if self.setting.offers == "each" else most[:1])]

    def awaits(self, agent: int) -> bool:
        """Say whether a sample of this agent is owed."""
        return any(self.owed(agent, k) > 0 for k in range(self.setting.arms))
