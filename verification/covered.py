"""The cases in which a best arm might fall: every two values of every two factors stand together in at least one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

import freepull as fp
from freepull.principal.rules import Design, Forecast

HEAVY = 0.9
EPSILON = 0.015
GAPS = {"tie": 0.0, "near tie": 0.002, "gap .105": 0.10486, "ε worse": EPSILON}
LAWS = {"coins .02": (0.02, 0.015), "coins .98": (0.98, 0.015), "coins .5": (0.5, 0.3), "Beta(.1, .1)": (0.5, 0.3),
        "constants": (0.5, 0.3)}  # fmt: skip
"""The mean at a tie, and how far agents differ from it where they differ."""
MANY = Forecast(phi=0.5, z=1.0, cap=3.0, shortest=2.0, longest=10.0)
DESIGNS: dict[str, Design | str] = {
    "auto": "auto",
    "Neyman": Design(4, 2, growth=0.1, neyman=0.1, stretch=0.5, held_back=0.9, held_until=6, forecast=Forecast()),
    "first block 8": Design(8, 8, growth=0.05, stretch=0.25, held_back=0.95, held_until=20, fitted=0.9, forecast=MANY),
    "nothing held back": Design(held_back=0.0, growth=0.03),
    "long rounds": Design(growth=0.5, held_back=0.0, shrink=False, rival_memory=20.0, gap_memory=2.0),
}
BUILT_IN: dict[str, Any] = {
    "α-UCB": fp.agents.AlphaUCB(2.0),
    "Thompson": fp.agents.Thompson(),
    "ε-greedy": fp.agents.EpsilonGreedy(),
}
FACTORS: dict[str, list[Any]] = {
    "agents": [2, 10, 120, 500],
    "arms": [2, 3, 30],
    "strategy": ["α-UCB", "Thompson", "ε-greedy", "freezers", "mixed"],
    "law": list(LAWS),
    "weights": ["equal", "90 % on one"],
    "offers": ["one", "each"],
    "answers": ["take", "refuse 30 %"],
    "leavers": ["none", "at random", "in anger"],
    "design": list(DESIGNS),
    "gap": ["tie", "near tie"],
    "panel": ["alike", "differ"],
    "watched": [0.1, 0.5],
}


@dataclass(frozen=True)
class Case:
    """One setting; the tested arm is a best one."""

    agents: int
    arms: int
    strategy: str
    law: str
    weights: str
    offers: str
    answers: str
    leavers: str
    design: str
    gap: str
    panel: str
    watched: float

    @property
    def name(self) -> str:
        """The case in a line."""
        shown = (f"{self.agents}×{self.arms}", self.strategy, self.law, self.gap, self.panel, self.design, self.offers)
        extra = [f"κ = {self.watched:g} T"]
        extra += ["90 % on one agent"] * (self.weights != "equal") + ["refusals"] * (self.answers != "take")
        extra += [f"leave {self.leavers}"] * (self.leavers != "none")
        return ", ".join((*shown, *extra))

    @property
    def tested(self) -> int:
        """The best arm that is watched."""
        return self.arms // 2

    @property
    def compiled(self) -> bool:
        """Whether the compiled engine can play it."""
        return self.strategy != "freezers" and self.leavers == "none"

    @property
    def horizon(self) -> int:
        """Long enough for many rounds, short enough for thousands of runs."""
        per_step = self.agents * (1 + self.arms / 4) * (4 if self.strategy in ("Thompson", "mixed") else 1)
        longest, shortest = (2000, 100) if self.arms < 30 else (600, 600 if self.agents <= 10 else 180)
        return int(min(longest, max(shortest, 40_000 / per_step)))

    @property
    def runs(self) -> int:
        """As many as the case is cheap."""
        return 6_000 if self in SHARP and self.agents <= 120 else 3_000

    def strategies(self) -> list[str]:
        """Every agent's strategy."""
        turn = list(BUILT_IN) if self.strategy == "mixed" else [self.strategy]
        return [turn[m % len(turn)] for m in range(self.agents)]

    def game(self) -> fp.Game:
        """All arms tie for best, or all but the tested one are a little worse; agents differ, or they do not."""
        base, reach = LAWS[self.law]
        lean = np.where(np.arange(self.agents) % 2 == 0, 1.0, -1.0) * reach * (self.panel == "differ")
        weights = None
        if self.weights != "equal":
            weights = np.r_[HEAVY, np.full(self.agents - 1, (1 - HEAVY) / (self.agents - 1))]
            lean[0] = 0.0
            lean[-1] *= self.agents % 2  # an even number of light agents leans to and fro
        means = base + np.outer(lean, np.where(np.arange(self.arms) % 2 == 0, 1.0, -1.0))
        means -= GAPS[self.gap] * (np.arange(self.arms) != self.tested)
        if self.law == "constants":
            values = np.unique(means)
            return fp.Game(rewards=fp.rewards.Categorical(values.tolist(), np.equal(means[:, :, None], values) * 1.0),
                           weights=weights)  # fmt: skip
        law = fp.rewards.Beta(0.2) if self.law.startswith("Beta") else None
        return fp.Game(means, rewards=law, weights=weights)

    def principal(self, rule: Any) -> fp.Principal:
        """The principal of this case, with a rule."""
        return fp.Principal(rule, observe=fp.observe.Share(self.watched), offers=self.offers)


