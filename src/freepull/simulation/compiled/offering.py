"""The step around a rule: offers are priced and answered, pulls recorded, refusals become bans.

Every rule's kernel uses these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.numerics import mix, uniform
from freepull.principal.pricing import (
    GROUPS,
    beyond,
    beyond_natural,
    compensation,
    in_units,
    moved,
    risen,
    within,
)
from freepull.principal.record import UNITS
from freepull.randomness import ANSWER_COIN, ANSWER_LOT, STEP
from freepull.randomness import ARM as ARM_STEP
from freepull.simulation.compiled.coding import (
    ALWAYS,
    BEYOND_NATURAL,
    BY_FORMULA,
    CAPPED,
    HOLD_OUT,
    IF_WORTH_IT,
    POSTED,
    QUOTA,
    RELUCTANT,
    WITH_PROBABILITY,
    WORTH_AT_LEAST,
)
from freepull.simulation.compiled.formulas import accepts_by_formula, note_paid
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.playing import (
    deliver,
    fixed_mean,
    pick_chunk,
    pick_one,
    pull_chunk,
    pull_one,
    pulls_at,
    units_at,
)
from freepull.simulation.compiled.state import (
    ANSWERS,
    ARM,
    BANNED_UNTIL,
    DECIDED_AT,
    INVERSES,
    LANE,
    MEANS,
    NEED,
    OFFER,
    OFFERS,
    OPEN,
    PAID,
    PLACE,
    REFUSALS,
    REFUSED,
    SEAT,
    UNPULLED,
    UNSEEN,
    Streams,
)
from freepull.simulation.compiled.world import REFUSED as DECLINED
from freepull.simulation.compiled.world import TAKEN, acting_at, clock_of, count_act, list_acting

_UNITS = float(UNITS)
_W, _STEP = np.uint64(WIDTH), np.uint64(STEP)
_COIN, _LOT = np.uint64(ARM_STEP * ANSWER_COIN), np.uint64(ARM_STEP * ANSWER_LOT)


@jit
def act(lanes: Any, strategies: Any, state: Any, terms: Any, sums: Any, owed: Any, t: int) -> None:
    """Everybody's part of a step: pick, answer, pull. The rule looks afterwards."""
    _act(lanes.there, lanes, strategies, state, terms, sums, owed, t)


@jit
def _act(there: Any, lanes: Any, strategies: Any, state: Any, terms: Any, sums: Any, owed: Any, t: int) -> None:
    """Sixteen lanes at once where everybody acts; otherwise those who act one by one.

    An offer to an agent who does not act is not made: the rule says anew at the end of the step whom it wants.
    """
    seats, offers, trials, agents = state.seats, state.offers, state.trials, terms.agents
    post_prices(state.priced, terms, t)
    if there is None:
        for chunk in range(np.uint64(strategies.chunks.shape[0])):
            pick_chunk(lanes, strategies, chunk, terms.K, t)
        for run in range(trials.shape[0]):
            for at in range(run * agents, run * agents + trials[run, OPEN]):
                answer_one(lanes, state, terms, terms.answers, np.uint64(offers[at, SEAT]), offers[at, ARM], t, t)
        for chunk in range(np.uint64(strategies.chunks.shape[0])):
            pull_chunk(lanes, sums, owed, chunk, terms.K, t)
    else:
        for run in range(trials.shape[0]):
            first, wanted = run * agents, trials[run, OPEN]
            for at in range(first, first + wanted):
                seats[offers[at, SEAT], OFFER] = offers[at, ARM]
            for at in range(first, list_acting(there, first, first + agents, t)):
                act_one(lanes, strategies, state, terms, sums, owed, acting_at(there, at), t)
            for at in range(first, first + wanted):
                seats[offers[at, SEAT], OFFER] = -1
            if lanes.world.defers == 1:
                for seat in range(first, first + agents):
                    deliver(lanes, sums, owed, np.uint64(seats[seat, LANE]), terms.K, t)


