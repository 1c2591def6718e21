"""The step around a rule: offers are answered, pulls recorded, refusals become bans. Every rule's kernel uses these.

The rules that go by rounds share `rounds_stepper`: streams owe samples to a round, and whoever owes most is paid first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from freepull.compiling import jit
from freepull.numerics import mix, uniform
from freepull.principal.pricing import GROUPS, compensation, in_units, moved
from freepull.principal.record import UNITS
from freepull.randomness import ANSWER_COIN, ANSWER_LOT, STEP
from freepull.randomness import ARM as ARM_STEP
from freepull.simulation.compiled.coding import (
    ALWAYS,
    HOLD_OUT,
    IF_WORTH_IT,
    POSTED,
    RELUCTANT,
    WITH_PROBABILITY,
    WORTH_AT_LEAST,
    Coded,
)
from freepull.simulation.compiled.lanes import WIDTH, most_owed
from freepull.simulation.compiled.playing import (
    fixed_mean,
    pick_chunk,
    pick_one,
    pull_chunk,
    pull_one,
    pulls_at,
    units_at,
)
from freepull.simulation.compiled.presence import acting_at, clock_of, count_act, list_acting
from freepull.simulation.compiled.state import (
    ANSWERS,
    ARM,
    BANNED_UNTIL,
    DECIDED_AT,
    FUTILE,
    INVERSES,
    KAPPA,
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
    WAITS,
    Block,
    Ints,
)
from freepull.simulation.experiment import Experiment

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
    post_prices(state.priced)
    if there is None:
        for chunk in range(np.uint64(strategies.chunks.shape[0])):
            pick_chunk(lanes, strategies, chunk, terms.K, t)
        for run in range(trials.shape[0]):
            for at in range(run * agents, run * agents + trials[run, OPEN]):
                answer_one(lanes, state, terms, terms.answers, np.uint64(offers[at, SEAT]), offers[at, ARM], t, t)
        for chunk in range(np.uint64(strategies.chunks.shape[0])):
            pull_chunk(lanes, sums, owed, chunk, terms.K)
    else:
        for run in range(trials.shape[0]):
            first, wanted = run * agents, trials[run, OPEN]
            for at in range(first, first + wanted):
                seats[offers[at, SEAT], OFFER] = offers[at, ARM]
            for at in range(first, list_acting(there, first, first + agents, t)):
                act_one(lanes, strategies, state, terms, sums, owed, acting_at(there, at), t)
            for at in range(first, first + wanted):
                seats[offers[at, SEAT], OFFER] = -1


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
    reward = pull_one(lanes, sums, owed, lane, terms.K)
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
    price = price_of(state.priced, lanes.streams, seats, terms, seat, offer, run)
    if not _reserve(state.priced, terms.pricing, run, price):
        return
    if answers is None or _takes(
        lanes, state, terms, answers, seat, seat % np.uint64(terms.agents), offer, price, clock
    ):
        arm[lane] = offered
    _note_answer(state.priced, terms, seat, offer, run, arm[lane] == offered, price)
    if answers is None or arm[lane] == offered:
        state.paid[seat, offer] += 1
        trials[run, PAID] += 1
    else:
        trials[run, REFUSED] += 1
        seats[seat, REFUSALS] += 1
        if seats[seat, REFUSALS] >= terms.ban_after:
            seats[seat, BANNED_UNTIL] = t + terms.ban_length


@jit
def post_prices(priced: Any) -> None:
    """Begin a step: the prices that answers have led to are those that are offered now."""
    if priced is not None:
        runs, groups, arms = priced.levels.shape
        for run in range(runs):
            priced.asked[run] = priced.spent[run]
            for group in range(groups):
                for k in range(arms):
                    priced.levels[run, group, k] = priced.later[run, group, k]


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
    best = np.uint64(0)
    top = -1.0
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
def _takes(
    lanes: Any, state: Any, terms: Any, answers: Any, seat: Any, m: Any, offer: Any, price: float, t: int
) -> bool:
    """Whether the agent takes the offer; the twin of `freepull.agents.answers`."""
    kinds, settings = answers
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
        own = settings[m, 0] + (settings[m, 1] - settings[m, 0]) * uniform(mix(key + _LOT + _STEP))
        takes = price >= settings[m, 2] * _true_loss(state.losses, seat, offer) + own
    return bool(takes)


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
def global_means(streams: Any, seats: Any, means: Any, weights: Any, weighted: bool, first: int) -> None:
    """The global sample means of a run afresh from its record, as `RuleState.mean` has them."""
    agents = weights.shape[0]
    for k in range(means.shape[0]):
        fixed, total = np.int64(0), 0.0
        for m in range(agents):
            position = np.uint64(seats[first + m, PLACE]) + np.uint64(k) * _W
            N = pulls_at(streams, position)
            if N > 0:
                fixed += fixed_mean(streams, position, N)
                total += weights[m] * streams.mean[position]
        means[k] = total if weighted else float(fixed) * 2.0**-40 / float(agents)


@jit
def take_stock(streams: Any, seats: Any, sums: Any) -> None:
    """Compute the sums over agents afresh from the record, where nobody kept them while observing."""
    arms, trials = sums.arms, sums.trials
    runs = trials.shape[0]
    K, agents = arms.shape[0] // (runs + 1), seats.shape[0] // runs
    arms[:, :UNPULLED] = 0
    arms[:, UNPULLED] = agents
    trials[:, UNSEEN] = agents * K
    for seat in range(seats.shape[0]):
        for k in range(K):
            position = np.uint64(seats[seat, PLACE]) + np.uint64(k) * _W
            N = pulls_at(streams, position)
            if N > 0:
                row = seat // agents * K + k
                sums.fixed[position] = fixed_mean(streams, position, N)
                arms[row, MEANS] += sums.fixed[position]
                arms[row, INVERSES] += sums.inverses[N]
                arms[row, UNPULLED] -= 1
                trials[seat // agents, UNSEEN] -= 1


@jit
def decide(streams: Any, state: Any, terms: Any, run: int, t: int) -> None:
    """Note that a run is decided; if runs end there, keep its record: its lanes play on only with their neighbours."""
    state.trials[run, DECIDED_AT] = t
    state.trials[run, OPEN] = 0
    if state.frozen.shape[0] == 0:
        return
    for seat in range(run * terms.agents, (run + 1) * terms.agents):
        for k in range(terms.K):
            position = np.uint64(state.seats[seat, PLACE]) + k * _W
            state.frozen[seat, k, 0] = pulls_at(streams, position)
            state.frozen[seat, k, 1] = units_at(streams, position)


class Owed(NamedTuple):
    """What streams owe to the rounds that are open."""

    targets: Ints
    """N at which a stream has given what the open round needs, by position; 0 if it owes nothing."""
    goals: Ints
    """The same where the stream is wanted, 0 elsewhere."""
    owing: Ints
    """Streams that still owe something, by run, or by run and arm; the last are for lanes that nobody plays."""
    run_of: Ints
    """The first entry of a lane's run in ``owing``."""
    stride: int
    """1 where every arm has rounds of its own, 0 where a round is of all arms."""
    most: Ints
    """Per seat, the arm that it owes most of and how much; arm −1 if that has to be found anew."""


