"""Reward laws in [0, 1]: what one pull of one arm pays its agent.

A law plus a table of means gives the `Streams` of a game: for every (agent, arm) a rule that turns a random word into
a reward. Rewards are rounded half-even to multiples of 2⁻³⁰ before anyone sees them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.disturbances import moved_level, moved_units
from freepull.errors import InvalidInput
from freepull.registry import part

__all__ = ["Bernoulli", "Beta", "Categorical", "Empirical", "Law", "TruncatedNormal"]

Array = NDArray[np.float64]
UNITS = 1 << 30
"""A reward of 1, counted in units of 2⁻³⁰."""
BITS = 2.0**53


@dataclass(frozen=True)
class Streams:
    """What both engines need to draw a reward: the law's kind, five numbers per stream, and a table of values."""

    kind: int
    parameters: Array
    levels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    values: Array = field(default_factory=lambda: np.zeros(1))

    def draw(self, agent: int, arm: int, word: int, shift: float = 0.0) -> float:
        """Return the reward that ``word`` stands for in the stream (agent, arm), with its mean moved by ``shift``."""
        if self.kind == 0:
            level = self.parameters[agent, arm, 0]
            return 1.0 if (word >> 11) < (moved_level(level, shift) if shift else level) else 0.0
        from freepull.numerics import reward_units

        parameters = self.parameters[agent, arm]
        units = int(reward_units(self.kind, parameters, self.levels, self.values, np.uint64(word)))
        return int(moved_units(units, shift)) / UNITS if shift else units / UNITS


class Law(ABC):
    """A family of reward laws in [0, 1], one member for each mean."""

    def means(self) -> Array | None:
        """Return the M×K means, where the law itself fixes them."""
        return None

    @abstractmethod
    def variances(self, means: Array) -> Array:
        """Return the M×K variances of single rewards."""

    @abstractmethod
    def streams(self, means: Array) -> Streams:
        """Return the streams of a game with these M×K means."""

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """Return the M×K Kullback–Leibler divergences KL(law of arm k ‖ law of arm ``best[m]``) of every agent m."""
        raise InvalidInput(
            f"rewards must say how far two of their laws are apart, and {type(self).__name__} does not; give it a "
            "method divergences(means, best), or use Bernoulli rewards."
        )


@part("rewards", "bernoulli", kernel=0)
@dataclass(frozen=True)
class Bernoulli(Law):
    """A coin: 1 with probability μ, else 0. The law of the paper's experiments."""

    def variances(self, means: Array) -> Array:
        """μ(1−μ)."""
        return means * (1.0 - means)

    def streams(self, means: Array) -> Streams:
        """A word's first 53 bits below μ·2⁵³ mean 1."""
        return Streams(0, _columns(np.rint(means * BITS)))

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """Those of coins."""
        return _discrete(np.stack([1.0 - means, means], axis=2), best)


@part("rewards", "beta", kernel=1)
@dataclass(frozen=True)
class Beta(Law):
    """Beta(μ·c, (1−μ)·c): the larger the concentration c, the closer to the mean; a mean of 0 or 1 is a constant."""

    concentration: float = 10.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "concentration", 0.0, open_low=True)

    def variances(self, means: Array) -> Array:
        """μ(1−μ)/(c+1)."""
        return means * (1.0 - means) / (self.concentration + 1.0)

    def streams(self, means: Array) -> Streams:
        """Parameters a, b, and the constant where the law is one (−1 where not)."""
        constant = np.where((means == 0.0) | (means == 1.0), means, -1.0)
        return Streams(1, _columns(means * self.concentration, (1.0 - means) * self.concentration, constant))

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """By digamma functions; a constant is infinitely far from any other law."""
        from scipy.special import betaln, digamma

        c, other = self.concentration, _of(means, best)
        with np.errstate(invalid="ignore"):
            lean = digamma(means * c) - digamma((1.0 - means) * c)
            apart = betaln(other * c, (1.0 - other) * c) - betaln(means * c, (1.0 - means) * c)
            apart = np.maximum(apart + (means - other) * c * lean, 0.0)
        constant = (np.minimum(means, 1.0 - means) == 0.0) | (np.minimum(other, 1.0 - other) == 0.0)
        return np.asarray(np.where(means == other, 0.0, np.where(constant, np.inf, apart)))


