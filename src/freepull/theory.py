"""What the paper proves, computed: its theorems, how little anybody could pay, and what α-UCB pulls by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput
from freepull.game import TIE, Game
from freepull.principal.rules import paper as bounds

Array = NDArray[np.float64]
NEWTON = 60
"""More steps than Newton's method ever takes."""
GOLDEN = (math.sqrt(5) - 1) / 2


def natural_pulls(means: Any, t: float, alpha: float = 2.0) -> NDArray[np.float64]:
    """Return N_km(t) for M×K means: the pulls that keep all indices of an agent equal, t in all.

    A law of large numbers for α-UCB, not a bound: within a few per cent where counts are in the hundreds.

    >>> natural_pulls([[0.89, 0.47, 0.01]], t=50_000).round().tolist()
    [[49862.0, 111.0, 27.0]]
    """
    mu = validation.numbers("means", means)
    if mu.ndim != 2 or not ((mu >= 0) & (mu <= 1)).all():
        raise InvalidInput(f"means must be a table of agents × arms in [0, 1], got {validation.shown(means)}.")
    validation.real("t", t, 1.0, open_low=True)
    validation.real("alpha", alpha, 0.0, open_low=True)
    bonus, best = alpha * math.log(t), mu.max(axis=1)
    c = best + math.sqrt(bonus / t)
    for _ in range(NEWTON):  # as in `highest_index`, for all agents at once
        inverse = 1.0 / (c[:, None] - mu)
        part = bonus * inverse * inverse
        step = 0.5 * (part.sum(axis=1) - t) / (part * inverse).sum(axis=1)
        c += step
        if (step <= 1e-9 * (c - best)).all():
            break
    return np.asarray(bonus / (c[:, None] - mu) ** 2)


def lower_bound(game: Game, free_pulls: Any, delta: float, prices: Any = None) -> Array:
    """Return the M×K pulls to buy, beyond the free ones, at the least total that can tell the best arm at error δ.

    ``prices`` are what a pull costs, M×K, 1 each by default; with ``game.losses`` everybody is paid just what it gives
    up, and `cost_of` says what that comes to. Infinite where a pull costs nothing, and where two arms tie for best.
    """
    validation.real("delta", delta, 0.0, 0.5, open_low=True, open_high=True)
    free = _table(game, "free_pulls", free_pulls)
    each = np.ones(free.shape) if prices is None else _table(game, "prices", prices)
    rivals = [k for k in range(game.arms) if k != game.best]
    information = (1 - 2 * delta) * math.log((1 - delta) / delta)  # kl(δ, 1−δ)
    room = {k: float(game.gaps[k]) ** 2 / (2 * information) for k in rivals}
    tightest = min(room.values())
    if tightest == 0.0:
        return np.full(free.shape, np.inf)
    tanks = _Tanks(game.weights[:, None] * np.sqrt(game.variances), free, each)

    def bought(share: float) -> Array:
        """What to buy if the best arm's variance takes this share of the tightest room."""
        taken = share * tightest
        return tanks.filled(np.array([room[k] - taken if k in room else taken for k in range(game.arms)]))

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if cost_of(bought(left), each) <= cost_of(bought(right), each):
            high = right
        else:
            low = left
    return bought(0.5 * (low + high))


def cost_of(pulls: Any, prices: Any) -> float:
    """Return Σ price·pulls; a pull that costs nothing adds nothing, however many there are."""
    paid = np.broadcast_to(np.asarray(prices, float), np.shape(pulls)) > 0
    return float((np.asarray(pulls)[paid] * np.broadcast_to(prices, np.shape(pulls))[paid]).sum())


def _table(game: Game, name: str, given: Any) -> Array:
    found = validation.numbers(name, given)
    if found.shape != game.means.shape or not (found >= 0).all():
        raise InvalidInput(
            f"{name} must be {game.agents} × {game.arms} numbers of at least 0, got {validation.shown(found)}."
        )
    return found


