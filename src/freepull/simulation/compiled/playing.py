"""What the sixteen lanes of a chunk pick for themselves, strategy by strategy, and pull; the twin of `freepull.agents`.

Where rewards are coins, or nobody plays KL-UCB or Thompson sampling, a field of the named tuples is None: Numba then
leaves out, and does not compile, what is not needed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freepull.compiling import jit, jit_apart
from freepull.numerics import (
    beta_draw,
    exploration,
    kl_budget,
    kl_index_about,
    kl_index_near,
    mix,
    normal_edges,
    reward_units,
    uniform,
    uniform_open,
)
from freepull.randomness import ARM, ATTEMPT, CHOICE_ARM, CHOICE_COIN, STEP
from freepull.simulation.compiled.coding import ALPHA_UCB, BY_INDEX, EPSILON_GREEDY, GREEDY, KL_UCB, ROUND_ROBIN
from freepull.simulation.compiled.few import step_few
from freepull.simulation.compiled.formulas import (
    NOTHING,
    count_by_formula,
    learn_by_formula,
    pick_by_formula,
    pick_one_by_formula,
)
from freepull.simulation.compiled.lanes import (
    WIDTH,
    divide_chunk,
    first_largest,
    kl_indices_about,
    toss_chunk,
)
from freepull.simulation.compiled.state import CHOICES, INVERSES, KIND, MEANS, REWARDS, ROW, UNPULLED, UNSEEN
from freepull.simulation.compiled.world import (
    arm_of,
    clock_of,
    count_act,
    due,
    fate,
    is_there,
    keep,
    level_of,
    put_off,
    recalled,
    reward_of,
    shift_of,
    units_of,
)

_ARM, _STEP, _ATTEMPT, _W = np.uint64(ARM), np.uint64(STEP), np.uint64(ATTEMPT), np.uint64(WIDTH)
_ONE, _TWO, _11, _32, _LOW = np.uint64(1), np.uint64(2), np.uint64(11), np.uint64(32), np.uint64(0xFFFFFFFF)
_COIN, _WHICH = np.uint64(ARM * CHOICE_COIN % (1 << 64)), np.uint64(ARM * CHOICE_ARM % (1 << 64))
_55 = np.uint64(55)
_LIFT, _CLOSE = 1e-8, 4e-9
EDGES = normal_edges(512)
"""Between which two of these a normal variate lies follows from the first nine bits of its word…"""
FOURTHS = np.maximum(EDGES[:-1] ** 4, EDGES[1:] ** 4)
"""…and what its fourth power is at most."""


@jit
def pulls_at(streams: Any, position: Any) -> Any:
    """N of the stream at a position."""
    word = streams.cells[position + position]
    if streams.laws is None:
        return np.int64(word & _LOW)
    return np.int64(word)


@jit
def units_at(streams: Any, position: Any) -> Any:
    """S of the stream at a position, in units of 2⁻³⁰."""
    at = position + position
    if streams.laws is None:
        return np.int64(streams.cells[at] >> _32) << 30
    return np.int64(streams.cells[at + _ONE])


@jit
def pick_chunk(lanes: Any, strategies: Any, chunk: Any, K: Any, t: int) -> None:
    """Write what every lane of the chunk picks at step t."""
    mean, root, arm = lanes.streams.mean, lanes.root, lanes.arm
    kind, setting = strategies.chunks[chunk, KIND], strategies.settings[chunk]
    base, first = chunk * K * _W, chunk * _W
    if kind == ALPHA_UCB:
        row = strategies.chunks[chunk, ROW]
        s = strategies.tables[row, t] if row >= 0 else exploration(setting, t)
        first_largest(mean, root, base, K, s, arm, first)
    elif kind in (GREEDY, EPSILON_GREEDY):
        first_largest(mean, root, base, K, 0.0, arm, first)
        if kind == EPSILON_GREEDY:
            epsilon = min(1.0, setting * float(K) / float(t))
            for lane in range(_W):
                _explore(lanes, first + lane, base + lane, epsilon, K, t)
    elif kind == ROUND_ROBIN:
        for lane in range(_W):
            arm[first + lane] = (t - 1) % np.int64(K)
    elif kind >= BY_INDEX:
        pick_by_formula(lanes, lanes.formulas, kind, chunk, K, t)
    else:
        _pick_deeply(lanes, strategies.deep, kind, setting, chunk, K, t)


@jit
def pick_one(lanes: Any, strategies: Any, lane: Any, K: Any, t: int) -> None:
    """Write what one lane picks at its step t, as `pick_chunk` does for sixteen."""
    chunk = lane // _W
    at = chunk * K * _W + lane % _W
    kind, setting = strategies.chunks[chunk, KIND], strategies.settings[chunk]
    if kind == ALPHA_UCB:
        row = strategies.chunks[chunk, ROW]
        s = strategies.tables[row, t] if row >= 0 else exploration(setting, t)
        lanes.arm[lane] = _largest(lanes.streams.mean, lanes.root, at, K, s)
    elif kind in (GREEDY, EPSILON_GREEDY):
        lanes.arm[lane] = _largest(lanes.streams.mean, lanes.root, at, K, 0.0)
        if kind == EPSILON_GREEDY:
            _explore(lanes, lane, at, min(1.0, setting * float(K) / float(t)), K, t)
    elif kind == ROUND_ROBIN:
        lanes.arm[lane] = (t - 1) % np.int64(K)
    elif kind >= BY_INDEX:
        pick_one_by_formula(lanes, lanes.formulas, kind, lane, at, K, t)
    else:
        _pick_one_deeply(lanes, strategies.deep, kind, setting, lane, at, K, t)


@jit
def _largest(mean: Any, root: Any, at: Any, K: Any, s: float) -> Any:
    """`lanes.first_largest` for one lane."""
    top, best = mean[at] + s * root[at], np.int64(0)
    for k in range(np.uint64(1), K):
        value = mean[at + k * _W] + s * root[at + k * _W]
        if value > top:
            top, best = value, np.int64(k)
    return best


@jit
def _explore(lanes: Any, lane: Any, at: Any, epsilon: float, K: Any, t: int) -> None:
    """ε-greedy: pick any arm instead, if every arm was pulled and the coin says so."""
    arm = lanes.arm
    if lanes.streams.mean[at + np.uint64(arm[lane]) * _W] < math.inf:
        counter = lanes.streams.keys[CHOICES, lane] + _STEP * np.uint64(t)
        if uniform(mix(counter + _COIN)) < epsilon:
            arm[lane] = np.int64(uniform(mix(counter + _WHICH)) * float(K))


@jit
def _pick_one_deeply(lanes: Any, deep: Any, kind: int, setting: float, lane: Any, at: Any, K: Any, t: int) -> None:
    """KL-UCB or Thompson sampling for one lane, if somebody plays one of them."""
    if deep is not None:
        streams, arm = lanes.streams, lanes.arm
        if kind == KL_UCB:
            budget, last = kl_budget(setting, t), np.uint64(arm[lane])
            own = _kl_fresh(streams, deep, at + last * _W, budget)
            best = _largest(deep[0], deep[1], at, K, budget)
            arm[lane] = _kl_ucb(streams, deep, at, K, budget, np.uint64(best), last, own)
        else:
            arm[lane] = _thompson(streams, deep, at, K, streams.keys[CHOICES, lane], t, np.uint64(arm[lane]))


@jit
def _pick_deeply(lanes: Any, deep: Any, kind: int, setting: float, chunk: Any, K: Any, t: int) -> None:
    """KL-UCB or Thompson sampling for the lanes of a chunk, if somebody plays one of them."""
    if deep is not None:
        base, first = chunk * K * _W, chunk * _W
        if kind == KL_UCB:
            _kl_ucb_chunk(lanes, deep, base, first, K, kl_budget(setting, t))
        else:
            for lane in range(_W):
                key, last = lanes.streams.keys[CHOICES, first + lane], np.uint64(lanes.arm[first + lane])
                lanes.arm[first + lane] = _thompson(lanes.streams, deep, base + lane, K, key, t, last)


@jit
def _kl_ucb_chunk(lanes: Any, deep: Any, base: Any, first: Any, K: Any, budget: float) -> None:
    """KL-UCB for the lanes of a chunk.

    ``deep`` keeps for every stream a line above its index as a function of the budget: the index is concave in it, so
    its tangent is one until the arm is pulled again. Only the arm pulled last has no line yet; an unpulled arm's is
    infinitely high. The highest line is where to look first.
    """
    streams, arm, last, own = lanes.streams, lanes.arm, lanes.words, lanes.work
    for lane in range(_W):
        last[lane] = np.uint64(arm[first + lane])
        position = base + last[lane] * _W + lane
        own[_W + lane], own[_W + _W + lane] = streams.mean[position], float(pulls_at(streams, position))
    kl_indices_about(own, budget)
    for lane in range(_W):
        position = base + last[lane] * _W + lane
        if own[lane] == own[lane]:
            _kl_keep(deep, position, own[_W + lane], own[_W + _W + lane], budget, own[lane])
        else:
            own[lane] = _kl_fresh(streams, deep, position, budget)
    first_largest(deep[0], deep[1], base, K, budget, arm, first)
    for lane in range(_W):
        best = np.uint64(arm[first + lane])
        arm[first + lane] = _kl_ucb(streams, deep, base + lane, K, budget, best, last[lane], own[lane])


@jit
def _kl_fresh(streams: Any, deep: Any, position: Any, budget: float) -> float:
    """The index of the arm pulled last, whose line is drawn anew; infinite if it was never pulled."""
    return _kl_line(streams, deep, position, budget, 0.0) if streams.mean[position] < math.inf else math.inf


@jit
def _kl_ucb(streams: Any, deep: Any, at: Any, K: Any, budget: float, best: Any, last: Any, own: float) -> Any:
    """The arm with the largest KL index, computed only for arms that could have it; ``best`` has the highest line.

    ``own`` is about the index of ``last``, the arm pulled last. Where two are too close to tell, the exact ones decide.
    """
    heights, slopes = deep
    if streams.mean[at + best * _W] == math.inf:
        return np.int64(best)
    line = heights[at + best * _W] + slopes[at + best * _W] * budget
    top = own if best == last else _kl_line(streams, deep, at + best * _W, budget, line - _LIFT)
    tried = best
    for k in range(K):
        line = heights[at + k * _W] + slopes[at + k * _W] * budget
        if k != tried and line >= top - _CLOSE:
            index = own if k == last else _kl_line(streams, deep, at + k * _W, budget, line - _LIFT)
            if index > top + _CLOSE or (index >= top - _CLOSE and _kl_wins(streams, at, k, best, budget)):
                top, best = index, k
    return np.int64(best)


@jit_apart
def _kl_wins(streams: Any, at: Any, k: Any, best: Any, budget: float) -> bool:
    """Whether arm k has the larger KL index to the last bit, or the same and the lower number."""
    here, there = at + k * _W, at + best * _W
    if pulls_at(streams, here) == pulls_at(streams, there) and streams.mean[here] == streams.mean[there]:
        return bool(k < best)
    index = kl_index_near(streams.mean[here], float(pulls_at(streams, here)), budget, 0.0)
    other = kl_index_near(streams.mean[there], float(pulls_at(streams, there)), budget, 0.0)
    return bool(index > other or (index == other and k < best))


@jit
def _kl_line(streams: Any, deep: Any, position: Any, budget: float, near: float) -> float:
    """About the stream's KL index at this budget; its tangent is kept as the line."""
    own, pulls = streams.mean[position], float(pulls_at(streams, position))
    index = kl_index_about(own, pulls, budget, near)
    _kl_keep(deep, position, own, pulls, budget, index)
    return index


