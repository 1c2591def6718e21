"""The campaign in memory: a trial, offers, money and people, changed by events and by nothing else.

`apply` and `tell` are deterministic and read no clock. Fresh events get filled in what they decide; events from the
log say it already, and replay only verifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import registry
from freepull.campaigns.journal.events import (
    CLIPPED,
    DROPPED,
    ENDINGS,
    NOTHING,
    NUMBERED,
    OFTEN,
    OUTCOME,
    PAID,
    RECORD,
    REFUSED,
    UNFINISHED,
    Event,
    Kind,
    Records,
    Rows,
    audit_row,
    event_of,
    put,
)
from freepull.campaigns.people import Awaited, Offers, People, Settlements, Standing
from freepull.campaigns.settings import Settings
from freepull.campaigns.trials import (
    OUTCOMES,
    alarmed,
    changes,
    decision_of,
    essence,
    first_events,
    start,
    tell_many,
    widened,
)
from freepull.errors import FreepullError, InvalidInput, OwnPartError, ReplayDiffers, WrongMoment
from freepull.principal import Trial
from freepull.principal.record import UNITS

SMALL = 100_000
"""Streams up to which the end of a step is worked on at once."""
SLICE = 0.005
"""Seconds that it may take otherwise before others are served; the rest is done in slices."""
PARKED = "not certified, because agents who ignored offers were dropped, and who is offered what depends on rewards"
RETURNED = "not certified, because withdrawn arms came back when agents joined"
REHEARSAL = "not certified, because this is a rehearsal, played by simulated agents"


class State:
    """Everything that a campaign is, between two events."""

    def __init__(self, settings: Settings, rows: Rows | None = None) -> None:
        self.settings = settings
        self.rows = rows
        """Where rows for the tables are put; None while they are not wanted."""
        self.status = "enrolling"
        """enrolling, running, paused or stopped."""
        self.events = 0
        """How many there were; also the number of the next one."""
        self.at = 0
        """The time of the last event."""
        self.people = People()
        self.offers = Offers(settings.price, settings.budget)
        self.settlements = Settlements()
        self.panel = 0
        """How many agents the verdict speaks of; whoever comes later is observed only."""
        self.panels = 1
        """How many panels there have been, this one included."""
        self.history: Callable[[], Iterable[Records]] = tuple
        """Returns the log from its first event on; needed where late joiners count."""
        self.weights: list[float] | None = None
        self.started: Trial | None = None
        self.observations = self.observed = 0
        """Pulls that count, and pulls of late joiners."""
        self.pulls: NDArray[np.int64] = np.zeros(len(settings.arms), np.int64)
        """Pulls that count, by arm."""
        self.paid = [0] * len(settings.arms)
        self.in_step = 0
        """Pulls that count since the last step ended."""
        self.acted: NDArray[np.bool_] = np.zeros(0, bool)
        """Who has acted in this step."""
        self.acted_and_left = 0
        """How many of them have left since."""
        self.round_closes: int | None = None
        self.refused: list[tuple[int, int]] = []
        """Refusals of this step: agent and offer."""
        self.ending: tuple[list[int], list[tuple[int, int]], list[str]] | None = None
        """A step that has ended and is being worked on: the arms that were in, its refusals, and alarms before it."""
        self.decision: dict[str, Any] | None = None
        """The verdict, once the trial is decided."""
        self.acts: dict[int, Awaited] = {}
        """Pulls whose outcomes are to come, by the event that told each, in their order."""
        self.came = self.never_came = self.clipped = 0
        """How many outcomes have come later than their pulls, and had not in time; rewards outside the scale."""
        self.stopped_why = ""
        self.rehearsals = 0
        """How often simulated agents have played; where they have, real ones may not."""
        self.doubts: list[str] = []
        """Why no verdict of this campaign is certified, beside what the trial itself knows."""

    @property
    def trial(self) -> Trial:
        """The trial, which exists from the start on."""
        if self.started is None:
            raise WrongMoment(f"campaign {self.settings.name!r} has not started; start it first.")
        return self.started

    @property
    def patience(self) -> float | None:
        """How long the end of a step may take at a time; None: as long as it does."""
        return None if self.panel * len(self.settings.arms) <= SMALL else SLICE

    def apply_many(self, records: Records, more: dict[int, dict[str, Any]]) -> None:
        """Apply events from the log, runs of pulls and asks at once."""
        others = np.flatnonzero(~np.isin(records["kind"], OFTEN)).tolist()
        begin = 0
        for i in [*others, len(records)]:
            if i > begin:
                self.tell(records[begin:i])
            if i < len(records):
                self.apply(event_of(records[i], more.get(i)))
            begin = i + 1

    def apply(self, event: Event, fresh: bool = False) -> Event:
        """Apply an event that is not a pull; return it, with what it decided if it is fresh."""
        done = _APPLY[Kind(event.kind)](self, event, fresh) or event
        row = audit_row(self.events, done)
        if row is not None:
            put(self.rows, "audit", *row)
        self.at = event.at
        self.events += 1
        return done

    def tell(self, records: Records, fresh: bool = False) -> None:
        """Apply pulls, in their order; outcomes are filled in if they are fresh, and must agree if not.

        There may be asks among them, from the log, and agents who asked and made none.
        """
        agents, kinds = records["agent"].astype(np.int64), records["kind"]
        hears, told = self.trial.rule.hears_asks, kinds == Kind.TOLD
        if not hears and (kinds == Kind.ASKED).any():
            raise self._differs("its rule does not hear asks")
        counted = agents < self.panel
        heard = counted if hears else counted & told
        own = slice(None) if heard.all() else heard
        outcomes, ended = np.zeros(len(records), np.uint8), np.zeros(len(records), np.uint32)
        outcomes[own] = tell_many(self.trial, agents[own], records["arm"][own], records["value"][own], kinds[own])
        for i in self._ending(np.where(told, agents, -1), outcomes):
            outcomes[i], ended[i] = self._end_offer(int(agents[i]), int(outcomes[i]) or DROPPED, int(records["at"][i]))
        if fresh:
            records["flags"] |= outcomes
            records["offer"] = ended
        elif not (np.array_equal(records["flags"] & OUTCOME, outcomes) and np.array_equal(records["offer"], ended)):
            raise self._differs("its pulls did something else to open offers")
        for agent in self.people.back(agents[told]):
            self._wake(agent)
        self.people.number(records, self.events)
        if self.settings.scale is not None:
            self.clipped += int(np.count_nonzero(records["flags"] & CLIPPED))
        counted &= told
        self.acted[agents[counted]] = True
        self.pulls += np.bincount(records["arm"][counted], minlength=len(self.pulls))
        pulls = int(counted.sum())
        self.in_step += pulls
        self.observations += pulls
        self.observed += int(told.sum()) - pulls
        self.events += len(records)
        self.at = int(records["at"][-1])

    def _ending(self, agents: NDArray[np.int64], outcomes: NDArray[np.uint8]) -> list[int]:
        """Return which pulls end an offer: by the trial's word, or as the first one after it was recalled."""
        places = set(np.flatnonzero(outcomes).tolist())
        recalled = set(self.offers.recalled)
        for i in np.flatnonzero(np.isin(agents, list(recalled))).tolist() if recalled else ():
            if int(agents[i]) in recalled:
                recalled.remove(int(agents[i]))
                places.add(i)
        return sorted(places)

    def _end_offer(self, agent: int, outcome: int, at: int) -> tuple[int, int]:
        standing = self.offers.end(agent, str(ENDINGS[outcome]), at, self.rows)
        self.people.silent.pop(agent, None)
        if outcome == PAID:
            self.paid[standing.arm] += 1
        elif outcome == REFUSED:
            self.refused.append((agent, standing.offer))
        return outcome, standing.offer

    def _accepted(self, event: Event, fresh: bool) -> None:
        self.offers.accept(event.agent, self._lasts_until(event.at), self.rows)

    def _declined(self, event: Event, fresh: bool) -> None:
        if self.trial.decline(event.agent) != "refused":
            raise self._differs(f"agent {event.agent} has no offer to decline")
        self._end_offer(event.agent, REFUSED, event.at)
        self.people.declined[event.agent] = event.offer
        self.trial.resting.add(event.agent)

    def _lapsed(self, event: Event, fresh: bool) -> None:
        self.trial.lapse(event.agent)
        self.offers.end(event.agent, "lapsed", event.at, self.rows)

    def _acted(self, event: Event, fresh: bool) -> Event | None:
        """A pull is made: it counts, and ends an open offer, before its outcome is known."""
        agent, arm, counts, act = event.agent, event.arm, event.agent < self.panel, self.events
        outcome = offer = 0
        if counts:
            now = self.settings.pay_on == "act"
            end = self.trial.act(agent, arm, act, pay=now)
            if agent in self.offers.open and end == "paid" and not now:
                self.people.silent.pop(agent, None)
                outcome, offer = NOTHING, self.offers.wait(agent, act).offer
            elif agent in self.offers.open:
                outcome, offer = self._end_offer(agent, OUTCOMES.get(end or "", DROPPED), event.at)
            self.acted[agent] = True
            self.pulls[arm] += 1
        self.in_step += counts
        self.observations += counts
        self.observed += not counts
        done = event._replace(flags=event.flags | outcome, offer=offer) if fresh else event
        if not fresh and (event.flags & OUTCOME, event.offer) != (outcome, offer):
            raise self._differs("its pull did something else to an open offer")
        for woken in self.people.back(np.array([agent])):
            self._wake(woken)
        if event.flags & NUMBERED:
            self.people.number(np.array([done.record()], RECORD), act)
        self.acts[act] = Awaited(agent, arm, event.at + self.settings.awaits)
        return done

    def _came(self, event: Event, fresh: bool) -> Event | None:
        paid = self._outcome(event, event.value / UNITS, "paid")
        self.came += 1
        self.clipped += bool(event.flags & CLIPPED)
        if not fresh and bool(event.flags & OUTCOME) != paid:
            raise self._differs("its outcome did something else to an offer")
        return event._replace(flags=event.flags | PAID) if paid else None

    def _never_came(self, event: Event, fresh: bool) -> None:
        self._outcome(event, self.settings.without_outcome, "cancelled")
        self.never_came += 1

    def _outcome(self, event: Event, reward: float | None, ending: str) -> bool:
        """Let the outcome of an act count, and end the offer that waited for it; say whether that was paid."""
        act = self.acts.pop(event.offer, None)
        if act is None or act[:2] != (event.agent, event.arm):
            raise self._differs(f"event {event.offer} is no act whose outcome is to come")
        if act.agent < self.panel:
            gone = self.settings.leavers != "wait" and act.agent in self.people.left
            self.trial.outcome(event.offer, reward, paid=ending == "paid", counts=not gone)
        if event.offer not in self.offers.due:
            return False
        standing = self.offers.end_due(event.offer, ending, event.at, self.rows)
        self.paid[standing.arm] += ending == "paid"
        return ending == "paid"

    def _enrolled(self, event: Event, fresh: bool) -> None:
        self.people.enrolled += event.value
        if self.started is None:
            self.panel = self.people.enrolled
            if (event.more or {}).get("weights") is not None:
                self.weights = [*(self.weights or []), *(event.more or {})["weights"]]

    def _joined(self, event: Event, fresh: bool) -> None:
        """Widen the panel, and look at everything anew; nothing has changed if that cannot be."""
        panel, history = self.people.enrolled + event.value, first_events(self.history(), self.events)
        weights = None if self.weights is None else [*self.weights, *(event.more or {})["weights"]]
        if self.settings.early and self.trial.panel.withdrawn:
            self.trial.panel.withdrawn.clear()
            self._doubt(RETURNED)
        self.started = widened(self.trial, self.settings, panel, weights, self.panels + 1, history)
        self.people.enrolled = self.panel = panel
        self.panels, self.weights = self.panels + 1, weights
        self.acted = np.concatenate([self.acted, np.zeros(event.value, bool)])

    def _started(self, event: Event, fresh: bool) -> None:
        trial = start(self.settings, self.panel, self.weights)
        trial.afford(self.settings.affordable(self.offers.budget))
        for agent, arm in sorted(self.people.unavailable):
            trial.bar(agent, arm)
        self.started, self.status = trial, "running"
        self.acted = np.zeros(self.panel, bool)
        self._open_round(event.at)

    def _asked(self, event: Event, fresh: bool) -> None:
        self.trial.hear(event.agent)

    def _offered(self, event: Event, fresh: bool) -> Event | None:
        offer = self.trial.answer(event.agent)
        if offer is None or offer.arm != event.arm:
            raise self._offers_otherwise(f"agent {event.agent} is not wanted for arm {event.arm}", fresh)
        deadline = self._lasts_until(event.at)
        if self.settings.accept_within is not None:
            deadline = min(deadline, event.at + self.settings.accept_within)
        standing = Standing(event.offer, event.agent, event.arm, self.trial.steps + 1, event.at, deadline)
        if self.settings.priced:
            standing.amount = self.trial.offers.asked(event.agent)
            if not fresh and standing.amount != event.value:
                pays = f"offer {event.offer} pays {standing.amount} minor units and not {event.value}"
                raise self._offers_otherwise(pays, fresh)
        self.offers.issue(standing, self.rows)
        return event._replace(value=standing.amount or 0) if fresh else None

    def _lasts_until(self, at: int) -> int:
        """Until when an offer stands that is made or accepted now."""
        return at + self.settings.offer_lasts if self.round_closes is None else self.round_closes

    def _expired(self, event: Event, fresh: bool) -> None:
        self.trial.cancel(event.agent)
        standing = self.offers.end(event.agent, "expired", event.at, self.rows)
        self.people.expire(event.agent, standing.deadline + self.settings.cool_down)
        self.trial.resting.add(event.agent)

    def _recalled(self, event: Event, fresh: bool) -> None:
        self.trial.recall(event.agent)
        self.offers.recall(event.agent, self.rows)

    def _cancelled(self, event: Event, fresh: bool) -> None:
        self.trial.cancel(event.agent)
        self.offers.end(event.agent, "cancelled", event.at, self.rows)

    def _step_ended(self, event: Event, fresh: bool) -> Event | None:
        """End a step; a fresh one is worked on for a moment only, and `_step_closed` is for the rest."""
        trial = self.trial
        self.ending, self.refused = (trial.active, self.refused, alarmed(trial)), []
        trial.resting = self.people.rested(event.at)
        trial.end_step(at_once=False)
        self.acted[:] = False
        self.in_step = self.acted_and_left = 0
        self._open_round(event.at)
        if trial.steps != event.value:
            raise self._differs(f"it is step {trial.steps} that ends, not {event.value}")
        unfinished = not trial.work(self.patience) if fresh else bool(event.flags & UNFINISHED)
        if unfinished:
            return event._replace(flags=UNFINISHED)
        return self._step_closed(event, fresh)

    def _step_closed(self, event: Event, fresh: bool) -> Event | None:
        trial = self.trial
        if self.ending is None:
            raise self._differs("no step is being worked on")
        before = self.ending
        trial.work()
        self.ending = None
        facts = changes(trial, *before)
        if trial.decided_at is not None and self.decision is None:
            facts["decided"] = decision_of(trial, self.settings, self.panels, self.doubts)
        found, logged = (essence(it, self.settings.early) for it in (facts, event.more))
        if not fresh and found != logged:
            raise self._differs(f"step {trial.steps} ended with {found} and not {logged}")
        if "decided" in facts:
            told, now = (facts if fresh else event.more or {})["decided"], facts["decided"]
            self.decision = now if told["certified"] and not now["certified"] else told
        for agent, offer, until in facts.get("bans", ()):
            put(self.rows, "bans", *self.people.ban(agent, offer, trial.steps, until, event.at))
        return event._replace(more=facts or None) if fresh else None

    def _parked(self, event: Event, fresh: bool) -> None:
        """Let an agent rest, as since its last expiry; silence follows offers and so rewards, which no leaving may."""
        self.people.silent.pop(event.agent, None)
        if self.settings.early and self.settings.leavers != "wait":
            self._parked_away(event, fresh)
            return
        self._go(event.agent)
        self.people.parked.add(event.agent)

    def _parked_away(self, event: Event, fresh: bool) -> None:
        """Let it leave, as version 1 had it, unless the panel cannot do without it."""
        counts = self.decision is None and self.trial.setting.weights[event.agent] > 0
        with suppress(InvalidInput):
            self._left(event, fresh)
            if counts and self.settings.leavers == "independent":
                self._doubt(PARKED)

    def _left(self, event: Event, fresh: bool) -> None:
        self.trial.leave(event.agent)
        self._go(event.agent)
        self.people.parked.discard(event.agent)
        self.people.left.add(event.agent)
        self._wake(event.agent)

    def _go(self, agent: int) -> None:
        """Note that an agent becomes absent, if it is not."""
        away = agent in self.people.parked or agent in self.people.left
        self.acted_and_left += bool(self.acted[agent]) and not away

    def _wake(self, agent: int) -> None:
        """Note that an agent is no longer parked; a cool-down it still has to sit out."""
        if agent not in self.people.cooling:
            self.trial.resting.discard(agent)

    def _doubt(self, why: str) -> None:
        if why not in self.doubts:
            self.doubts.append(why)

    def _unbanned(self, event: Event, fresh: bool) -> None:
        self.trial.unban(event.agent)
        ban = self.people.banned.pop(event.agent, None)
        if ban is not None:
            put(self.rows, "bans", *ban[:-1], event.at)

    def _withdrawn(self, event: Event, fresh: bool) -> None:
        self.trial.withdraw(event.arm)

    def _unavailable(self, event: Event, fresh: bool) -> None:
        self.people.unavailable[event.agent, event.arm] = (event.more or {}).get("until")
        if self.started is not None and event.agent < self.panel:
            self.trial.bar(event.agent, event.arm)

    def _available(self, event: Event, fresh: bool) -> None:
        if self.people.unavailable.pop((event.agent, event.arm), 0) == 0:
            raise self._differs(f"arm {event.arm} is available to agent {event.agent} already")
        if self.started is not None and event.agent < self.panel:
            self.trial.bar(event.agent, event.arm, barred=False)

    def _budget(self, event: Event, fresh: bool) -> None:
        self.offers.budget = (event.more or {})["budget"]
        if self.started is not None:
            self.trial.afford(self.settings.affordable(self.offers.budget))

    def _paused(self, event: Event, fresh: bool) -> None:
        self.status, self.round_closes = "paused", None

    def _resumed(self, event: Event, fresh: bool) -> None:
        self.status = "running"
        self._open_round(event.at)

    def _stopped(self, event: Event, fresh: bool) -> None:
        self.status, self.round_closes = "stopped", None
        self.stopped_why = str((event.more or {}).get("why", ""))

    def _noted(self, event: Event, fresh: bool) -> None:
        if "rehearsal" in (event.more or {}):
            self.rehearsals += 1
            self._doubt(REHEARSAL)

    def _settled(self, event: Event, fresh: bool) -> None:
        more, entry = event.more or {}, event.offer
        payer, note = str(more.get("payer", "")), str(more.get("note", ""))
        if not 1 <= entry <= self.offers.endings["paid"]:
            raise self._differs(f"the ledger has no entry {entry} to be settled")
        if not fresh and self.settlements.fits(entry, event.value, payer) is False:
            raise self._differs(f"entry {entry} of the ledger cannot get into that state")
        self.settlements.move(entry, event.value, event.at, payer, note, self.rows)

    def _nothing(self, event: Event, fresh: bool) -> None:
        return

    def _open_round(self, at: int) -> None:
        lasts = self.settings.round_lasts
        self.round_closes = at + lasts if lasts is not None and self.status == "running" else None

    def _offers_otherwise(self, what: str, fresh: bool) -> FreepullError:
        """Say that an offer is another one than in the log; a pricing of its maker's own may not be what it was."""
        pricing = self.settings.principal.pricing
        if fresh or pricing is None or registry.declared(type(pricing)) is not None:
            return self._differs(what)
        return OwnPartError(
            f"event {self.events} of campaign {self.settings.name!r} cannot be replayed as the log has it: {what}; "
            f"bring {registry.encode(pricing)['part']} back as it was, by which prices were made, or restore a backup."
        )

    def _differs(self, what: str) -> ReplayDiffers:
        return ReplayDiffers(
            f"event {self.events} of campaign {self.settings.name!r} cannot be replayed as the log has it: {what}; "
            "open it with the freepull that wrote it, or restore a backup."
        )