@jit
def act_one(lanes: Any, strategies: Any, state: Any, terms: Any, sums: Any, owed: Any, seat: int, t: int) -> Any:
    """Let the agent of a seat act in step t; return its reward in units of 2⁻³⁰. What it pulled is in ``lanes.arm``.

    It picks and answers by its own clock; its offer is in the seat's OFFER, to be cleared afterwards. A rule that must
    see every ask and every pull calls this itself, for everybody who is `acting_at` a place of `list_acting`: asks of
    all first, as the readable engine has it, then act by act.
    """
    lane = np.uint64(state.seats[seat, LANE])
    clock = clock_of(lanes.there, seat, t)
    pick_one(lanes, strategies, lane, terms.K, clock)
    if state.seats[seat, OFFER] >= 0:
        answer_one(lanes, state, terms, terms.answers, np.uint64(seat), state.seats[seat, OFFER], clock, t)
    reward = pull_one(lanes, sums, owed, lane, terms.K, t)
    count_act(lanes.there, seat, reward)
    _forget_most(owed, seat, lanes.arm[lane])
    return reward


@jit
def _forget_most(owed: Any, seat: int, arm: Any) -> None:
    """Find anew what an agent owes most of, once it has pulled that."""
    if owed is not None and owed.most[seat, 0] == arm:
        owed.most[seat, 0] = -1


@jit
def answer_one(lanes: Any, state: Any, terms: Any, answers: Any, seat: Any, offered: int, clock: int, t: int) -> None:
    """Let an agent answer its offer by its own clock; a refusal whose own pick is the offered arm counts as taken.

    ``answers`` is None where everybody takes every offer.
    """
    arm, seats, trials = lanes.arm, state.seats, state.trials
    lane, offer, run = np.uint64(seats[seat, LANE]), np.uint64(offered), seat // np.uint64(terms.agents)
    price = price_of(state.priced, lanes.told, seats, terms, seat, offer, run)
    if not _reserve(state.priced, terms.pricing, run, price):
        return
    if answers is None or takes(
        lanes, state, terms, answers, seat, seat % np.uint64(terms.agents), offer, price, clock
    ):
        arm[lane] = offered
    _note_answer(state.priced, terms, seat, offer, run, arm[lane] == offered, price)
    if answers is None or arm[lane] == offered:
        state.paid[seat, offer] += 1
        trials[run, PAID] += 1
        note_paid(lanes.formulas, lane, price)
        lanes.world.offered[lane] = TAKEN
    else:
        lanes.world.offered[lane] = DECLINED
        trials[run, REFUSED] += 1
        seats[seat, REFUSALS] += 1
        if seats[seat, REFUSALS] >= terms.ban_after:
            seats[seat, BANNED_UNTIL] = t + terms.ban_length


@jit
def post_prices(priced: Any, terms: Any, t: int) -> None:
    """Begin a step: the prices that answers have led to are those that are offered now, or more near the end."""
    if priced is not None:
        _, settings, _ = terms.pricing
        runs, groups, arms = priced.levels.shape
        for run in range(runs):
            priced.asked[run] = priced.spent[run]
            for group in range(groups):
                for k in range(arms):
                    level = priced.later[run, group, k]
                    priced.levels[run, group, k] = risen(level, settings[3], t, terms.horizon, settings[5])


@jit
def price_of(priced: Any, streams: Any, seats: Any, terms: Any, seat: Any, offer: Any, run: Any) -> Any:
    """What an offer pays, in units of reward; the twin of `freepull.principal.pricing`."""
    if priced is None:
        return terms.bonus
    return (
        float(_quoted(priced, terms.pricing, streams, np.uint64(seats[seat, PLACE]), terms, seat, offer, run)) / _UNITS
    )


