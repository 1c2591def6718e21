"""The evaluation of a filled round: fresh samples meet the bets that were fixed before them (docs/certified.md).

The only place where the samples of a round are read.
"""

from __future__ import annotations

import math
from typing import Any

from freepull.compiling import jit
from freepull.principal.rules.certified.books import (
    INFORMATION,
    LEVEL,
    MEAN,
    NOISE,
    RIVAL,
    ROUNDS,
    STRENGTH,
    TESTED,
    VALUES,
    VARIANCE,
    leaders,
)
from freepull.principal.rules.certified.design import noise, prediction
from freepull.principal.rules.rounds import REACH, SCORE

LARGEST_BET = 0.6
"""e·a·u never exceeds this; ψ needs it below 1."""
NEGLIGIBLE = 1e-12
"""A bet that holds less than this share of its account is given up, which can only weaken the evidence."""
LEAST_COST, MOST_COST = 1.0, 4.0
"""By how much the log of the evidence falls short of z²/2, as is expected of what is to come."""
LARGEST = 0
Y, V, PULLS, ERRORS, AGENTS, WEIGHTED, WEIGHTED_NOISE, OWN, NOISES, NOISES_OF_MEANS, SQUARES = range(2, VALUES)
"""Columns of ``Measure.values``: the largest a·u as a rival and as the tested arm, Y, V; then Σ U, Σ Q, how many
agents, Σ p·S/U, Σ p²·σ̂²/U, Σ S/U, Σ σ̂², Σ σ̂²/U, Σ (S/U − their mean)²."""


@jit
def evaluate(used: Any, coming: Any, fill: Any, measure: Any, constants: Any) -> None:
    """Multiply every account by what the round's samples paid, and enter the samples into the used ones.

    All of it at once. Whoever does it in slices calls the same functions in the same order for tiles, which are ranges
    of arms and agents (first arm, last, first agent, last); sums over agents go on where they were, so the result is
    the same to the bit. A `Fill` has only the streams of the tile.
    """
    K, M = used.pulls.shape
    everything = (0, K, 0, M)
    clear(measure)
    measure_streams(used, coming, fill, measure, constants, everything)
    pay_out(used, coming, measure, constants, 0, K)
    note_round(used, coming, measure)
    absorb(used, coming, fill, measure, everything)
    note_errors(used, measure)
    describe(used, coming, measure, constants, everything)
    if constants.shrink:
        spread(used, coming, measure, everything)
    note_description(used, measure, constants)


@jit
def clear(measure: Any) -> None:
    """Begin all sums at 0."""
    for k in range(measure.values.shape[0]):
        for q in range(10):
            measure.powers[k, RIVAL, q] = measure.powers[k, TESTED, q] = 0.0
            measure.lost[k, RIVAL, q] = measure.lost[k, TESTED, q] = 0.0
        for column in range(VALUES):
            measure.values[k, column] = 0.0


@jit
def measure_streams(used: Any, coming: Any, fill: Any, measure: Any, constants: Any, tile: Any) -> None:
    """Y_k, V_k, the largest a_km·u_km and the power sums Σ_m B_km·a_km^{q−2}·u_km^q, with u_km = p_m/b_km.

    a is how far a reward can fall short of what was expected: a rival's by x̂, the tested arm's, which counts with a
    minus, by 1 − x̂. What the evidence is made of is summed as by Kahan, so that its rounding does not grow with M.
    """
    kept = 1.0 if constants.rules > 1 else 0.0
    for k in range(tile[0], tile[1]):
        if used.active[k] == 1:
            for m in range(tile[2], tile[3]):
                if coming.blocks[k, m] > 0:
                    b = float(coming.blocks[k, m])
                    u = constants.weights[m] / b
                    own = u * fill.sums[k - tile[0], m - tile[2]]
                    measure.values[k, Y], measure.lost[k, RIVAL, 0] = _added(
                        measure.values[k, Y], measure.lost[k, RIVAL, 0], own, kept
                    )
                    measure.values[k, V] += u * u * b * noise(used, k, m)
                    expected = prediction(used, k, m)
                    for part in range(2):
                        a = 1.0
                        if constants.rules > 1:
                            a = expected if part == RIVAL else 1.0 - expected
                        reach = a * u
                        measure.values[k, LARGEST + part] = max(measure.values[k, LARGEST + part], reach)
                        power = u * fill.errors[k - tile[0], m - tile[2]] * u
                        for q in range(2, 10):
                            measure.powers[k, part, q], measure.lost[k, part, q] = _added(
                                measure.powers[k, part, q], measure.lost[k, part, q], power, kept
                            )
                            power *= reach