class _Tanks:
    """Water-filling, arm by arm: the cheapest pulls to add, everybody up to N = spread·ν/√price (Neyman)."""

    def __init__(self, spread: Array, free: Array, prices: Array) -> None:
        self.spread, self.free, self.root = spread, free, np.sqrt(prices)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(spread > 0, free * self.root / spread, np.inf)
            noise = np.where(spread > 0, spread**2 / free, 0.0)
        order = np.argsort(level, axis=0)
        level, noise = np.take_along_axis(level, order, 0), np.take_along_axis(noise, order, 0)
        self.raised = np.cumsum(np.take_along_axis(spread * self.root, order, 0), axis=0)
        """Σ spread·√price over the agents with the lowest levels, and the noise of all others beside."""
        self.rest = np.concatenate([noise[::-1].cumsum(axis=0)[::-1][1:], np.zeros((1, noise.shape[1]))])
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.nan_to_num(self.raised / level, nan=0.0, posinf=np.inf) + self.rest
        self.reached = np.where(level == 0, np.inf, reached)

    def filled(self, variance: Array) -> Array:
        """Return n such that Σ_m spread²/(free + n) ≤ variance in every arm."""
        count = (self.reached > variance).sum(axis=0)
        last, arms = np.maximum(count - 1, 0), np.arange(len(variance))
        nu = np.where(count > 0, self.raised[last, arms] / (variance - self.rest[last, arms]), 0.0)
        nothing = (self.root == 0) & (self.spread > 0)
        wanted = self.spread * nu / np.where(self.root > 0, self.root, 1.0)
        return np.where(nothing, np.inf, np.maximum(wanted - self.free, 0.0))


SMALLEST = 1e-100
"""The smallest gap; its square is still a number."""


@dataclass(frozen=True)
class Claim:
    """What a theorem says, with which probability, and whether its condition holds."""

    value: Any
    probability: float | None
    """With which probability it holds at least; None for a statement about an expectation, or one without chance."""
    holds: bool
    """Whether the condition is met."""
    condition: str
    """The condition in words, with the numbers of this case."""


def confidence(arms: int, agents: int, horizon: int, delta: float) -> Claim:
    """Lemma 2 (docs/statistics.md, lemma_2): how sure the paper's band is in the second half; the value is its θ.

    The paper asks for a horizon that is "sufficiently large". Where its θ is at least that of `finite_time`, which is
    proven for every horizon, it is large enough.
    """
    L = _log_term(arms, horizon, delta)
    validation.whole("agents", agents, 1)
    theta, needed = bounds.equation(arms, agents, horizon, delta), bounds.finite_time(arms, agents, horizon, delta)
    holds = L > 1 and theta >= needed
    told = f"θ = {theta:.1f} must be at least {needed:.1f}, the bound proven for every horizon"
    return Claim(theta, 1 - delta, holds, f"{told}: {'it is' if holds else 'it is not'}.")


def sufficient_pulls(gap: float, arms: int, agents: int, horizon: int, delta: float) -> Claim:
    """Lemma 3 (docs/statistics.md, pulls_enough): pulls of an arm and of the best one after which the arm is out.

    Of every agent, and on the event H of Lemma 2.

    >>> sufficient_pulls(0.02, arms=3, agents=2, horizon=100_000, delta=0.01).condition
    'every agent needs 799,676 pulls of both arms, and has 100,000 for all: it cannot apply within the horizon.'
    """
    validation.real("gap", gap, SMALLEST, 1.0)
    validation.whole("agents", agents, 1)
    _log_term(arms, horizon, delta)
    value = 16 * bounds.equation(arms, agents, horizon, delta) / (agents * gap * gap)
    holds = 2 * value <= horizon
    told = f"every agent needs {math.ceil(value):,} pulls of both arms, and has {horizon:,} for all"
    return Claim(value, 1 - delta, holds, f"{told}: {'it can' if holds else 'it cannot'} apply within the horizon.")


def ucb_pulls(means: Any, steps: int, alpha: float = 2.0) -> Claim:
    """Lemma 4 (docs/statistics.md, lemma_4): how often an α-UCB agent has pulled each arm at least after Λ steps.

    ``means`` are the agent's own. The value has a number for every arm, its best one too; NaN for several that tie for
    best, which the paper excludes. The probability is that of the event G_m.
    """
    mu = validation.numbers("means", means)
    if mu.ndim != 1 or len(mu) < 2 or not ((mu >= 0) & (mu <= 1)).all():
        raise InvalidInput(
            f"means must be one agent's means of 2 or more arms in [0, 1], got {validation.shown(means)}."
        )
    validation.whole("steps", steps, 2)
    validation.real("alpha", alpha, 1.5)
    gaps = Game([mu]).local_gaps[0]
    tied = int((mu >= mu.max() - TIE).sum())
    if tied > 1:
        gaps[mu >= mu.max() - TIE] = np.nan
    value = (math.sqrt(alpha) - math.sqrt(1.5)) ** 2 * math.log(steps / 2) / (4 * gaps**2)
    probability = max(0.0, 1 - 2 * len(mu) / steps)
    if tied > 1:
        return Claim(value, probability, False, f"the agent must have one best arm: it has {tied}.")
    needed = _steps_needed(4 * len(mu) * (alpha - 1.5) ** 2 / float(gaps.min()) ** 4)
    holds = steps > needed
    told = f"on the event G_m it needs a horizon above {_long(needed)} here, and has {steps:,}"
    return Claim(value, probability, holds, f"{told}: {'it applies' if holds else 'it does not apply'}.")


