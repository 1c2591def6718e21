"""The settings in which costs are compared, and the rules that are compared there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import freepull as fp
from freepull.principal.rules import Certified, Design, Forecast, Paper

PEOPLE = (0.50, 0.45, 0.40, 0.35)
CLOSE = (0.50, 0.48, 0.46, 0.44)
AFTER, BEFORE, BLIND, PLANNED, AUTHORS, ORACLE = (
    "Certified", "Certified, before", "Certified, no forecast", "Certified, planned gap",
    "authors' ×0.1 (heuristic)", "oracle bets",
)  # fmt: skip
FEW_BEFORE = Design(30, 6, growth=0.03, neyman=0.1, stretch=0.5, held_back=0.0, forecast=Forecast())
MANY_BEFORE = Design(
    30, 30, growth=0.03, stretch=0.25, held_back=0.0,
    forecast=Forecast(phi=0.5, z=1.0, cap=3.0, gamma=1.5, shortest=2.0, longest=10.0),
)  # fmt: skip
"""The designs from before capital sat out the first round."""


@dataclass(frozen=True)
class Panel:
    """People: every agent's mean of an arm is drawn around the arm's, and the arms stand in random order."""

    agents: int
    means: tuple[float, ...]
    sd: float = 0.1

    def __call__(self, rng: np.random.Generator) -> fp.Game:
        """Draw one panel."""
        centres = rng.permutation(np.array(self.means))
        return fp.Game(np.clip(rng.normal(centres, self.sd, size=(self.agents, len(centres))), 0.01, 0.99))


@dataclass(frozen=True)
class Setting:
    """One game, or a family of games, with its horizon, offers and δ; κ = T/2."""

    name: str
    game: fp.Game | Callable[[np.random.Generator], fp.Game]
    agents: int
    arms: int
    horizon: int
    offers: str
    delta: float
    before: Design
    runs: int
    seed: int
    gap: float | None = None
    """A planned gap, where one is tried."""
    near: tuple[float, ...] = ()
    """Every ε that is tried."""

    def principal(self, rule: Any) -> fp.Principal:
        """The principal of this setting."""
        return fp.Principal(rule, offers=self.offers)

    def rules(self) -> dict[str, Any]:
        """The rules that are compared, by name."""
        rule = Certified(self.delta)
        frame = self.principal(rule).start(arms=self.arms, agents=self.agents, horizon=self.horizon).setting
        design = rule.designed(frame)
        found: dict[str, Any] = {AFTER: rule, BEFORE: Certified(self.delta, design=self.before)}
        if design.forecast is not None:
            found[BLIND] = Certified(self.delta, design=replace(design, forecast=None))
        if self.gap is not None:
            found[PLANNED] = Certified(self.delta, gap=self.gap)
        found |= {up_to(epsilon): Certified(self.delta, epsilon=epsilon) for epsilon in self.near}
        return found | {AUTHORS: Paper(self.delta, "simplified", 0.1)}


def up_to(epsilon: float) -> str:
    """How the certified rule with an ε is named."""
    return f"{AFTER}, ε = {epsilon:g}"


def family(agents: int, sd: float, runs: int) -> Setting:
    """The paper's K = 30 games."""
    game = fp.instances.Family(agents, sd=sd)
    return Setting(f"K = 30, σ = {sd:g}, M = {agents}", game, agents, 30, 1_000_000, "each", 0.01, MANY_BEFORE, runs,
                   20_240 + agents)  # fmt: skip


def short_family(agents: int, sd: float, runs: int) -> Setting:
    """The same, as in the paper's figure: T = 10⁵, one offer a step."""
    long = family(agents, sd, runs)
    return replace(long, name=f"{long.name}, T = 10⁵, one offer", horizon=100_000, offers="one")


TOY = Setting("toy", fp.instances.toy(), 2, 3, 100_000, "one", 0.01, FEW_BEFORE, 1_000, 20_241, gap=0.02)
SETTINGS = [
    TOY,
    Setting("500 people", Panel(500, PEOPLE), 500, 4, 60, "each", 0.05, Design(held_back=0.0), 1_000, 20_242),
    Setting(
        "2,000 people, gap .02",
        Panel(2000, CLOSE),
        2000,
        4,
        60,
        "each",
        0.05,
        Design(held_back=0.0),
        1_000,
        20_243,
        near=(0.01, 0.02),
    ),
    *(family(agents, 0.1, 32) for agents in (30, 60, 120)),
    *(family(agents, 0.005, 16) for agents in (30, 60, 120)),
    *(short_family(agents, 0.005, 100) for agents in (30, 60, 120)),
]
