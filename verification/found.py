"""What is kept of the runs of a case, whichever program played them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .picks import Floats, Ints

THREADS = os.cpu_count() or 1


@dataclass(frozen=True)
class Found:
    """What was seen of the runs of a case."""

    peaks: Floats
    """The most evidence ever held against the tested arm, by run (1 where the rule keeps none)."""
    gone: Ints
    """1 if the tested arm was eliminated."""
    rounds: float
    """Rounds closed, on average."""
    paid: float
    margins: Floats | None = None
    """The peaks of all margins and arms, runs × margins × arms; kept by our driver."""
    halfway: Floats | None = None
    """The same at a random step."""