@jit
def _kl_keep(deep: Any, position: Any, own: float, pulls: float, budget: float, index: float) -> None:
    """Keep the tangent of a stream's index, lifted by more than the index is off."""
    heights, slopes = deep
    slope = index * (1.0 - index) / (pulls * (index - own)) if index > own else 0.0
    heights[position] = index + _LIFT - slope * budget if index > own or own == 1.0 else 1.0
    slopes[position] = slope


@jit
def _thompson(streams: Any, deep: Any, at: Any, K: Any, key: Any, t: int, last: Any) -> Any:
    """The arm with the largest draw from its Beta belief, ties: the lowest; drawn only for arms that could have it.

    ``last`` was pulled last: it is drawn for first, as it is likely to have it again. ``deep`` keeps 1/√(9d) of both
    Gammas of every stream, infinite before the first draw.
    """
    key = mix(key + _STEP * np.uint64(t))
    best, top = last, _belief(streams, deep, at + last * _W, key + _ARM * last)
    for k in range(K):
        if k != last and _may_exceed(streams, deep, at + k * _W, key + _ARM * k, top):
            draw = _belief(streams, deep, at + k * _W, key + _ARM * k)
            if draw > top or (draw == top and k < best):
                top, best = draw, k
    return np.int64(best)


@jit
def _belief(streams: Any, deep: Any, position: Any, key: Any) -> float:
    """A draw from Beta(1 + S, 1 + N − S)."""
    S = float(units_at(streams, position)) * 2.0**-30
    N = float(pulls_at(streams, position))
    deep[0][position] = 1.0 / math.sqrt(9.0 * (1.0 + S - 1.0 / 3.0))
    deep[1][position] = 1.0 / math.sqrt(9.0 * (1.0 + (N - S) - 1.0 / 3.0))
    return beta_draw(1.0 + S, 1.0 + (N - S), key)


