"""The people of a campaign, and the offers they were made."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.campaigns.journal.events import NUMBERED, RECORD, Records, Row, Rows, put
from freepull.errors import Corrupt
from freepull.messages import SETTLEMENTS
from freepull.money import MOST_PRICE, Money

MOST_OFFERS = (1 << 32) - 1
"""Offers of one campaign, which the log numbers with 32 bits."""
MOST_SPENT = (1 << 63) - 1
"""Minor units that are spent and reserved in all: databases add them up with 63 bits."""


class People:
    """Agents by number; almost nothing is kept of one who simply acts."""

    def __init__(self) -> None:
        self.enrolled = 0
        """Everybody, late joiners included."""
        self.silent: dict[int, int] = {}
        """How many offers in a row have expired."""
        self.cooling: dict[int, int] = {}
        """Until when an agent gets no offer."""
        self.parked: set[int] = set()
        """Who gets no offers until it acts again, because it let several lapse; it has not left."""
        self.declined: dict[int, int] = {}
        """Who has declined an offer, and which, and gets no other until it acts."""
        self.left: set[int] = set()
        self.unavailable: dict[tuple[int, int], int | None] = {}
        """Agents with an arm that each cannot have, and until when; None: until somebody says otherwise."""
        self.banned: dict[int, Row] = {}
        """The agent's last ban, as a row of the table of bans."""
        self.bans = 0
        self.numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        """The last number that each agent used; grows when agents number their events."""
        self.last: Records = np.zeros(0, RECORD)
        """The last numbered event of each agent."""
        self.last_event: NDArray[np.int64] = np.zeros(0, np.int64)
        """And its place in the log."""

    @property
    def absent(self) -> int:
        """How many are parked or have left."""
        return len(self.parked) + len(self.left)

    def back(self, agents: NDArray[np.int64]) -> set[int]:
        """Note that agents have acted, who are no longer absent then; return who of them got no offers until now."""
        here = set(agents.tolist()) if self.parked or self.left or self.declined else set()
        woken = self.parked & here
        for agent in self.declined.keys() & here:
            del self.declined[agent]
            woken.add(agent)
        self.parked -= here
        self.left -= here
        return woken

    def expire(self, agent: int, until: int) -> None:
        """Note that an offer met with silence, and that a cool-down has begun."""
        self.silent[agent] = self.silent.get(agent, 0) + 1
        self.cooling[agent] = until

    def ban(self, agent: int, offer: int, step: int, until: int, at: int) -> Row:
        """Note a ban; return its row."""
        self.bans += 1
        self.banned[agent] = (self.bans, agent, offer, step, until, at, None)
        return self.banned[agent]

    def rested(self, at: int) -> set[int]:
        """Forget the cool-downs that are over; return who is still in one, is parked, or has declined."""
        for agent in [agent for agent, until in self.cooling.items() if until <= at]:
            del self.cooling[agent]
        return self.parked | self.cooling.keys() | self.declined.keys()

    def number(self, records: Records, first: int) -> None:
        """Note the numbered events among some records, the first of which is event ``first``."""
        places = np.flatnonzero(records["flags"] & NUMBERED)
        if not len(places):
            return
        if len(self.numbers) < self.enrolled:
            grown = self.enrolled - len(self.numbers)
            self.numbers = np.concatenate([self.numbers, np.zeros(grown, np.int64)])
            self.last = np.concatenate([self.last, np.zeros(grown, RECORD)])
            self.last_event = np.concatenate([self.last_event, np.zeros(grown, np.int64)])
        agents = records["agent"][places]
        np.add.at(self.numbers, agents, 1)
        self.last[agents] = records[places]
        self.last_event[agents] = first + places

    def last_number(self, agent: int) -> int:
        """Return the last number that an agent used, 0 if none."""
        return int(self.numbers[agent]) if agent < len(self.numbers) else 0


@dataclass(slots=True)
class Standing:
    """An offer that has not ended."""

    offer: int
    agent: int
    arm: int
    step: int
    at: int
    deadline: int
    recalled: bool = False
    """Taken back: a pull of the arm until the deadline is still paid, a pull of another arm is no refusal."""
    amount: int | None = None
    """What it pays, in minor units; None: the campaign's price."""
    accepted: bool = False
    """Whether the agent has said that it will act on it."""

    def row(self, ending: str | None = None, ended: int | None = None) -> Row:
        """Return it as a row of the table of offers."""
        offer = self.offer, self.agent, self.arm, self.step, self.at, self.deadline
        return *offer, int(self.recalled), ending, ended, self.amount


class Awaited(NamedTuple):
    """A pull whose outcome is to come."""

    agent: int
    arm: int
    deadline: int
    """Until when it may come."""


