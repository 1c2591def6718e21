"""What a campaign does: it checks what is asked of it, decides what follows, and writes events.

Here is the policy, with the writer's time; `State` only applies what was decided. An error is raised before anything
has changed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

from freepull.campaigns.journal.events import Event, Kind, Log, Records
from freepull.campaigns.people import SENT, Standing
from freepull.campaigns.settings import PARKED_AFTER
from freepull.campaigns.state import State
from freepull.errors import BudgetTooSmall, InvalidInput, WrongMoment
from freepull.messages import SETTLEMENTS, TIME_OVER
from freepull.money import Money

GOING = ("running", "paused")
MOST_NAMED = (1 << 32) - 1000
"""Events after which no outcome could name its act."""


class Decider:
    """Checks what is asked of one campaign, decides what follows, and writes events."""

    def __init__(self, state: State, log: Log) -> None:
        self.state, self.log = state, log
        self._deadlines = [(standing.deadline, agent, standing.offer) for agent, standing in state.offers.open.items()]
        heapq.heapify(self._deadlines)
        until = ((end, *which) for which, end in state.people.unavailable.items() if end is not None)
        self._returns: list[tuple[int, int, int]] = list(until)
        """When arms are available again, to whom, and which."""
        heapq.heapify(self._returns)
        self.shown: Callable[[int], str] = "#{}".format
        """How an agent is called in messages."""

    @property
    def name(self) -> str:
        """The campaign's name, for messages."""
        return repr(self.state.settings.name)

    def write(self, kind: Kind, at: int, *, more: dict[str, Any] | None = None, **fields: int) -> Event:
        """Apply an event, and log it with what it has decided."""
        event = self.state.apply(Event(kind, at, more=more, **fields), fresh=True)
        self.log.add(event)
        return event

    def write_pulls(self, records: Records) -> None:
        """Apply pulls, and log them with their outcomes."""
        self.state.tell(records, fresh=True)
        self.log.extend(records)

    def enrol(self, count: int, weights: list[float] | None, at: int, by: str) -> int:
        """Add agents; return the number of the first. After the start they are observed only, or the panel widens."""
        state, first = self.state, self.state.people.enrolled
        if state.status == "stopped":
            raise WrongMoment(f"campaign {self.name} has stopped, so nobody can join it.")
        state.settings.check_agents(first + count)
        counts = state.started is None or self._widens
        if weights is not None and not counts:
            raise InvalidInput("weights must be left out after the start, because late joiners do not count.")
        if first and counts and (weights is None) != (state.weights is None):
            raise InvalidInput("weights must be given for all agents of a campaign, or for none.")
        more = {"weights": weights, "by": by} if weights is not None else {"by": by}
        if self._widens:
            if state.settings.early and state.trial.panel.withdrawn:
                raise WrongMoment(
                    f"nobody can join campaign {self.name}, which was created under older rules: they would bring "
                    "withdrawn arms back; make a new campaign."
                )
            self.close_step(at)
        self.write(Kind.JOINED if self._widens else Kind.ENROLLED, at, agent=first, value=count, more=more)
        return first

    @property
    def _widens(self) -> bool:
        """Whether late joiners count, and it is not too late for that."""
        state = self.state
        return state.settings.late_joiners == "count" and state.started is not None and state.decision is None

    def start(self, at: int, by: str) -> None:
        """Close the panel and begin."""
        state = self.state
        if state.status != "enrolling":
            raise WrongMoment(f"campaign {self.name} has started already.")
        if state.panel == 0:
            raise WrongMoment(f"campaign {self.name} has no agents; add some before it starts.")
        self.write(Kind.STARTED, at, value=state.panel, more={"by": by})

    def pause(self, at: int, by: str) -> None:
        """Make no offers for a while, and take the open ones back; pulls still count."""
        if self.state.status != "running":
            raise WrongMoment(f"campaign {self.name} is {self.state.status}; only a running one can be paused.")
        self.write(Kind.PAUSED, at, more={"by": by})
        self._recall(at, list(self.state.offers.open))

    def resume(self, at: int, by: str) -> None:
        """Make offers again."""
        if self.state.status != "paused":
            raise WrongMoment(f"campaign {self.name} is {self.state.status}; only a paused one can be resumed.")
        self.write(Kind.RESUMED, at, more={"by": by})

    def stop(self, at: int, by: str, why: str) -> None:
        """End the campaign for good; pulls of offered arms that are on their way are still paid."""
        if self.state.status == "stopped":
            raise WrongMoment(f"campaign {self.name} has stopped already.")
        self.close_step(at)
        self.write(Kind.STOPPED, at, more={"by": by, "why": why})
        self._recall(at, list(self.state.offers.open))

    def budget(self, budget: Money | None, at: int, by: str) -> None:
        """Change the most that may be spent."""
        offers = self.state.offers
        if budget is not None:
            if budget.currency != offers.price.currency:
                raise InvalidInput(f"budget must be in {offers.price.currency}, as the price is, got {budget}.")
            bound = offers.spent + offers.reserved
            if budget.minor < bound:
                least = Money(bound, budget.currency)
                raise BudgetTooSmall(f"budget must be at least {least}, which is spent or reserved, got {budget}.")
        self.close_step(at)
        self.write(Kind.BUDGET, at, more={"budget": None if budget is None else budget.minor, "by": by})

    def unban(self, agent: int, at: int, by: str) -> None:
        """End an agent's ban."""
        state = self.state
        self.close_step(at)
        if agent >= state.panel or state.trial.bans.until[agent] <= state.trial.steps:
            raise WrongMoment(f"agent {self.shown(agent)} is not banned.")
        self.write(Kind.UNBANNED, at, agent=agent, more={"by": by})

    def leave(self, agent: int, at: int, by: str) -> None:
        """Note that an agent has left; the policy for leavers decides what that means."""
        state = self.state
        if agent >= state.panel or state.status not in GOING:
            raise WrongMoment(
                f"agent {self.shown(agent)} is not on the panel of a campaign that is going on, so it cannot leave."
            )
        if agent in state.people.left:
            return
        self.close_step(at)
        self.write(Kind.LEFT, at, agent=agent, more={"by": by})
        if agent in state.offers.open:
            standing = state.offers.open[agent]
            self.write(Kind.CANCELLED, at, agent=agent, arm=standing.arm, offer=standing.offer)
        self.end_step_if_due(at)

    def withdraw(self, arm: int, at: int, by: str) -> None:
        """Take an arm out, if that was provided for."""
        if self.state.status not in GOING:
            raise WrongMoment(f"campaign {self.name} is {self.state.status}, so no arm can be withdrawn.")
        self.close_step(at)
        self.write(Kind.WITHDRAWN, at, arm=arm, more={"by": by})
        self._recall(at, [agent for agent, it in self.state.offers.open.items() if it.arm == arm])

    def unavailable(self, agent: int, arm: int, lasts: int | None, at: int, by: str) -> None:
        """Note that an agent cannot have an arm for so long, or until somebody says otherwise."""
        state, until = self.state, None if lasts is None else at + lasts
        if state.status == "stopped":
            raise WrongMoment(f"campaign {self.name} has stopped, so it makes no offers any more.")
        if until is None and state.people.unavailable.get((agent, arm), 0) is None:
            return
        self.close_step(at)
        more: dict[str, Any] = {"by": by} if until is None else {"by": by, "until": until}
        self.write(Kind.UNAVAILABLE, at, agent=agent, arm=arm, more=more)
        if until is not None:
            heapq.heappush(self._returns, (until, agent, arm))
        if agent in state.offers.open and state.offers.open[agent].arm == arm:
            self._recall(at, [agent])

    def available(self, agent: int, arm: int, at: int, by: str) -> None:
        """Note that an agent can have an arm again; saying it of one that it can have changes nothing."""
        if (agent, arm) in self.state.people.unavailable:
            self.close_step(at)
            self.write(Kind.AVAILABLE, at, agent=agent, arm=arm, more={"by": by})

    def _return_arms(self, at: int) -> None:
        """Let agents have the arms again that were unavailable to them up to now."""
        while self._returns and self._returns[0][0] <= at:
            until, agent, arm = heapq.heappop(self._returns)
            if self.state.people.unavailable.get((agent, arm)) == until:
                self.available(agent, arm, at, "")

    def note(self, at: int, by: str, what: dict[str, Any]) -> None:
        """Write something into the audit."""
        self.write(Kind.NOTED, at, more=what | {"by": by})

    def settle(self, moves: list[tuple[int, int, str]], payer: str, at: int, by: str) -> int:
        """Take note of what became of payments, each an entry, its state and a note; return how many moved."""
        state, known, entries = self.state, self.state.settlements, self.state.offers.endings["paid"]
        if state.rehearsals:
            raise WrongMoment(f"campaign {self.name} is a rehearsal, so nobody is paid; pay out real campaigns alone.")
        if len({entry for entry, _, _ in moves}) < len(moves):
            raise InvalidInput("moves must name every entry once; say of each what became of it last.")
        if state.settings.early and not known.states and any(it == SENT for _, it, _ in moves):
            raise WrongMoment(
                f"campaign {self.name} is from before freepull kept settlements, so its {entries:,} payments may have "
                "been made already; say first which are settled, or that one is open, and pay out then."
            )
        fresh = list[tuple[int, int, str]]()
        for entry, to, note in moves:
            if not 1 <= entry <= entries:
                there = (
                    f"entries from 1 to {entries:,} of the ledger"
                    if entries
                    else "entries of the ledger, which is empty"
                )
                raise InvalidInput(f"moves must be of {there}, got {entry}.")
            fits = known.fits(entry, to, payer)
            if fits is False:
                was, sender = SETTLEMENTS[known.state(entry)], known.sent.get(entry, ("", 0))[0]
                of, by_whom = f" by {sender}" if was == "sent" and sender else "", f" by {payer}" if payer else ""
                raise WrongMoment(
                    f"entry {entry} is {was}{of}, so it cannot become {SETTLEMENTS[to]}{by_whom}; leave it out, or "
                    "look at the ledger for what became of it."
                )
            if fits or (state.settings.early and not known.states):
                fresh.append((entry, to, note))
        for entry, to, note in fresh:
            more = {name: text for name, text in (("payer", payer), ("note", note)) if text}
            self.write(Kind.SETTLED, at, offer=entry, value=to, more=more or None)
        if fresh:
            counted = Counter(SETTLEMENTS[to] for _, to, _ in fresh)
            self.note(at, by, {"settlements": dict(counted)} | ({"payer": payer} if payer else {}))
        return len(fresh)

    def rehearse(self, at: int, what: dict[str, Any]) -> int:
        """Note that simulated agents play now; return how often they have before. Never where real ones have acted."""
        state, before = self.state, self.state.rehearsals
        if before == 0 and state.observations + state.observed + state.offers.made > 0:
            raise WrongMoment(
                f"campaign {self.name} has {state.observations + state.observed:,} pulls and {state.offers.made:,} "
                "offers that were no rehearsal; make a campaign of its own for one."
            )
        self.note(at, "", what | {"run": what["run"] + before})
        return before

    def check_real(self) -> None:
        """Refuse real agents where simulated ones have played."""
        if self.state.rehearsals:
            raise WrongMoment(
                f"campaign {self.name} is a rehearsal, played by simulated agents, so it is closed to real ones; make "
                "a new campaign for them."
            )

    def ask(self, agent: int, at: int, simulated: bool = False) -> Standing | None:
        """Return the offer for an agent, an open one again, or None; where the rule hears asks, it hears this one."""
        if not simulated:
            self.check_real()
        state = self.state
        if state.status not in GOING or agent >= state.panel:
            return None
        if state.trial.hears(agent):
            self.write(Kind.ASKED, at, agent=agent)
        if state.status != "running":
            return None
        if agent in state.offers.open:
            standing = state.offers.open[agent]
            return None if standing.recalled else standing
        if state.settings.mode == "rounds" and state.acted[agent]:
            return None
        arm = state.trial.wanted(agent)
        if arm is None or state.offers.over:
            return None
        self.write(Kind.OFFERED, at, agent=agent, arm=arm, offer=state.offers.made + 1)
        standing = state.offers.open[agent]
        heapq.heappush(self._deadlines, (standing.deadline, agent, standing.offer))
        return standing

    def accept(self, agent: int, offer: int | None, at: int) -> Standing:
        """Let an agent's open offer stand longer, because it will act on it; saying it again changes nothing."""
        standing = self._open(agent, offer)
        if standing.recalled:
            raise WrongMoment(
                f"offer {standing.offer} to agent {self.shown(agent)} was taken back, so it cannot be accepted; a pull "
                "of its arm is still paid until it expires."
            )
        if not standing.accepted:
            self.write(Kind.ACCEPTED, at, agent=agent, arm=standing.arm, offer=standing.offer)
            heapq.heappush(self._deadlines, (standing.deadline, agent, standing.offer))
        return standing

    def decline(self, agent: int, offer: int | None, at: int) -> None:
        """End an agent's open offer, which it refuses; saying it again with the offer's number changes nothing."""
        if offer is not None and self.state.people.declined.get(agent) == offer:
            return
        standing = self._open(agent, offer)
        kind = Kind.CANCELLED if standing.recalled else Kind.DECLINED
        self.write(kind, at, agent=agent, arm=standing.arm, offer=standing.offer)

    def _open(self, agent: int, offer: int | None) -> Standing:
        """Return an agent's open offer, which must be the given one."""
        self.check_real()
        standing = self.state.offers.open.get(agent)
        if standing is None or offer not in (None, standing.offer):
            which = "open offer" if offer is None else f"open offer {offer}"
            raise WrongMoment(
                f"agent {self.shown(agent)} has no {which}: it was acted on, declined or taken back, or its time was "
                "over; ask again."
            )
        return standing

    def act(self, agent: int, arm: int, flags: int, at: int) -> Event:
        """Note that a pull is made whose outcome comes later; outcomes name acts with 32 bits."""
        if self.state.events >= MOST_NAMED:
            raise WrongMoment(f"campaign {self.name} has too many events for acts; tell pulls with their rewards.")
        if self.state.settings.principal.rule.designates:
            self.close_step(at)
        return self.write(Kind.ACTED, at, agent=agent, arm=arm, flags=flags)

    def outcome(self, act: int, value: int, flags: int, at: int) -> Event:
        """Note what came of an act."""
        if self.state.settings.principal.rule.designates:
            self.close_step(at)
        agent, arm, _ = self.state.acts[act]
        return self.write(Kind.CAME, at, agent=agent, arm=arm, value=value, offer=act, flags=flags)

    def _give_up_outcomes(self, at: int) -> None:
        """Wait no longer for outcomes whose time is over; the oldest come first."""
        acts = self.state.acts
        while acts and next(iter(acts.values())).deadline <= at:
            number, (agent, arm, _) = next(iter(acts.items()))
            if self.state.settings.principal.rule.designates:
                self.close_step(at)
            due = self.state.offers.due.get(number)
            self.write(Kind.NEVER_CAME, at, agent=agent, arm=arm, offer=number, value=0 if due is None else due.offer)

    def room(self) -> int:
        """Return how many more pulls end the step."""
        state = self.state
        if state.settings.mode == "free":
            return state.panel - state.in_step
        return state.panel - state.people.absent - (state.in_step - state.acted_and_left)

    def end_step_if_due(self, at: int) -> None:
        """End the step if everything is there that it waits for."""
        if self.state.status in GOING and self.state.in_step > 0 and self.room() <= 0:
            self.end_step(at)

    def end_step(self, at: int) -> None:
        """End the step."""
        self.close_step(at)
        self.write(Kind.STEP_ENDED, at, value=self.state.trial.steps + 1)
        self._closed(at)

    def close_step(self, at: int, seconds: float | None = None) -> None:
        """Go on with a step that has ended and takes a while, for some seconds or to its end."""
        if self.busy and self.state.trial.work(seconds):
            self.write(Kind.STEP_CLOSED, at, value=self.state.trial.steps)
            self._closed(at)

    @property
    def busy(self) -> bool:
        """Whether a step that has ended is still being worked on."""
        return self.state.ending is not None

    def _closed(self, at: int) -> None:
        """Take back offers for arms that a step eliminated, all of them if it decided the trial."""
        state = self.state
        if self.busy:
            return
        active, over = set(state.trial.active), state.decision is not None
        self._recall(at, [agent for agent, it in state.offers.open.items() if over or it.arm not in active])

    def tick(self, at: int) -> None:
        """Do what is due: the campaign's end, offers that expire, a round that closes."""
        state = self.state
        self.close_step(at, state.patience)
        if state.settings.ends is not None and at >= state.settings.ends and state.status != "stopped":
            self.stop(at, "", TIME_OVER)
        while self._deadlines and self._deadlines[0][0] <= at:
            _, agent, offer = heapq.heappop(self._deadlines)
            standing = state.offers.open.get(agent)
            if standing is not None and standing.offer == offer and standing.deadline <= at:
                self._deadline(standing, at)
        self._give_up_outcomes(at)
        self._return_arms(at)
        if state.round_closes is not None and at >= state.round_closes:
            self.end_step(at)

    def due(self) -> int | None:
        """Return when `tick` has something to do next."""
        state = self.state
        if self.busy:
            return 0
        times = [self._deadlines[0][0]] if self._deadlines else []
        times += [self._returns[0][0]] if self._returns else []
        times += [it.deadline for it in islice(state.acts.values(), 1)]
        times += [state.settings.ends] if state.settings.ends is not None and state.status != "stopped" else []
        times += [state.round_closes] if state.round_closes is not None else []
        return min(times, default=None)

    def _deadline(self, standing: Standing, at: int) -> None:
        agent, people, settings = standing.agent, self.state.people, self.state.settings
        silence = Kind.EXPIRED if standing.accepted or settings.accept_within is None else Kind.LAPSED
        kind = Kind.CANCELLED if standing.recalled else silence
        self.write(kind, at, agent=agent, arm=standing.arm, offer=standing.offer)
        drops = settings.early and settings.leavers == "independent"  # where whoever is parked would be dropped
        if people.silent.get(agent, 0) >= PARKED_AFTER and not drops:
            self.close_step(at)
            self.write(Kind.PARKED, at, agent=agent)
            self.end_step_if_due(at)

    def _recall(self, at: int, agents: list[int]) -> None:
        for agent in agents:
            standing = self.state.offers.open[agent]
            if not standing.recalled:
                self.write(Kind.RECALLED, at, agent=agent, arm=standing.arm, offer=standing.offer)
