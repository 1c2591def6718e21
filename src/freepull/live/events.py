"""What a campaign's log is made of: events of 24 bytes each, a few of them with something to add.

Everything that ever happened is an event, written once by the one writer with its own time. Replaying the events gives
the state again, bit for bit; what was decided then (outcomes, offers, eliminations) is part of the event, and replay
only verifies it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
RECORD = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("arm", "<u2"),
        ("agent", "<u4"),
        ("value", "<u4"),
        ("offer", "<u4"),
        ("at", "<i8"),
    ]
)
"""One event. ``value`` is a reward in units of 2⁻³⁰, a number of agents or a step; ``at`` the writer's time."""


class Kind(IntEnum):
    """What happened. The numbers are in every log, and never change."""

    CREATED = 1  # more: the settings
    ENROLLED = 2  # value agents, the first of them agent; more: their weights, if there are any
    STARTED = 3  # value: the size of the panel
    TOLD = 4  # one pull; offer: the one it ended, if any
    OFFERED = 5
    EXPIRED = 6  # silence until the deadline
    RECALLED = 7  # an open offer is taken back; a pull on its way is still paid
    CANCELLED = 8  # the end of an offer that was recalled, or whose agent left
    STEP_ENDED = 9  # value: which; more: what it changed, if anything
    PARKED = 10  # an agent let several offers in a row expire
    LEFT = 11
    UNBANNED = 12
    WITHDRAWN = 13  # an arm
    BUDGET = 14  # more: the new one
    PAUSED = 15
    RESUMED = 16
    STOPPED = 17  # more: why
    NOTED = 18  # something for the audit alone
    JOINED = 19  # the panel is wider than before, and everything is looked at anew; value: its size
    STEP_CLOSED = 20  # the end of a step that took a while; value and more as for STEP_ENDED


OUTCOME = 0b11
"""The bits of ``flags`` that say what a pull did to an open offer."""
NOTHING, PAID, REFUSED, DROPPED = range(4)
ENDINGS = (None, "paid", "refused", "cancelled")
"""An outcome in words; "cancelled" is a pull of another arm when the offer had been recalled."""
NUMBERED = 0b100
"""The agent numbered this event; the number is one more than its last."""
OBSERVED = 0b1000
"""A pull of an agent who joined late: it is kept, and does not count."""
UNFINISHED = 0b1
"""A step has ended, and is still being worked on; STEP_CLOSED says when that was done, and what came of it."""


class Event(NamedTuple):
    """One event that is not a pull, or a single pull, in plain numbers."""

    kind: int
    at: int
    agent: int = 0
    arm: int = 0
    value: int = 0
    offer: int = 0
    flags: int = 0
    more: dict[str, Any] | None = None

    def record(self) -> tuple[int, ...]:
        """Return the fields in the order of `RECORD`."""
        return self.kind, self.flags, self.arm, self.agent, self.value, self.offer, self.at


def pulls(agents: Any, arms: Any, values: Any, at: int) -> Records:
    """Return pulls as records, their outcomes still open."""
    records = np.zeros(len(agents), RECORD)
    records["kind"], records["at"] = Kind.TOLD, at
    records["agent"], records["arm"], records["value"] = agents, arms, values
    return records


def event_of(record: Any, more: dict[str, Any] | None) -> Event:
    """Return one record as an event."""
    kind, flags, arm, agent, value, offer, at = record.item()
    return Event(kind, at, agent, arm, value, offer, flags, more)