@jit
def _added(total: float, lost: float, term: float, kept: float) -> Any:
    """A sum with one more term, and what it lost in rounding, unless that is not kept (0)."""
    rest = term - lost
    new = total + rest
    return new, kept * ((new - total) - rest)


@jit
def pay_out(used: Any, coming: Any, measure: Any, constants: Any, first: int, last: int) -> None:
    """Multiply the accounts against a range of arms by what the round paid."""
    for k in range(first, last):
        if used.active[k] == 1:
            _pay_out(used, coming, measure, constants, k)


@jit
def _pay_out(used: Any, coming: Any, measure: Any, constants: Any, k: int) -> None:
    """C_k[j, i] ← C_k[j, i]·exp(e·(Y_j − Y_k − x) − Σ_m ψ_a(e·u_jm)·B_jm − Σ_m ψ_a(e·u_km)·B_km).

    ψ_a(u) = ψ(au)/a², ψ(u) = −log(1−u) − u, is bounded from above by its series to u⁸ and u⁹·a⁷/(9(1−au)), so that
    the sums over agents are power sums, the same for all bets.
    """
    for x in range(constants.margins.shape[0]):
        measure.totals[x] = evidence(coming, x, k)
    for j in range(used.active.shape[0]):
        if used.active[j] == 0 or j == k:
            continue
        largest = max(measure.values[j, LARGEST + RIVAL], measure.values[k, LARGEST + TESTED])
        spread = measure.values[j, V] + measure.values[k, V]
        ahead = measure.values[j, Y] - measure.values[k, Y]
        for i in range(constants.gaps.shape[0]):
            counts = False
            for x in range(constants.margins.shape[0]):
                asked = x == constants.decides or constants.rules == 1
                counts = counts or (asked and coming.capital[x, k, j, i] > NEGLIGIBLE * measure.totals[x])
            if not counts:
                for x in range(constants.margins.shape[0]):
                    coming.capital[x, k, j, i] = 0.0
            nearly = _bets_on_near(coming, constants, k, j, i)
            if not counts and not nearly:
                continue
            e = min(constants.gaps[i] / spread, LARGEST_BET / largest)
            paid, power = e * ahead, e
            for q in range(2, 9):
                power *= e
                paid -= power * (measure.powers[j, RIVAL, q] + measure.powers[k, TESTED, q]) / float(q)
            power *= e
            rest = measure.powers[j, RIVAL, 9] + measure.powers[k, TESTED, 9]
            paid -= power * rest / (9.0 * (1.0 - e * largest))
            for x in range(constants.margins.shape[0]):
                if coming.capital[x, k, j, i] > 0.0:  # nothing stays nothing, also if the factor overflows
                    coming.capital[x, k, j, i] *= math.exp(paid - e * constants.margins[x])
            if nearly:
                coming.near[k, j, i] *= math.exp(paid - e * constants.aim)


@jit
def _bets_on_near(coming: Any, constants: Any, k: int, j: int, i: int) -> Any:
    """Whether something is bet on j being at most ε worse than k; what has been shown is not bet on again."""
    return constants.epsilon > 0.0 and coming.near[k, j, i] > 0.0 and coming.reached[k, j] < constants.threshold


