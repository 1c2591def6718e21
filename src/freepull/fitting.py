"""What a log with times says of its people: how often they come, who stops, who refuses, and how they choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.agents import Agent, AlphaUCB, EpsilonGreedy, Greedy, RoundRobin, Thompson
from freepull.agents.activity import Lognormal
from freepull.agents.answers import Always, Reluctant
from freepull.agents.leaving import AtRandom
from freepull.data import REFUSED, TAKEN, Acts, Past
from freepull.errors import InvalidInput

Array = NDArray[np.float64]
DAY = 10
"""Steps of a day, as on the street panel."""
RATES = np.exp(np.linspace(math.log(1e-5), math.log(10.0), 280))
"""Rates a step over which the likelihood is summed."""
NARROWEST, WIDEST = 0.08, 4.0
"""σ of rates is between these."""
LIKELY, FAR = math.log(0.8), 1.5
"""The prior of log σ is normal around this, with this standard deviation; other priors are flat."""
CHOICES, RESAMPLES, FINE = 30_000, 200, 96
"""Choices that are looked at, at most; resamples of people; and the grid of Thompson's beliefs."""
ROUNDED = 1e-6
"""Times this close to the end of a step are at it, since days are fractions."""
FEWEST = 10
"""People who came, without whom nothing is fitted."""
TREMBLES = np.concatenate([[1e-4, 1e-3], np.linspace(0.01, 0.99, 50)])
CANDIDATES: tuple[Agent, ...] = (
    *(AlphaUCB(alpha) for alpha in (0.5, 1.0, 2.0, 4.0)),
    *(EpsilonGreedy(c) for c in (1.0, 5.0, 1e6)),
    Greedy(),
    Thompson(),
    RoundRobin(),
)
"""Strategies that may explain choices; ε-greedy with c = 10⁶ picks at random."""


@dataclass(frozen=True)
class Fitted:
    """Parameters on scales on which they are about normal: logarithms, and log-odds of shares."""

    names: tuple[str, ...]
    centre: Array
    covariance: Array

    def value(self, name: str, at: Array | None = None) -> float:
        """Return a parameter on its own scale: at the centre, or where it was drawn."""
        x = float((self.centre if at is None else at)[self.names.index(name)])
        return math.exp(x) if name in ("median", "sigma") else 1.0 / (1.0 + math.exp(-x))

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw all of them, as far as the log leaves them open."""
        return np.asarray(rng.multivariate_normal(self.centre, self.covariance, method="eigh"))

    def limits(self, name: str) -> tuple[float, float]:
        """Return the 95 % interval of a parameter."""
        i = self.names.index(name)
        reach = 1.96 * math.sqrt(self.covariance[i, i]) * np.eye(len(self.names))[i]
        return self.value(name, self.centre - reach), self.value(name, self.centre + reach)

    def shown(self, name: str, percent: bool = False) -> str:
        """Return a parameter with its interval in words."""
        times = 100.0 if percent else 1.0
        value, low, high = (f"{times * it:.2g}" for it in (self.value(name), *self.limits(name)))
        return f"{value}{' %' if percent else ''} ({low} to {high})"


@dataclass(frozen=True)
class Explained:
    """How well a strategy explains free choices."""

    agent: Agent
    behind: float
    """How far its log-likelihood is behind the best one's, 0 for that one…"""
    error: float
    """…with the standard error of the difference, people being the units."""
    named: float
    """The share of choices that it names, ties shared out."""
    wins: float
    """How often it is the best one when people are drawn again."""


