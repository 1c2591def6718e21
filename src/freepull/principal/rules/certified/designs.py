"""The choices that change what a certificate costs, never whether it holds, and how `auto` makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal.setting import Setting
from freepull.registry import part


@part("forecast", "forecast")
@dataclass(frozen=True)
class Forecast:
    """Larger blocks where an agent will pull the arm anyway; it assumes learners like α-UCB with α = 2.

    A wrong assumption costs money, never validity. The letters are those of docs/certified.md.
    """

    phi: float = 0.7
    z: float = 0.5
    cap: float = 8.0
    gamma: float = 1.0
    shortest: float = 1.25
    longest: float = 6.0

    def __post_init__(self) -> None:
        for name in ("phi", "z", "gamma"):
            checks.keep_real(self, name, 0.0, 1_000.0)
        for name in ("cap", "shortest"):
            checks.keep_real(self, name, 1.0, 1_000.0)
        checks.keep_real(self, "longest", self.shortest, 1e6)


@part("design", "design", nested=("forecast",))
@dataclass(frozen=True)
class Design:
    """How rounds are laid out.

    Parameters
    ----------
    first_block, first_level
        Samples of every stream in the first round, and the levels that it counts for.
    growth
        A round is this share of all levels before it, at least 1.
    neyman
        Blocks in proportion to the spread of a stream, σ̂ = ``neyman`` counting 1 and nothing below 1; None: equal.
    stretch
        The leader's blocks are (rivals)^stretch times larger.
    held_back, held_until, fitted
        The share of every account that sits out the first round; it is placed when this level is reached, or earlier
        if the arm is clearly behind. ``fitted`` is the share of it that goes to the gaps that fit what was seen by then
        (the rest stays spread as planned).
    rival_memory, gap_memory
        How fast capital moves to the likeliest rivals and gaps.
    shrink
        Predict an agent's rewards from its own and the arm's, by how much agents differ.
    forecast
        Where natural pulls are expected; None: nowhere.
    """

    first_block: int = 1
    first_level: int = 1
    growth: float = 0.02
    neyman: float | None = None
    stretch: float = 0.0
    held_back: float = 0.8
    fitted: float = 0.5
    rival_memory: float = 5.0
    gap_memory: float = 0.2
    shrink: bool = True
    forecast: Forecast | None = None
    held_until: int = 1

    def __post_init__(self) -> None:
        checks.keep_whole(self, "first_block", 1)
        checks.keep_whole(self, "first_level", 1)
        checks.keep_real(self, "growth", 0.0, 10.0)
        checks.keep_real(self, "stretch", 0.0, 1.0)
        checks.keep_real(self, "held_back", 0.0, 1.0)
        checks.keep_whole(self, "held_until", 1)
        checks.keep_real(self, "fitted", 0.0, 1.0)
        checks.keep_real(self, "rival_memory", 0.0)
        checks.keep_real(self, "gap_memory", 0.0)
        if self.neyman is not None:
            checks.keep_real(self, "neyman", 0.01, 0.5)
        if self.forecast is not None and not isinstance(self.forecast, Forecast):
            raise InvalidInput(f"forecast must be a rules.Forecast or None, got {checks.shown(self.forecast)}.")


FEW_ARMS = 10
SHORT = 10
"""Where an eighth of an agent's fair share of an arm is less than this many pulls, the trial is a short one."""


def auto(setting: Setting) -> Design:
    """Choose from K, M, the horizon and the pulls to expect of an agent, never from the truth.

    A learner pulls an arm that is d worse than its best about 2·log κ/d² times of its own accord. The first block is
    what even the worst arm gets, d = 1 (with many arms d = 0.7); cash is held up to what an arm with d = ½ gets; both
    at most an eighth of a fair share, κ/(8K).
    """
    kappa = setting.expected_kappa
    fair = 0.0 if kappa is None else kappa / (8 * setting.arms)
    if kappa is None or fair < SHORT:
        return Design()
    given = 2 * math.log(kappa)
    until = int(min(4 * given, fair))
    if setting.arms <= FEW_ARMS:
        first = int(min(given, fair))
        return Design(
            first_block=first,
            first_level=max(1, first // 5),
            neyman=0.1,
            stretch=0.5,
            held_back=0.9,
            held_until=max(1, until // 5),
            forecast=Forecast(),
        )
    first = int(min(2 * given, fair))
    forecast = Forecast(phi=0.5, z=1.0, cap=3.0, shortest=2.0, longest=10.0)
    return Design(
        first_block=first,
        first_level=first,
        stretch=0.25,
        held_back=0.95,
        held_until=until,
        fitted=0.9,
        forecast=forecast,
    )
