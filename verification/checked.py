"""Checks of assumptions: how often they raise a false alarm, what they see, and what pairing what is there would do.

People are α-UCB learners with coins. The driver feeds the functions that trials call.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from freepull import Checks, randomness
from freepull.compiling import jit, jit_apart
from freepull.numerics import exploration, mix, uniform
from freepull.principal import pairing
from freepull.rewards import UNITS

from .found import THREADS
from .judging import Rate
from .picks import Floats

PEOPLE, STEPS, SEED, LEVEL, BONUSES = 500, 60, 8_000, 0.01, 500
MEANS = np.array([0.5, 0.45, 0.4, 0.35])
"""Of the arms; each person's own differ from them by N(0, .1²), within [.15, .85]."""
SHORT = 15
"""Steps of the runs that look at false alarms about payment."""
STREAK = 0.12
"""The bet of pairing what is there."""
(OFFERS, ANGER, RATE, SILENT, RANDOM_LEAVERS, HOLD_BACK, SHOCK, DRIFT, PAYMENT, COIN, PLEASED, ALPHA) = range(12)
_STEP = np.uint64(randomness.STEP)


@dataclass(frozen=True)
class World:
    """Who takes part, and what is wrong with the assumptions."""

    name: str
    offers: float = 0.0
    """From a third of the steps on, with this probability an act is an offer of the arm with the worst own mean."""
    anger: float = 0.0
    """With this probability a reward of 0 makes its person leave, from the 6th act on."""
    pleased: float = 0.0
    """The same for a reward of 1."""
    rate: float = 1.0
    """The median of how often people act, in acts a step; below 1, lognormal with σ = .8."""
    silent: float = 0.0
    """The share of people who never come."""
    leavers: float = 0.0
    """With this probability a person leaves at a random step."""
    hold_back: float = 0.0
    """With this probability a reward of 0 is told a step later."""
    shock: float = 0.0
    """All means of a step are moved by this, up or down."""
    drift: float = 0.0
    """By so much all means rise over the trial."""
    payment: float = 0.0
    """By so much a paid pull is worth more."""
    coin: float = 0.2
    """q of the surprises; each costs a bonus."""
    alpha: float = 2.0

    def numbers(self) -> Floats:
        """Its numbers, in the order that the driver knows."""
        return np.array([
            self.offers, self.anger, self.rate, self.silent, self.leavers, self.hold_back, self.shock, self.drift,
            self.payment, self.coin, self.pleased, self.alpha,
        ])  # fmt: skip


HONEST = [
    World("α-UCB"),
    World("offers of what had bad luck", offers=0.5),
    World("leaving in anger, offers", offers=0.5, anger=0.02),
    World("leaving when pleased, offers", offers=0.5, pleased=0.02),
    World("silent and seldom, leaving, offers", offers=0.5, anger=0.005, rate=0.5, silent=0.04, leavers=0.1),
    World("bad news told late, offers", offers=0.5, anger=0.005, hold_back=0.5),
    World("little exploration, α = .1, offers", offers=0.5, alpha=0.1),
]
SEEN = [World(f"a step moves all means by ± {size:g}", shock=size) for size in (0.1, 0.05)]
SEEN += [World(f"means move by {size:+g} over the trial", drift=size) for size in (0.1, -0.1, 0.2, -0.2)]
SEEN += [World(f"a paid pull is worth {size:+g}", payment=size) for size in (0.1, -0.1)]
SEEN += [
    replace(HONEST[4], name=f"{w.name}, silent and seldom", shock=w.shock, drift=w.drift, payment=w.payment)
    for w in SEEN
]
CHECKS = ("common shock", "drift", "payment")


@jit
def _draw(state: Any) -> float:
    state[0] += _STEP
    return uniform(mix(state[0]))


@jit
def _normal(state: Any) -> float:
    total = -6.0
    for _ in range(12):
        total += _draw(state)
    return total


@jit
def _pair_what_is_there(naive: Any, last: Any, m: int, k: int, x: float) -> None:
    """Pulls 1 and 2 of a stream, 3 and 4, …, in the order in which they are complete; both signs."""
    if last[m, k] < 0.0:
        last[m, k] = x
        return
    for sign in range(2):
        naive[sign] *= 1.0 + STREAK * (x - last[m, k]) * (1 - 2 * sign)
    last[m, k] = -1.0
    naive[2] = max(naive[2], 0.5 * (naive[0] + naive[1]))


