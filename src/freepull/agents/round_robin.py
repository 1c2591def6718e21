"""Round-robin: every arm in turn, whatever it pays."""

from __future__ import annotations

from dataclasses import dataclass

from freepull.agents.base import Learner
from freepull.registry import part


@part("agents", "round-robin", kernel=5)
@dataclass
class RoundRobin(Learner):
    """Pick arm (t − 1) mod K. Paid pulls do not shift the turn.

    >>> agent = RoundRobin()
    >>> agent.start(arms=3)
    >>> [agent.pick(t) for t in range(1, 5)]
    [0, 1, 2, 0]
    """

    def pick(self, t: int) -> int:
        """The arm whose turn it is."""
        return (t - 1) % len(self.pulls)
