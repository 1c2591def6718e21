"""The end of a campaign's log: the events of the commit that is being gathered, and the chain that it continues."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.live.events import RECORD, Event, Records
from freepull.live.rows import Row
from freepull.live.segments import ORIGIN, pack


class Log:
    """Gathers events, and seals them into the next segment."""

    def __init__(self, number: int = 0, first: int = 0, checksum: int = ORIGIN) -> None:
        self.number, self.first, self.checksum = number, first, checksum
        """The next segment: its number, the number of its first event, and the checksum of the one before."""
        self._parts: list[Records] = []
        self._singles: list[tuple[int, ...]] = []
        self._more: dict[int, dict[str, Any]] = {}
        self.gathered = 0
        """Events that are not sealed yet."""

    def add(self, event: Event) -> None:
        """Gather one event."""
        if event.more:
            self._more[self.gathered] = event.more
        self._singles.append(event.record())
        self.gathered += 1

    def extend(self, records: Records) -> None:
        """Gather pulls."""
        self._flush()
        self._parts.append(records)
        self.gathered += len(records)

    def records(self) -> Records:
        """Return the events that are not sealed yet."""
        self._flush()
        return np.concatenate([*self._parts, np.zeros(0, RECORD)])

    def seal(self) -> Row:
        """Return the segment as a row of its table, and begin the next one."""
        records = self.records()
        data, checksum = pack(self.number, self.first, records, self._more, self.checksum)
        row = (self.number, self.first, len(records), data)
        self.number, self.first, self.checksum = self.number + 1, self.first + len(records), checksum
        self._parts, self._more, self.gathered = [], {}, 0
        return row

    def _flush(self) -> None:
        if self._singles:
            self._parts.append(np.array(self._singles, RECORD))
            self._singles = []
