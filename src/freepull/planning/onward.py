"""How a trial that is under way goes on: when it will be decided, and what that costs (docs/planning.md, onward).

A forecast for a screen, and a heuristic: means are drawn from what was seen, people go on as they did. It is made for
`Comparisons`, the rule of campaigns, by playing the trial to its end many times on copies of its book.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.data import Past, Posterior
from freepull.numerics import mix, uniform
from freepull.principal import Principal, Trial
from freepull.principal.record import UNITS, enter
from freepull.principal.rules.comparisons.book import (
    GUESSES,
    HITS,
    IN,
    NONE,
    Book,
    fill,
    is_due,
    look,
    renew_predictions,
)
from freepull.principal.rules.comparisons.openings import (
    hear,
    is_barred,
    judge_guesses,
    wanted,
    worth_paying,
)
from freepull.principal.rules.comparisons.rule import ComparisonsState
from freepull.randomness import STEP, key

Floats = NDArray[np.float64]
RUNS, FEWEST = 400, 40
"""Runs that are made, and of which a forecast has at least so many."""
LONGEST = 20
"""Where there is no horizon, a trial is followed for so many times as many steps as it has had."""
PULLS = 200
"""Pulls before which nothing is forecast."""
GONE = 4.0
"""Who has not come for so many of its own intervals is taken to come a tenth as often."""
PURPOSE, NEXT = 11, np.uint64(STEP)
"""For what words of chance are drawn, and how far apart they are."""


@dataclass(frozen=True)
class Seen:
    """What a running trial has shown: plain data, which another process can be given."""

    principal: Principal
    state: bytes
    """`Trial.state`."""
    squares: Floats
    """Sums of squared rewards, by agent and arm."""
    coins: bool
    """Whether every reward was 0 or 1."""
    taken: int
    refused: int
    """Offers that were acted on, and that were refused or let pass."""

    @property
    def trial(self) -> Trial:
        """The trial, made again."""
        return self.principal.restore(self.state)


@dataclass(frozen=True)
class Onward:
    """How runs went on from where the trial is."""

    decided: Floats
    """How many more steps it took until a verdict; ∞ where there was none up to the horizon, or with the money."""
    paid: Floats
    """How many more bonuses were paid."""

    @property
    def chance(self) -> float:
        """The share of runs that were decided."""
        return float(np.isfinite(self.decided).mean())

    def steps(self, p: float) -> float | None:
        """The number of steps within which a share p of the decided runs was decided; None if none was."""
        known = self.decided[np.isfinite(self.decided)]
        return float(np.quantile(known, p, method="inverted_cdf")) if len(known) else None

    def bonuses(self, p: float) -> float:
        """The number of bonuses that a share p of the runs stayed below or at."""
        return float(np.quantile(self.paid, p, method="inverted_cdf"))


def is_known(trial: Trial) -> bool:
    """Say whether a trial can be forecast: it is under way, under `Comparisons`, and enough was seen."""
    going = trial.decided_at is None and not trial.over and not trial.closing
    return going and isinstance(trial.rule, ComparisonsState) and int(trial.record.pulls.sum()) >= PULLS


def onward(seen: Seen, runs: int = RUNS, seconds: float = 20.0, seed: int = 0) -> Onward | None:
    """Play a trial on, this many times or for about so many seconds; None if nothing can be said yet."""
    trial = seen.trial
    if not is_known(trial):
        return None
    rule = trial.rule
    assert isinstance(rule, ComparisonsState)
    pulls, sums = trial.record.pulls, trial.record.sums
    agents, arms = (tuple(map(str, range(n))) for n in pulls.shape)
    counted = pulls.astype(np.int64)
    past = Past(agents, arms, counted, sums / UNITS, seen.squares, seen.coins, int(counted.sum()), ())
    posterior = Posterior(past)
    last = trial.setting.horizon or LONGEST * (trial.steps + 1)
    kappa = last if trial.kappa is None else trial.kappa
    guesses, hits = (float(rule.book.counts[0, it]) for it in (GUESSES, HITS))
    believed = (hits + 1.0) / (guesses + 2.0)
    choices = (counted + counted.sum(axis=0) / counted.sum()) ** 2.0  # people come to like something
    choices = np.cumsum(choices / choices.sum(axis=1, keepdims=True), axis=1)
    own, until = counted.sum(axis=1), time.perf_counter() + seconds
    away = (trial.steps + 1 - trial.told) * own > GONE * (trial.steps + 1)
    noise = np.zeros(pulls.shape[1]) if seen.coins else posterior.noise
    decided, paid = list[float](), list[float]()
    for run in range(runs):
        rng = np.random.default_rng([seed, run, PURPOSE])
        rates = rng.gamma(own + 0.5) * np.where(away, 0.1, 1.0)
        step, more = go_on(
            copied(rule.book), rule.constants, pulls.copy(), sums.copy(),
            np.zeros_like(trial.record.changes), trial.steps, last, kappa, posterior.draw(rng), noise,
            np.cumsum(rates / rates.sum()), choices, believed,
            float(rng.beta(1 + seen.taken, 1 + seen.refused)), min(trial.offers.pays_for, 1e18),
            np.array([key(seed, run, 0, PURPOSE)], np.uint64),
        )  # fmt: skip
        decided.append(float(step - trial.steps) if step > 0 else math.inf)
        paid.append(float(more))
        if run + 1 >= FEWEST and time.perf_counter() > until:
            break
    return Onward(np.array(decided), np.array(paid))


def copied(book: Book) -> Book:
    """Return a book of its own."""
    return book._replace(**{name: part.copy() for name, part in book._asdict().items()})


@jit
def draw(state: Any) -> float:
    """The next number in [0, 1)."""
    state[0] += NEXT
    return uniform(np.uint64(mix(state[0])))


@jit
def reward_of(mean: float, noise: float, coin: float) -> float:
    """A coin of this mean; or one of two values, such that mean and variance are these as far as [0, 1] allows."""
    if noise == 0.0 or mean <= 0.0 or mean >= 1.0:
        return 1.0 if coin < mean else 0.0
    below = min(mean, math.sqrt(noise))
    above = min(noise / below, 1.0 - mean)
    below = min(noise / above, mean)
    return mean + above if coin < below / (below + above) else mean - below


@jit
def go_on(
    book: Any, constants: Any, pulls: Any, sums: Any, changes: Any, step: int, last: int, kappa: int, means: Any,
    noise: Any, who: Any, choices: Any, believed: float, takes: float, bonuses: float, state: Any,
) -> Any:  # fmt: skip
    """Play to a verdict or the last step; return the step of the verdict, 0 for none, and how many bonuses it paid."""
    agents, K, paid = pulls.shape[0], pulls.shape[1], 0
    for t in range(step, last):
        paying = t >= kappa and worth_paying(book, constants, 0, t)
        for _ in range(agents):
            m = min(np.searchsorted(who, draw(state), side="right"), agents - 1)
            hear(book, constants, 0, m, m, pulls[m], sums[m], t)
            k = wanted(book, 0, m, pulls[m], sums[m]) if paying and paid + 1 <= bonuses else NONE
            if k != NONE and draw(state) < takes:
                paid += 1
            else:
                k = int(book.guessed[m])
                if draw(state) >= believed:
                    k = min(np.searchsorted(choices[m], draw(state), side="right"), K - 1)
                if is_barred(book, m, k):
                    k = int(book.guessed[m])
            x = np.int64(reward_of(means[m, k], noise[k], draw(state)) * 2.0**30)
            enter(pulls, sums, changes, m, k, x)
            fill(book, constants, 0, m, m, k, x)
        renew_predictions(book, 0)
        judge_guesses(book, 0)
        if is_due(book, 0):
            found, rest = look(book, constants, 0), 0
            for k in range(K):
                rest += book.active[0, k] == IN
            if found != NONE or rest == 1:
                return t + 1, paid
    return 0, paid