@jit_apart
def play(
    b: Any, world: Any, means: Any, pulls: Any, sums: Any, held: Any, rates: Any, last: Any, naive: Any, state: Any,
    steps: int,
) -> None:  # fmt: skip
    """One run: asks, picks, coins, reports, and the ends of steps."""
    M, K = means.shape
    for m in range(M):
        rates[m] = 1.0 if world[RATE] >= 1.0 else min(1.0, world[RATE] * np.exp(0.8 * _normal(state)))
        rates[m] *= _draw(state) >= world[SILENT]
        held[m] = -1
        for k in range(K):
            means[m, k] = min(0.85, max(0.15, MEANS[k] + 0.1 * _normal(state)))
            last[m, k] = -1.0
    for t in range(steps):
        moved = world[DRIFT] * (t / steps - 0.5) + world[SHOCK] * (1 if _draw(state) < 0.5 else -1)
        for m in range(M):
            if _draw(state) >= rates[m]:
                continue
            if held[m] >= 0:
                pairing.tell(b, m, held[m], 0, t)
                held[m] = -1
            pairing.ask(b, m, t)
            acts, k, paid = 0.0, -1, 0
            for j in range(K):
                acts += pulls[m, j]
            if 3 * t >= steps and world[OFFERS] > 0.0 and _draw(state) < world[OFFERS]:
                worst = 2.0
                for j in range(K):
                    if pulls[m, j] > 0.0 and sums[m, j] / pulls[m, j] < worst:
                        worst, k, paid = sums[m, j] / pulls[m, j], j, 1
            if k < 0:
                most = -1.0
                for j in range(K):
                    bound = np.inf
                    if pulls[m, j] > 0.0:
                        bound = sums[m, j] / pulls[m, j] + exploration(world[ALPHA], int(acts) + 1) / np.sqrt(
                            pulls[m, j]
                        )
                    if bound > most:
                        most, k = bound, j
                if b.counts[pairing.BONUSES] < BONUSES:
                    paid = int(_draw(state) < world[COIN])
                    pairing.toss(b, m, k, paid)
            x = int(_draw(state) < means[m, k] + moved + world[PAYMENT] * paid)
            pulls[m, k] += 1.0
            sums[m, k] += x
            if x == 0 and _draw(state) < world[HOLD_BACK]:
                held[m] = k
            else:
                pairing.tell(b, m, k, x * UNITS, t)
            _pair_what_is_there(naive, last, m, k, x)
            leaves = world[ANGER] if x == 0 else world[PLEASED]
            if (acts >= 5.0 and _draw(state) < leaves) or _draw(state) < world[RANDOM_LEAVERS] / steps:
                rates[m] = 0.0
        pairing.end_step(b, t + 1)


def run(world: World, seed: int, people: int = PEOPLE, steps: int = STEPS) -> tuple[Floats, Floats]:
    """Play one run; return the largest evidence of the checks and of pairing what is there; missing shares, bonuses."""
    arms = len(MEANS)
    frame = Checks(LEVEL, payment=world.coin, bonuses=BONUSES).frame(arms, people, steps)
    b = pairing.books(people, arms, frame, paying=True)
    state = np.array([randomness.key(seed, 0, 0, 0)], np.uint64)
    naive = np.ones(3)
    means, pulls, sums, last = (np.zeros((people, arms)) for _ in range(4))
    play(
        b, world.numbers(), means, pulls, sums, np.zeros(people, np.int64), np.zeros(people), last, naive, state, steps
    )
    n = b.counts
    opened = [n[pairing.PAIRS], n[pairing.EARLY], n[pairing.COINS]]
    there = [n[pairing.PAIRED], n[pairing.LATE], n[pairing.OUTCOMES]]
    missing = [1.0 - there[i] / max(1, opened[i]) for i in range(3)]
    return np.append(b.peaks, naive[2]), np.array([*missing, n[pairing.BONUSES]])


def runs(world: World, count: int, seed: int, steps: int = STEPS) -> tuple[Floats, Floats]:
    """Play many runs on all cores."""
    with ThreadPoolExecutor(THREADS) as pool:
        played = list(pool.map(lambda i: run(world, seed + i, steps=steps), range(count)))
    return np.array([peaks for peaks, _ in played]), np.array([shares for _, shares in played])


@dataclass(frozen=True)
class Alarms:
    """How often each check raised an alarm in one world."""

    world: World
    rates: tuple[Rate, ...]
    """Of the three checks, and of pairing what is there."""
    missing: tuple[float, ...]
    bonuses: float


def alarms(world: World, count: int, seed: int) -> Alarms:
    """Count alarms at the level of 1 %."""
    peaks, shares = runs(world, count, seed)
    names = (*CHECKS, "pairing what is there")
    alarmed = (peaks >= 1 / LEVEL).sum(axis=0).tolist()
    rates = tuple(Rate(f"{world.name}: {name}", count, n, LEVEL) for name, n in zip(names, alarmed, strict=True))
    return Alarms(world, rates, tuple(shares[:, :3].mean(axis=0)), float(shares[:, 3].mean()))


def false_alarms(world: World, count: int, seed: int) -> Alarms:
    """The same where all assumptions hold.

    All coins are tossed early, so more and shorter runs tell about payment. They have to: with nothing missing, its
    error comes close to its level.
    """
    found = alarms(world, count, seed)
    peaks, _ = runs(world, 4 * count, seed, SHORT)
    rate = Rate(found.rates[2].what, 4 * count, int((peaks[:, 2] >= 1 / LEVEL).sum()), LEVEL)
    return replace(found, rates=(*found.rates[:2], rate, found.rates[3]))


def measure(scale: float) -> tuple[list[Alarms], list[Alarms]]:
    """False alarms in worlds where the assumptions hold, and alarms where they do not."""
    false = [false_alarms(world, max(100, int(3_000 * scale)), SEED + 20_000 * i) for i, world in enumerate(HONEST)]
    seen = [alarms(world, max(40, int(400 * scale)), SEED + 500_000 + 10_000 * i) for i, world in enumerate(SEEN)]
    return false, seen
