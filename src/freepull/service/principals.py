"""A principal as JSON: every part has its name and its parameters; what is left out is as by default."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from freepull import checks
from freepull.errors import InvalidInput
from freepull.live.settings import PARTS
from freepull.principal import Principal

DEEPEST = 5


def read_principal(plain: dict[str, Any] | None) -> Principal:
    """Make the principal that JSON describes; offers go to each agent unless it says otherwise."""
    if plain is None:
        return Principal(offers="each")
    found = _part("principal", {"part": "Principal", "offers": "each"} | plain, 0)
    checks.instance("principal", found, Principal, '{"part": "Principal", …}')
    assert isinstance(found, Principal)
    return found


def _part(where: str, plain: Any, depth: int) -> Any:
    if not isinstance(plain, dict):
        return plain
    if depth > DEEPEST or not isinstance(plain.get("part"), str):
        raise InvalidInput(f'{where} must name its part, as in {{"part": "Certified", "delta": 0.05}}.')
    kind = PARTS[checks.one_of(f"{where}.part", plain["part"], PARTS)]
    known = [field.name for field in fields(kind) if field.init]
    given = {name: value for name, value in plain.items() if name != "part"}
    for name in given:
        checks.one_of(f"the parameter of {plain['part']}", name, known)
    values = {name: _part(f"{where}.{name}", value, depth + 1) for name, value in given.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidInput(f"{where} cannot be made: {' '.join(str(error).split())[:200]}.") from None
