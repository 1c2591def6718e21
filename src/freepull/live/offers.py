"""Offers and money: an offer reserves its bonus, and ends exactly once, paid, refused, expired or cancelled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from freepull.errors import Corrupt
from freepull.live.rows import Row, Rows, put
from freepull.money import Money


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

    def row(self, ending: str | None = None, ended: int | None = None) -> Row:
        """Return it as a row of the table of offers."""
        offer = self.offer, self.agent, self.arm, self.step, self.at, self.deadline
        return *offer, int(self.recalled), ending, ended


class Offers:
    """All offers of a campaign: the open ones by agent, the ended ones by number, and what they cost."""

    def __init__(self, price: Money, budget: int | None) -> None:
        self.price, self.budget = price, budget
        self.made = 0
        self.open: dict[int, Standing] = {}
        """By agent, in the order of their numbers."""
        self.recalled: set[int] = set()
        """Agents whose open offer was taken back."""
        self.endings: Counter[str] = Counter()

    @property
    def spent(self) -> int:
        """What was paid, in minor units."""
        return self.endings["paid"] * self.price.minor

    @property
    def reserved(self) -> int:
        """What the open offers may still cost, in minor units."""
        return len(self.open) * self.price.minor

    def issue(self, standing: Standing, rows: Rows | None) -> None:
        """Open an offer."""
        self.made += 1
        if standing.offer != self.made or standing.agent in self.open:
            raise Corrupt(f"offer {standing.offer} to agent {standing.agent} does not follow offer {self.made - 1}.")
        self.open[standing.agent] = standing
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

    def end(self, agent: int, ending: str, at: int, rows: Rows | None) -> Standing:
        """End an agent's open offer; a paid one is posted to the ledger."""
        standing = self.open.pop(agent)
        self.recalled.discard(agent)
        self.endings[ending] += 1
        put(rows, "offers", *standing.row(ending, at))
        if ending == "paid":
            entry, price = self.endings["paid"], self.price
            put(rows, "ledger", entry, standing.offer, agent, standing.arm, price.minor, price.currency, at)
        return standing
