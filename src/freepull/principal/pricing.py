"""Prices: what an offer pays, in units of reward (docs/mechanics.md, prices).

The paper pays the whole reward range for every pull, so that taking every offer is best whatever an agent has seen.
An agent who takes an offer only gives up its own gap, which is mostly far less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from freepull import validation
from freepull.compiling import jit
from freepull.errors import FreepullError, InvalidInput, OwnPartError
from freepull.money import MOST_PRICE
from freepull.numerics import highest_index
from freepull.principal.record import UNITS
from freepull.registry import one_line, part
from freepull.rewards import seen_means

__all__ = ["BeyondNatural", "Capped", "Compensate", "Fixed", "Posted", "Pricing", "Quota", "Quote"]

GROUPS = 2
"""Posted prices: nobody's price is made from answers of its own group."""
MOST_PRICED = 1e6
"""No offer pays more, in units of reward; in money none pays more than `MOST_PRICE`, either."""


@dataclass(frozen=True)
class Quote:
    """All that a price may be made from: who is asked to pull what, and what the principal has seen of this agent."""

    agent: int
    arm: int
    pulls: Sequence[int]
    """By arm."""
    sums: Sequence[float]
    """The sums of rewards, by arm."""
    taken: int = 0
    """How many offers it has taken up to now."""


@runtime_checkable
class Pricing(Protocol):
    """The contract for every pricing, built in or a user's own.

    The same quote must always give the same price, whatever was quoted before: a campaign that is read back from its
    log asks again.
    """

    def price(self, quote: Quote) -> float:
        """Return what the offer pays, in units of reward: 0 or more."""
        ...


@part("pricing", "fixed", kernel=0)
@dataclass(frozen=True)
class Fixed:
    """The same for every pull; 1, the reward range, is the paper's."""

    amount: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "amount", 0.0, open_low=True)

    def price(self, quote: Quote) -> float:
        """Return the amount."""
        return self.amount


@part("pricing", "compensate", kernel=1)
@dataclass(frozen=True)
class Compensate:
    """What the agent gives up by its own record, max_j μ̂_j − μ̂_k, and a margin, within ``least`` and ``most``.

    An arm that it never pulled counts as ½. The extended Lemma 1 (docs/mechanics.md, prices) says what taking every
    offer loses where a price is below the agent's true gap.

    >>> Compensate(margin=0.05).price(Quote(agent=0, arm=1, pulls=(4, 2), sums=(3.0, 1.0))).__round__(6)
    0.3
    """

    margin: float = 0.01
    """A fixed amount on top."""
    errors: float = 0.0
    """Standard errors of the difference of the two means on top, rewards taken to have standard deviation ½."""
    least: float = 0.0
    """No offer pays less."""
    most: float = 1.0
    """None pays more: an agent whose arm is that poor in its own eyes gets an offer that it may refuse."""

    def __post_init__(self) -> None:
        validation.keep_real(self, "margin errors least", 0.0)
        _keep_most(self, self.least)

    def price(self, quote: Quote) -> float:
        """Return the compensation."""
        means = seen_means(quote.pulls, quote.sums)
        best = means.index(max(means))
        seen = quote.pulls[best], quote.pulls[quote.arm]
        loss = means[best] - means[quote.arm]
        return float(compensation(loss, *seen, self.margin, self.errors, self.least, self.most))


@part("pricing", "beyond-natural", kernel=3)
@dataclass(frozen=True)
class BeyondNatural:
    """An amount, but nothing for pulls that an α-UCB learner with the agent's record would have made by itself.

    A defence: who withholds natural pulls so as to be paid for them is asked for them for nothing first
    (docs/mechanics.md, extraction). Who takes every offer gives the same pulls as for `Fixed`.

    >>> BeyondNatural().price(Quote(agent=0, arm=1, pulls=(900, 100), sums=(720.0, 55.0)))
    1.0
    >>> BeyondNatural().price(Quote(agent=0, arm=1, pulls=(995, 5), sums=(796.0, 3.0)))
    0.0
    """

    amount: float = 1.0
    alpha: float = 2.0
    """How much people explore of their own accord."""
    share: float = 0.9
    """Of the natural pulls, which an agent must have made."""

    def __post_init__(self) -> None:
        validation.keep_real(self, "amount alpha", 0.0, open_low=True)
        validation.keep_real(self, "share", 0.0, 1.0)

    def price(self, quote: Quote) -> float:
        """Return the amount, or nothing."""
        means, own = np.array(seen_means(quote.pulls, quote.sums)), quote.pulls[quote.arm]
        terms = float(self.amount), float(self.alpha), float(self.share)
        return float(beyond_natural(means, quote.arm, own, sum(quote.pulls), *terms))