@jit
def _quoted(priced: Any, pricing: Any, streams: Any, place: Any, terms: Any, seat: Any, offer: Any, run: Any) -> Any:
    """The same in units of 2⁻³⁰."""
    kind, settings, _ = pricing
    if kind == POSTED:
        group = seat % np.uint64(terms.agents) % np.uint64(GROUPS)
        return in_units(priced.levels[run, 1 - np.int64(group), offer])
    if kind == QUOTA:
        return in_units(beyond(pulls_at(streams, place + offer * _W), settings[0], settings[1]))
    if kind == CAPPED:
        return in_units(within(priced.received[seat] // in_units(settings[1]), settings[0], settings[1]))
    best = np.uint64(0)
    top = -1.0
    if kind == BEYOND_NATURAL:
        total: Any = np.int64(0)
        for k in range(terms.K):
            priced.means[k] = _seen_mean(streams.mean, place + k * _W)
            total += pulls_at(streams, place + k * _W)
        own_pulls = pulls_at(streams, place + offer * _W)
        return in_units(beyond_natural(priced.means, offer, own_pulls, total, settings[0], settings[1], settings[2]))
    for k in range(terms.K):
        own = _seen_mean(streams.mean, place + k * _W)
        if own > top:
            top, best = own, np.uint64(k)
    loss = top - _seen_mean(streams.mean, place + offer * _W)
    seen, own_pulls = pulls_at(streams, place + best * _W), pulls_at(streams, place + offer * _W)
    return in_units(compensation(loss, seen, own_pulls, settings[0], settings[1], settings[2], settings[3]))


@jit
def _reserve(priced: Any, pricing: Any, run: Any, price: float) -> bool:
    """Whether the budget allows the offer, which counts against it until the end of the step then."""
    if priced is None:
        return True
    units = np.int64(price * _UNITS)
    if priced.asked[run] + units > pricing[2]:
        return False
    priced.asked[run] += units
    return True


@jit
def _note_answer(priced: Any, terms: Any, seat: Any, offer: Any, run: Any, taken: bool, price: float) -> None:
    """Count the money, and move a posted price for the other group."""
    if priced is not None:
        kind, settings, _ = terms.pricing
        if taken:
            priced.received[seat] += np.int64(price * _UNITS)
            priced.spent[run] += np.int64(price * _UNITS)
        if kind == POSTED:
            group = np.int64(seat % np.uint64(terms.agents) % np.uint64(GROUPS))
            priced.answers[run, group, offer] += 1
            priced.later[run, group, offer] = moved(
                priced.later[run, group, offer], taken, priced.answers[run, group, offer],
                settings[0], settings[4], settings[2], settings[3],
            )  # fmt: skip


@jit
def _seen_mean(mean: Any, position: Any) -> Any:
    """A sample mean as the agent sees it; an unpulled arm counts as ½."""
    own = mean[position]
    return 0.5 if own == math.inf else own


@jit
def takes(
    lanes: Any, state: Any, terms: Any, answers: Any, seat: Any, m: Any, offer: Any, price: float, t: int
) -> bool:
    """Whether the agent takes the offer; the twin of `freepull.agents.answers`."""
    kinds, settings, own = answers
    seats = state.seats
    seats[seat, OFFERS] += 1
    key = lanes.streams.keys[ANSWERS, np.uint64(seats[seat, LANE])]
    takes = kinds[m] == ALWAYS
    if kinds[m] == WITH_PROBABILITY:
        takes = uniform(mix(key + _COIN + _STEP * np.uint64(t))) < settings[m, 0]
    elif kinds[m] == RELUCTANT:
        takes = (
            uniform(mix(key + _LOT + _STEP)) >= settings[m, 0]
            or uniform(mix(key + _COIN + _STEP * np.uint64(t))) >= settings[m, 1]
        )
    elif kinds[m] == HOLD_OUT:
        takes = float(seats[seat, OFFERS]) > settings[m, 0]
    elif kinds[m] == IF_WORTH_IT:
        takes = price >= _expected_loss(lanes.streams.mean, np.uint64(seats[seat, PLACE]), offer, terms.K)
    elif kinds[m] == WORTH_AT_LEAST:
        least = settings[m, 0] + (settings[m, 1] - settings[m, 0]) * uniform(mix(key + _LOT + _STEP))
        takes = price >= settings[m, 2] * _true_loss(state.losses, seat, offer) + least
    elif kinds[m] == BY_FORMULA:
        look(lanes, np.uint64(seats[seat, PLACE]), terms.K)
        coin, lot = uniform(mix(key + _COIN + _STEP * np.uint64(t))), uniform(mix(key + _LOT + _STEP))
        loss = float(_true_loss(state.losses, seat, offer))
        takes = accepts_by_formula(lanes.formulas, own, m, t, offer, price, seats[seat, OFFERS], coin, lot, loss)
    return bool(takes)


@jit
def look(lanes: Any, place: Any, K: Any) -> None:
    """Let an agent who answers by a formula look at its own pulls and sums."""
    for k in range(K):
        lanes.formulas.seen[0, k] = float(pulls_at(lanes.streams, place + k * _W))
        lanes.formulas.seen[1, k] = float(units_at(lanes.streams, place + k * _W)) * 2.0**-30


@jit
def _expected_loss(mean: Any, place: Any, offer: Any, K: Any) -> Any:
    """max_j μ̂_j − μ̂_k as the agent sees it."""
    top = -1.0
    for k in range(K):
        top = max(top, _seen_mean(mean, place + k * _W))
    return top - _seen_mean(mean, place + offer * _W)


@jit
def _true_loss(losses: Any, seat: Any, offer: Any) -> Any:
    """The agent's true gap, where somebody answers by it."""
    return 0.0 if losses is None else losses[seat, offer]


@jit
def keep_neediest(offers: Any, first: int, found: int, room: int) -> int:
    """Of the offers in rows first…found−1 keep as many as there is room for, the neediest; return how many."""
    if found - first <= room:
        return found - first
    for place in range(first, first + room):
        neediest = place
        for at in range(place + 1, found):
            if _needier(offers, at, neediest):
                neediest = at
        for column in range(3):
            offers[place, column], offers[neediest, column] = offers[neediest, column], offers[place, column]
    return room


@jit
def _needier(offers: Any, a: int, b: int) -> Any:
    """Whether one offer goes before another: more need, then lower arm, then lower agent."""
    if offers[a, NEED] != offers[b, NEED]:
        return offers[a, NEED] > offers[b, NEED]
    if offers[a, ARM] != offers[b, ARM]:
        return offers[a, ARM] < offers[b, ARM]
    return offers[a, SEAT] < offers[b, SEAT]


@jit
def looks(terms: Any, t: int) -> Any:
    """Whether an adaptive schedule looks at the end of step t (`schedules.Adaptive.looks`)."""
    horizon = terms.horizon
    return t == horizon or (t % max(1, horizon // 1000) == 0 and t >= np.int64(terms.K) and 10 * t >= horizon)


@jit
def take_stock(streams: Any, seats: Any, sums: Any) -> None:
    """Compute the sums over agents afresh from the record, where nobody kept them while observing."""
    runs = sums.trials.shape[0]
    for run in range(runs):
        take_stock_of(streams, seats, sums, run)
    for row in range(sums.arms.shape[0] // (runs + 1) * runs, sums.arms.shape[0]):
        sums.arms[row, INVERSES], sums.arms[row, MEANS] = 0, 0
        sums.arms[row, UNPULLED] = seats.shape[0] // runs


@jit_apart
def take_stock_of(streams: Any, seats: Any, sums: Any, run: int) -> None:
    """Do so for one run."""
    arms, trials = sums.arms, sums.trials
    runs = trials.shape[0]
    K, agents = arms.shape[0] // (runs + 1), seats.shape[0] // runs
    trials[run, UNSEEN] = 0
    for k in range(K):
        means, inverses, unpulled = np.int64(0), np.int64(0), np.int64(0)
        for seat in range(run * agents, (run + 1) * agents):
            position = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            N = pulls_at(streams, position)
            if N > 0:
                sums.fixed[position] = fixed_mean(streams, position, N)
                means += sums.fixed[position]
                inverses += sums.inverses[N]
            else:
                unpulled += 1
        row = run * K + k
        arms[row, MEANS], arms[row, INVERSES], arms[row, UNPULLED] = means, inverses, unpulled
        trials[run, UNSEEN] += unpulled


@jit
def decide(streams: Any, state: Any, terms: Any, run: int, t: int) -> None:
    """Note that a run is decided; if runs end there, keep its record: its lanes play on only with their neighbours."""
    state.trials[run, DECIDED_AT] = t
    state.trials[run, OPEN] = 0
    if state.frozen.shape[0] == 0:
        return
    played = Streams(streams.mean, state.cells, streams.keys, streams.laws, streams.history)
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        for k in range(terms.K):
            position = np.uint64(state.seats[seat, PLACE]) + k * _W
            state.frozen[seat, k, 0] = pulls_at(played, position)
            state.frozen[seat, k, 1] = units_at(played, position)


@jit
def bonuses_left(priced: Any, terms: Any, run: int, paid: int) -> float:
    """How many more bonuses the budget pays for; the twin of `freepull.principal.offers.Offers.pays_for`."""
    if priced is None:
        return float(terms.affordable - paid)
    most, spent = terms.pricing[2], priced.spent[run]
    if spent >= most:
        return 0.0
    return float(most - spent) * float(paid) / float(spent) if spent > 0 else math.inf