_APPLY: dict[Kind, Callable[[State, Event, bool], Event | None]] = {
    Kind.CREATED: State._nothing,
    Kind.ENROLLED: State._enrolled,
    Kind.STARTED: State._started,
    Kind.ASKED: State._asked,
    Kind.OFFERED: State._offered,
    Kind.EXPIRED: State._expired,
    Kind.RECALLED: State._recalled,
    Kind.CANCELLED: State._cancelled,
    Kind.STEP_ENDED: State._step_ended,
    Kind.STEP_CLOSED: State._step_closed,
    Kind.PARKED: State._parked,
    Kind.LEFT: State._left,
    Kind.UNBANNED: State._unbanned,
    Kind.WITHDRAWN: State._withdrawn,
    Kind.UNAVAILABLE: State._unavailable,
    Kind.AVAILABLE: State._available,
    Kind.BUDGET: State._budget,
    Kind.PAUSED: State._paused,
    Kind.RESUMED: State._resumed,
    Kind.STOPPED: State._stopped,
    Kind.NOTED: State._noted,
    Kind.JOINED: State._joined,
    Kind.SETTLED: State._settled,
    Kind.ACCEPTED: State._accepted,
    Kind.DECLINED: State._declined,
    Kind.LAPSED: State._lapsed,
    Kind.ACTED: State._acted,
    Kind.CAME: State._came,
    Kind.NEVER_CAME: State._never_came,
}