@jit
def no_forecast(streams: Any, state: Any, terms: Any, own: Any, run: int, t: int) -> float:
    """The chance of a verdict under a rule that has no forecast."""
    return 1.0


def rounds_stepper(
    rule: str,
    begin: Callable[..., None],
    close: Callable[..., None],
    missing: Callable[..., Any],
    each_arm: bool,
    chance: Any = no_forecast,
) -> Any:
    """Return the kernel of a rule that goes by rounds, made of the rule's own functions.

    ``begin(streams, state, terms, own)`` opens the first round of every run, ``close(streams, state, terms, own, run,
    t)`` closes the rounds of a run that are full, ``missing(streams, state, terms, own, run)`` is w of an adaptive
    schedule, and ``chance(…, t)`` how likely a verdict in time is, where the rule forecasts that; ``own`` is what the
    rule keeps of all runs of a block, its `Owed` as ``own.owed``.
    """
    forecasts = chance is not no_forecast

    def step(
        lanes: Any, strategies: Any, state: Any, terms: Any, own: Any, after: int, until: int, begins: bool
    ) -> int:
        """Play the steps after+1…until under the rule; return the last one played. If told, open the first rounds.

        That is no function of its own, which would have to be compiled as well.
        """
        trials, slack, owed = state.trials, terms.slack, own.owed
        for t in range(after if begins else after + 1, until + 1):
            if t > after:
                act(lanes, strategies, state, terms, None, owed, t)
                if terms.each:
                    find_most_of_all(lanes, owed.goals, terms.K)
            else:
                begin(lanes.streams, state, terms, own)
            undecided = 0
            for run in range(trials.shape[0]):
                if trials[run, DECIDED_AT] == 0:
                    if t > after:
                        if some_round_is_full(owed.owing, run, terms.K) if each_arm else owed.owing[run] == 0:
                            close(lanes.streams, state, terms, own, run, t)
                        if slack > 0.0 and (forecasts or t < trials[run, KAPPA]) and looks(terms, t):
                            w = missing(lanes.streams, state, terms, own, run)
                            due = float(terms.horizon - t) <= slack * w
                            if forecasts:
                                due = due and 2 * t >= terms.horizon
                                trials[run, WAITS] = 0 if due else 1
                            trials[run, KAPPA] = min(t, trials[run, KAPPA]) if due else trials[run, KAPPA]
                        if terms.futility > 0.0 and t >= trials[run, KAPPA] and looks(terms, t):
                            hope = chance(lanes.streams, state, terms, own, run, t)
                            trials[run, FUTILE] = 1 if hope < terms.futility else 0
                    if trials[run, DECIDED_AT] == 0:
                        undecided += 1
                        if t >= trials[run, KAPPA]:
                            if trials[run, WAITS] + trials[run, FUTILE] == 0:
                                choose_offers(lanes, state, terms, owed, run, t)
                            else:
                                hold(state, owed, run, terms.agents)
            if undecided == 0:
                return t
        return until

    step.__qualname__ = f"{rule}_step"
    return jit(step)


