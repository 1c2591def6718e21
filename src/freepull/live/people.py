"""What a campaign knows of its agents beyond the trial: silence, absence, and their numbers of events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freepull.live.events import NUMBERED, RECORD, Records
from freepull.live.rows import Row


class People:
    """Agents by number; almost nothing is kept of one who simply acts."""

    def __init__(self) -> None:
        self.enrolled = 0
        """Everybody, late joiners included."""
        self.silent: dict[int, int] = {}
        """How many offers in a row have expired."""
        self.cooling: dict[int, int] = {}
        """Until when an agent gets no offer."""
        self.parked: set[int] = set()
        """Who gets no offers until it acts again, because it let several lapse; it has not left."""
        self.left: set[int] = set()
        self.banned: dict[int, Row] = {}
        """The agent's last ban, as a row of the table of bans."""
        self.bans = 0
        self.numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        """The last number that each agent used; grows when agents number their events."""
        self.last: Records = np.zeros(0, RECORD)
        """The last numbered event of each agent."""
        self.last_event: NDArray[np.int64] = np.zeros(0, np.int64)
        """And its place in the log."""

    @property
    def absent(self) -> int:
        """How many are parked or have left."""
        return len(self.parked) + len(self.left)

    def back(self, agents: NDArray[np.int64]) -> set[int]:
        """Note that agents have acted, who are no longer absent then; return who of them was parked."""
        here = set(agents.tolist()) if self.parked or self.left else set()
        woken = self.parked & here
        self.parked -= here
        self.left -= here
        return woken

    def expire(self, agent: int, until: int) -> None:
        """Note that an offer met with silence, and that a cool-down has begun."""
        self.silent[agent] = self.silent.get(agent, 0) + 1
        self.cooling[agent] = until

    def ban(self, agent: int, offer: int, step: int, until: int, at: int) -> Row:
        """Note a ban; return its row."""
        self.bans += 1
        self.banned[agent] = (self.bans, agent, offer, step, until, at, None)
        return self.banned[agent]

    def rested(self, at: int) -> set[int]:
        """Forget the cool-downs that are over; return who is still in one, or parked."""
        for agent in [agent for agent, until in self.cooling.items() if until <= at]:
            del self.cooling[agent]
        return self.parked | self.cooling.keys()

    def number(self, records: Records, first: int) -> None:
        """Note the numbered events among some records, the first of which is event ``first``."""
        places = np.flatnonzero(records["flags"] & NUMBERED)
        if not len(places):
            return
        if len(self.numbers) < self.enrolled:
            grown = self.enrolled - len(self.numbers)
            self.numbers = np.concatenate([self.numbers, np.zeros(grown, np.int64)])
            self.last = np.concatenate([self.last, np.zeros(grown, RECORD)])
            self.last_event = np.concatenate([self.last_event, np.zeros(grown, np.int64)])
        agents = records["agent"][places]
        np.add.at(self.numbers, agents, 1)
        self.last[agents] = records[places]
        self.last_event[agents] = first + places

    def last_number(self, agent: int) -> int:
        """Return the last number that an agent used, 0 if none."""
        return int(self.numbers[agent]) if agent < len(self.numbers) else 0
