"""From a log to the game, with its uncertainty: a normal model with two levels (docs/planning.md, past).

Rewards of a stream vary around μ_km with variance W_k; μ_km varies over agents around a_k with τ; a_k varies over arms
with ω. τ and ω have flat priors up to ½ and are summed over on a grid; all else is normal and exact. The way in which
the agents chose their arms drops out of the likelihood, so learners' logs are as good as random ones.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freepull.past import Past
from freepull.rewards import Bernoulli, Beta, Law

Array = NDArray[np.float64]
_EDGES = 0.5 * (np.arange(61) / 60) ** 2
GRID, SPACING = 0.5 * (_EDGES[1:] + _EDGES[:-1]), np.diff(_EDGES)
"""Candidates of τ and ω, closer together near 0, and the width that each stands for."""
PRIOR_PULLS = 3.0
"""Pulls that the pooled variance counts for in the variance of one arm, as in the rules."""


class Posterior:
    """What a log says of everybody's means."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.noise = _noise(past)
        fits = [self._arms(tau) for tau in GRID]
        self._centre, self._error = np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits])
        centre, among = self._centre[:, :, None], self._error[:, :, None] + GRID**2
        weight = 1.0 / among
        middle = (weight * centre).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
        away = (weight * (centre - middle) ** 2).sum(axis=1)
        fit = np.array([fit[2] for fit in fits])[:, None]
        fit = fit - 0.5 * (np.log(among).sum(axis=1) + np.log(weight.sum(axis=1)) + away)
        joint = np.exp(fit - fit.max()) * SPACING[:, None] * SPACING
        self._joint = joint / joint.sum()

    def _arms(self, tau: float) -> tuple[Array, Array, float]:
        """Given τ: â_k, its variance, and the log-likelihood with a_k integrated out (a flat prior)."""
        n = np.maximum(self.past.pulls, 1)
        seen, own, variance = self.past.pulls > 0, self.past.sums / n, self.noise / n + tau**2
        weight = seen / variance
        total = weight.sum(axis=0)
        centre = (weight * own).sum(axis=0) / total
        away = (weight * (own - centre) ** 2).sum()
        fit = -0.5 * ((np.log(variance) * seen).sum() + np.log(total).sum() + away)
        return centre, 1.0 / total, float(fit)

    @cached_property
    def spread(self) -> float:
        """τ̂: how much agents differ, the posterior mean."""
        return float(GRID @ self._joint.sum(axis=1))

    @cached_property
    def arms_spread(self) -> float:
        """ω̂: how much arms differ, the posterior mean."""
        return float(GRID @ self._joint.sum(axis=0))

    def means(self) -> Array:
        """μ̃_km of docs/planning.md, past: the fewer pulls, the closer to the arm's a_k."""
        centre, strength = self._arms(self.spread)[0], self.noise / self.spread**2
        return np.clip((self.past.sums + strength * centre) / (self.past.pulls + strength), 0.0, 1.0)

    @cached_property
    def law(self) -> Law:
        """Coins if every reward is 0 or 1, otherwise Beta rewards of the variance that was seen within streams."""
        if self.past.coins:
            return Bernoulli()
        mu, n = self.means(), self.past.pulls
        ratio = float((n * mu * (1 - mu)).sum() / (n * self.noise).sum())
        return Beta(float(np.clip(ratio - 1.0, 0.1, 1e4)))

    def draw(self, rng: np.random.Generator, agents: int | None = None) -> Array:
        """Draw everybody's means: the logged agents', or those of ``agents`` others like them."""
        at = int(np.searchsorted(np.cumsum(self._joint.ravel()), rng.random()))
        i, j = np.unravel_index(min(at, self._joint.size - 1), self._joint.shape)
        tau, omega, s = GRID[i], GRID[j], self._error[i]
        weight = 1.0 / (s + omega**2)
        overall = rng.normal((weight * self._centre[i]).sum() / weight.sum(), weight.sum() ** -0.5)
        precision = 1.0 / s + 1.0 / omega**2
        arms = rng.normal((self._centre[i] / s + overall / omega**2) / precision, precision**-0.5)
        if agents is not None:
            return np.clip(rng.normal(arms, tau, (agents, len(arms))), 0.0, 1.0)
        precision = self.past.pulls / self.noise + 1.0 / tau**2
        own = (self.past.sums / self.noise + arms / tau**2) / precision
        return np.asarray(np.clip(rng.normal(own, precision**-0.5), 0.0, 1.0))


def _noise(past: Past) -> Array:
    """W_k: squared deviations from own means, pooled over agents, and a little over arms; [0, 1] allows m(1−m)."""
    n = np.maximum(past.pulls, 1)
    squares = np.maximum(past.squares - past.sums**2 / n, 0.0).sum(axis=0)
    freedom = (n - 1).sum(axis=0)
    mean = past.sums.sum() / past.pulls.sum()
    pooled = (squares.sum() + PRIOR_PULLS * mean * (1 - mean)) / (freedom.sum() + PRIOR_PULLS)
    return np.asarray(np.clip((squares + PRIOR_PULLS * pooled) / (freedom + PRIOR_PULLS), 1e-4, 0.25))