@jit
def hold(state: Any, owed: Any, run: int, agents: int) -> None:
    """Offer nothing in the coming step."""
    state.trials[run, OPEN] = 0
    for seat in range(run * agents, (run + 1) * agents):
        owed.most[seat, 0] = -1


@jit
def some_round_is_full(owing: Any, run: int, K: Any) -> bool:
    """Whether all agents have given what the open round of some arm needs."""
    full = False
    for k in range(np.uint64(run) * K, np.uint64(run) * K + K):
        full = full or owing[k] == 0
    return full


@jit
def choose_offers(lanes: Any, state: Any, terms: Any, owed: Any, run: int, t: int) -> None:
    """Fix who is offered what in step t + 1: the streams that are furthest below their targets."""
    seats, offers, trials, most, agents = state.seats, state.offers, state.trials, owed.most, terms.agents
    first = run * agents
    trials[run, OPEN] = 0
    room = terms.affordable - trials[run, PAID]
    if room < 1:
        return
    found = first
    highest, lowest = np.int64(0), np.int64(0)
    for seat in range(first, first + agents):
        if seats[seat, BANNED_UNTIL] <= t:
            own, lane = most[seat, 0], seats[seat, LANE]
            if own < 0 or (lanes.there is None and own == lanes.arm[lane]):
                if terms.each and own >= 0:
                    most[seat, 0], most[seat, 1] = lanes.wanted[lane], lanes.lacks[lane]
                else:
                    find_most(lanes.streams, seats, owed.goals, most, seat, terms.K)
            amount, own = most[seat, 1], most[seat, 0]
            if terms.each:
                if amount > 0:
                    offers[found, SEAT], offers[found, ARM], offers[found, NEED] = seat, own, amount
                    found += 1
            elif amount > highest or (amount == highest and amount > 0 and own < lowest):
                offers[first, SEAT], offers[first, ARM] = seat, own
                highest, lowest = amount, own
        else:
            most[seat, 0] = -1
    if terms.each:
        trials[run, OPEN] = keep_neediest(offers, first, found, room)
    elif highest > 0:
        trials[run, OPEN] = 1