@dataclass(frozen=True)
class Habits:
    """What was fitted: in Python `fp.plan(log=…).habits`."""

    people: int
    """How many the log names, those who never came included."""
    came: int
    steps: int
    """How many steps the log is long."""
    dated: int | None
    """Steps of a day, if the log has dates."""
    crowded: float
    """The share of acts in a step in which their agent had acted already; these do not count as acts of their own."""
    presence: Fitted
    """median and σ of rates a step, the share who leave within the log, and the share who never come, if known."""
    refusals: Fitted | None
    """share and probability of those who refuse; None without offers in the log."""
    strategies: tuple[Explained, ...]
    """Best first."""

    def parts(self, horizon: int, presence: Array | None = None, refusals: Array | None = None) -> dict[str, Any]:
        """Return people as they were fitted, or as they were drawn."""
        at = self.presence
        silent = at.value("silent", presence) if "silent" in at.names else 0.0
        gone = 1.0 - (1.0 - at.value("leaving", presence)) ** (horizon / self.steps)
        told = self.refusals
        answers: Any = Always()
        if told is not None:
            answers = Reluctant(told.value("share", refusals), told.value("probability", refusals))
        return {
            "activity": Lognormal(at.value("median", presence), at.value("sigma", presence), silent),
            "leaving": AtRandom(gone),
            "answers": answers,
            "strategies": self.strategies[0].agent,
        }

    def draw(self, rng: np.random.Generator, horizon: int) -> dict[str, Any]:
        """Draw people who may be the true ones."""
        presence = self.presence.draw(rng)
        refusals = None if self.refusals is None else self.refusals.draw(rng)
        wins = np.cumsum([one.wins for one in self.strategies])
        picked = min(int(np.searchsorted(wins, rng.random() * wins[-1], "right")), len(wins) - 1)
        return self.parts(horizon, presence, refusals) | {"strategies": self.strategies[picked].agent}

    def words(self) -> str:
        """Say what was fitted, how sure it is, and what is assumed."""
        at, day = self.presence, f" (a day has {self.dated})" if self.dated is not None else ""
        told = [
            f"fitted to {self.steps:,} steps{day} of {self.came:,} people, with 95 % intervals: rates a step are "
            f"log-normal with median {at.shown('median')} and σ {at.shown('sigma')}, "
            f"{at.shown('leaving', percent=True)} leave in that time"
        ]
        if "silent" in at.names:
            told.append(f"{at.shown('silent', percent=True)} of those enrolled never come")
        else:
            told.append("how many were enrolled and never came the log does not say, so nobody is assumed to")
        if self.refusals is None:
            told.append("it tells of no offers, so refusals cannot be known")
        else:
            share, often = self.refusals.shown("share", percent=True), self.refusals.shown("probability", percent=True)
            told.append(f"{share} refuse an offer with a probability of {often}")
        best, second = self.strategies[:2]
        told.append(
            f"choices are explained best by {best.agent!r}, which names {100 * best.named:.0f} % of them; "
            f"{second.agent!r} is behind by {second.behind:.1f} ± {1.96 * second.error:.1f} in log-likelihood"
            + (f" (the first is best in {100 * best.wins:.0f} % of resamples of people)" if best.wins < 1 else "")
        )
        if self.crowded > 0.05:
            told.append(f"{100 * self.crowded:.0f} % of acts share a step with another of the same person and are lost")
        return "; ".join(told)

    def describe(self) -> dict[str, Any]:
        """Return it as plain data."""
        fits = [self.presence, *([self.refusals] if self.refusals is not None else [])]
        told: dict[str, Any] = {
            name: {"value": fit.value(name), "low": fit.limits(name)[0], "high": fit.limits(name)[1]}
            for fit in fits
            for name in fit.names
        }
        strategies = [
            {"agent": repr(it.agent), "behind": it.behind, "error": it.error, "named": it.named, "wins": it.wins}
            for it in self.strategies
        ]
        sizes = {"people": self.people, "came": self.came, "steps": self.steps, "crowded": self.crowded}
        return {**sizes, "fitted": told, "strategies": strategies}


def fit(past: Past, day: int = DAY) -> Habits | None:
    """Fit people to a log (docs/planning.md, habits); None if it does not say when, or too few came."""
    acts = past.acts
    if acts is None or len(np.unique(acts.agent)) < FEWEST:
        return None
    validation.whole("day", day, 1)
    began = min(np.nanmin(acts.time), np.nanmin(acts.joined, initial=np.inf))
    unit = day if acts.dated else 1
    step = np.floor((acts.time - began) * unit + ROUNDED).astype(np.int64) + 1
    joined = np.where(np.isnan(acts.joined), 0, np.floor((acts.joined - began) * unit + ROUNDED)).astype(np.int64)
    steps = int(step.max())
    if steps < 2:
        raise InvalidInput(f"the log must be at least 2 steps long, got {steps}; leave its column of times out.")
    distinct = np.ones(len(step), bool)
    distinct[1:] = (np.diff(acts.agent) != 0) | (np.diff(step) != 0)
    count = np.bincount(acts.agent[distinct], minlength=len(past.agents))
    first, last = np.full(len(past.agents), steps), np.zeros(len(past.agents), np.int64)
    np.minimum.at(first, acts.agent, step)
    np.maximum.at(last, acts.agent, step)
    joined = np.minimum(joined, np.where(count > 0, first - 1, steps - 1))
    return Habits(
        people=len(past.agents),
        came=int((count > 0).sum()),
        steps=steps,
        dated=day if acts.dated else None,
        crowded=float(1.0 - distinct.mean()),
        presence=_presence(count, np.where(count > 0, last - joined, 0), steps - joined, steps, acts.enrolled),
        refusals=_refusals(acts, len(past.agents)),
        strategies=_strategies(acts, len(past.arms)),
    )


