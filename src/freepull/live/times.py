"""Time as campaigns write it down: whole microseconds since 1970, UTC. Only the writer reads a clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from freepull import checks
from freepull.errors import InvalidInput

Clock = Callable[[], int]
"""Returns the time in microseconds since 1970, UTC."""
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
LONGEST = 100 * 366 * 86_400 * 10**6
_FORM = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) *(second|minute|hour|day|week)s?", re.ASCII)
_START = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    """Return the time of this machine."""
    return time.time_ns() // 1000


def lasting(name: str, text: Any) -> int:
    """Read a duration such as "1 day" or "90 seconds", or a timedelta, as microseconds above 0.

    >>> lasting("offer_lasts", "1.5 hours")
    5400000000
    """
    if isinstance(text, timedelta):
        length = text // timedelta(microseconds=1)
    else:
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        length = 0 if found is None else round(float(found[1]) * UNITS[found[2]] * 10**6)
    if not 0 < length <= LONGEST:
        raise InvalidInput(
            f"{name} must be a duration such as '1 day' or '90 minutes', or a timedelta, got {checks.shown(text)}."
        )
    return length


def moment(name: str, value: Any) -> int:
    """Read a point in time: a datetime with a time zone, or its ISO text."""
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(given, datetime) and given.tzinfo is not None:
            return (given - _START) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(
        f"{name} must be a time with a time zone such as '2030-01-31T12:00+00:00', got {checks.shown(value)}."
    )


def shown(at: int) -> datetime:
    """Return a point in time as people read it."""
    return _START + timedelta(microseconds=at)
