"""What the tests of campaigns stage: a clock that stands still, campaigns, and a way to compare two of them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

import freepull as fp
from freepull.live.rows import TABLES
from freepull.live.stores import Store

OPENED: list[fp.Campaign] = []
"""Campaigns to be closed when a test is over, however it ends."""
HOUR = 3600 * 10**6
EACH = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_900_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += round(hours * HOUR)


def create(url: str | Store, clock: Clock, *, started: bool = True, **settings: Any) -> fp.Campaign:
    """Make a campaign of three arms and three agents, everybody wanted from the first step on."""
    chosen: dict[str, Any] = {
        "name": "onboarding",
        "arms": ["A", "B", "C"],
        "agents": ["ann", "bob", "cy"],
        "principal": EACH,
        "price": "0.50 EUR",
    }
    campaign = fp.Campaign.create(url, clock=clock, **chosen | settings)
    OPENED.append(campaign)
    if started:
        campaign.start()
    return campaign


def reopen(campaign: fp.Campaign, url: str | Store, clock: Clock) -> fp.Campaign:
    """Close a campaign and read it back from its store."""
    campaign.close()
    OPENED.append(fp.Campaign.open(url, campaign.name, clock=clock))
    return OPENED[-1]


def contents(campaign: fp.Campaign) -> dict[str, list[Any]]:
    """Return every row of every table."""
    return {table: list(campaign.core.store.read(campaign.name, table)) for table in TABLES}


def picture(campaign: fp.Campaign) -> Any:
    """Return everything that is in memory, down to the last bit."""
    state = campaign.core.writer.desk.state
    return {name: bits(value) for name, value in vars(state).items() if name != "rows"}


def bits(value: Any, depth: int = 0) -> Any:
    """Return any part of a state as something that is equal only if every bit is."""
    assert depth < 30
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (int, str, bytes)):
        return value
    if isinstance(value, dict):
        return {str(name): bits(item, depth + 1) for name, item in value.items()}
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [bits(item, depth + 1) for item in value]
    if hasattr(value, "tobytes"):
        return value.tobytes()
    if is_dataclass(value):
        return [type(value).__name__, *(bits(getattr(value, field.name), depth + 1) for field in fields(value))]
    if hasattr(value, "__dict__"):
        return [type(value).__name__, *(bits(item, depth + 1) for item in vars(value).values())]
    raise TypeError(f"no bits of {value!r}")
