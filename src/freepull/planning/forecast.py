"""Forecasts: what runs of a trial came to, with its error; and how a trial that is under way goes on.

The second (docs/planning.md, onward) is for a screen, and a heuristic: means are drawn from what was seen, people go on
as they did. It is made for `Comparisons`, the rule of campaigns, by playing the trial to its end many times on copies
of its book.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import validation
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


@contextmanager
def telling(seconds: float, wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is being done; ``wanted`` None means: if standard error is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        began, task = time.perf_counter(), bar.add_task("simulating", total=seconds)
        yield lambda what: bar.update(
            task, description=f"simulating: {what}", completed=min(time.perf_counter() - began, 0.99 * seconds)
        )


Floats = NDArray[np.float64]
SHARES = (0.5, 0.9, 0.95)
"""The ranges that are shown."""
TIGHT = 0.1
"""A range is tight when the 95 % limits of both its ends are closer than this share of its upper end…"""
FEW = 2.0
"""…or than this many bonuses."""


@dataclass(frozen=True)
class Forecast:
    """What trials pay, whether they end with a certified answer, and when: one entry per run."""

    paid: Floats
    """Numbers of bonuses; with a pricing, what they cost in units of reward."""
    certified: NDArray[np.bool_]
    decided_at: Floats
    """The step of the decision; NaN where there was none."""

    @property
    def runs(self) -> int:
        """How many runs were simulated."""
        return len(self.paid)

    @property
    def source(self) -> str:
        """Where the figures come from."""
        return f"simulation, {self.runs:,} runs"

    @cached_property
    def mean(self) -> float:
        """The expected spend."""
        return float(self.paid.mean())

    @cached_property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the expected spend."""
        return _margin(self.paid)

    def against(self, plan: Forecast) -> tuple[float, float]:
        """How much more is paid than in the plan's runs with the same numbers, and half the width of its 95 % interval.

        Runs with the same number have the same luck as far as it goes, so this is sharper than both means.
        """
        runs = min(self.runs, plan.runs)
        more = self.paid[:runs] - plan.paid[:runs]
        return float(more.mean()), _margin(more)

    def quantile(self, p: float) -> float:
        """The spend that a trial stays below with probability p."""
        return float(np.quantile(self.paid, p, method="weibull"))

    def range(self, share: float) -> tuple[float, float]:
        """The range that holds the spend of a single trial with this probability, as much below as above.

        Its ends are order statistics at (n+1)·p, so the probability is right on average for every number of runs from
        39 on (95 %; 19 for 90 %).
        """
        validation.real("share", share, 0.0, 1.0, open_low=True, open_high=True)
        return self.quantile((1 - share) / 2), self.quantile((1 + share) / 2)

    def end(self, p: float) -> tuple[float, float]:
        """The spend that a trial stays below with probability p, and about its standard error."""
        width = self._limits(p)
        reach = width if math.isfinite(width) else self.quantile(0.95) - self.quantile(0.05)
        return self.quantile(p), reach / (2 * 1.96)

    def position(self, paid: float, luck: float) -> float:
        """Where a spend lies among the runs, in [0, 1]; ``luck`` in [0, 1] places it among those that equal it."""
        below, equal = int((self.paid < paid).sum()), int((self.paid == paid).sum())
        return (below + luck * (equal + 1)) / (self.runs + 1)

    @cached_property
    def chance(self) -> tuple[float, float, float]:
        """The probability of a certified answer within the horizon, with Wilson's 95 % interval."""
        from freepull.simulation.results import wilson

        return wilson(int(self.certified.sum()), self.runs)

    @cached_property
    def free(self) -> float:
        """The probability of a certified answer for nothing."""
        return float((self.certified & (self.paid == 0)).mean())

    def within(self, budget: float) -> float:
        """The probability of a certified answer for at most this many bonuses."""
        return float((self.certified & (self.paid <= budget)).mean())

    def budget(self, chance: float) -> float | None:
        """The least number of bonuses with which a certified answer has this probability; None if no number has."""
        sorted_costs = np.sort(np.where(self.certified, self.paid, np.inf))
        needed = float(sorted_costs[min(math.ceil(chance * (self.runs + 1)), self.runs) - 1])
        return needed if math.isfinite(needed) else None

    @property
    def decisions(self) -> int:
        """How many of the runs were decided."""
        return int((~np.isnan(self.decided_at)).sum())

    def decided(self, p: float) -> float | None:
        """The step before which a share p of the decided trials is decided; None if none is."""
        known = self.decided_at[~np.isnan(self.decided_at)]
        return float(np.quantile(known, p, method="inverted_cdf")) if len(known) else None

    @property
    def tight(self) -> bool:
        """Whether more runs would hardly move the ends of the 90 % range."""
        allowed = max(TIGHT * self.quantile(0.95), FEW)
        return all(self._limits(p) <= allowed for p in (0.05, 0.95))

    def _limits(self, p: float) -> float:
        """The width of the distribution-free 95 % interval of a quantile."""
        reach = 1.96 * math.sqrt(p * (1 - p) / self.runs)
        if p - reach <= 0 or p + reach >= 1:
            return math.inf
        return self.quantile(p + reach) - self.quantile(p - reach)

    def joined(self, other: Forecast) -> Forecast:
        """Return all runs of both."""
        return Forecast(
            np.concatenate([self.paid, other.paid]),
            np.concatenate([self.certified, other.certified]),
            np.concatenate([self.decided_at, other.decided_at]),
        )


