"""Thompson sampling: believe in proportion to the evidence, and act on a random belief."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freepull.agents.base import Learner, first_largest
from freepull.numerics import beta_draw, decision_key
from freepull.registry import part


@part("agents", "thompson", kernel=2)
@dataclass
class Thompson(Learner):
    """Draw every arm's mean from Beta(1 + S, 1 + N − S) and pick the largest; S may be fractional.

    Draws are keyed by (seed, run, agent, t, arm, attempt), so they do not depend on what happened before.

    References
    ----------
    Thompson, *On the likelihood that one unknown probability exceeds another*, Biometrika 1933;
    Agrawal and Goyal, *Analysis of Thompson sampling for the multi-armed bandit problem*, COLT 2012.

    >>> agent = Thompson()
    >>> agent.start(arms=2, key=1)
    >>> for _ in range(200):
    ...     agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(401)
    1
    """

    def pick(self, t: int) -> int:
        """The arm with the largest draw."""
        keys = [np.uint64(decision_key(np.uint64(self.key), t, k)) for k in range(len(self.pulls))]
        beliefs = zip(self.sums, self.pulls, keys, strict=True)
        return first_largest([beta_draw(1.0 + S, 1.0 + (N - S), key) for S, N, key in beliefs])
