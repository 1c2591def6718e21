"""Plans on trial: what was planned, what then happened, and how often the range held it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import freepull as fp
from freepull.theory import natural_pulls

from .calibration_worlds import world

SEED = 2027
SETTINGS, TRIALS, RUNS = 400, 20, 199
"""Worlds, true trials in each, and runs behind each plan."""
STREET_SETTINGS = PRICED_SETTINGS = 80
CHANCE = 0.05
"""The bar: how far the planned chance of a certified answer on street panels may be from what happened, on average."""
FLUID_GAMES = 12
LOW, HIGH = 0.87, 0.93
"""The bar: how often the 90 % range may hold a single trial's spend."""
FLUID = 0.03


@dataclass(frozen=True)
class Tried:
    """One plan, and what the true trials paid."""

    family: str
    places: tuple[float, ...]
    """Where each spend lies in the plan's distribution, in [0, 1]; ties are broken at random."""
    inside: tuple[bool, ...]
    """Whether each lies within the 90 % range as printed, ends included."""
    planned: float
    """The plan's expected spend."""
    certain: float
    """The plan's chance of a certified answer."""
    certified: float
    """The share of true trials with one."""
    formula: float | None
    """The spend by the formulas, None near zero."""
    logged: bool = False
    """Whether the plan was made from a log."""
    pricing: str = ""
    """The pricing, where bonuses differ."""

    def covered(self, share: float) -> float:
        """The share of trials within the range, ties broken at random."""
        return float(np.mean([abs(place - 0.5) <= share / 2 for place in self.places]))


def tried(number: int, seed: int = SEED, runs: int = RUNS, trials: int = TRIALS, **changed: Any) -> Tried:
    """Make a plan for one world, then let the world happen; ``changed`` is told to the planner instead."""
    at = world(seed, number)
    plan = fp.plan(
        principal=at.principal, horizon=at.horizon, runs=runs, curves=False, seed=number, workers=1, progress=False,
        **{**at.told, **changed},
    )  # fmt: skip
    true = fp.simulate(
        at.game, agents=at.picks, answers=at.answers, activity=at.activity, leaving=at.leaving,
        principal=at.principal, horizon=at.horizon, runs=trials,
        seed=seed + 1_000_003 * (number + 1), workers=1, until="decided", progress=False,
    )  # fmt: skip
    assert plan.forecast is not None
    paid = true.frame["paid" if at.principal.pricing is None else "spent"].to_list()
    luck = np.random.default_rng([seed, number, 1]).random(trials)
    low, high = plan.forecast.range(0.9)
    return Tried(
        family=at.family,
        places=tuple(plan.forecast.position(x, float(u)) for x, u in zip(paid, luck, strict=True)),
        inside=tuple(low <= x <= high for x in paid),
        planned=plan.forecast.mean,
        certain=plan.forecast.chance[0],
        certified=float(true.frame["certified"].mean()),  # type: ignore[arg-type]
        formula=plan.first.spend,
        logged="log" in at.told,
        pricing="" if at.principal.pricing is None else type(at.principal.pricing).__name__,
    )


def fluid_errors(games: int = FLUID_GAMES, horizon: int = 20_000, runs: int = 2_000) -> list[tuple[float, float]]:
    """Per stream with N ≥ 100: the relative error of the fluid count, and the standard error of measuring it."""
    found = []
    for number in range(games):
        rng = np.random.default_rng([SEED, 9, number])
        game = fp.Game(rng.uniform(0.2, 0.8, (2, int(rng.integers(2, 5)))))
        result = fp.simulate(
            game, principal=fp.Principal(fp.rules.Passive()), horizon=horizon, runs=runs, seed=number, keep="agents"
        )
        assert result.agents is not None
        counts = np.array(result.agents["pulls"].to_list(), float).reshape(runs, 2, game.arms)
        fluid = natural_pulls(game.means, horizon)
        error = counts.std(axis=0, ddof=1) / math.sqrt(runs)
        found += [
            (float(c / f - 1), float(e / f))
            for f, c, e in zip(fluid.ravel(), counts.mean(axis=0).ravel(), error.ravel(), strict=True)
            if f >= 100
        ]
    return found


@dataclass(frozen=True)
class Found:
    """All that was tried."""

    rows: list[Tried]
    fluid: list[tuple[float, float]]
    street: list[Tried]
    priced: list[Tried] = field(default_factory=list)

    def families(self) -> dict[str, list[Tried]]:
        """The rows by family, and all of them."""
        names = dict.fromkeys(row.family for row in self.rows)
        return {name: [row for row in self.rows if row.family == name] for name in names} | {"all": self.rows}

    @property
    def coverage(self) -> float:
        """How often the 90 % range held the spend of a single trial, over all worlds."""
        return pooled(self.rows, 0.9)[0]

    @property
    def coverage_met(self) -> bool:
        """Whether that is about as often as the range says."""
        return LOW <= self.coverage <= HIGH

    @property
    def fluid_met(self) -> bool:
        """Whether every fluid count of at least 100 is within 3 %, as far as its measurement can tell."""
        return all(abs(off) <= FLUID + 4 * error for off, error in self.fluid)

    @property
    def met(self) -> bool:
        """Whether all bars are met."""
        return self.coverage_met and self.fluid_met and street_met(self.street) and priced_met(self.priced)


def priced_met(rows: list[Tried]) -> bool:
    """Whether plans hold what is spent where prices differ as often as all do; true where none was tried."""
    return not rows or LOW <= pooled(rows, 0.9)[0] <= HIGH


def street_met(rows: list[Tried]) -> bool:
    """Whether plans for street panels hold the spend as often as all do, and the chance of a certified answer."""
    return LOW <= pooled(rows, 0.9)[0] <= HIGH and abs(too_sure(rows)[0]) <= CHANCE


def too_sure(rows: list[Tried]) -> tuple[float, float]:
    """How much more often certified answers were planned than came, and its standard error."""
    more = np.array([row.certain - row.certified for row in rows])
    return float(more.mean()), float(more.std(ddof=1) / math.sqrt(len(more)))


def pooled(rows: list[Tried], share: float) -> tuple[float, float]:
    """The coverage over rows, and its standard error, worlds being the independent units."""
    each = np.array([row.covered(share) for row in rows])
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each)))
