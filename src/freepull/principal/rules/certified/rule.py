"""`Certified`: the rule as users name it, its designs and its planned gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freepull import validation
from freepull.errors import InvalidInput
from freepull.principal.record import Record
from freepull.principal.rules.base import SMALLEST, Rule, Setting
from freepull.principal.rules.certified.books import Constants, Floats
from freepull.principal.rules.certified.state import CertifiedState
from freepull.principal.rules.rounds import gap_window
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
        validation.keep_real(self, "phi z gamma", 0.0, 1_000.0)
        validation.keep_real(self, "cap shortest", 1.0, 1_000.0)
        validation.keep_real(self, "longest", 1.0, 1e6)
        validation.real("longest", self.longest, self.shortest, 1e6)


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
        validation.keep_whole(self, "first_block", 1)
        validation.keep_whole(self, "first_level", 1)
        validation.keep_real(self, "growth", 0.0, 10.0)
        validation.keep_real(self, "stretch", 0.0, 1.0)
        validation.keep_real(self, "held_back", 0.0, 1.0)
        validation.keep_whole(self, "held_until", 1)
        validation.keep_real(self, "fitted", 0.0, 1.0)
        validation.keep_real(self, "rival_memory", 0.0)
        validation.keep_real(self, "gap_memory", 0.0)
        if self.neyman is not None:
            validation.keep_real(self, "neyman", 0.01, 0.5)
        if self.forecast is not None and not isinstance(self.forecast, Forecast):
            raise InvalidInput(f"forecast must be a rules.Forecast or None, got {validation.shown(self.forecast)}.")


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


LARGEST, RATIO, FEWEST = 0.4, 1.5, 13
INSIDE, EVEN = 0.8, 0.05
"""The share of the capital within the window, and, with a planned gap, the share that is spread evenly."""


def candidate_gaps(setting: Setting, delta: float, planned: float | None) -> tuple[Floats, Floats]:
    """Return ℓ_i = 0.4·1.5^{−i} and π_i: around a planned gap, else 80 % within the window.

    Without a horizon 80 % lie above 0.003. Weights that differ count as fewer agents, 1/Σp².
    """
    if planned is not None:
        gaps = _gaps(max(FEWEST, _position(planned) + 3))
        near = np.exp(-np.abs(np.log(gaps / planned)) / math.log(RATIO))
        return gaps, (1 - EVEN) * near / near.sum() + EVEN / len(gaps)
    if setting.horizon is None:
        gaps = _gaps(2 * FEWEST)
        return gaps, np.repeat([INSIDE / FEWEST, (1 - INSIDE) / FEWEST], FEWEST)
    kappa = setting.expected_kappa or 0
    agents = 1 / float((setting.weights**2).sum())
    lo, hi = gap_window(setting.arms, agents, setting.horizon, kappa, delta, setting.offers)
    gaps = _gaps(max(FEWEST, _position(lo) + 2))
    inside = (gaps >= lo / 1.2) & (gaps <= hi * 1.2)
    if not inside.any():
        return gaps, np.full(len(gaps), 1 / len(gaps))
    return gaps, INSIDE * inside / inside.sum() + (1 - INSIDE) / len(gaps)


def _gaps(count: int) -> Floats:
    return LARGEST * RATIO ** -np.arange(count, dtype=float)


def _position(gap: float) -> int:
    """Return how many candidates lie above a gap."""
    return max(0, math.ceil(math.log(LARGEST / gap) / math.log(RATIO)))


SMALLEST_GAP = 1e-6
"""The smallest gap that may be planned for."""


@part("rule", "certified", nested=("design",), kernel=0, most_arms=500, late_joiners=True)
@dataclass(frozen=True)
class Certified(Rule):
    """Rounds, and one betting account against every arm: **proven** at any time, for any adaptive sampling.

    An arm goes when the account against it has grown 1/δ-fold. A best arm is ever eliminated with probability at most
    δ, whatever the agents, offers, bans and the horizon do.

    Parameters
    ----------
    delta
        The most that the probability of a wrong certified verdict may be, in (0, 1).
    gap
        A planned gap between the best arm and the next, if there is a guess; a wrong one costs money, never validity.
    design
        "auto", or a `Design`: how the rounds are laid out.
    robust
        γ: a verdict must still stand if payment, drift and the like move every mean by up to ± γ. It has to be shown
        that an arm is worse by more than 2γ, so closer arms are never told apart; below 0.5, and below half of ``gap``.
    epsilon
        Stop as soon as an arm is proven to be at most this much worse than the best; 0: when one arm is left.

    >>> Certified(delta=0.05)
    Certified(delta=0.05)
    """

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent")
    forecasts: ClassVar[bool] = True

    delta: float = 0.05
    gap: float | None = None
    design: Design | str = "auto"
    robust: float = 0.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        if self.gap is not None:
            validation.keep_real(self, "gap", SMALLEST_GAP, 1.0)
        if self.design != "auto" and not isinstance(self.design, Design):
            raise InvalidInput(f"design must be 'auto' or a rules.Design, got {validation.shown(self.design)}.")
        validation.keep_real(self, "robust", 0.0, 0.5, open_high=True)
        validation.keep_real(self, "epsilon", 0.0, 1.0)
        if self.gap is not None and self.robust > 0.0 and 2 * self.robust >= self.gap:
            raise InvalidInput(
                f"robust must be below {self.gap / 2:g}, half of the planned gap, because arms that are closer than "
                f"2·robust are never told apart, got {self.robust:g}."
            )

    def __repr__(self) -> str:
        shown = [f"delta={self.delta!r}"]
        shown += [f"gap={self.gap!r}"] if self.gap is not None else []
        shown += [f"design={self.design!r}"] if self.design != "auto" else []
        shown += [f"robust={self.robust!r}"] if self.robust else []
        shown += [f"epsilon={self.epsilon!r}"] if self.epsilon else []
        return f"Certified({', '.join(shown)})"

    def designed(self, setting: Setting) -> Design:
        """Return the design that is used in a setting."""
        return self.design if isinstance(self.design, Design) else auto(setting)

    def constants(self, setting: Setting, margins: Floats) -> tuple[Constants, Floats]:
        """Return all that is fixed before the first sample, and π; the margin that decides joins the others."""
        design, margin = self.designed(setting), 2.0 * self.robust
        margins = np.array(sorted({*margins.tolist(), margin}))
        planned = None if self.gap is None else max(self.gap - margin, SMALLEST_GAP)
        gaps, prior = candidate_gaps(setting, self.delta, planned)
        forecast = design.forecast
        constants = Constants(
            weights=np.ascontiguousarray(setting.weights, np.float64),
            gaps=gaps,
            margins=margins,
            decides=int(np.searchsorted(margins, margin)),
            margin=margin,
            epsilon=float(self.epsilon),
            aim=margin - float(self.epsilon),
            rules=setting.rules,
            threshold=1 / self.delta,
            confidence=math.log(1 / self.delta),
            growth=float(design.growth),
            first_block=float(design.first_block),
            first_level=float(design.first_level),
            neyman=float(design.neyman or 0.0),
            stretch=float(design.stretch),
            held_back=float(design.held_back),
            held_until=float(design.held_until),
            fitted=float(design.fitted) if self.gap is None else 0.0,
            rival_memory=float(design.rival_memory),
            gap_memory=float(design.gap_memory),
            shrink=bool(design.shrink),
            kappa=float(setting.expected_kappa or 0) if forecast else 0.0,
            phi=forecast.phi if forecast else 0.0,
            z=forecast.z if forecast else 0.0,
            cap=forecast.cap if forecast else 1.0,
            gamma=forecast.gamma if forecast else 0.0,
            shortest=forecast.shortest if forecast else 1.0,
            longest=forecast.longest if forecast else 1.0,
        )
        return constants, prior

    def start(self, setting: Setting, record: Record) -> CertifiedState:
        """Begin a trial."""
        return CertifiedState(self, setting, record)
