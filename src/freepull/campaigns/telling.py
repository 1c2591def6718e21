"""Telling: which pulls are new, which are repetitions, which must be refused; then all new ones at once.

A batch is looked at in full before anything of it is told, so an error in it leaves nothing half done.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from freepull.campaigns.commands import GOING, Decider
from freepull.campaigns.directory import Batch, Pull, outcome_identity
from freepull.campaigns.journal.events import (
    CLIPPED,
    ENDINGS,
    NUMBERED,
    OBSERVED,
    OUTCOME,
    PAID,
    Kind,
    Rows,
    pulls,
    put,
)
from freepull.campaigns.settings import long
from freepull.errors import (
    AgentHasLeft,
    Corrupt,
    EventConflict,
    EventGap,
    FreepullError,
    OutOfTurn,
    UnknownAct,
    WrongMoment,
)
from freepull.messages import Told

RECORD = struct.Struct("<BBHIIIq")
Known = dict[bytes, tuple[int, bytes]]
"""Event ids that were used before: the number of the event, and its record."""


def tell(decider: Decider, batch: Batch, at: int, known: Known, strict: bool) -> list[Told | FreepullError]:
    """Tell a batch; return a reply or an error for each pull. If ``strict``, the first error is raised instead."""
    looked = _Look(decider, batch, known)
    if strict and looked.errors:
        raise first_of(looked.errors)
    told = _write(decider, batch, looked.fresh, at, known)
    if len(looked.fresh) == len(batch):
        return [told[i] for i in range(len(batch))]
    replies: list[Told | FreepullError] = []
    for i in range(len(batch)):
        replies.append(looked.errors.get(i) or looked.repeated.get(i) or told[looked.same.get(i, i)])
    return replies


def act(decider: Decider, batch: Batch, at: int, known: Known) -> Told:
    """Note one pull whose outcome is to come, unless it was noted before."""
    looked, state = _Look(decider, batch, known), decider.state
    if looked.errors:
        raise first_of(looked.errors)
    if not len(looked.fresh):
        return looked.repeated[0]
    agent = int(batch.agents[0])
    if not known.keys().isdisjoint(map(outcome_identity, batch.known())):
        raise EventConflict(
            f"agent {decider.shown(agent)} has used this event id for an earlier act, whose outcome is remembered, so "
            "that of another one could not be told; give it a new id."
        )
    flags = OBSERVED * (agent >= state.panel) | NUMBERED * bool(batch.numbers)
    written = RECORD.pack(*decider.act(agent, int(batch.arms[0]), flags, at).record())
    event = state.events - 1
    _remember(state.rows, batch.ids, event, written, at, known)
    told = reply(decider, event, written)
    decider.end_step_if_due(at)
    return told


def settle(decider: Decider, pull: Pull, keys: tuple[bytes, bytes], at: int, known: Known) -> Told:
    """Note what came of an act, unless it was noted before; ``keys`` are those of the act and of its outcome."""
    agent, value = pull.agent, pull.value
    (act, own), state, who = keys, decider.state, decider.shown(agent)
    event, record = known.get(act, (0, b""))
    if act in known:
        check_record(decider, agent, event, record, (Kind.TOLD, Kind.PASSED, Kind.ACTED))
    offer = RECORD.unpack(record)[5] if act in known else 0
    if own in known:
        check_record(decider, agent, *known[own], (Kind.CAME,))
        if RECORD.unpack(known[own][1])[4] != value:
            raise EventConflict(
                f"agent {who} has told another outcome by this event; repeat it as it was, for what was told stands."
            )
        return _settled(decider, known[own], offer)
    if act not in known:
        raise UnknownAct(f"agent {who} has told no act by this event; tell the act first, or check its event.")
    if record[0] != Kind.ACTED:
        raise EventConflict(
            f"agent {who} has told by this event a pull with its reward, or that there was none, so no outcome is "
            "awaited; tell an act first."
        )
    decider.check_real()
    if event not in state.acts:
        reward = state.settings.without_outcome
        counted = "is missing for good" if reward is None else f"counts as {state.settings.shown_reward(reward)}"
        raise WrongMoment(
            f"the outcome of this act of agent {who} came too late: it was awaited for {long(state.settings.awaits)}, "
            f"and {counted}."
        )
    written = RECORD.pack(*decider.outcome(event, value, CLIPPED * pull.clipped, at).record())
    _remember(state.rows, [own], state.events - 1, written, at, known)
    return _settled(decider, known[own], offer)


def _settled(decider: Decider, found: tuple[int, bytes], offer: int) -> Told:
    """Return the reply to an outcome; an offer that it has paid is known to the act."""
    event, record = found
    if record[1] & OUTCOME != PAID:
        return Told(event)
    return Told(event, ENDINGS[PAID], offer or None, decider.state.offers.money(offer) if offer else None)


def check_record(decider: Decider, agent: int, event: int, record: bytes, kinds: tuple[Kind, ...]) -> None:
    """Refuse what is no event of these kinds by this agent, whose id it has."""
    right = isinstance(record, bytes) and len(record) == RECORD.size and 0 <= event < decider.state.events
    if not right or record[0] not in kinds or RECORD.unpack(record)[3] != agent:
        raise Corrupt(f"the event id of event {event} of campaign {decider.name} is damaged; restore a backup.")


def first_of(errors: dict[int, FreepullError]) -> FreepullError:
    """Return the first error of many pulls, which then knows its place."""
    place = min(errors)
    errors[place].place = place
    return errors[place]


class _Look:
    """What each pull of a batch is, decided before any of them is told."""

    def __init__(self, decider: Decider, batch: Batch, known: Known) -> None:
        self.decider, self.batch, self.known = decider, batch, known
        self.errors = dict(batch.errors)
        self.repeated: dict[int, Told] = {}
        """Replies that were given before."""
        self.same: dict[int, int] = {}
        """Repetitions within the batch: of which pull."""
        self.fresh: Sequence[int] = range(len(batch))
        state = decider.state
        gone = state.settings.leavers != "wait" and state.people.left
        closed = state.rehearsals > 0 and not batch.simulated
        plain = state.status in GOING and state.settings.mode == "free" and not gone and not closed
        new = len(set(batch.ids)) == len(batch.ids) and known.keys().isdisjoint(batch.ids)
        if not plain or self.errors or batch.numbers or not new:
            self.moment = _Moment(decider, plain)
            self.places: dict[bytes, int] = {}
            self.counted: dict[int, tuple[int, int]] = {}
            self.fresh = [i for i in range(len(batch)) if i not in self.errors and self._is_fresh(i)]

    def _is_fresh(self, i: int) -> bool:
        """Say whether a pull is a new one; otherwise note its reply or what is wrong."""
        try:
            key = self.batch.ids[i] if self.batch.ids else None
            number = self.batch.numbers[i] if self.batch.numbers else None
            if (key is not None and self._seen_id(i, key)) or (number is not None and self._seen_number(i, number)):
                return False
            agent, arm = int(self.batch.agents[i]), int(self.batch.arms[i])
            if not self.batch.simulated:
                self.decider.check_real()
            self.moment.check(agent, None if self.batch.kind == Kind.PASSED else arm)
        except FreepullError as error:
            self.errors[i] = error
            return False
        if key is not None:
            self.places[key] = i
        if number is not None:
            self.counted[agent] = number, i
        return True

    def _seen_id(self, i: int, key: bytes) -> bool:
        if key in self.known:
            event, record = self.known[key]
            self._check_record(i, event, record)
            self._compare(i, record, "this event id")
            self.repeated[i] = reply(self.decider, event, record)
        elif key in self.places:
            self._compare_within(i, self.places[key], "this event id")
        else:
            return False
        return True

    def _check_record(self, i: int, event: int, record: bytes) -> None:
        """Refuse what is no pull of this agent, whose id it has."""
        check_record(self.decider, int(self.batch.agents[i]), event, record, (Kind.TOLD, Kind.PASSED, Kind.ACTED))

    def _seen_number(self, i: int, number: int) -> bool:
        agent, people = int(self.batch.agents[i]), self.decider.state.people
        last, place = self.counted.get(agent, (people.last_number(agent), -1))
        if number == last + 1:
            return False
        if number > last:
            whose = self.decider.shown(agent)
            said = f"the next event of agent {whose} must have number {last + 1}, got {number}; send what lies between"
            raise EventGap(f"{said} first.", last + 1)
        if number < last:
            self.repeated[i] = Told(None)
        elif place >= 0:
            self._compare_within(i, place, f"number {number}")
        else:
            record = people.last[agent].tobytes()
            self._compare(i, record, f"number {number}")
            self.repeated[i] = reply(self.decider, int(people.last_event[agent]), record)
        return True

    def _content(self, i: int) -> tuple[int, ...]:
        return self.batch.kind, int(self.batch.arms[i]), int(self.batch.agents[i]), int(self.batch.values[i])

    def _compare(self, i: int, record: bytes, what: str) -> None:
        kind, _, *content, _, _ = RECORD.unpack(record)
        self._same(i, (kind, *content), what)

    def _compare_within(self, i: int, place: int, what: str) -> None:
        self._same(i, self._content(place), what)
        self.same[i] = place

    def _same(self, i: int, content: tuple[int, ...], what: str) -> None:
        if self._content(i) != content:
            who = self.decider.shown(int(self.batch.agents[i]))
            raise EventConflict(
                f"agent {who} has used {what} for something else, another arm or reward; repeat an event as it was, or "
                "give a new one a new id."
            )


class _Moment:
    """Whether pulls fit the campaign's status, and in rounds the turn of their agents."""

    def __init__(self, decider: Decider, plain: bool) -> None:
        self.state, self.plain = decider.state, plain
        self.rounds = self.state.settings.mode == "rounds" and self.state.status in GOING
        self.room = decider.room() if self.rounds else 0
        self.acted: set[int] = set()
        self.absent, self.returned = self.state.people.absent, set[int]()
        """How many are absent, and who of them has come back in this batch."""
        self.new_round = False
        self.name, self.shown = decider.name, decider.shown

    def check(self, agent: int, arm: int | None) -> None:
        """Refuse a pull that does not fit, or that none was made; otherwise count it."""
        if self.plain:
            return
        state = self.state
        if state.status == "enrolling":
            raise WrongMoment(f"campaign {self.name} has not started, so nothing can be told yet; start it first.")
        if state.status == "stopped":
            standing = state.offers.open.get(agent)
            if standing is None or standing.arm != arm or agent in self.acted:
                raise WrongMoment(f"campaign {self.name} has stopped, so nothing can be told any more.")
            self.acted.add(agent)
        if state.settings.leavers != "wait" and agent in state.people.left:
            raise AgentHasLeft(f"agent {self.shown(agent)} has left, so its pulls no longer count; do not tell them.")
        if self.rounds and agent < state.panel and arm is not None:
            self._take_turn(agent)

    def _take_turn(self, agent: int) -> None:
        if agent in self.acted or (not self.new_round and bool(self.state.acted[agent])):
            who = self.shown(agent)
            raise OutOfTurn(f"agent {who} has acted in this round already; it can act again when the round closes.")
        self.acted.add(agent)
        people = self.state.people
        if agent not in self.returned and (agent in people.parked or agent in people.left):
            self.returned.add(agent)
            self.absent -= 1
        else:
            self.room -= 1
        if self.room <= 0:
            self.acted.clear()
            self.new_round, self.room = True, self.state.panel - self.absent


