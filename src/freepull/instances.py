"""The games of the paper, and generators of random ones."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import FreepullError, InvalidInput
from freepull.game import Game
from freepull.registry import number

__all__ = ["PAPER_MEANS", "Family", "toy"]

Array = NDArray[np.float64]
PAPER_MEANS = tuple(round(0.4 + 0.005 * k, 3) for k in range(30))
BATCH = 1 << 20
DRAWS = 200_000


def toy() -> Game:
    """Return the paper's game of 2 agents and 3 arms: globally .45, .47, .45, but arm 1 is nobody's own best."""
    return Game([[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]])


def means_from_csv(where: str, text: str) -> list[list[float]]:
    """Return the table of means that a CSV file holds, one row per agent."""
    rows = enumerate(csv.reader(text.splitlines()), 1)
    return [[number(f"{where} line {i}", cell) for cell in row] for i, row in rows if row]


@dataclass(frozen=True, repr=False)
class Family:
    """The paper's random games (appendix, Fig. 2(d)): call it with a generator for a fresh one.

    Every agent's mean of arm k is drawn from a normal around ``means[k]`` with standard deviation ``sd``, truncated
    to [0, 1]; the draw is repeated until the gap between the two best global arms lies within ``gap`` (None: any).
    With ``clip``, a draw beyond its two ends is moved there instead, as in `freepull.panels`. The paper's text says
    variance 0.01 (sd = 0.1); the authors' code has sd = 0.005.

    >>> import numpy as np
    >>> game = Family(agents=30, sd=0.005)(np.random.default_rng(1))
    >>> game.agents, game.arms, 0.0045 <= game.minimum_gap <= 0.0055
    (30, 30, True)
    """

    agents: int
    means: Sequence[float] = PAPER_MEANS
    sd: float = 0.1
    gap: tuple[float, float] | None = (4.5e-3, 5.5e-3)
    clip: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        validation.keep_whole(self, "agents", 1)
        validation.keep_real(self, "sd", 0.0, open_low=True)
        if np.ndim(validation.numbers("means", self.means)) != 1 or len(self.means) < 2:
            raise InvalidInput(f"means must name at least 2 arms, got {validation.shown(self.means)}.")
        for mean in self.means:
            validation.real("means", mean, 0.0, 1.0)
        for name, given in (("gap", self.gap), ("clip", self.clip)):
            if given is not None:
                ends = validation.numbers(name, given)
                if ends.shape != (2,) or not 0 <= ends[0] < ends[1] <= 1:
                    raise InvalidInput(
                        f"{name} must be two numbers 0 ≤ low < high ≤ 1, or None, got {validation.shown(given)}."
                    )

    def __repr__(self) -> str:
        means = "" if tuple(self.means) == PAPER_MEANS else f"means={tuple(self.means)!r}, "
        clip = "" if self.clip is None else f", clip={self.clip!r}"
        return f"Family(agents={self.agents}, {means}sd={self.sd!r}, gap={self.gap!r}{clip})"

    def __call__(self, rng: np.random.Generator) -> Game:
        """Draw one game."""
        centres = np.asarray(self.means, float)
        batch = (
            1 if self.gap is None and self.clip is not None else max(1, min(64, BATCH // (self.agents * len(centres))))
        )
        drawn = 0
        while drawn < DRAWS:
            tables = self._truncated(rng, centres, batch)
            ranked = np.sort(tables.mean(axis=1), axis=1)
            gaps = ranked[:, -1] - ranked[:, -2]
            fits = np.ones(batch, bool) if self.gap is None else (gaps >= self.gap[0]) & (gaps <= self.gap[1])
            if fits.any():
                return Game(tables[int(np.argmax(fits))])
            drawn += batch
        raise FreepullError(f"None of {drawn} draws had a gap within {self.gap}; widen gap, or change means or sd.")

    def _truncated(self, rng: np.random.Generator, centres: Array, batch: int) -> Array:
        """Draw normals and draw those outside [0, 1] again: exact, and quick for any centre inside. Or clip them."""
        tables = rng.normal(centres, self.sd, size=(batch, self.agents, len(centres)))
        if self.clip is not None:
            return np.clip(tables, *self.clip)
        outside = np.nonzero((tables < 0) | (tables > 1))
        while len(outside[0]):
            again = rng.normal(centres[outside[2]], self.sd)
            tables[outside] = again
            still = (again < 0) | (again > 1)
            outside = tuple(axis[still] for axis in outside)
        return np.asarray(tables)