@jit
def _may_exceed(streams: Any, deep: Any, position: Any, key: Any, top: float) -> bool:
    """Whether the draw of a stream could reach ``top``: from bounds of the two normal variates that it is made of.

    Both Gammas are d·(1 + z/√(9d))³ of their first attempt, if these are accepted. A draw X/(X + Y) that reaches top
    has X·(1 − top) ≥ Y·top; what is added to 1 − top is more than any rounding.
    """
    S = float(units_at(streams, position)) * 2.0**-30
    d = S + 2.0 / 3.0
    e = float(pulls_at(streams, position)) - S + 2.0 / 3.0
    other = key + _ATTEMPT
    word, rival = mix(key), mix(other)
    bin, low = word >> _55, rival >> _55
    c, v = 1.0 + deep[0][position] * EDGES[bin + _ONE], 1.0 + deep[1][position] * EDGES[low]
    if not d * (c * c * c) * (1.0 - top + 1e-11) < e * (v * v * v) * top:
        return True
    return not (
        _is_accepted(d, 1.0 + deep[0][position] * EDGES[bin], FOURTHS[bin], mix(key + _STEP))
        and _is_accepted(e, v, FOURTHS[low], mix(other + _STEP))
    )


@jit
def _is_accepted(d: float, v: float, fourth: float, word: Any) -> bool:
    """Whether `gamma_draw` surely accepts its first attempt.

    It accepts with probability exp(z²/2 + d(1 − v³ + 3·log v)), v = 1 + x and x = z/√(9d). By the series of the
    logarithm that is at least 1 − z⁴/(108d) for x ≥ 0, and 1 − z⁴/(108d(1 + x)) for −1 < x < 0. ``v`` is the least that
    1 + x may be, ``fourth`` the most that z⁴ may be.
    """
    return v > 0.01 and (1.0 - uniform_open(word)) * (107.9 * d) * min(v, 1.0) > fourth