@part("rewards", "truncated-normal", kernel=2)
@dataclass(frozen=True)
class TruncatedNormal(Law):
    """A normal with standard deviation ``sd`` kept within [0, 1], its centre placed so that the mean is exactly μ."""

    sd: float = 0.1

    def __post_init__(self) -> None:
        validation.keep_real(self, "sd", 0.0, 10.0, open_low=True)

    def _centres(self, means: Array) -> Array:
        reach = np.array([-8.0 * self.sd, 1.0 + 8.0 * self.sd])
        low, high = self._moments(reach)[0]
        if not ((means >= low) & (means <= high)).all():
            bad = means[(means < low) | (means > high)].flat[0]
            raise InvalidInput(
                f"means must lie in [{low:.4g}, {high:.4g}] for TruncatedNormal(sd={self.sd:g}), got {bad:g}; "
                "use a smaller sd, or Beta rewards."
            )
        left, right = np.full(means.shape, reach[0]), np.full(means.shape, reach[1])
        for _ in range(80):
            middle = 0.5 * (left + right)
            below = self._moments(middle)[0] < means
            left, right = np.where(below, middle, left), np.where(below, right, middle)
        return np.asarray(0.5 * (left + right))

    def _moments(self, centre: Array) -> tuple[Array, Array]:
        """Mean and variance of N(centre, sd²) given [0, 1]; computed on the side where probabilities are small."""
        flip = centre > 0.5
        c = np.where(flip, 1.0 - centre, centre)
        a, b = -c / self.sd, (1.0 - c) / self.sd
        density_a, density_b = np.exp(-0.5 * a * a), np.exp(-0.5 * b * b)
        scale = np.sqrt(2.0 * np.pi) * self._mass(centre)
        shift = (density_a - density_b) / scale
        mean = np.clip(c + self.sd * shift, 0.0, 1.0)
        variance = self.sd**2 * (1.0 + (a * density_a - b * density_b) / scale - shift**2)
        return np.asarray(np.where(flip, 1.0 - mean, mean)), np.maximum(variance, 0.0)

    def _mass(self, centre: Array) -> Array:
        """P(N(centre, sd²) in [0, 1])."""
        from scipy.special import ndtr

        c = np.minimum(centre, 1.0 - centre)
        return np.asarray(ndtr(c / self.sd) - ndtr((c - 1.0) / self.sd))

    def variances(self, means: Array) -> Array:
        """The truncated normal's own variance."""
        return self._moments(self._centres(means))[1]

    def streams(self, means: Array) -> Streams:
        """Side (±1), centre, sd, and the two probabilities between which the quantile is taken."""
        from scipy.special import ndtr

        centre = self._centres(means)
        side = np.where(centre > 0.5, 1.0, -1.0)
        ends = -centre / self.sd, (1.0 - centre) / self.sd
        start = np.where(side > 0, ndtr(ends[0]), ndtr(-ends[0]))
        stop = np.where(side > 0, ndtr(ends[1]), ndtr(-ends[1]))
        return Streams(2, _columns(side, centre, np.full(means.shape, self.sd), start, stop - start))

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """Those of two normals of one sd and different centres, given [0, 1]."""
        centre = self._centres(means)
        other, mass = _of(centre, best), self._mass(centre)
        apart = (centre - other) * (2.0 * means - centre - other) / (2.0 * self.sd**2) + np.log(_of(mass, best) / mass)
        return np.asarray(np.where(centre == other, 0.0, np.maximum(apart, 0.0)))


@part("rewards", "categorical", kernel=3)
@dataclass(frozen=True)
class Categorical(Law):
    """Given values with given probabilities, M×K×V: star ratings, prices, constants. Its means follow from them."""

    values: Sequence[float]
    probabilities: Any

    def __post_init__(self) -> None:
        values, table = (
            validation.numbers("values", self.values),
            validation.numbers("probabilities", self.probabilities),
        )
        if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
            raise InvalidInput(f"values must be a list of numbers in [0, 1], got {validation.shown(self.values)}.")
        if table.ndim != 3 or table.shape[2] != len(values):
            raise InvalidInput(
                f"probabilities must be an agents × arms × {len(values)} table, got the shape {table.shape}."
            )
        if not ((table >= 0).all() and np.allclose(table.sum(axis=2), 1.0, rtol=0, atol=1e-9)):
            raise InvalidInput("probabilities must be at least 0 and add up to 1 for every agent and arm.")

    def _table(self) -> tuple[Array, Array]:
        probabilities = np.asarray(self.probabilities, float)
        rounded = np.rint(np.asarray(self.values, float) * UNITS) / UNITS
        return rounded, probabilities / probabilities.sum(axis=2, keepdims=True)

    def means(self) -> Array:
        """Σ value · probability."""
        values, table = self._table()
        return np.clip(table @ values, 0.0, 1.0)

    def variances(self, means: Array) -> Array:
        """Σ (value − μ)² · probability."""
        values, table = self._table()
        return np.asarray((table * (values - means[:, :, None]) ** 2).sum(axis=2))

    def streams(self, means: Array) -> Streams:
        """A word's first 53 bits are looked up among the cumulated probabilities."""
        values, table = self._table()
        levels = np.rint(np.cumsum(table, axis=2) * BITS).astype(np.int64)
        agents, arms, size = table.shape
        starts = np.arange(agents * arms, dtype=float).reshape(agents, arms) * size
        return Streams(3, _columns(starts, starts + size - 1), levels.ravel(), np.tile(values, agents * arms))

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """Infinite where an arm pays what the other never does; equal values count as one."""
        values, table = self._table()
        _, which = np.unique(values, return_inverse=True)
        return _discrete(table @ np.eye(int(which.max()) + 1)[which], best)