@jit
def evidence(coming: Any, x: int, k: int) -> float:
    """W_k at the x-th margin."""
    total = 0.0
    for j in range(coming.capital.shape[2]):
        for i in range(coming.capital.shape[3]):
            total += coming.capital[x, k, j, i]
    return total


@jit
def eliminate(used: Any, coming: Any, constants: Any) -> int:
    """Let go the arms whose evidence has reached 1/δ, if all have the one with least evidence stays; count the rest.

    The evidence is W_k(2γ).
    """
    left, least, lowest = 0, -1, math.inf
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            for x in range(coming.peaks.shape[0]):
                coming.peaks[x, k] = max(coming.peaks[x, k], evidence(coming, x, k))
            against = evidence(coming, constants.decides, k)
            if against < lowest:
                least, lowest = k, against
            if against < constants.threshold:
                left += 1
    if constants.epsilon > 0.0:
        _note_near(used, coming, constants)
    for k in range(used.active.shape[0]):
        reached = evidence(coming, constants.decides, k) >= constants.threshold
        if used.active[k] == 1 and reached and (left > 0 or k != least):
            used.active[k] = 0
    return max(left, 1)


@jit
def _note_near(used: Any, coming: Any, constants: Any) -> None:
    """Note the evidence against every arm that is in together with what was bet on each other one being near it."""
    K = used.active.shape[0]
    for k in range(K):
        if used.active[k] == 1:
            against = evidence(coming, constants.decides, k)
            for j in range(K):
                total = against
                for i in range(coming.near.shape[2]):
                    total += coming.near[k, j, i]
                if coming.reached[k, j] < constants.threshold:
                    coming.reached[k, j] = max(coming.reached[k, j], total)


@jit
def best_up_to(used: Any, coming: Any, constants: Any) -> int:
    """The arm that is shown to be at most ε worse than every other, −1 if none is; of several the best looking one."""
    best = -1
    if constants.epsilon > 0.0:
        for j in range(used.active.shape[0]):
            shown = used.active[j] == 1 and (best < 0 or used.arms[j, MEAN] > used.arms[best, MEAN])
            for k in range(used.active.shape[0]):
                shown = shown and (k == j or coming.reached[k, j] >= constants.threshold)
            best = j if shown else best
    return best


@jit
def look_ahead(used: Any, coming: Any, constants: Any, outlook: Any) -> None:
    """What forecasts need of every arm that is in: z, the z-score of its being behind the leader, and the z to reach.

    The evidence is about exp(z²/2 − c), so z has to reach √(2·(log(1/δ) + c)); c is what it is now, within bounds. An
    arm about which enough is shown has to reach nothing; an arm that is out, and the leader, have an infinite z.
    """
    leader, _ = leaders(used)
    for k in range(used.active.shape[0]):
        outlook[k, SCORE], outlook[k, REACH] = math.inf, 0.0
        if used.active[k] == 1 and k != leader:
            total = evidence(coming, constants.decides, k)
            if constants.epsilon > 0.0:
                total = coming.reached[k, leader]
            spread = used.arms[leader, VARIANCE] + used.arms[k, VARIANCE]
            gap = used.arms[leader, MEAN] - used.arms[k, MEAN] - constants.aim
            score = gap / math.sqrt(spread) if spread > 0.0 else 0.0
            cost = min(max(0.5 * score * score - math.log(max(total, 1e-300)), LEAST_COST), MOST_COST)
            outlook[k, SCORE] = score
            if total < constants.threshold:
                outlook[k, REACH] = math.sqrt(2.0 * (constants.confidence + cost))


@jit
def note_round(used: Any, coming: Any, measure: Any) -> None:
    """I_k grows by 1/(V_l + V_k), l the leader, and for l itself with its best rival; R grows by r."""
    first, second = leaders(used)
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            rival = second if k == first else first
            used.arms[k, INFORMATION] += 1.0 / (measure.values[rival, V] + measure.values[k, V])
    used.course[LEVEL] += coming.worth[0]
    used.course[ROUNDS] += 1.0