@part("pricing", "quota", kernel=4)
@dataclass(frozen=True)
class Quota:
    """An amount, but nothing for an agent's first so many pulls of an arm, whoever asks for them.

    A defence that needs no model of people, in place of `BeyondNatural`: nobody is paid for an arm before it has pulled
    it that often for nothing. A quota of pulls of all arms together is what observing is (`observe.Steps`).

    >>> Quota(pulls=50).price(Quote(agent=0, arm=1, pulls=(900, 49), sums=(720.0, 27.0)))
    0.0
    """

    pulls: int = 100
    amount: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "amount", 0.0, open_low=True)
        validation.keep_whole(self, "pulls", 0)

    def price(self, quote: Quote) -> float:
        """Return the amount, or nothing."""
        return float(beyond(quote.pulls[quote.arm], self.pulls, self.amount))


@part("pricing", "capped", kernel=5)
@dataclass(frozen=True)
class Capped:
    """An amount for an agent's first so many offers that it takes, and nothing for any more.

    A defence that bounds what anybody can be paid, and that asks everybody, honest or not, for the rest at a price of
    nothing.

    >>> Capped(bonuses=20).price(Quote(agent=0, arm=1, pulls=(90, 40), sums=(72.0, 27.0), taken=20))
    0.0
    """

    bonuses: int = 100
    amount: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "amount", 0.0, open_low=True)
        validation.keep_whole(self, "bonuses", 0)

    def price(self, quote: Quote) -> float:
        """Return the amount, or nothing."""
        return float(within(quote.taken, self.bonuses, self.amount))


@part("pricing", "posted", kernel=2)
@dataclass(frozen=True)
class Posted:
    """One price an arm, for people whose reasons are not known: up after refusals, down after acceptances.

    It settles where a share ``accept`` of those who are asked takes it. The people are two groups, those with even and
    those with odd numbers, and what one group is offered follows from the other's answers alone, so that nobody's
    answer moves its own price by itself (docs/mechanics.md, prices, says what that is worth).
    """

    accept: float = 0.8
    start: float = 0.2
    least: float = 0.01
    most: float = 1.0
    gain: float = 0.5
    """How far the first answers move a price, as a share of it; the n-th moves it by gain/√n."""
    rush: float = 0.5
    """From this share of the horizon on prices rise, by the same factor in every step, up to ``most``; 1: never."""

    def __post_init__(self) -> None:
        validation.keep_real(self, "accept", 0.0, 1.0, open_low=True)
        validation.keep_real(self, "gain rush", 0.0, 1.0)
        validation.keep_real(self, "least", 0.0, open_low=True)
        _keep_most(self, self.least)
        validation.keep_real(self, "start", 0.0, open_low=True)
        validation.real("start", self.start, self.least, self.most)

    def price(self, quote: Quote) -> float:
        """Return the price before any answers."""
        return self.start


def _keep_most(pricing: Any, least: float) -> None:
    validation.keep_real(pricing, "most", 0.0)
    if pricing.most < least:
        raise InvalidInput(f"most must be at least {least:g}, which is least, got {pricing.most:g}.")


@jit
def compensation(loss: float, best: int, own: int, margin: float, errors: float, least: float, most: float) -> Any:
    """The price of a pull that loses this much by the agent's record, given its pulls of its best and of this arm."""
    doubt = math.sqrt(0.25 / float(max(best, 1)) + 0.25 / float(max(own, 1)))
    return min(max(loss + margin + errors * doubt, least), most)


@jit
def beyond_natural(means: Any, arm: Any, own: int, total: int, amount: float, alpha: float, share: float) -> Any:
    """The amount, if an agent has made a share of an α-UCB learner's pulls: those at which all indices are level."""
    if total < 2:
        return amount
    reach = alpha * math.log(float(total))
    above = highest_index(means, reach, float(total)) - means[arm]
    return amount if float(own) >= share * reach / (above * above) else 0.0


