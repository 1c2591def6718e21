"""The state of a trial as bytes: a line that says what it is, plain values as JSON, and the arrays as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from freepull import registry, validation
from freepull.errors import InvalidInput

if TYPE_CHECKING:
    from freepull.principal.principal import Principal
    from freepull.principal.trial import Trial

THINGS = ("record", "offers", "bans", "panel")
"""What a trial consists of, in the order in which it is put back."""
Bytes = bytes | bytearray | memoryview | mmap
MAGIC = b"freepull trial 1\n"
"""The number is that of the layout; it changes when old states can no longer be read."""


def parts_of(trial: Trial) -> dict[str, Any]:
    """Return all that a trial is, by name."""
    setting, frame = trial.setting, ("arms", "agents", "horizon", "offers", "leavers", "withdrawal", "rules")
    unit = {} if setting.unit is None else {"unit": setting.unit}
    own: dict[str, Any] = {name: getattr(trial, name) for name in ("steps", "kappa", "decided_at", "regular")}
    own |= {"told": trial.told, "resting": sorted(trial.resting)}
    if trial.lacking:
        own |= {"unavailable": sorted(trial.unavailable), "lacking": sorted(trial.lacking)}
    if trial.rule.hears_asks:
        own["asking"] = trial.asking
    own |= {name: True for name in ("waits", "futile") if getattr(trial, name)}
    things = {
        "trial": own,
        "setting": {name: getattr(setting, name) for name in frame} | unit,
        **{name: getattr(trial, name).parts() for name in THINGS},
    }
    if trial.checking is not None:
        things["checks"] = trial.checking.parts()
    things["acts"] = trial.acts.parts()
    return {"principal": registry.encode(trial.principal)} | named(things)


def put_back(trial: Trial, parts: dict[str, Any]) -> None:
    """Make a new trial go on where another one was, given its parts."""
    own = part_of(parts, "trial")
    np.copyto(trial.told, own.pop("told"))
    trial.resting = set(own.pop("resting", ()))
    trial.unavailable = {(agent, arm) for agent, arm in own.pop("unavailable", ())}
    trial.lacking = set(own.pop("lacking", ()))
    np.copyto(trial.asking, own.pop("asking", trial.asking))
    for name, value in own.items():
        setattr(trial, name, value)
    for name in THINGS:
        getattr(trial, name).restore(part_of(parts, name))
    trial.offers.begin(trial.steps + 1, trial.setting.horizon)
    if trial.checking is not None:
        trial.checking.restore(part_of(parts, "checks"))
    trial.acts.restore(part_of(parts, "acts"))


def named(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the parts of several things under one roof, as thing.part."""
    return {f"{thing}.{name}": part for thing, own in parts.items() for name, part in own.items()}


def part_of(parts: dict[str, Any], thing: str) -> dict[str, Any]:
    """Return the parts of one thing."""
    return {name[len(thing) + 1 :]: part for name, part in parts.items() if name.startswith(f"{thing}.")}


def pack(parts: dict[str, Any]) -> Iterator[bytes | memoryview]:
    """Return arrays and plain values as pieces of bytes; nothing is copied, so write them before anything changes."""
    arrays = {name: np.ascontiguousarray(part) for name, part in parts.items() if isinstance(part, np.ndarray)}
    plain = {name: part for name, part in parts.items() if name not in arrays}
    shapes = [[name, part.dtype.str, part.shape] for name, part in arrays.items()]
    text = json.dumps({"plain": plain, "arrays": shapes}).encode()
    yield MAGIC + len(text).to_bytes(8, "little") + text
    for part in arrays.values():
        if part.size:
            yield part.reshape(-1).view(np.uint8).data


def unpack(state: Bytes) -> dict[str, Any]:
    """Return what was packed; arrays are views of the bytes."""
    data, at = memoryview(state).cast("B"), len(MAGIC) + 8
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise InvalidInput("state must be what Trial.state returned in this version, got other bytes; replay the log.")
    try:
        end = at + int.from_bytes(data[len(MAGIC) : at], "little")
        told = json.loads(bytes(data[at:end]))
        parts: dict[str, Any] = told["plain"]
        for name, kind, shape in told["arrays"]:
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
            parts[name] = np.frombuffer(data[end : end + size], kind).reshape(shape) if size else np.zeros(shape, kind)
            end += size
    except (ValueError, KeyError, TypeError):
        end = -1
    if end != len(data):
        raise InvalidInput("state must be what Trial.state returned, whole, got bytes that end too early or too late.")
    return parts


def check_principal(told: Any, principal: Principal) -> None:
    """Refuse the state of a trial of another principal; version 0.1 wrote the text that a principal prints."""
    if told == registry.shown(principal):
        return
    said = registry.from_repr(told) if isinstance(told, str) else told
    if said is None or registry.short("principal", said) != registry.short("principal", registry.encode(principal)):
        raise InvalidInput(
            f"state must be of a trial of {registry.shown(principal)}, got one of {validation.shown(told)}."
        )
