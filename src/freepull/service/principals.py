"""A principal as JSON: every part has its name and its parameters; what is left out is as by default."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import msgspec

from freepull import checks
from freepull.errors import InvalidInput
from freepull.live.settings import PARTS
from freepull.principal import Principal

PRINCIPAL = "Principal"
RULES = ("Certified", "Pairwise", "Population", "Paper", "Passive")
SCHEDULES = ("Share", "Root", "Steps", "KnownGap", "Adaptive")
PROTOCOLS = ("TakeOrBan", "BanFor", "BanAfter", "NeverBan")


class Slot(NamedTuple):
    """Where a part stands in another."""

    parts: tuple[str, ...]
    example: str
    instead: tuple[Any, ...] = ()
    """What may stand there instead of a part."""


WHOLE = Slot((PRINCIPAL,), '{"rule": {"part": "Certified", "delta": 0.05}}')
SLOTS = {
    (PRINCIPAL, "rule"): Slot(RULES, '{"part": "Certified", "delta": 0.05}'),
    (PRINCIPAL, "observe"): Slot(SCHEDULES, '{"part": "Share", "rho": 0.5}'),
    (PRINCIPAL, "protocol"): Slot(PROTOCOLS, '{"part": "TakeOrBan"}'),
    ("Certified", "design"): Slot(("Design",), '"auto" or {"part": "Design"}', ("auto",)),
    ("Pairwise", "blocks"): Slot(("Blocks",), '"auto" or {"part": "Blocks"}', ("auto",)),
    ("Design", "forecast"): Slot(("Forecast",), 'null or {"part": "Forecast"}', (None,)),
}
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
    found = _part("principal", {"part": PRINCIPAL, "offers": "each"} | (plain or {}), WHOLE)
    assert isinstance(found, Principal)
    return found


def _part(where: str, plain: Any, slot: Slot) -> Any:
    """Make a part, one of those that may stand here."""
    if plain is None or isinstance(plain, str):
        if plain in slot.instead:
            return plain
    elif isinstance(plain, dict) and isinstance(plain.get("part"), str):
        return _made(where, checks.one_of(f"{where}.part", plain["part"], slot.parts), plain)
    raise InvalidInput(f"{where} must be a part such as {slot.example}, got {_json(plain)}.")


def _made(where: str, name: str, plain: dict[str, Any]) -> Any:
    known = [field for field in fields(PARTS[name]) if field.init]
    values = {}
    for key, value in plain.items():
        if key != "part":
            checks.one_of(f"the parameter of {name}", key, [field.name for field in known])
            slot = SLOTS.get((name, key))
            values[key] = value if slot is None else _part(f"{where}.{key}", value, slot)
    for field in known:
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidInput(f"{where} must have {field.name}, as every {name} has; add it.")
    return PARTS[name](**values)


def _json(plain: Any) -> str:
    text = msgspec.json.encode(plain).decode()
    return text if len(text) <= 200 else text[:197] + "..."
