"""A principal as JSON: every part has its name and its parameters; what is left out is as by default."""

from __future__ import annotations

from typing import Any

from freepull import registry
from freepull.principal import Principal

EXAMPLE = {
    "rule": {"part": "Certified", "delta": 0.05},
    "observe": {"part": "Steps", "n": 10},
    "protocol": {"part": "TakeOrBan"},
    "offers": "each",
    "bonus": 1.0,
    "budget": 500,
}


def read_principal(plain: dict[str, Any] | None) -> Principal:
    """Make the principal that JSON describes; offers go to each agent unless it says otherwise."""
    found: Principal = registry.build("principal", {"offers": "each"} | (plain or {}), "principal")
    return found
