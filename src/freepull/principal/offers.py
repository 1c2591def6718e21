"""Offers, and what follows from answers: payments, bans, and the budget."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.principal.pricing import Fixed, Prices, Pricing
from freepull.principal.protocols import FOREVER, BanProtocol
from freepull.principal.record import STREAMS, UNITS, Record, Words, Work, pieces
from freepull.principal.rules.base import Wanted


def affordable(budget: float | None, bonus: float) -> int | None:
    """Return ⌊budget/bonus⌋: 0.3 buys three bonuses of 0.1."""
    if budget is None:
        return None
    return int(Decimal(str(float(budget))) / Decimal(str(float(bonus))))


def units_of(money: float, unit: int = UNITS) -> int:
    """Return money as a whole number of the smallest amounts, rounded down."""
    return int(Decimal(str(float(money))) * unit)


def cost(paid: int, bonus: float) -> float:
    """Return paid × bonus: three bonuses of 0.1 cost 0.3."""
    return float(paid * Decimal(str(float(bonus))))


@dataclass(frozen=True)
class Payments:
    """Bonuses that were paid, in their order."""

    streams: Words
    """agent·K + arm of each."""
    agents: int
    arms: int
    amounts: NDArray[np.int64] | None = None
    """What each was, in units of 2⁻³⁰; None where all are the same."""

    def received(self) -> NDArray[np.int64] | None:
        """Return what every agent was paid, in units of 2⁻³⁰; None where all bonuses are the same."""
        if self.amounts is None:
            return None
        total: NDArray[np.int64] = np.zeros(self.agents, np.int64)
        np.add.at(total, self.streams // np.uint32(self.arms), self.amounts)
        return total

    def table(self) -> NDArray[np.int64]:
        """Return how many were paid, by agent and arm."""
        counts = np.bincount(self.streams, minlength=self.agents * self.arms)
        return counts.reshape(self.agents, self.arms)


class Bans:
    """Refusals count at the end of their step."""

    def __init__(self, protocol: BanProtocol, agents: int) -> None:
        self.protocol = protocol
        self.refusals: NDArray[np.int64] = np.zeros(agents, np.int64)
        self.until: NDArray[np.int64] = np.zeros(agents, np.int64)
        """The last step of each agent's ban; 0 if it was never banned."""
        self.refusing: list[int] = []
        """Who has refused in this step, in their order."""

    def enact(self, t: int) -> Work[None]:
        """Turn the refusals up to now, which are those of step t, into bans, in slices."""
        refusing, self.refusing = self.refusing, []
        return self._enact(t, refusing)

    def _enact(self, t: int, refusing: list[int]) -> Work[None]:
        for first, last in pieces(len(refusing), STREAMS // 16):
            for agent in refusing[first:last]:
                self.refusals[agent] += 1
                until = self.protocol.banned_until(t, int(self.refusals[agent]))
                if until > t:
                    self.until[agent] = min(until, FOREVER)
            yield

    def lift(self, agent: int, t: int) -> None:
        """End an agent's ban, and forget its refusals, those of this step included."""
        self.refusals[agent] = 0
        self.until[agent] = min(int(self.until[agent]), t)
        self.refusing = [other for other in self.refusing if other != agent]

    def take_over(self, old: Bans) -> None:
        """Take over from a trial of fewer agents."""
        self.refusals[: len(old.refusals)] = old.refusals
        self.until[: len(old.until)] = old.until
        self.refusing = old.refusing

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        return {"refusals": self.refusals, "until": self.until, "refusing": self.refusing}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        np.copyto(self.refusals, parts["refusals"])
        np.copyto(self.until, parts["until"])
        self.refusing = parts["refusing"]


NOBODY = -1
PAID, REFUSED = 1, 2
"""What became of an offer; 0 where there was none."""


@dataclass(frozen=True)
class Offer:
    """A bonus on one arm, to one agent, on top of the reward."""

    agent: int
    arm: int
    bonus: float
    """In units of reward."""


@lru_cache(maxsize=1 << 12)
def offer_of(agent: int, arm: int, bonus: float) -> Offer:
    """Return the offer, the same object if it was asked for lately."""
    return Offer(agent, arm, bonus)


class Offers:
    """The offers of one trial. Some agents are wanted, each for an arm; an offer that is asked for is open."""

    def __init__(
        self, record: Record, pricing: Pricing, budget: float | None, one: bool, unit: int | None = None
    ) -> None:
        self.unit = UNITS if unit is None else unit
        """How many of the smallest amounts a bonus of 1 has."""
        agents, arms = record.agents, record.arms
        self.agents, self.arms, self.one, self._record = agents, arms, one, record
        self._nobody: Wanted = np.full(agents, NOBODY, np.int32)
        self.arms_wanted: Wanted = self._nobody.copy()
        self.open: Wanted = self._nobody.copy()
        """The arm of every agent's open offer."""
        self.opened = self.offered = self.refused = 0
        """How many are open now, and how many were ever made and refused."""
        self.due: dict[int, tuple[int, int, int]] = {}
        """What is paid when the outcome of an act comes, by the act's number: agent, arm and price."""
        self.released: set[int] = set()
        """Agents whose open offer was recalled: still paid if taken, no refusal if not, and not shown again."""
        self._paid = array("I")
        self.bonus = pricing.amount if type(pricing) is Fixed else None
        """What every bonus is, where all are the same."""
        self.prices = None if type(pricing) is Fixed else Prices(pricing, arms, unit)
        self.affordable = None if self.bonus is None else affordable(budget, self.bonus)
        """How many bonuses may be paid in all, where all are the same; None for any number."""
        self._amounts = array("q")
        """What each of the bonuses was that were paid, where they differ, in the smallest amounts."""
        self._asked: NDArray[np.int64] = np.zeros(0 if self.prices is None else agents, np.int64)
        """The price of every open offer."""
        self._taken: NDArray[np.int64] = np.zeros(len(self._asked), np.int64)
        """How many offers each agent has taken that are paid or due."""
        self._most = None if budget is None else units_of(budget, self.unit)
        self._units = self._reserved = self._due = 0
        """What was paid, what the open offers may still cost, and what waits for outcomes, in the same units."""

    @property
    def spent(self) -> float:
        """What was paid, in units of reward."""
        return self._units / self.unit if self.bonus is None else cost(self.paid_total, self.bonus)

    def _price(self, agent: int, arm: int) -> int:
        """Return what an offer would pay now, in the smallest amounts."""
        assert self.prices is not None
        own = self._record.pulls[agent], self._record.sums[agent], int(self._taken[agent])
        return self.prices.amount(agent, arm, *own)

    def _fits(self, price: int) -> bool:
        """Say whether the budget allows one more offer of this price."""
        return self._most is None or self._units + self._reserved + self._due + price <= self._most

    def _offer(self, agent: int, arm: int) -> Offer:
        """Return an open offer."""
        return offer_of(agent, arm, int(self._asked[agent]) / self.unit if self.bonus is None else self.bonus)

    def begin(self, step: int, horizon: int | None) -> None:
        """Begin a step: prices may depend on how many there are."""
        if self.prices is not None:
            self.prices.clock = (0, 1) if horizon is None else (step, horizon)

    def asked(self, agent: int) -> int:
        """Return what an agent's open offer pays, in the smallest amounts; 0 where all bonuses are the same."""
        return 0 if self.prices is None else int(self._asked[agent])

    def afford(self, most: int | None) -> None:
        """Set how many bonuses may be paid in all or, where they differ, how many of the smallest amounts."""
        if self.prices is None:
            self.affordable = most
        else:
            self._most = most

    @property
    def limit(self) -> int | None:
        """What `afford` has set."""
        return self.affordable if self.prices is None else self._most

    @property
    def paid_total(self) -> int:
        """How many bonuses were paid."""
        return len(self._paid)

    @property
    def room(self) -> int:
        """How many more offers the budget allows, at most one per agent."""
        if self.affordable is None:
            return self.agents
        return min(self.agents, self.affordable - self.paid_total - self.opened - len(self.due))

    @property
    def pays_for(self) -> float:
        """How many more bonuses the budget pays for, open offers included; ∞ without a limit.

        Where prices differ, at the mean price up to now; ∞ while nothing was paid.
        """
        if self.limit is None:
            return math.inf
        if self.prices is None:
            return float(self.limit - self.paid_total - len(self.due))
        if self._units + self._due >= self.limit:
            return 0.0
        left = float(self.limit - self._units - self._due)
        return left * float(self.paid_total) / float(self._units) if self._units > 0 else math.inf

    @property
    def taken_up(self) -> bool:
        """Whether the one offer that may be open is, recalled ones aside."""
        return self.one and self.opened > len(self.released)

    def payments(self) -> Payments:
        """Return what was paid up to now."""
        amounts = None if self.prices is None else np.array(self._amounts, np.int64)
        return Payments(np.array(self._paid, np.uint32), self.agents, self.arms, amounts)

    def standing(self) -> dict[int, Offer]:
        """Return the open offers by agent."""
        agents = np.flatnonzero(self.open >= 0).tolist()
        return {agent: self._offer(agent, int(self.open[agent])) for agent in agents}

    def wanted(self, agent: int, chosen: int) -> int:
        """Return the arm of the agent's open offer, or else the chosen one if it can be paid for; −1 for none."""
        arm = int(self.open[agent])
        if arm >= 0:
            return NOBODY if agent in self.released else arm
        if chosen < 0 or self.taken_up or self.room < 1:
            return NOBODY
        return chosen if self.prices is None or self._fits(self._price(agent, chosen)) else NOBODY

    def ask(self, agent: int, chosen: int) -> Offer | None:
        """Open the offer for this agent, if there is one and it is not open already."""
        arm = self.wanted(agent, chosen)
        if arm < 0:
            return None
        if self.open[agent] < 0:
            price = 0 if self.prices is None else self._price(agent, arm)
            self.arms_wanted[agent], self.open[agent] = NOBODY, arm
            self.opened += 1
            self.offered += 1
            if self.prices is not None:
                self._asked[agent] = price
                self._reserved += price
        return self._offer(agent, arm)

    def surprise(self, agent: int, arm: int) -> None:
        """Pay a bonus that nobody was offered."""
        self._pay(agent, arm, 0 if self.prices is None else self._price(agent, arm))

    def _pay(self, agent: int, arm: int, price: int) -> None:
        self._paid.append(agent * self.arms + arm)
        if self.prices is not None:
            self._amounts.append(price)
            self._units += price
            self._taken[agent] += 1

    def cancel(self, agent: int) -> Offer | None:
        """Take an open offer back."""
        arm = int(self.open[agent])
        if arm < 0:
            return None
        offer = self._offer(agent, arm)
        self._close(agent)
        return offer

    def _close(self, agent: int) -> int:
        """End an open offer; return its price where prices differ."""
        self.open[agent] = NOBODY
        self.opened -= 1
        self.released.discard(agent)
        if self.prices is None:
            return 0
        price, self._asked[agent] = int(self._asked[agent]), 0
        self._reserved -= price
        return price

    def forget(self, agent: int) -> None:
        """Want nothing more of an agent in this step."""
        self.arms_wanted[agent] = NOBODY

    def settle(self, agent: int, arm: int, act: int | None = None) -> int:
        """End the agent's open offer by its pull of an arm, or of none; return what became of it.

        With an ``act`` the bonus is due, and paid only when the outcome of that act comes (`finish`).
        """
        offered = self.open[agent]
        if offered < 0:
            return 0
        released = agent in self.released
        price = self._close(agent)
        if self.prices is not None and (offered == arm or not released):
            self.prices.answered(agent, int(offered), taken=bool(offered == arm))
        if offered == arm:
            if act is None:
                self._pay(agent, arm, price)
            else:
                self._owe(act, agent, arm, price)
            return PAID
        if released:
            return 0
        self.refused += 1
        return REFUSED

    def _owe(self, act: int, agent: int, arm: int, price: int) -> None:
        self.due[act] = agent, arm, price
        self._due += price
        if self.prices is not None:
            self._taken[agent] += 1

    def finish(self, act: int, paid: bool) -> None:
        """Pay what was due when the outcome of an act came, if anything was; or pay it never."""
        due = self.due.pop(act, None)
        if due is not None:
            self._due -= due[2]
            if self.prices is not None:
                self._taken[due[0]] -= 1
            if paid:
                self._pay(*due)

    def replace(self, wanted: Wanted | None, left: NDArray[np.bool_]) -> None:
        """Begin a step with whom the rule wants now, without agents who left or have an open offer meanwhile."""
        if wanted is None or self.taken_up:
            self.arms_wanted = self._nobody.copy()
            return
        if np.count_nonzero(left):
            wanted[left] = NOBODY
        if self.opened:
            wanted[self.open >= 0] = NOBODY
        self.arms_wanted = wanted

    def recall(self, agent: int) -> None:
        """Take an open offer back that the agent may be acting on."""
        if self.open[agent] >= 0:
            self.released.add(agent)

    def release(self, arm: int) -> None:
        """Note that an arm was withdrawn."""
        self.released |= set(np.flatnonzero(self.open == arm).tolist())
        self.arms_wanted[self.arms_wanted == arm] = NOBODY

    def take_over(self, old: Offers) -> None:
        """Take over from a trial of fewer agents."""
        self.open[: old.agents] = old.open
        self.opened, self.offered, self.refused, self.released = old.opened, old.offered, old.refused, old.released
        self._paid, self._amounts = old._paid, old._amounts
        self._asked[: len(old._asked)], self._taken[: len(old._taken)] = old._asked, old._taken
        self._units, self._reserved, self._due, self.due = old._units, old._reserved, old._due, old.due
        if self.prices is not None and old.prices is not None:
            self.prices.restore(old.prices.parts())

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        kept: dict[str, Any] = {"plan": self.arms_wanted, "open": self.open, "paid": np.array(self._paid, np.uint32)}
        kept |= {"offered": self.offered, "refused": self.refused, "released": sorted(self.released)}
        if self.due:
            kept["due"] = [[act, *due] for act, due in self.due.items()]
        if self.prices is not None:
            kept |= {"amounts": np.array(self._amounts, np.int64), "asked": self._asked, **self.prices.parts()}
        return kept | {"affordable": self.limit}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        np.copyto(self.arms_wanted, parts["plan"])
        np.copyto(self.open, parts["open"])
        self._paid = array("I", parts["paid"].tobytes())
        self.opened = int(np.count_nonzero(self.open >= 0))
        self.offered, self.refused, self.released = parts["offered"], parts["refused"], set(parts["released"])
        self.due = {act: (agent, arm, price) for act, agent, arm, price in parts.get("due", ())}
        self._due = sum(price for _, _, price in self.due.values())
        self.afford(parts.get("affordable", self.limit))
        if self.prices is not None:
            np.copyto(self._asked, parts["asked"])
            self._amounts = array("q", parts["amounts"].tobytes())
            self._units, self._reserved = sum(self._amounts), int(self._asked.sum())
            due = np.array([agent for agent, _, _ in self.due.values()], np.int64)
            taken = np.concatenate([parts["paid"].astype(np.int64) // self.arms, due])
            self._taken = np.bincount(taken, minlength=self.agents).astype(np.int64)
            self.prices.restore(parts)