@jit
def pull_chunk(lanes: Any, sums: Any, owed: Any, chunk: Any, K: Any, t: int) -> None:
    """Pull what the lanes have chosen: gather their streams, draw and divide for all together, and put them back.

    ``sums`` is None, or what it takes to keep the sums over agents up to date; ``owed`` is None, or what it takes to
    know when a round is full. In a disturbed world the lanes pull one by one.
    """
    if lanes.world.disturbed == 1:
        for lane in range(chunk * _W, chunk * _W + _W):
            pull_one(lanes, sums, owed, lane, K, t)
            deliver(lanes, sums, owed, lane, K, t)
        return
    streams, arm, words, work = lanes.streams, lanes.arm, lanes.words, lanes.work
    cells, keys, laws = streams.cells, streams.keys, streams.laws
    first, base = chunk * _W, chunk * K * _W
    for lane in range(_W):
        own = np.uint64(arm[first + lane])
        at = (base + own * _W + lane) * _TWO
        if laws is None:
            words[lane] = cells[at]
            words[_W + lane] = cells[at + _ONE]
        else:
            N = cells[at] + _ONE
            random = mix(keys[REWARDS, first + lane] + _ARM * own + _STEP * N)
            cells[at + _ONE] += np.uint64(_drawn(laws, first + lane, own, random))
            words[lane] = N
            work[lane] = float(np.int64(N))
            work[_W + lane] = float(np.int64(cells[at + _ONE])) * 2.0**-30
    if laws is None:
        toss_chunk(words, keys, arm, first, work)
    else:
        divide_chunk(work)
    for lane in range(_W):
        own = np.uint64(arm[first + lane])
        position = base + own * _W + lane
        cells[position + position] = words[lane]
        lanes.root[position] = work[lane]
        streams.mean[position] = work[_W + lane]
        _enter(streams, sums, owed, position, first + lane, own, words[lane] & _LOW)
    if lanes.formulas.notes[chunk] != 0:
        for lane in range(_W):
            own = np.uint64(arm[first + lane])
            _learn(lanes, base + own * _W + lane, first + lane, own, K)
    elif lanes.formulas.keeps[chunk] != NOTHING:
        count_by_formula(lanes.formulas, cells, laws, arm, chunk, K)