@jit
def beyond(own: int, quota: Any, amount: float) -> Any:
    """The amount, if an agent has pulled an arm so often."""
    return amount if float(own) >= float(quota) else 0.0


@jit
def within(taken: int, cap: Any, amount: float) -> Any:
    """The amount, if an agent has taken fewer offers than that."""
    return amount if float(taken) < float(cap) else 0.0


@jit
def moved(price: float, taken: bool, answers: int, accept: float, gain: float, least: float, most: float) -> Any:
    """The price after an answer, the ``answers``-th: one step of Robbins and Monro towards the share that accepts."""
    step = gain / math.sqrt(float(answers))
    return min(max(price * (1.0 - step * (1.0 - accept) if taken else 1.0 + step * accept), least), most)


@jit
def risen(price: float, most: float, t: int, horizon: int, rush: float) -> Any:
    """A posted price in step t of a trial that ends with step ``horizon``."""
    late = float(t) - rush * float(horizon)
    if late <= 0.0 or rush >= 1.0:
        return price
    return min(price * (most / price) ** min(late / ((1.0 - rush) * float(horizon)), 1.0), most)


@jit
def in_units(price: float) -> Any:
    """A price as a whole number of units of 2⁻³⁰, rounded up."""
    return np.int64(math.ceil(price * UNITS))


class Prices:
    """The prices of one trial."""

    def __init__(self, pricing: Pricing, arms: int, unit: int | None) -> None:
        self.pricing, self.unit = pricing, unit
        """Of what an amount is a whole number: a bonus of 1 has so many minor units; None: units of 2⁻³⁰."""
        self.posted = pricing if type(pricing) is Posted else None
        size = GROUPS if self.posted else 0
        self.levels = np.full((size, arms), self.posted.start if self.posted else 0.0)
        """What the answers of a group say of each arm."""
        self.answers = np.zeros((size, arms), np.int64)
        self.clock = 0, 1
        """The step that is under way, and the last one."""
        self._last: tuple[Quote, int] | None = None
        """The last quote and its price: what was found to fit the budget is what is offered, whoever makes it."""

    def amount(self, agent: int, arm: int, pulls: Any, sums: Any, taken: int = 0) -> int:
        """Return the price of an agent's pull in the smallest amounts, given its own pulls, sums and offers taken."""
        if self.posted is not None:
            level = float(self.levels[1 - agent % GROUPS, arm])
            return self._whole(float(risen(level, self.posted.most, *self.clock, self.posted.rush)))
        return self.quoted(Quote(agent, arm, tuple(pulls.tolist()), tuple((sums / UNITS).tolist()), taken))

    def quoted(self, quote: Quote) -> int:
        """Return the price for a quote in the smallest amounts, or say in a sentence what is wrong with it."""
        if self._last is not None and self._last[0] == quote:
            return self._last[1]
        name = f"{type(self.pricing).__name__}.price"
        most = MOST_PRICED if self.unit is None else min(MOST_PRICED, MOST_PRICE / self.unit)
        try:
            price = self._whole(validation.real(name, self.pricing.price(quote), 0.0, most))
        except InvalidInput as error:
            raise OwnPartError(str(error)) from error
        except FreepullError:
            raise
        except (Exception, SystemExit) as error:
            got = f"{one_line(error)} for {validation.shown(quote)}"
            raise OwnPartError(f"{name} must return a number, got {got}.") from error
        self._last = quote, price
        return price

    def _whole(self, price: float) -> int:
        """Round up to a whole number of the smallest amounts; in money to one at least, and past a float's last bits.

        >>> Prices(Compensate(), 2, 50)._whole(0.1 + 0.2)
        15
        """
        return int(in_units(price)) if self.unit is None else max(math.ceil(price * self.unit - 1e-6), 1)

    def answered(self, agent: int, arm: int, taken: bool) -> None:
        """Note that an offer was taken or refused."""
        it = self.posted
        if it is None:
            return
        at = agent % GROUPS, arm
        self.answers[at] += 1
        level = float(self.levels[at])
        self.levels[at] = moved(level, taken, int(self.answers[at]), it.accept, it.gain, it.least, it.most)

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        return {"levels": self.levels, "answers": self.answers} if self.posted else {}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        if self.posted:
            self.levels, self.answers = parts["levels"].copy(), parts["answers"].copy()