def _presence(count: Any, last: Any, length: Any, steps: int, enrolled: bool) -> Fitted:
    """Fit rates, leaving and silence: acts of people who come at a rate until they leave, or to the end.

    Somebody who came rarely may be rare or gone: both are summed over, with their probabilities.
    """
    rows, times = np.unique(np.column_stack([count, last, length]), axis=0, return_counts=True)
    n, until, L = (rows[:, [i]].astype(float) for i in range(3))
    acting, idle = np.log(-np.expm1(-RATES)), -RATES
    base = n * acting + (until - n) * idle
    stays = np.exp((L - until) * idle)
    leaves = np.expm1((L - until) * idle) / np.expm1(idle) / L
    top = base.max(axis=1, keepdims=True)
    base = np.exp(base - top)
    stays, leaves, to_end = base * stays, base * leaves, L[:, 0] / steps
    spans, which = np.unique(L, return_inverse=True)
    none = np.exp(spans[:, None] * idle), np.expm1(spans[:, None] * idle) / np.expm1(idle) / spans[:, None]
    never = rows[:, 0] == 0

    def minus(x: Array) -> float:
        sigma = min(max(math.exp(x[1]), NARROWEST), WIDEST)
        weight = np.exp(-0.5 * ((np.log(RATES) - x[0]) / sigma) ** 2)
        weight /= max(weight.sum(), 1e-300)
        gone = 1.0 - (1.0 - _share(x[2])) ** to_end
        chance = (1.0 - gone) * (stays @ weight) + gone * (leaves @ weight)
        prior = _flat(x[2]) - 0.5 * ((x[1] - LIKELY) / FAR) ** 2
        if enrolled:
            silent = _share(x[3])
            log = np.log(np.where(never, silent, 0.0) * np.exp(-top[:, 0]) + (1.0 - silent) * chance + 1e-300)
            return -float(times @ log + prior + _flat(x[3]))
        zero = (1.0 - gone) * (none[0] @ weight)[which.ravel()] + gone * (none[1] @ weight)[which.ravel()]
        return -float(times @ (np.log(chance + 1e-300) - np.log1p(-np.minimum(zero, 1 - 1e-12))) + prior)

    seen = ~never
    rate = float((n[seen, 0] @ times[seen]) / (L[seen, 0] @ times[seen]))
    start = [math.log(max(rate, 1e-4)), LIKELY, -2.0] + ([-2.0] if enrolled else [])
    return _fitted(minus, start, ("median", "sigma", "leaving", *(("silent",) if enrolled else ())))


def _refusals(acts: Acts, people: int) -> Fitted | None:
    """Fit a share of people who refuse with some probability, from offers that were taken and refused."""
    offers = np.bincount(acts.agent[np.isin(acts.outcome, (TAKEN, REFUSED))], minlength=people)
    refused = np.bincount(acts.agent[acts.outcome == REFUSED], minlength=people)
    rows, times = np.unique(np.column_stack([offers, refused])[offers > 0], axis=0, return_counts=True)
    if not len(rows):
        return None
    n, k = rows.T

    def minus(x: Array) -> float:
        share, often = _share(x[0]), _share(x[1])
        chance = share * often**k * (1.0 - often) ** (n - k) + (1.0 - share) * (k == 0)
        return -float(times @ np.log(chance + 1e-300) + _flat(x[0]) + _flat(x[1]))

    return _fitted(minus, [-1.0, -1.0], ("share", "probability"))


def _share(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(x, -30.0), 30.0)))


def _flat(x: float) -> float:
    """A flat prior of a share, on the scale of its log-odds."""
    return math.log(_share(x)) + math.log1p(-_share(x))


def _fitted(minus: Callable[[Array], float], start: list[float], names: tuple[str, ...]) -> Fitted:
    """Find the largest posterior, and take it for normal there."""
    from scipy.optimize import minimize

    tried = (minimize(minus, np.array(start) + off, method="Nelder-Mead") for off in (0.0, 1.0))
    best = min(tried, key=lambda found: float(found.fun))
    centre, wide, count = np.asarray(best.x), 0.05, len(start)
    steps, middle = wide * np.eye(count), minus(np.asarray(best.x))
    hessian = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            a, b = steps[i], steps[j]
            if i == j:
                hessian[i, i] = (minus(centre + a) + minus(centre - a) - 2 * middle) / wide**2
            else:
                crossed = minus(centre + a + b) + minus(centre - a - b) - minus(centre + a - b) - minus(centre - a + b)
                hessian[i, j] = crossed / (4 * wide**2)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return Fitted(names, centre, (vectors / np.maximum(values, 0.05)) @ vectors.T)