def _margin(values: Floats) -> float:
    return 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


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
    frame = Frame(trial.steps, last, kappa, min(trial.offers.pays_for, 1e18))
    decided, paid = list[float](), list[float]()
    for run in range(runs):
        rng = np.random.default_rng([seed, run, PURPOSE])
        rates = rng.gamma(own + 0.5) * np.where(away, 0.1, 1.0)
        means, who = posterior.draw(rng), np.cumsum(rates / rates.sum())
        crowd = Crowd(means, noise, who, choices, believed, float(rng.beta(1 + seen.taken, 1 + seen.refused)))
        state = np.array([key(seed, run, 0, PURPOSE)], np.uint64)
        changes = np.zeros_like(trial.record.changes)
        step, more = go_on(copied(rule.book), rule.constants, pulls.copy(), sums.copy(), changes, crowd, frame, state)
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


class Crowd(NamedTuple):
    """People of one run, as they may be."""

    means: Floats
    noise: Floats
    """Of an arm, the variance of its rewards; 0: they are coins."""
    who: Floats
    """With which probability an act is of one of the first people."""
    choices: Floats
    """Per agent, with which probability it chooses one of the first arms."""
    believed: float
    """With which probability people choose as the rule guesses."""
    takes: float
    """With which probability an offer is taken."""


class Frame(NamedTuple):
    """Which steps are played, and what may be paid in them."""

    step: int
    """How many have ended."""
    last: int
    kappa: int
    bonuses: float
    """The most that may still be paid."""


@jit
def go_on(book: Any, constants: Any, pulls: Any, sums: Any, changes: Any, crowd: Any, frame: Any, state: Any) -> Any:
    """Play to a verdict or the last step; return the step of the verdict, 0 for none, and how many bonuses it paid."""
    agents, K, paid = pulls.shape[0], pulls.shape[1], 0
    for t in range(frame.step, frame.last):
        paying = t >= frame.kappa and worth_paying(book, constants, 0, t)
        for _ in range(agents):
            m = min(np.searchsorted(crowd.who, draw(state), side="right"), agents - 1)
            hear(book, constants, 0, m, m, pulls[m], sums[m], t)
            k = wanted(book, 0, m, pulls[m], sums[m]) if paying and paid + 1 <= frame.bonuses else NONE
            if k != NONE and draw(state) < crowd.takes:
                paid += 1
            else:
                k = int(book.guessed[m])
                if draw(state) >= crowd.believed:
                    k = min(np.searchsorted(crowd.choices[m], draw(state), side="right"), K - 1)
                if is_barred(book, m, k):
                    k = int(book.guessed[m])
            x = np.int64(reward_of(crowd.means[m, k], crowd.noise[k], draw(state)) * 2.0**30)
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
