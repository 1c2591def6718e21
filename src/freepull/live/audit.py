"""The audit as it is kept: who did what when, and what the campaign concluded; agents by number, never by name."""

from __future__ import annotations

import msgspec

from freepull.live.events import Event, Kind
from freepull.live.rows import Row

OF_AGENTS = (Kind.PARKED, Kind.LEFT, Kind.UNBANNED)
ALWAYS = (
    *OF_AGENTS,
    *(Kind.CREATED, Kind.ENROLLED, Kind.STARTED, Kind.WITHDRAWN, Kind.BUDGET),
    *(Kind.PAUSED, Kind.RESUMED, Kind.STOPPED, Kind.NOTED, Kind.JOINED),
)
"""Audited whatever they say; the end of a step is audited only if it changed something."""
STEPS = (Kind.STEP_ENDED, Kind.STEP_CLOSED)


def audit_row(number: int, event: Event) -> Row | None:
    """Return the row for an event, None if it is not audited."""
    kind = Kind(event.kind)
    if kind not in ALWAYS and not (kind in STEPS and event.more):
        return None
    detail = {name: value for name, value in (event.more or {}).items() if name not in ("by", "weights")}
    if kind in OF_AGENTS:
        detail["agent"] = event.agent
    elif kind in (Kind.ENROLLED, Kind.STARTED, Kind.JOINED):
        detail["agents"] = event.value
    elif kind == Kind.WITHDRAWN:
        detail["arm"] = event.arm
    elif kind in STEPS:
        detail["step"] = event.value
    who = str((event.more or {}).get("by", ""))
    return number, event.at, who, kind.name.lower(), msgspec.json.encode(detail).decode()
