"""Bans: what refusals have earned, by agent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.principal.protocols import FOREVER, BanProtocol
from freepull.principal.work import STREAMS, Work, pieces


class Bans:
    """Refusals count at the end of their step."""

    def __init__(self, protocol: BanProtocol, agents: int) -> None:
        self.protocol = protocol
        self.refusals: NDArray[np.int64] = np.zeros(agents, np.int64)
        self.until: NDArray[np.int64] = np.zeros(agents, np.int64)
        """The last step of each agent's ban; 0 if it was never banned."""
        self.refusing: list[int] = []
        """Who has refused in this step, in their order."""

    def enact(self, t: int) -> Work[None]:
        """Turn the refusals up to now, which are those of step t, into bans, in slices."""
        refusing, self.refusing = self.refusing, []
        return self._enact(t, refusing)

    def _enact(self, t: int, refusing: list[int]) -> Work[None]:
        for first, last in pieces(len(refusing), STREAMS // 16):
            for agent in refusing[first:last]:
                self.refusals[agent] += 1
                until = self.protocol.banned_until(t, int(self.refusals[agent]))
                if until > t:
                    self.until[agent] = min(until, FOREVER)
            yield

    def lift(self, agent: int, t: int) -> None:
        """End an agent's ban, and forget its refusals, those of this step included."""
        self.refusals[agent] = 0
        self.until[agent] = min(int(self.until[agent]), t)
        self.refusing = [other for other in self.refusing if other != agent]

    def succeed(self, old: Bans) -> None:
        """Take over from a trial of fewer agents."""
        self.refusals[: len(old.refusals)] = old.refusals
        self.until[: len(old.until)] = old.until
        self.refusing = old.refusing

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        return {"refusals": self.refusals, "until": self.until, "refusing": self.refusing}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        np.copyto(self.refusals, parts["refusals"])
        np.copyto(self.until, parts["until"])
        self.refusing = parts["refusing"]
