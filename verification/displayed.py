"""Whether what is displayed is true: "worse by more than x" of the certified rule.

It is looked at at a random step and at the worst moment of the run, when it claims most. What `Comparisons` displays
is looked at in `crowds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import freepull as fp
from freepull.principal.rules.certified.books import MARGINS

from .by_driver import by_driver
from .covered import DESIGNS, PLAIN, Case
from .found import Found

TINY = 1e-9
LEVELS = (0.01, 0.05, 0.1)
NEAR = 0.02
"""The ε with which the certified rule is looked at too."""
GAMES = [
    replace(PLAIN, arms=3, gap="gap .105"),
    replace(PLAIN, arms=3, gap="tie", design="long rounds", panel="differ"),
    replace(PLAIN, agents=10, arms=3, gap="gap .105", strategy="freezers", watched=0.5),
    replace(
        PLAIN, agents=10, arms=2, gap="near tie", strategy="ε-greedy", design="nothing held back", law="Beta(.1, .1)"
    ),
    replace(PLAIN, agents=120, arms=2, gap="gap .105", strategy="α-UCB", panel="differ"),
]


@dataclass(frozen=True)
class Displayed:
    """How many runs displayed something false."""

    what: str
    game: str
    when: str
    bound: float
    runs: int
    wrong: int


def worse_by(found: Found, case: Case, level: float, when: str) -> list[int]:
    """Runs, by arm, in which some x at or beyond the truth had reached 1/δ: a false "worse by more than x"."""
    peaks = found.margins if when == "worst moment" else found.halfway
    assert peaks is not None
    means = case.game().global_means
    behind = means.max() - means
    false = MARGINS[:, None] >= behind[None, :] - TINY
    return [int(n) for n in ((peaks >= 1 / level) & false[None]).any(axis=1).sum(axis=0)]


def certified(case: Case, runs: int, seed: int) -> list[Displayed]:
    """The arm with most false claims, at every level and both times."""
    rule = fp.rules.Certified(0.01, design=DESIGNS[case.design])
    return [
        Displayed(f"{what}: worse by more than x", case.name, when, level, runs,
                  max(worse_by(found, case, level, when)))
        for what, own in (("Certified", rule), (f"Certified(epsilon={NEAR:g})", replace(rule, epsilon=NEAR)))
        for found in [by_driver(case, own, runs, seed, margins=MARGINS)]
        for when in ("random step", "worst moment")
        for level in LEVELS
    ]  # fmt: skip
