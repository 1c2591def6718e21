"""A campaign that is open: its store, its lease, its writer, and everything it can be asked, as futures.

`Campaign` waits for the futures, `AsyncCampaign` awaits them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from freepull import commands, validation
from freepull.campaigns.commands import Decider
from freepull.campaigns.directory import Batch, Pull, Register, act_identity, identity, outcome_identity
from freepull.campaigns.journal.events import Kind, Log, ManyRows, put
from freepull.campaigns.journal.recovery import (
    Here,
    check_log,
    check_tables,
    claim,
    forget,
    identity_of,
    kept,
    names_of,
    owner,
    readable,
    recover,
    segments,
)
from freepull.campaigns.journal.snapshots import Snapshotter, newest
from freepull.campaigns.journal.writer import MOST_QUEUED, Job, Writer
from freepull.campaigns.people import SETTLED, Standing, payment_key
from freepull.campaigns.settings import Clock, Settings, agent_names, lasting, shown, system_clock
from freepull.campaigns.state import State
from freepull.campaigns.status import status_of, verdict_of
from freepull.campaigns.stores import Lease, Store, Where, connect
from freepull.campaigns.telling import Known, act, first_of, settle, tell
from freepull.campaigns.trials import checked_weights, rehearse
from freepull.commands import LONGEST_NAME, Command
from freepull.errors import Corrupt, FreepullError, InvalidInput, StoreError, WrongMoment
from freepull.messages import SETTLEMENTS, CampaignOffer, CampaignVerdict, Move, Status, Told
from freepull.money import Money
from freepull.principal.record import units

Reply = TypeVar("Reply")
Given = TypeVar("Given")
LARGE = 2_000_000
"""Events before a snapshot up to which the log is checked before a campaign opens, and not beside it."""
HANDLERS: dict[type[Command[Any]], Callable[[Any, Any], Future[Any]]] = {}
"""What the writer does for every command that is its own."""


def handles(
    kind: type[Command[Reply]],
) -> Callable[[Callable[[Core, Given], Future[Reply]]], Callable[[Core, Given], Future[Reply]]]:
    """Let a method of `Core` be what is done for a command."""

    def note(method: Callable[[Core, Given], Future[Reply]]) -> Callable[[Core, Given], Future[Reply]]:
        HANDLERS[kind] = method
        return method

    return note


@dataclass(frozen=True)
class Limits:
    """What an open campaign allows itself."""

    snapshot_every: int = 1_000_000
    """Events between two snapshots, about."""
    queue: int = MOST_QUEUED
    """Requests that may wait."""


class Core:
    """An open campaign."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        state: State,
        log: Log,
        clock: Clock,
        limits: Limits,
        replayed: float = 0.0,
    ) -> None:
        self.store, self.name = store, lease.name
        self.settings = state.settings
        self.register = Register(self.name, self.settings.arms, self.settings.price, self.settings.on)
        self.register.enrolled, self.register.id = state.people.enrolled, identity_of(store, self.name)
        for agent, name in names_of(store, self.name, state.people.enrolled):
            self.register.add(agent, name)
        state.rows = {}
        self._lease, self._closed = lease, False
        self._decider = Decider(state, log)
        self._decider.shown = self.register.shown
        state.history = lambda: chain((it.records for it in segments(store, self.name)), [log.records()])
        self._snapshots = Snapshotter(store, lease, state, log, limits.snapshot_every, self._wake, replayed)
        self.writer = Writer(store, lease, self._decider, clock, limits.queue, self._snapshots.after_group, self._ended)

    @classmethod
    def create(
        cls,
        url: Where,
        settings: Settings,
        agents: Any,
        weights: Any,
        by: str,
        clock: Clock | None,
        limits: Limits,
    ) -> Core:
        """Write a campaign's first events and open it."""
        names = agent_names(agents)
        count = names if isinstance(names, int) else len(names)
        given = checked_weights(weights, count)
        if count and given is not None:
            rehearse(settings, count, given)
        clock = clock or system_clock
        if settings.ends is not None and settings.ends <= clock():
            raise InvalidInput(f"ends must be a time to come, got {shown(settings.ends).isoformat()}.")
        log, state = Log(), State(settings, rows={})
        decider, at = Decider(state, log), clock()
        decider.write(Kind.CREATED, at, more=settings.encode() | {"by": who(by)})
        if count:
            decider.enrol(count, given, at, who(by))
        rows = state.rows or {}
        rows["names"] = [] if isinstance(names, int) else list(enumerate(names))
        rows["segments"] = [log.seal()]
        store = connect(url, new=True)
        with Here(store, settings.name) as here:
            return here.keep(cls(store, store.create(settings.name, owner(), rows), state, log, clock, limits))

    @classmethod
    def open(cls, url: Where, name: str, clock: Clock | None, wait: float, snapshots: bool, limits: Limits) -> Core:
        """Read a campaign back and own it; wait this many seconds for another owner to let go."""
        store = connect(url)
        with Here(store, name) as here:
            lease = claim(store, name, wait)
            try:
                with kept(store, lease), readable(name):
                    event, begun = newest(store, name) if snapshots else None, time.thread_time()
                    state, log = recover(store, name, snapshot=event)
                    replayed = time.thread_time() - begun
                    check_tables(store, name, state)
                    if event is not None and event <= LARGE:
                        check_log(store, name, event)
                    opened = here.keep(cls(store, lease, state, log, clock or system_clock, limits, replayed))
                if event is not None and event > LARGE:
                    opened.check_beside(event)
                return opened
            except BaseException:
                with suppress(FreepullError):
                    store.release(lease)
                raise

    def close(self) -> None:
        """Do what is queued, give the lease back, and close."""
        self.writer.close()
        if self._closed or self.writer.ended is not None:
            return
        self._closed = True
        self._snapshots.close()
        forget(self.store.url, self.name)
        with suppress(StoreError):  # what was answered is stored, and a lease ends with its file or by itself
            self.store.release(self._lease)
        self.store.close()

    def check_beside(self, events: int) -> threading.Thread:
        """See that the log before a snapshot is whole, while the campaign goes on; it ends if that is not so."""

        def going() -> bool:
            return not self._closed and self.writer.ended is None

        def run() -> None:
            with suppress(FreepullError):  # what else is wrong with the store, the writer will find
                try:
                    check_log(self.store, self.name, events, going)
                except Corrupt as error:
                    self.do(partial(_fail, error))

        thread = threading.Thread(target=run, name=f"freepull check {self.name}", daemon=True)
        thread.start()
        return thread

    def _wake(self) -> None:
        with suppress(FreepullError):  # it is closed, or awake
            self.do(lambda decider, at: None)

    def _ended(self) -> None:
        """Let go of everything, when the writer has ended on its own."""
        self._snapshots.give_up()
        forget(self.store.url, self.name)

    def do(self, run: Callable[[Decider, int], Reply]) -> Future[Reply]:
        """Let the writer do something."""
        return self.writer.submit(Job(lambda at, known: run(self._decider, at)))

    def handle(self, command: Command[Reply]) -> Future[Reply]:
        """Do what a command says; an error that can be seen at once is raised, not returned."""
        return HANDLERS[type(command)](self, command)

    @handles(commands.Ask)
    def ask(self, it: commands.Ask) -> Future[CampaignOffer | None]:
        """Return the offer for an agent, if there is one."""
        return self.ask_for(it.agent)

    def ask_for(self, agent: Any, simulated: bool = False) -> Future[CampaignOffer | None]:
        """Return the offer for an agent, a real or a simulated one, if there is one."""
        number = self.register.agent(agent)

        def run(decider: Decider, at: int) -> CampaignOffer | None:
            standing = decider.ask(number, at, simulated)
            return None if standing is None else self.offer(standing)

        return self.do(run)

    def offer(self, standing: Standing) -> CampaignOffer:
        """Return an open offer as agents see it."""
        agent, arm = self.register.shown(standing.agent), self.register.arms[standing.arm]
        bonus = self.settings.price
        if standing.amount is not None:
            bonus = Money(standing.amount, bonus.currency)
        return CampaignOffer(standing.offer, agent, arm, bonus, shown(standing.deadline), standing.accepted)

    @handles(commands.Accept)
    def accept(self, it: commands.Accept) -> Future[CampaignOffer]:
        """Let an agent's open offer stand longer."""
        number, offer, author = self.register.agent(it.agent), offer_number(it.offer), who(it.by)

        def run(decider: Decider, at: int) -> CampaignOffer:
            before = decider.state.events
            standing = decider.accept(number, offer, at)
            if author and decider.state.events > before:
                decider.note(at, author, {"accepted": number})
            return self.offer(standing)

        return self.do(run)

    @handles(commands.Decline)
    def decline(self, it: commands.Decline) -> Future[None]:
        """End an agent's open offer, which it refuses."""
        number, offer, author = self.register.agent(it.agent), offer_number(it.offer), who(it.by)

        def run(decider: Decider, at: int) -> None:
            before = decider.state.events
            decider.decline(number, offer, at)
            if author and decider.state.events > before:
                decider.note(at, author, {"declined": number})

        return self.do(run)

    @handles(commands.Act)
    def act(self, it: commands.Act) -> Future[Told]:
        """Note a pull whose outcome is to come."""
        self.settings.check_acts()
        number, arm = self.register.agent(it.agent), self.register.arm(it.arm)
        batch = Batch.of([Pull(number, arm, 0, *act_identity(number, it.event))])
        batch.kind = Kind.ACTED
        looked_up = Batch.of([Pull(number, id=key) for key in (*batch.known(), *map(outcome_identity, batch.known()))])
        return self.writer.submit(Job(lambda at, known: act(self._decider, batch, at, known), looked_up))

    @handles(commands.TellOutcome)
    def outcome(self, it: commands.TellOutcome) -> Future[Told]:
        """Note what came of an act."""
        number, (reward, clipped) = self.register.agent(it.agent), self.register.reward(it.reward)
        key, _ = act_identity(number, it.event)
        keys = key, outcome_identity(key)
        looked_up = Batch.of([Pull(number, id=key) for key in keys])
        run = partial(settle, self._decider, Pull(number, value=units(reward), clipped=clipped), keys)
        return self.writer.submit(Job(run, looked_up))

    @handles(commands.TellMany)
    def tell_many(self, it: commands.TellMany) -> Future[list[Told]]:
        """Tell pulls, all of them or none."""
        return self.tell_all(it.observations, True, it.by)

    @handles(commands.TellEach)
    def tell_each(self, it: commands.TellEach) -> Future[list[Told | FreepullError]]:
        """Tell pulls; an error stands in its place."""
        return self.tell_all(it.observations, False, it.by)

    def tell_all(
        self, observations: Iterable[Any], strict: bool, by: str = "", simulated: bool = False
    ) -> Future[list[Any]]:
        """Tell pulls of real agents, or of simulated ones."""
        batch = self.register.batch(observations, simulated)
        batch.simulated = simulated
        return self.tell_batch(batch, strict, by)

    def tell_batch(self, batch: Batch, strict: bool, by: str = "") -> Future[list[Any]]:
        """Tell pulls that are in columns already."""
        if strict and batch.errors:
            raise first_of(batch.errors)
        author = who(by)

        def run(at: int, known: Known) -> list[Any]:
            state = self._decider.state
            before = state.observations + state.observed
            replies = tell(self._decider, batch, at, known, strict)
            new = state.observations + state.observed - before
            if author and new:
                self._decider.note(at, author, {"told": new})
            return replies

        return self.writer.submit(Job(run, batch))

    @handles(commands.Tell)
    def tell(self, it: commands.Tell) -> Future[Told]:
        """Tell one pull."""
        return self.writer.submit(Job(None, pull=self.register.pull(it.agent, it.arm, it.reward, it.event)))

    @handles(commands.PassOver)
    def pass_over(self, it: commands.PassOver) -> Future[None]:
        """Note that an agent who asked made no pull."""
        number, author = self.register.agent(it.agent), who(it.by)
        key = (None, None) if it.event is None else identity(number, it.event)
        batch = Batch.of([Pull(number, 0, 0, *key)])
        batch.kind = Kind.PASSED

        def run(at: int, known: Known) -> None:
            before = self._decider.state.events
            tell(self._decider, batch, at, known, strict=True)
            if author and self._decider.state.events > before:
                self._decider.note(at, author, {"passed_over": number})

        return self.writer.submit(Job(run, batch))

    @property
    def events(self) -> int:
        """How many events there are, the last of which may not be durable yet."""
        return self._decider.state.events

    @property
    def budgeted(self) -> int | None:
        """The most that may be spent now, in minor units; None: no limit."""
        return self._decider.state.offers.budget

    @property
    def rehearsal(self) -> bool:
        """Whether simulated agents have played it."""
        return self._decider.state.rehearsals > 0

    def keep(self, rows: ManyRows) -> None:
        """Store rows beside the log, as long as the campaign is this process's."""
        self.writer.check()
        self.store.write(self._lease, rows)

    def known(self, ids: Iterable[bytes]) -> Known:
        """Return those of some event ids that were used before."""
        return self.store.find_events(self._lease, ids)

    def rehearse(self, what: dict[str, Any]) -> Future[int]:
        """Let simulated agents play from now on; return how often they have before."""
        return self.do(lambda decider, at: decider.rehearse(at, what))

    @handles(commands.AddAgents)
    def enrol(self, it: commands.AddAgents) -> Future[list[int]]:
        """Add agents; return their numbers."""
        names = agent_names(it.agents)
        count = names if isinstance(names, int) else len(names)
        given = checked_weights(it.weights, count)
        author = who(it.by)

        def run(decider: Decider, at: int) -> list[int]:
            taken = [name for name in names if name in self.register.numbers] if isinstance(names, list) else []
            if taken:
                raise InvalidInput(f"agents must be new, got {taken[0]!r}, which the campaign has already.")
            first = decider.enrol(count, given, at, author) if count else decider.state.people.enrolled
            self.register.enrolled = decider.state.people.enrolled
            for i, name in enumerate(names if isinstance(names, list) else ()):
                self.register.add(first + i, name)
                put(decider.state.rows, "names", first + i, name)
            return list(range(first, first + count))

        return self.do(run)

    @handles(commands.Start)
    def start(self, it: commands.Start) -> Future[None]:
        """Close the panel and begin."""
        author = who(it.by)
        return self.do(lambda decider, at: decider.start(at, author))

    @handles(commands.Pause)
    def pause(self, it: commands.Pause) -> Future[None]:
        """Make no offers for a while."""
        author = who(it.by)
        return self.do(lambda decider, at: decider.pause(at, author))

    @handles(commands.Resume)
    def resume(self, it: commands.Resume) -> Future[None]:
        """Make offers again."""
        author = who(it.by)
        return self.do(lambda decider, at: decider.resume(at, author))

    @handles(commands.Stop)
    def stop(self, it: commands.Stop) -> Future[None]:
        """End the campaign."""
        author, reason = who(it.by), who(it.why, "why")
        return self.do(lambda decider, at: decider.stop(at, author, reason))

    @handles(commands.Unban)
    def unban(self, it: commands.Unban) -> Future[None]:
        """End an agent's ban."""
        number, author = self.register.agent(it.agent), who(it.by)
        return self.do(lambda decider, at: decider.unban(number, at, author))

    @handles(commands.Leave)
    def leave(self, it: commands.Leave) -> Future[None]:
        """Note that an agent has left."""
        number, author = self.register.agent(it.agent), who(it.by)
        return self.do(lambda decider, at: decider.leave(number, at, author))

    @handles(commands.Withdraw)
    def withdraw(self, it: commands.Withdraw) -> Future[None]:
        """Take an arm out."""
        number, author = self.register.arm(it.arm), who(it.by)
        return self.do(lambda decider, at: decider.withdraw(number, at, author))

    @handles(commands.Unavailable)
    def unavailable(self, it: commands.Unavailable) -> Future[None]:
        """Offer an agent nothing for an arm."""
        agent, arm, author = self.register.agent(it.agent), self.register.arm(it.arm), who(it.by)
        length = None if it.lasts is None else lasting("lasts", it.lasts)
        return self.do(lambda decider, at: decider.unavailable(agent, arm, length, at, author))

    @handles(commands.Available)
    def available(self, it: commands.Available) -> Future[None]:
        """Let an agent have an arm again."""
        agent, arm, author = self.register.agent(it.agent), self.register.arm(it.arm), who(it.by)
        return self.do(lambda decider, at: decider.available(agent, arm, at, author))

    @handles(commands.SetBudget)
    def budget(self, it: commands.SetBudget) -> Future[None]:
        """Change the budget."""
        amount, author = None if it.budget is None else Money.parse("budget", it.budget), who(it.by)
        return self.do(lambda decider, at: decider.budget(amount, at, author))

    @handles(commands.EraseNames)
    def erase(self, it: commands.EraseNames) -> Future[None]:
        """Erase names; the log and the tables know numbers only."""
        numbers = None if it.agents is None else [self.register.agent(agent) for agent in it.agents]
        author = who(it.by)

        def run(decider: Decider, at: int) -> None:
            known = set(range(decider.state.people.enrolled) if numbers is None else numbers)
            if not it.anyway:
                self._check_owed(decider.state, known)
            rows = decider.state.rows or {}
            rows["names"] = [row for row in rows.get("names", []) if row[0] not in known]
            self.store.erase_names(self._lease, numbers)
            self.register.forget(known)
            decider.note(at, author, {"erased": len(known)})

        return self.do(run)

    def _check_owed(self, state: State, agents: set[int]) -> None:
        """Refuse to forget the names of those who are owed something, where it is known what is."""
        known = state.settlements
        if state.rehearsals or (state.settings.early and not known.states):
            return
        waiting = [it.agent for it in state.offers.due.values() if it.agent in agents]
        if waiting:
            others, bonuses = and_others(len(set(waiting))), counted(len(waiting), "bonus waits", "bonuses wait")
            raise WrongMoment(
                f"{self.register.shown(waiting[0])}{others} must be told of first: {bonuses} for "
                "the outcomes of acts; tell these, or wait until their time is over, and erase the names then, or "
                "anyway."
            )
        if known.settled == state.offers.endings["paid"]:
            return
        rows = chain(self.store.read(self.name, "ledger"), (state.rows or {}).get("ledger", ()))
        owed = [row for row in rows if row[2] in agents and known.state(row[0]) != SETTLED]
        if owed:
            total = Money(sum(row[4] for row in owed), self.register.currency)
            others, entries = and_others(len({row[2] for row in owed})), counted(len(owed), "entry", "entries")
            first, word = owed[0], SETTLEMENTS[known.state(owed[0][0])]
            raise WrongMoment(
                f"{self.register.shown(first[2])}{others} must be paid first: {total} in {entries} of the ledger "
                f"(entry {first[0]} is {word}); pay them out, or say that they are settled, and erase the names "
                "then, or anyway."
            )

    @handles(commands.Settle)
    def settle(self, it: commands.Settle) -> Future[int]:
        """Take note of what became of payments."""
        author, payer = who(it.by), who(it.payer, "payer")
        moves, keys = list[tuple[int, int, str]](), list[str]()
        for given in it.moves:
            move = given if isinstance(given, Move) else Move(*given)
            state = SETTLEMENTS.index(validation.one_of("state", move.state, SETTLEMENTS))
            moves.append((validation.whole("entry", move.entry, 1), state, who(move.note, "note")))
            keys.append(who(move.key, "key"))

        def run(decider: Decider, at: int) -> int:
            known = decider.state.settlements
            for (entry, to, _), key in zip(moves, keys, strict=True):
                now = payment_key(self.register.id, entry, known.tries(entry))
                if key not in ("", now) and known.fits(entry, to, payer) is not None:
                    raise WrongMoment(
                        f"entry {entry} has the key {now} by now, and not {key}, which has failed; read the ledger "
                        "again."
                    )
            return decider.settle(moves, payer, at, author)

        return self.do(run)

    def snapshot(self) -> Future[Future[int]]:
        """Take a snapshot; the inner future is done when it is stored."""
        return self.do(lambda decider, at: self._snapshots.want())

    @handles(commands.ReadStatus)
    def status(self, it: commands.ReadStatus) -> Future[Status]:
        """Say how the campaign stands."""
        return self.do(lambda decider, at: status_of(decider.state, self.register))

    @handles(commands.ReadVerdict)
    def verdict(self, it: commands.ReadVerdict) -> Future[CampaignVerdict]:
        """Say which arm, and what that rests on."""
        return self.do(lambda decider, at: verdict_of(decider.state, self.register))


def _fail(error: Corrupt, decider: Decider, at: int) -> None:
    raise error


def offer_number(given: Any) -> int | None:
    """Check the number of an offer; None: whichever is open."""
    return None if given is None else validation.whole("offer", given, 1)


def who(by: Any, name: str = "by") -> str:
    """Check a text for the audit: who does something, or why."""
    if not isinstance(by, str) or len(by) > LONGEST_NAME or not (by == "" or by.isprintable()):
        raise InvalidInput(
            f"{name} must be a printable text of at most {LONGEST_NAME} characters, got {validation.shown(by)}."
        )
    return by


def counted(number: int, one: str, more: str) -> str:
    """Return a number with what is counted.

    >>> counted(1, "entry", "entries"), counted(1200, "entry", "entries")
    ('1 entry', '1,200 entries')
    """
    return f"{number:,} {one if number == 1 else more}"


def and_others(people: int) -> str:
    """Return what follows the name of the first of so many people."""
    return "" if people == 1 else f" and {counted(people - 1, 'other', 'others')}"
