"""`fp.plan`: from what a person can know before a trial to what it will cost, and how sure that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from freepull import checks
from freepull.agents import Agent, AlphaUCB
from freepull.answers import Always, Answer
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.money import Money
from freepull.planning.answer import Plan
from freepull.planning.asking import beliefs_from, parts, question
from freepull.planning.case import Case
from freepull.planning.first import first
from freepull.planning.formulas import evidence
from freepull.planning.progress import telling
from freepull.planning.sentences import sentences
from freepull.planning.simulated import Simulated, simulated
from freepull.planning.work import FIRST, Work
from freepull.principal import Principal
from freepull.principal.rules import Certified
from freepull.rewards import Law
from freepull.version import __version__


def plan(
    game: Game | Callable[[np.random.Generator], Game] | None = None,
    *,
    horizon: int,
    arms: int | None = None,
    agents: int | None = None,
    gap: float | Sequence[float] | None = None,
    means: Sequence[float] | None = None,
    level: float | None = None,
    spread: float | None = None,
    error: float | None = None,
    rewards: Law | None = None,
    log: Any = None,
    delta: float | None = None,
    principal: Principal | None = None,
    strategy: Agent | Sequence[Agent] | None = None,
    answers: Answer | Sequence[Answer] | None = None,
    price: str | None = None,
    quick: bool = False,
    curves: bool = True,
    runs: int | None = None,
    seconds: float = 15.0,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    on_first: Callable[[Plan], None] | None = None,
) -> Plan:
    """Forecast a trial before a bonus is paid (docs/planning.md).

    What is believed of the game comes from guesses (``gap`` or ``means``), from a ``log``, or from a ``game``.

    Parameters
    ----------
    horizon
        T: how often every agent acts.
    arms, agents
        K and M. A log has its own arms, and is about the logged agents; with ``agents``, about others like them.
    gap
        How far the best arm is ahead of the next on average over the agents, or K − 1 gaps, one for every other arm.
    means
        Instead of gap: a guess of every arm's mean.
    level, spread, error
        The best arm's mean (0.5: most noise, so the safe side), how much agents differ (the standard deviation of their
        own means of an arm, 0.1), and how far off these guesses may be (0.25: by a quarter, give or take).
    rewards
        The reward law, `rewards.Bernoulli()` by default.
    log
        Past observations, as for `Game.from_log`.
    game
        A game that is known, or a function that draws one from beliefs of your own.
    delta, principal
        δ of the default principal, `Certified(0.05)` with offers to each; or another principal.
    strategy, answers
        How agents pick (`AlphaUCB(2)`) and answer offers (`Always()`); of several, every agent has one, at
        random; M of them are one each.
    price
        What one bonus costs, as in "0.50 EUR".
    quick
        Only the first answer, by formulas.
    curves
        Whether to look at other numbers of agents, horizons, observing phases, δ and ε.
    runs, seconds
        So many runs; or as many as make the range tight, in about so many seconds.
    seed
        Same seed and same runs, same figures.
    workers, progress
        As for `simulate`.
    on_first
        Called with the plan by formulas as soon as it is there.
    """
    began = time.perf_counter()
    if principal is None:
        principal = Principal(Certified(0.05 if delta is None else delta), offers="each")
    elif delta is not None:
        raise InvalidInput("delta must be left out with a principal, whose rule has one.")
    checks.instance("principal", principal, Principal, "a freepull.Principal(...)")
    guesses = {"gap": gap, "means": means, "level": level, "spread": spread, "error": error, "rewards": rewards}
    beliefs, size, count = beliefs_from(game, log, arms, agents, guesses)
    evidence(principal.rule, count)
    horizon = checks.whole("horizon", horizon, 1)
    if horizon < count:
        raise InvalidInput(f"horizon must be at least {count}, the number of arms, got {horizon}.")
    case = Case(
        beliefs=beliefs,
        agents=size,
        arms=count,
        principal=principal,
        horizon=horizon,
        strategies=parts("strategy", strategy, AlphaUCB()),
        answers=parts("answers", answers, Always()),
        seed=checks.whole("seed", seed, 0, (1 << 64) - 1),
        workers=workers if workers is None else checks.whole("workers", workers, 1),
    )
    cost = None if price is None else Money.price(price)
    work = Work(
        checks.real("seconds", seconds, 0.0, open_low=True), runs if runs is None else checks.whole("runs", runs, FIRST)
    )
    at_once = first(case)

    def made(found: Simulated) -> Plan:
        return Plan(
            question=question(case, log) | {"price": price},
            first=at_once,
            forecast=found.forecast,
            curves=found.curves,
            agents_needed=found.agents_needed,
            agents_free=found.agents_free,
            sentences=sentences(case, at_once, found, cost),
            provenance={
                "freepull": __version__,
                "seed": case.seed,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - began, 3),
                "interrupted": found.interrupted,
            },
            price=cost,
        )

    if quick:
        return made(Simulated())
    if on_first is not None:
        on_first(made(Simulated()))
    with telling(seconds, progress) as work.tell:
        found = simulated(case, at_once, work, curves)
    return made(found)
