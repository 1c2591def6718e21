"""The verdict: the arm, whether the rule has spoken, whether that is proven, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freepull import showing
from freepull.messages import Check, Difference
from freepull.messages import Grounds as Grounds
from freepull.principal.offers import Payments

SHOWN = 10
"""This many agents are named, the others counted."""


def listed(agents: Sequence[int], name: Callable[[int], str] = "agent {}".format) -> str:
    """Name agents, the first ten at most."""
    others = f" and {len(agents) - SHOWN} others" if len(agents) > SHOWN else ""
    return ", ".join(map(name, agents[:SHOWN])) + others


def tipping_point(survives: float) -> str:
    """Say how wrong the assumptions may be."""
    digits = 10 ** (1 - math.floor(math.log10(survives))) if survives > 0 else 1
    by = f"by more than ± {math.floor(survives * digits) / digits:g}" if survives > 0 else "at all"
    return f"stands as long as payment, drift and the like move no mean {by}"


@dataclass(frozen=True)
class Verdict:
    """What the principal says, and what it rests on."""

    arm: int
    decided: bool
    certified: bool
    why: str
    at: int | None
    """The step whose end decided it, None if undecided."""
    spent: float
    """In units of reward."""
    payments: Payments
    rests_on: Grounds
    survives: float | None = None
    """γ*: it stands as long as no mean is moved by more than this; None if it is not certified, or not known."""
    checks: tuple[Check, ...] = ()
    """How the checks of assumptions stand, if they run beside the trial."""
    differences: tuple[Difference, ...] = ()
    """How much better one arm is than another, where the rule bounds that: the leader first, then arms that went."""

    @property
    def paid(self) -> NDArray[np.int64]:
        """Bonuses paid per agent and arm."""
        return self.payments.table()

    def __str__(self) -> str:
        standing = "certified" if self.certified else "decided, not certified" if self.decided else "undecided"
        when = f" at step {self.at}" if self.at is not None else ""
        return f"arm {self.arm} ({standing}{when}, {self.spent:g} spent): {self.why}"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        head = ("arm", "decided", "certified", "step", "spent", "survives")
        shown = self.arm, self.decided, self.certified, self.at, self.spent, self.survives
        return showing.table("verdict", head, [shown], [self.why, str(self.rests_on)])