def expected_incentives(game: Game, horizon: int, delta: float) -> Claim:
    """Theorem 1 (docs/statistics.md, theorem_1), with the constants of its proof and the divergences of the game's law.

    Its free pulls are Lai and Robbins' and hold as T → ∞, so it is a statement about the limit, at any T.
    """
    _plain(game)
    _log_term(game.arms, horizon, delta)
    divergences = game.rewards.divergences(game.means, game.local_best)
    with np.errstate(divide="ignore"):
        natural = np.minimum(horizon / 2, math.log(horizon / 2) / divergences)
    told = (
        "the free pulls are those of the limit T → ∞, so at a finite horizon nothing is claimed; and off the event H "
        f"of Lemma 2 up to δ·T/2 = {delta * horizon / 2:,.0f} more may be paid on average."
    )
    return Claim(_unpaid(game, horizon, delta, natural), None, False, told)


def ucb_incentives(game: Game, horizon: int, delta: float, alpha: float = 2.0) -> Claim:
    """Theorem 2 (docs/statistics.md, theorem_2), with the constants of its proof: α-UCB agents.

    The free pulls are those of Lemma 4 at Λ = T/2, of every arm.
    """
    _plain(game)
    half = validation.whole("horizon", horizon, 4) // 2
    claims = [ucb_pulls(row, half, alpha) for row in game.means]
    natural = np.nan_to_num(np.array([one.value for one in claims]), nan=0.0)
    sure = confidence(game.arms, game.agents, horizon, delta)
    probability = max(0.0, 1 - delta - 4 * game.agents * game.arms / horizon)
    failing = [claim.condition for claim in (sure, *claims) if not claim.holds]
    told = f"Lemma 2 and Lemma 4 apply, on the event H and on the events G_m of all {game.agents} agents."
    return Claim(_unpaid(game, horizon, delta, natural), probability, not failing, failing[0] if failing else told)


def _unpaid(game: Game, horizon: int, delta: float, natural: Array) -> float:
    """Σ_km [what Lemma 3 asks for − natural pulls]⁺; infinite if two arms tie for best."""
    if game.minimum_gap == 0.0:
        return math.inf
    size = (game.arms, game.agents, horizon, delta)
    needed = np.array([sufficient_pulls(float(gap), *size).value for gap in game.gaps])
    return float(np.maximum(needed[None, :] - natural, 0.0).sum())


def _plain(game: Game) -> None:
    """Refuse what is not a game of plain averages."""
    validation.instance("game", game, Game, "freepull.Game([[0.9, 0.2], [0.3, 0.6]])")
    if game.weighted:
        raise InvalidInput("game must have equal weights here, because the theorems are for plain averages.")


def _log_term(arms: int, horizon: int, delta: float) -> float:
    """L, of numbers that are allowed."""
    validation.whole("arms", arms, 2)
    validation.whole("horizon", horizon, 4)
    validation.real("delta", delta, 0.0, 1.0, open_low=True)
    return math.log(arms * horizon / delta)


def _steps_needed(ratio: float) -> float:
    """The Λ from which on Λ/log²Λ > ratio; Λ/log²Λ grows from Λ = e² on."""
    low = high = math.exp(2.0)
    if low / math.log(low) ** 2 > ratio:
        return 2.0
    while high / math.log(high) ** 2 <= ratio:
        high *= 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle / math.log(middle) ** 2 <= ratio else (low, middle)
    return high


def _long(steps: float) -> str:
    if steps < 1e6:
        return f"{math.floor(steps):,}"
    digits, power = f"{steps:.1e}".split("e")
    return f"{digits}·10^{int(power)}"
