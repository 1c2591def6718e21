"""Greedy: the *myopic* agent of earlier work on incentivized exploration."""

from __future__ import annotations

from dataclasses import dataclass

from freepull.agents.base import TriesAllFirst, first_largest
from freepull.registry import part


@part("agents", "greedy", kernel=4)
@dataclass
class Greedy(TriesAllFirst):
    """Always pick the best sample mean, an unpulled arm first. It never explores on purpose.

    References
    ----------
    Frazier, Kempe, Kleinberg and Kleinberg, *Incentivizing exploration*, EC 2014.

    >>> agent = Greedy()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    def choose(self, t: int) -> int:
        """The arm with the largest sample mean."""
        return first_largest([S / N for S, N in zip(self.sums, self.pulls, strict=True)])
