"""What one process takes on."""

from __future__ import annotations

from dataclasses import dataclass


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