@part("rewards", "empirical", kernel=3)
@dataclass(frozen=True)
class Empirical(Law):
    """Logged rewards, drawn again with replacement: ``samples[agent][arm]`` is a list of rewards in [0, 1]."""

    samples: Sequence[Sequence[Sequence[float]]]

    def __post_init__(self) -> None:
        try:
            widths = {len(row) for row in self.samples}
        except TypeError:
            widths = set()
        if len(widths) != 1:
            raise InvalidInput(
                "samples must hold one list of rewards for every agent and arm, and as many arms for each, "
                f"got {validation.shown(self.samples)}."
            )
        for m, row in enumerate(self.samples):
            for k, logged in enumerate(row):
                x = validation.numbers(f"samples[{m}][{k}]", logged)
                if x.ndim != 1 or not len(x) or not ((x >= 0) & (x <= 1)).all():
                    must = f"samples[{m}][{k}] must be a list of at least one reward in [0, 1]"
                    raise InvalidInput(f"{must}, got {validation.shown(logged)}.")

    def _sorted(self) -> list[list[Array]]:
        return [[np.sort(np.rint(np.asarray(x, float) * UNITS) / UNITS) for x in row] for row in self.samples]

    def means(self) -> Array:
        """The means of the logged rewards."""
        return np.array([[float(x.mean()) for x in row] for row in self._sorted()])

    def variances(self, means: Array) -> Array:
        """The variances of the logged rewards (they are the population here, so divided by n)."""
        return np.array([[float(x.var()) for x in row] for row in self._sorted()])

    def streams(self, means: Array) -> Streams:
        """A table of each stream's rewards, all equally likely."""
        logged = [x for row in self._sorted() for x in row]
        sizes = np.array([len(x) for x in logged])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).reshape(means.shape).astype(float)
        levels = np.concatenate([np.rint(np.arange(1, n + 1) / n * BITS) for n in sizes]).astype(np.int64)
        return Streams(3, _columns(starts, starts + sizes.reshape(means.shape) - 1), levels, np.concatenate(logged))

    def divergences(self, means: Array, best: NDArray[np.int64]) -> Array:
        """Infinite where an arm has a reward in its log that the other has not."""
        apart = np.zeros(means.shape)
        for m, row in enumerate(self._sorted()):
            for k, own in enumerate(row):
                values, which = np.unique(np.concatenate([own, row[best[m]]]), return_inverse=True)
                shares = [np.bincount(part, minlength=len(values)) / len(part) for part in np.split(which, [len(own)])]
                apart[m, k] = _discrete(np.array([shares]), np.ones(1, np.int64))[0, 0]
        return apart


def _columns(*parts: Array) -> Array:
    table = np.zeros((*parts[0].shape, 5))
    for i, column in enumerate(parts):
        table[:, :, i] = column
    return table


def _of(table: Array, best: NDArray[np.int64]) -> Array:
    """Return every agent's entry for its arm ``best[m]``, as a column."""
    return np.take_along_axis(table, np.asarray(best)[:, None], axis=1)


def _discrete(table: Array, best: NDArray[np.int64]) -> Array:
    """Σ p·log(p/q) over the last axis of an M×K×V table of probabilities, q those of arm ``best[m]``."""
    from scipy.special import rel_entr

    other = np.take_along_axis(table, np.asarray(best)[:, None, None], axis=1)
    return np.asarray(np.maximum(rel_entr(table, other).sum(axis=2), 0.0))


def seen_means(pulls: Sequence[int], sums: Sequence[float]) -> list[float]:
    """Return what an agent has seen of every arm on average; one that it never pulled counts as ½.

    >>> seen_means((4, 0), (3.0, 0.0))
    [0.75, 0.5]
    """
    return [S / N if N else 0.5 for S, N in zip(sums, pulls, strict=True)]