def _write(decider: Decider, batch: Batch, fresh: Sequence[int], at: int, known: Known) -> dict[int, Told]:
    """Tell new pulls, step by step; return their replies."""
    state, told = decider.state, dict[int, Told]()
    places = np.array(fresh, np.int64)
    records = pulls(batch.agents[places], batch.arms[places], batch.values[places], at, batch.kind)
    records["flags"][batch.agents[places] >= state.panel] |= OBSERVED
    if batch.numbers:
        records["flags"][[batch.numbers[i] is not None for i in fresh]] |= NUMBERED
    if batch.clipped is not None:
        records["flags"][batch.clipped[places]] |= CLIPPED
    begin = 0
    while begin < len(fresh):
        end = min(len(fresh), begin + max(1, decider.room()) if state.status in GOING else len(fresh))
        part, first = records[begin:end], state.events
        decider.write_pulls(part)
        told.update(zip(fresh[begin:end], map(Told, range(first, state.events)), strict=True))
        for j in np.flatnonzero(part["offer"]).tolist():
            told[fresh[begin + j]] = reply(decider, first + j, part[j].tobytes())
        if batch.ids:
            _remember(state.rows, [batch.ids[i] for i in fresh[begin:end]], first, part.tobytes(), at, known)
        decider.end_step_if_due(at)
        begin = end
    return told


def _remember(rows: Rows | None, ids: list[bytes | None], first: int, written: bytes, at: int, known: Known) -> None:
    """Remember event ids, with what they stand for."""
    size = RECORD.size
    for j, key in enumerate(ids):
        if key is not None:
            known[key] = first + j, written[j * size : (j + 1) * size]
            put(rows, "event_ids", key, *known[key], at)


def reply(decider: Decider, event: int, record: bytes) -> Told:
    """Return the reply to a pull, from its record alone."""
    _, flags, _, _, _, offer, _ = RECORD.unpack(record)
    outcome = flags & OUTCOME
    return Told(event, ENDINGS[outcome], offer or None, decider.state.offers.money(offer) if outcome == PAID else None)
