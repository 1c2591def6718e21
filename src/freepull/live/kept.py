"""What a snapshot keeps of a campaign beside its trial."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from freepull.live.events import RECORD
from freepull.live.log import Log
from freepull.live.offers import Standing
from freepull.live.settings import Settings
from freepull.live.state import State
from freepull.live.trials import restore

PLAIN = (
    *("status", "events", "at", "panel", "panels", "weights", "observations", "observed", "paid", "in_step"),
    *("round_closes", "refused", "decision", "stopped_why", "rehearsals", "doubts"),
)
PEOPLE = ("enrolled", "silent", "cooling", "banned", "bans")
"""The fields that are kept as they are."""


class Kept(msgspec.Struct):
    """Plain data, from which a state can be made again."""

    segment: int
    checksum: int
    status: str
    events: int
    at: int
    panel: int
    panels: int
    weights: list[float] | None
    observations: int
    observed: int
    paid: list[int]
    in_step: int
    round_closes: int | None
    refused: list[tuple[int, int]]
    decision: dict[str, Any] | None
    stopped_why: str
    rehearsals: int
    doubts: list[str]
    enrolled: int
    silent: dict[int, int]
    cooling: dict[int, int]
    parked: list[int]
    left: list[int]
    banned: dict[int, tuple[int, int, int, int, int, int, None]]
    bans: int
    budget: int | None
    made: int
    open: list[tuple[int, int, int, int, int, int, bool]]
    endings: dict[str, int]
    pulls: list[int]
    acted: bytes
    numbers: bytes
    last: bytes
    last_event: bytes


def keep(state: State, log: Log) -> Kept:
    """Return what is to be kept of a state, and where in the log it is; the same bytes for the same log."""
    people, offers = state.people, state.offers
    standing = [(it.offer, it.agent, it.arm, it.step, it.at, it.deadline, it.recalled) for it in offers.open.values()]
    return Kept(
        segment=log.number,
        checksum=log.checksum,
        **{name: getattr(state, name) for name in PLAIN},
        **{name: getattr(people, name) for name in PEOPLE},
        parked=sorted(people.parked),
        left=sorted(people.left),
        budget=offers.budget,
        made=offers.made,
        open=standing,
        endings=dict(offers.endings),
        pulls=state.pulls.tolist(),
        acted=state.acted.tobytes(),
        numbers=people.numbers.tobytes(),
        last=people.last.tobytes(),
        last_event=people.last_event.tobytes(),
    )


def restored(settings: Settings, kept: Kept, trial: memoryview) -> tuple[State, Log]:
    """Make the state again, and the end of its log."""
    state = State(settings)
    for name in PLAIN:
        setattr(state, name, getattr(kept, name))
    for name in PEOPLE:
        setattr(state.people, name, getattr(kept, name))
    people, offers = state.people, state.offers
    people.parked, people.left = set(kept.parked), set(kept.left)
    offers.budget, offers.made = kept.budget, kept.made
    offers.endings.update(kept.endings)
    offers.open = {row[1]: Standing(*row) for row in kept.open}
    offers.recalled = {agent for agent, standing in offers.open.items() if standing.recalled}
    state.pulls = np.array(kept.pulls, np.int64)
    state.acted = np.frombuffer(kept.acted, bool).copy()
    state.acted_and_left = sum(bool(state.acted[agent]) for agent in (*kept.parked, *kept.left))
    people.numbers = np.frombuffer(kept.numbers, np.int64).copy()
    people.last = np.frombuffer(kept.last, RECORD).copy()
    people.last_event = np.frombuffer(kept.last_event, np.int64).copy()
    if len(trial):
        state.started = restore(settings, kept.panels, trial)
    return state, Log(kept.segment, kept.events, kept.checksum)