@jit
def find_most_of_all(lanes: Any, goals: Any, K: Any) -> None:
    """Of which arm every lane owes most, and how much, sixteen lanes at once; ties: the lowest arm."""
    if lanes.there is None:
        for chunk in range(np.uint64(lanes.arm.shape[0]) // _W):
            most_owed(goals, lanes.streams.cells, chunk * K * _W, K, lanes.wanted, lanes.lacks, chunk * _W)


@jit
def find_most(streams: Any, seats: Any, goals: Any, most: Any, seat: int, K: Any) -> None:
    """Of which arm the agent owes most, and how much; ties: the lowest arm."""
    place = np.uint64(seats[seat, PLACE])
    highest, arm = np.int64(0), np.int64(0)
    for k in range(K):
        amount = goals[place + k * _W] - pulls_at(streams, place + k * _W)
        arm = np.int64(k) if amount > highest else arm
        highest = max(amount, highest)
    most[seat, 0], most[seat, 1] = arm, highest


@jit
def lacking(streams: Any, seats: Any, weights: Any, needed: Any, each: bool, first: int) -> Any:
    """w: Σ (n_k − N_km)⁺ over all agents with a weight ("one"), or the most of one agent ("each")."""
    total, most = 0.0, 0.0
    for m in range(weights.shape[0]):
        own = 0.0
        if weights[m] > 0.0:
            place = np.uint64(seats[first + m, PLACE])
            for k in range(needed.shape[0]):
                own += max(needed[k] - float(pulls_at(streams, place + np.uint64(k) * _W)), 0.0)
        total += own
        most = max(most, own)
    return most if each else total


class RoundsKernel:
    """How a block is driven under a rule that goes by rounds; a rule adds its books and its own compiled functions."""

    proven = True
    silent_until = 0
    each_arm = False
    """Whether every arm has rounds of its own."""
    step: Any
    """What `rounds_stepper` made."""

    rule: Any

    def __init__(self, experiment: Experiment, coded: Coded) -> None:
        self.rule, self.terms = experiment.principal.rule, coded.terms

    def books(self, block: Block, owed: Owed) -> Any:
        """Return what the rule keeps of all runs of a block."""
        raise NotImplementedError

    def begin(self, block: Block) -> None:
        """Open the first rounds, and fix the first offers if the time for them has come."""
        block.own = self.books(block, self._owed(block))
        self._play(block, block.t, begins=True)

    def advance(self, block: Block, until: int) -> int:
        """Play on to a step; return the last one played."""
        return self._play(block, until, begins=False)

    def _play(self, block: Block, until: int, begins: bool) -> int:
        b = block
        return int(self.step(b.lanes, b.strategies, b.state, self.terms, b.own, b.t, until, begins))

    def _owed(self, block: Block) -> Owed:
        """Return what is owed before any round is open."""
        (M, K), B = block.experiment.shape, len(block.runs)
        width = K if self.each_arm else 1
        targets: Ints = np.zeros(len(block.lanes.streams.mean), np.int64)
        goals = np.zeros_like(targets) if self.each_arm else targets
        owing: Ints = np.zeros((B + 1) * width, np.int64)
        run_of = block.by_lane(np.arange(B) * width, B * width)
        return Owed(targets, goals, owing, run_of, int(self.each_arm), most=np.full((B * M, 2), -1))