def _strategies(acts: Acts, arms: int) -> tuple[Explained, ...]:
    """Explain free choices by what their agent had seen before, for every candidate; one tremble η for each."""
    chosen = _some(acts)
    agent, arm, reward = acts.agent[chosen], acts.arm[chosen], acts.reward[chosen]
    free = acts.outcome[chosen] != TAKEN
    first = np.concatenate([[0], np.flatnonzero(np.diff(agent)) + 1])
    began = np.repeat(first, np.diff(np.append(first, len(agent))))
    t = np.arange(len(agent)) - began + 1.0
    pulled = np.eye(arms)[arm]
    N, S = (_before(it, began) for it in (pulled, pulled * reward[:, None]))
    rows, person = np.arange(len(agent)), np.searchsorted(first, began[free])
    logs, named = [], []
    for candidate in CANDIDATES:
        chance = _chances(candidate, N, S, t)[rows, arm][free]
        log = [float(np.log((1 - eta) * chance + eta / arms).sum()) for eta in TREMBLES]
        eta = TREMBLES[int(np.argmax(log))]
        logs.append(np.bincount(person, np.log((1 - eta) * chance + eta / arms), len(first)))
        named.append(float(chance.mean()) if len(chance) else math.nan)
    table = np.array(logs)
    total = table.sum(axis=1)
    best, people = int(np.argmax(total)), table.shape[1]
    weights = np.random.default_rng(0).multinomial(people, np.full(people, 1 / people), RESAMPLES)
    wins = np.bincount(np.argmax(table @ weights.T, axis=0), minlength=len(table)) / RESAMPLES
    behind = table[best] - table
    errors = behind.std(axis=1) * math.sqrt(people)
    return tuple(
        Explained(CANDIDATES[i], float(total[best] - total[i]), float(errors[i]), named[i], float(wins[i]))
        for i in np.argsort(-total, kind="stable").tolist()
    )


def _some(acts: Acts) -> NDArray[np.int64]:
    """All acts of so many people that there are not too many."""
    if len(acts.agent) <= CHOICES:
        return np.arange(len(acts.agent))
    counts = np.bincount(acts.agent)
    order = np.random.default_rng(0).permutation(len(counts))
    kept = np.zeros(len(counts), bool)
    kept[order[: max(int(np.searchsorted(np.cumsum(counts[order]), CHOICES)), 1)]] = True
    return np.flatnonzero(kept[acts.agent])


def _before(values: Array, began: NDArray[np.int64]) -> Array:
    """The sum over the same agent's earlier rows."""
    sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values, axis=0)])
    return np.asarray(sums[:-1] - sums[began])


def _chances(agent: Agent, N: Array, S: Array, t: Array) -> Array:
    """The probability with which a strategy picks each arm; arms that tie share it, since their order is not known."""
    if isinstance(agent, Thompson):
        return _thompson(N, S)
    if isinstance(agent, RoundRobin):
        return _largest(-N)
    n = np.maximum(N, 1.0)
    index = S / n
    if isinstance(agent, AlphaUCB):
        index = index + np.sqrt(agent.alpha * np.log(t))[:, None] / np.sqrt(n)
    best = _largest(np.where(N > 0, np.round(index, 12), np.inf))
    if not isinstance(agent, EpsilonGreedy):
        return best
    any_arm = np.where((N == 0).any(axis=1), 0.0, np.minimum(1.0, agent.c * N.shape[1] / t))[:, None]
    return np.asarray((1.0 - any_arm) * best + any_arm / N.shape[1])


def _largest(index: Array) -> Array:
    ties = index == index.max(axis=1, keepdims=True)
    return np.asarray(ties / ties.sum(axis=1, keepdims=True))


def _thompson(N: Array, S: Array) -> Array:
    """P(the draw of arm k is the largest), on a grid."""
    x = (np.arange(FINE) + 0.5) / FINE
    rows = np.unique(np.column_stack([S, N]), axis=0, return_inverse=True)
    S, N = np.hsplit(rows[0], 2)
    log = S[:, :, None] * np.log(x) + (N - S)[:, :, None] * np.log1p(-x)
    density = np.exp(log - log.max(axis=2, keepdims=True))
    density /= density.sum(axis=2, keepdims=True)
    below = np.maximum(np.cumsum(density, axis=2) - 0.5 * density, 1e-300)
    everybody = np.log(below).sum(axis=1, keepdims=True)
    chance = (density * np.exp(everybody - np.log(below))).sum(axis=2)
    return np.asarray((chance / chance.sum(axis=1, keepdims=True))[rows[1].reshape(-1)])