@jit
def _enter(streams: Any, sums: Any, owed: Any, position: Any, lane: Any, own: Any, N: Any) -> None:
    """Enter a stream's N-th pull into what is kept over agents."""
    if sums is not None:
        _add_up(streams, sums, position, lane, own, N)
    if owed is not None and np.int64(N) == owed.targets[position]:
        owed.owing[owed.run_of[lane]] -= 1


@jit
def pull_one(lanes: Any, sums: Any, owed: Any, lane: Any, K: Any, t: int) -> Any:
    """Pull what one lane has chosen, as `pull_chunk` does for sixteen; return the reward in units of 2⁻³⁰."""
    streams, own = lanes.streams, np.uint64(lanes.arm[lane])
    position = (lane // _W * K + own) * _W + lane % _W
    N = pulls_at(streams, position) + 1
    shift = shift_of(lanes.world, lane, own, t) if lanes.world.disturbed == 1 else 0.0
    reward = _draw(streams, position, lane, own, N, shift)
    _count(streams, lanes.root, position, reward)
    if lanes.world.disturbed == 1:
        _report(lanes, sums, owed, position, lane, own, reward, t)
    else:
        _enter(streams, sums, owed, position, lane, own, np.uint64(N))
    if lanes.formulas.keeps[lane // _W] != NOTHING:
        _learn(lanes, position, lane, own, K)
    return reward


@jit
def _count(streams: Any, root: Any, position: Any, reward: Any) -> None:
    """Count a pull and its reward in the record of its stream."""
    at = position + position
    if streams.laws is None:
        streams.cells[at] += _ONE + (np.uint64(reward >> 30) << _32)
    else:
        streams.cells[at] += _ONE
        streams.cells[at + _ONE] += np.uint64(reward)
    N = float(pulls_at(streams, position))
    root[position] = 1.0 / math.sqrt(N)
    streams.mean[position] = float(units_at(streams, position)) * 2.0**-30 / N


@jit
def _report(lanes: Any, sums: Any, owed: Any, position: Any, lane: Any, own: Any, reward: Any, t: int) -> None:
    """Tell of a pull in step t: now, later or never."""
    world = lanes.world
    delay = fate(world, lane, t)
    world.offered[lane] = 0
    if delay == 0:
        world.spoke[lane] = t
        _tell(lanes, sums, owed, position, lane, own, reward)
    elif delay > 0:
        put_off(world, lane, own, reward, t)


@jit
def _tell(lanes: Any, sums: Any, owed: Any, position: Any, lane: Any, own: Any, reward: Any) -> None:
    """Enter a pull into what the principal knows."""
    told = lanes.told
    if lanes.world.defers == 1:
        _count(told, lanes.told_root, position, reward)
        lanes.world.asking[lane] = 0
    keep(told.history, position, lane, reward)
    _enter(told, sums, owed, position, lane, own, np.uint64(pulls_at(told, position)))


@jit
def deliver(lanes: Any, sums: Any, owed: Any, lane: Any, K: Any, t: int) -> Any:
    """Tell what is due of a lane in step t; return it, 0 if nothing is."""
    if lanes.world.defers == 0:
        return np.int64(0)
    report = due(lanes.world, lane, t)
    if report != 0:
        own = arm_of(report)
        _tell(lanes, sums, owed, (lane // _W * K + own) * _W + lane % _W, lane, own, reward_of(report))
    return report


@jit
def _learn(lanes: Any, position: Any, lane: Any, own: Any, K: Any) -> None:
    """Let a lane that picks by a formula note its pull."""
    N, units = pulls_at(lanes.streams, position), units_at(lanes.streams, position)
    learn_by_formula(lanes.formulas, position, lane, own, K, N, units)


@jit
def _add_up(streams: Any, sums: Any, position: Any, lane: Any, own: Any, N: Any) -> None:
    """Move Σ⌊2⁴⁰/N⌋ and Σ⌊2⁴⁰·S/N⌋ of the lane's run by what this pull changed."""
    arms, trials = sums.arms, sums.trials
    row = np.uint64(sums.owner[lane]) + own
    now = fixed_mean(streams, position, np.int64(N))
    arms[row, MEANS] += now - sums.fixed[position]
    arms[row, INVERSES] += sums.inverses[N] - sums.inverses[N - _ONE]
    sums.fixed[position] = now
    if N == _ONE:
        arms[row, UNPULLED] -= 1
        run = sums.owner[lane] // (arms.shape[0] // (trials.shape[0] + 1))
        if run < trials.shape[0]:
            trials[run, UNSEEN] -= 1


@jit
def reward_at(streams: Any, position: Any, lane: Any, arm: Any, n: int) -> Any:
    """The n-th reward of a lane's arm, in units of 2⁻³⁰: drawn again from its stack, or as it was told."""
    if streams.history.kept == 1:
        return recalled(streams.history, position, lane, n)
    return _draw(streams, position, lane, np.uint64(arm), n, 0.0)


@jit
def _draw(streams: Any, position: Any, lane: Any, arm: Any, n: int, shift: float) -> Any:
    """The n-th reward on the stack of a lane's arm, its mean moved, in units of 2⁻³⁰."""
    word = mix(streams.keys[REWARDS, lane] + _ARM * arm + _STEP * np.uint64(n))
    if streams.laws is None:
        return np.int64((word >> _11) < level_of(streams.cells[position + position + _ONE], shift)) << 30
    return units_of(_drawn(streams.laws, lane, arm, word), shift)


@jit
def _drawn(laws: Any, lane: Any, arm: Any, word: Any) -> Any:
    """The reward that a random word stands for, in units of 2⁻³⁰, unless rewards are coins."""
    if laws is None:
        return np.int64(0)
    law, parameters, levels, values = laws
    return np.int64(reward_units(law, parameters[lane, arm], levels, values, word))


@jit
def fixed_mean(streams: Any, position: Any, N: Any) -> Any:
    """⌊2⁴⁰·S/N⌋, from the rounded quotient and its exact remainder."""
    quotient = np.int64(streams.mean[position] * 2.0**40)
    rest = (units_at(streams, position) << 10) - quotient * N
    return quotient + np.int64(rest >= N) - np.int64(rest < 0)


@jit
def step_at_once(lanes: Any, strategies: Any, offers: Any, chunk: Any, run: Any, m: Any, K: Any, t: int) -> None:
    """`pick_chunk` and `pull_chunk` in one, of α-UCB with few arms of coins, whose cells are on the desk.

    ``offers`` is None, or those to agent m in the sixteen runs from ``run`` on.
    """
    streams, row = lanes.streams, strategies.chunks[chunk, ROW]
    s = strategies.tables[row, t] if row >= 0 else exploration(strategies.settings[chunk], t)
    step_few(streams.mean, lanes.root, lanes.desk, streams.keys, offers, chunk, K, run, m, s)


@jit
def observe(lanes: Any, strategies: Any, K: Any, after: int, until: int) -> None:
    """Play the steps after+1…until, in which no rule looks.

    Two chunks take turns, so that what one has stored is in the cache before it is loaded again as a vector; four where
    there are few arms, so that one need not wait for the other's root.
    """
    _observe(lanes.there, lanes.desk, lanes, strategies, K, after, until)


@jit
def _observe(there: Any, desk: Any, lanes: Any, strategies: Any, K: Any, after: int, until: int) -> None:
    if there is not None:
        for seat in range(there.limits.shape[0]):
            lane = np.uint64(there.lanes[seat])
            for t in range(after + 1, until + 1):
                if is_there(there, seat, t):
                    pick_one(lanes, strategies, lane, K, clock_of(there, seat, t))
                    count_act(there, seat, pull_one(lanes, None, None, lane, K, t))
                deliver(lanes, None, None, lane, K, t)
        return
    last, begun = np.uint64(strategies.chunks.shape[0]), np.uint64(0)
    apart = False
    if desk is not None:
        apart = desk.shape[0] > 0
    while begun < last:
        end = begun
        if desk is not None and apart:
            while end < min(begun + np.uint64(4), last) and strategies.chunks[end, KIND] == ALPHA_UCB:
                end += _ONE
            for t in range(after + 1, until + 1):
                for chunk in range(begun, end):
                    step_at_once(lanes, strategies, None, chunk, chunk, chunk, K, t)
        if end == begun:
            end += _ONE
            if end < last and not (apart and strategies.chunks[end, KIND] == ALPHA_UCB):
                end += _ONE
            for t in range(after + 1, until + 1):
                for chunk in range(begun, end):
                    pick_chunk(lanes, strategies, chunk, K, t)
                    pull_chunk(lanes, None, None, chunk, K, t)
        begun = end