@jit
def absorb(used: Any, coming: Any, fill: Any, measure: Any, tile: Any) -> None:
    """Enter the round's samples into the used ones."""
    for k in range(tile[0], tile[1]):
        if used.active[k] == 1:
            pulls, errors, agents = measure.values[k, PULLS], measure.values[k, ERRORS], measure.values[k, AGENTS]
            for m in range(tile[2], tile[3]):
                if coming.blocks[k, m] > 0:
                    used.pulls[k, m] += coming.blocks[k, m]
                    used.sums[k, m] += fill.sums[k - tile[0], m - tile[2]]
                    used.errors[k, m] += fill.errors[k - tile[0], m - tile[2]]
                    pulls += float(used.pulls[k, m])
                    errors += used.errors[k, m]
                    agents += 1.0
            measure.values[k, PULLS], measure.values[k, ERRORS], measure.values[k, AGENTS] = pulls, errors, agents


@jit
def note_errors(used: Any, measure: Any) -> None:
    """Q̄_k."""
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            used.arms[k, NOISE] = measure.values[k, ERRORS] / measure.values[k, PULLS]


@jit
def describe(used: Any, coming: Any, measure: Any, constants: Any, tile: Any) -> None:
    """Add up over agents what m_k, tv_k and ν_k need."""
    for k in range(tile[0], tile[1]):
        if used.active[k] == 1:
            mean, variance = measure.values[k, WEIGHTED], measure.values[k, WEIGHTED_NOISE]
            own, noises, errors = (
                measure.values[k, OWN], measure.values[k, NOISES], measure.values[k, NOISES_OF_MEANS]
            )  # fmt: skip
            for m in range(tile[2], tile[3]):
                if coming.blocks[k, m] > 0:
                    p, n, sigma2 = constants.weights[m], float(used.pulls[k, m]), noise(used, k, m)
                    mean += p * used.sums[k, m] / n
                    variance += p * p * sigma2 / n
                    own += used.sums[k, m] / n
                    noises += sigma2
                    errors += sigma2 / n
            measure.values[k, WEIGHTED], measure.values[k, WEIGHTED_NOISE] = mean, variance
            measure.values[k, OWN], measure.values[k, NOISES], measure.values[k, NOISES_OF_MEANS] = own, noises, errors


@jit
def spread(used: Any, coming: Any, measure: Any, tile: Any) -> None:
    """Add up over agents how far their means lie from the mean of them."""
    for k in range(tile[0], tile[1]):
        if used.active[k] == 1:
            centre, squares = measure.values[k, OWN] / measure.values[k, AGENTS], measure.values[k, SQUARES]
            for m in range(tile[2], tile[3]):
                if coming.blocks[k, m] > 0:
                    away = used.sums[k, m] / float(used.pulls[k, m]) - centre
                    squares += away * away
            measure.values[k, SQUARES] = squares


@jit
def note_description(used: Any, measure: Any, constants: Any) -> None:
    """m_k, tv_k and ν_k = clip(mean σ̂²/τ̂²_k, 1, 100), τ̂² the variance between agents."""
    for k in range(used.active.shape[0]):
        if used.active[k] == 1:
            used.arms[k, MEAN] = min(max(measure.values[k, WEIGHTED], 0.02), 0.98)
            used.arms[k, VARIANCE] = measure.values[k, WEIGHTED_NOISE]
            if constants.shrink:
                agents, between = measure.values[k, AGENTS], 1.0
                if agents > 1.0:
                    between = measure.values[k, SQUARES] / (agents - 1.0) - measure.values[k, NOISES_OF_MEANS] / agents
                    between = max(between, 1e-4)
                used.arms[k, STRENGTH] = min(max(measure.values[k, NOISES] / agents / between, 1.0), 100.0)