class Offers:
    """All offers of a campaign: the open ones by agent, the ended ones by number, and what they cost."""

    def __init__(self, price: Money, budget: int | None) -> None:
        self.price, self.budget = price, budget
        self.made = 0
        self.open: dict[int, Standing] = {}
        """By agent, in the order of their numbers."""
        self.recalled: set[int] = set()
        """Agents whose open offer was taken back."""
        self.due: dict[int, Standing] = {}
        """Offers that were acted on and are paid when the outcome comes, by the event that told the pull."""
        self.endings: Counter[str] = Counter()
        self.amounts = array("I")
        """What each offer pays, by its number, in minor units, where offers differ."""
        self.spent = self.reserved = 0
        """What was paid, and what the open offers may still cost, in minor units."""

    @property
    def over(self) -> bool:
        """Whether another offer could not be written down; with prices that are allowed now, there is always room."""
        most = MOST_PRICE if self.amounts else self.price.minor
        return self.made >= MOST_OFFERS or self.spent + self.reserved + most > MOST_SPENT

    def amount(self, offer: int) -> int:
        """Return what an offer pays or paid, by its number, in minor units."""
        return self.amounts[offer - 1] if self.amounts else self.price.minor

    def money(self, offer: int) -> Money:
        """Return the same as money."""
        return Money(self.amounts[offer - 1], self.price.currency) if self.amounts else self.price

    def issue(self, standing: Standing, rows: Rows | None) -> None:
        """Open an offer."""
        self.made += 1
        if standing.offer != self.made or standing.agent in self.open:
            raise Corrupt(f"offer {standing.offer} to agent {standing.agent} does not follow offer {self.made - 1}.")
        self.open[standing.agent] = standing
        if standing.amount is not None:
            self.amounts.append(standing.amount)
        self.reserved += self.amount(standing.offer)
        if self.budget is not None and self.spent + self.reserved > self.budget:
            raise Corrupt(
                f"offer {standing.offer} would exceed the budget of {Money(self.budget, self.price.currency)}."
            )
        put(rows, "offers", *standing.row())

    def recall(self, agent: int, rows: Rows | None) -> None:
        """Take an offer back, while the agent may be acting on it."""
        self.open[agent].recalled = True
        self.recalled.add(agent)
        put(rows, "offers", *self.open[agent].row())

    def accept(self, agent: int, deadline: int, rows: Rows | None) -> None:
        """Let an open offer stand longer, once."""
        self.open[agent].accepted, self.open[agent].deadline = True, deadline
        put(rows, "offers", *self.open[agent].row())

    def end(self, agent: int, ending: str, at: int, rows: Rows | None) -> Standing:
        """End an agent's open offer; a paid one is posted to the ledger."""
        standing = self.open.pop(agent)
        self.recalled.discard(agent)
        return self._end(standing, ending, at, rows)

    def wait(self, agent: int, act: int) -> Standing:
        """Let an open offer that was acted on wait for the outcome; it stays reserved."""
        standing = self.due[act] = self.open.pop(agent)
        self.recalled.discard(agent)
        return standing

    def end_due(self, act: int, ending: str, at: int, rows: Rows | None) -> Standing:
        """End an offer that has waited for the outcome of an act."""
        return self._end(self.due.pop(act), ending, at, rows)

    def _end(self, standing: Standing, ending: str, at: int, rows: Rows | None) -> Standing:
        """End an offer; the table calls it expired, too, if it was not accepted in time."""
        agent = standing.agent
        self.endings[ending] += 1
        amount = self.amount(standing.offer)
        self.reserved -= amount
        put(rows, "offers", *standing.row("expired" if ending == "lapsed" else ending, at))
        if ending == "paid":
            self.spent += amount
            entry, currency = self.endings["paid"], self.price.currency
            put(rows, "ledger", entry, standing.offer, agent, standing.arm, amount, currency, at)
        return standing


OPEN, SENT, SETTLED, FAILED = range(4)
NEXT = {OPEN: (SENT, SETTLED, FAILED), SENT: (OPEN, SETTLED, FAILED), FAILED: (OPEN, SENT, SETTLED), SETTLED: ()}
"""What may become of a payment in a state of `SETTLEMENTS`; what is settled, is."""


class Settlements:
    """What became of the ledger's payments outside; an entry of which nothing was said is open."""

    def __init__(self) -> None:
        self.states = bytearray()
        """By entry, up to the last one that ever moved."""
        self.sent: dict[int, tuple[str, int]] = {}
        """Entries that are sent or have failed: by whom they were sent, and which key they have, counted from 1."""
        self.settled = 0

    def state(self, entry: int) -> int:
        """Return the state of an entry."""
        return self.states[entry - 1] if entry <= len(self.states) else OPEN

    def tries(self, entry: int) -> int:
        """Return which key an entry has, counted from 1."""
        return self.sent.get(entry, ("", 1))[1]

    def fits(self, entry: int, state: int, payer: str) -> bool | None:
        """Say whether an entry can get into a state; None if it is there already."""
        before = self.state(entry)
        mine = before != SENT or payer in ("", self.sent[entry][0])
        if before == state and mine:
            return None
        return mine and state in NEXT[before]

    def move(self, entry: int, state: int, at: int, payer: str, note: str, rows: Rows | None) -> None:
        """Take note of what became of an entry."""
        by, tries = self.sent.pop(entry, ("", 1))
        by, tries = payer if state == SENT else by, tries + (state == FAILED)
        if state == SETTLED:
            self.settled += 1
        elif state == SENT or tries > 1:
            self.sent[entry] = by, tries
        self.states.extend(bytes(max(0, entry - len(self.states))))
        self.states[entry - 1] = state
        put(rows, "settlements", entry, SETTLEMENTS[state], at, by or payer, note, tries)


def payment_key(campaign: str, entry: int, tries: int) -> str:
    """Return by what a payer knows a payment: the same as often as it is sent, another one after it has failed.

    >>> payment_key("c0ffee", 17, 1), payment_key("c0ffee", 17, 2)
    ('c0ffee-17', 'c0ffee-17-2')
    """
    return f"{campaign}-{entry}" if tries == 1 else f"{campaign}-{entry}-{tries}"