def possible(row: dict[str, Any]) -> bool:
    """Leave out what would close no round within its time: one offer a step, or bans, where there are many streams."""
    streams, large = row["agents"] * row["arms"], row["arms"] == 30 and row["agents"] >= 120
    steady = row["strategy"] in ("α-UCB", "ε-greedy")
    if row["offers"] == "one" and streams > 300 and not (steady and row["arms"] == 2):
        return False
    if row["answers"] != "take" and (row["leavers"] != "none" or streams > 30 or row["design"] == "first block 8"):
        alone = row["leavers"] == "none" and row["panel"] == "alike"
        return bool(alone and row["strategy"] == "α-UCB" and streams <= 1500)
    if row["answers"] != "take" and row["panel"] == "differ" and row["strategy"] != "α-UCB":
        return False
    if row["strategy"] == "freezers" and (row["watched"] < 0.5 or row["law"] == "constants"):
        return False
    if large and row["strategy"] in ("Thompson", "mixed"):
        return False
    return not (row["arms"] == 30 and row["design"] in ("Neyman", "first block 8") and row["watched"] > 0.1)


def covering(factors: dict[str, list[Any]], seed: int = 1) -> list[dict[str, Any]]:
    """Greedy pairwise cover of all pairs that a possible row can have."""
    rng = np.random.default_rng(seed)
    names = list(factors)
    pairs = list(combinations(range(len(names)), 2))
    left = {
        (a, i, b, j) for a, b in pairs for i, j in product(range(len(factors[names[a]])), range(len(factors[names[b]])))
    }
    rows = []
    while left:
        start = min(left)
        gain, chosen = 0, list[int]()
        for _ in range(1500):
            row = [int(rng.integers(len(factors[name]))) for name in names]
            row[start[0]], row[start[2]] = start[1], start[3]
            if possible(_named(factors, row)):
                new = sum((a, row[a], b, row[b]) in left for a, b in pairs)
                gain, chosen = (new, row) if new > gain else (gain, chosen)
        left -= {(a, chosen[a], b, chosen[b]) for a, b in pairs} if chosen else {start}
        rows += [_named(factors, chosen)] if chosen else []
    return rows


def _named(factors: dict[str, list[Any]], row: list[int]) -> dict[str, Any]:
    return {name: values[i] for (name, values), i in zip(factors.items(), row, strict=True)}


PLAIN = Case(2, 2, "α-UCB", "coins .5", "equal", "each", "take", "none", "auto", "tie", "alike", 0.1)
SHARP = [
    replace(PLAIN, agents=agents, arms=arms, strategy=strategy, design=design, watched=watched)
    for agents, arms, strategy, design, watched in (
        (2, 2, "ε-greedy", "long rounds", 0.1),
        (2, 3, "α-UCB", "auto", 0.1),
        (10, 2, "α-UCB", "nothing held back", 0.1),
        (10, 3, "freezers", "auto", 0.5),
        (120, 2, "freezers", "long rounds", 0.5),
        (120, 3, "α-UCB", "Neyman", 0.1),
        (500, 2, "ε-greedy", "long rounds", 0.1),
    )
]
"""Exact ties without any trouble on top: here most rounds close, and the bound is nearest."""


@cache
def cover() -> tuple[Case, ...]:
    """Return the pairwise cover of all factors."""
    return tuple(Case(**row) for row in covering(FACTORS))


def cases() -> list[Case]:
    """Return the cover and the sharp cases; few agents first."""
    return sorted({*cover(), *SHARP}, key=lambda case: (case.agents, case.arms, case.name))
