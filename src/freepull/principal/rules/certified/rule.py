"""The certified rule's settings (docs/certified.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal.record import Record
from freepull.principal.rules.base import SMALLEST, Rule
from freepull.principal.rules.certified.books import Constants, Floats
from freepull.principal.rules.certified.designs import Design, auto
from freepull.principal.rules.certified.gaps import candidate_gaps
from freepull.principal.rules.certified.state import CertifiedState
from freepull.principal.setting import Setting
from freepull.registry import part

SMALLEST_GAP = 1e-6
"""The smallest gap that may be planned for."""


@part("rule", "certified", nested=("design",), kernel=0, most_arms=500, late_joiners=True)
@dataclass(frozen=True)
class Certified(Rule):
    """Rounds, and one betting account against every arm: **proven** at every time, for any adaptive sampling.

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

    >>> Certified(delta=0.05)
    Certified(delta=0.05)
    """

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent")

    delta: float = 0.05
    gap: float | None = None
    design: Design | str = "auto"
    robust: float = 0.0

    def __post_init__(self) -> None:
        checks.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        if self.gap is not None:
            checks.keep_real(self, "gap", SMALLEST_GAP, 1.0)
        if self.design != "auto" and not isinstance(self.design, Design):
            raise InvalidInput(f"design must be 'auto' or a rules.Design, got {checks.shown(self.design)}.")
        checks.keep_real(self, "robust", 0.0, 0.5, open_high=True)
        if self.gap is not None and self.robust > 0.0 and 2 * self.robust >= self.gap:
            raise InvalidInput(
                f"robust must be below {self.gap / 2:g}, half of the planned gap, because arms that are closer than "
                f"2·robust are never told apart, got {self.robust:g}."
            )

    def __repr__(self) -> str:
        gap = "" if self.gap is None else f", gap={self.gap!r}"
        design = "" if self.design == "auto" else f", design={self.design!r}"
        return f"Certified(delta={self.delta!r}{gap}{design}{f', robust={self.robust!r}' if self.robust else ''})"

    def designed(self, setting: Setting) -> Design:
        """Return the design that is used in a setting."""
        return self.design if isinstance(self.design, Design) else auto(setting)

    def constants(self, setting: Setting, margins: Floats) -> tuple[Constants, Floats]:
        """Return all that is fixed before the first sample, and π; the margin that decides joins the others."""
        design, margin = self.designed(setting), 2.0 * self.robust
        margins = np.union1d(margins, [margin])
        planned = None if self.gap is None else max(self.gap - margin, SMALLEST_GAP)
        gaps, prior = candidate_gaps(setting, self.delta, planned)
        forecast = design.forecast
        constants = Constants(
            weights=np.ascontiguousarray(setting.weights, np.float64),
            gaps=gaps,
            margins=margins,
            decides=int(np.searchsorted(margins, margin)),
            margin=margin,
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
