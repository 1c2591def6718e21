"""What one process takes on, and how often one agent may ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from freepull.server.problems import Refused

MOST = 100_000
"""This many agents are remembered; whoever was not here for longest is forgotten first."""
SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """What one process takes on."""

    body: int = 1 << 20
    """Bytes of a body."""
    upload: int = 32 << 20
    """Bytes of an import, or of a list of agents, which only admins send."""
    seconds: float = 10.0
    """For a body to arrive."""
    answer: float = 60.0
    """For an answer, streams and exports excepted."""
    waiting: int = 256
    """Requests at a time; more are refused at once."""
    agent_rate: float = 20.0
    """Requests a second of one agent, on average."""


class RateLimit:
    """How often one agent may ask: a bucket for each, which fills at a rate, and holds two seconds of it."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Take one from a bucket, or refuse."""
        now = time.monotonic()
        full = max(1.0, self.rate * SECONDS)
        left, at = self._buckets.pop(who, (full, now))
        left = min(full, left + (now - at) * self.rate)
        self._buckets[who] = (max(0.0, left - 1.0), now)
        if len(self._buckets) > MOST:
            self._buckets.popitem(last=False)
        if left < 1.0:
            raise Refused(
                429,
                f"an agent may ask {self.rate:g} times a second on average.",
                "Try again after the time in Retry-After, with the same event id.",
            )
