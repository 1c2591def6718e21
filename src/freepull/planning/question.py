"""What is asked of a plan, checked and completed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from freepull import validation
from freepull.agents import AlphaUCB
from freepull.agents.activity import EveryStep
from freepull.agents.answers import Always
from freepull.agents.leaving import Stays
from freepull.data import Past, Posterior
from freepull.errors import InvalidInput
from freepull.fitting import fit
from freepull.game import Game
from freepull.panels import Panel
from freepull.planning.beliefs import Beliefs, Drawn, Guess, Known, Logged, People
from freepull.planning.forecast import Forecast
from freepull.principal import Principal

if TYPE_CHECKING:
    from freepull.strategic import BestResponse

_ASSIGNED, _PEOPLE = 0x77686F, 0x70656F
MOST_ARMS, MOST_STREAMS = 1_000, 10_000_000
"""Larger plans would take hours."""
ONE_IN = 25
"""Of so many people one is strategic, where that is asked for."""
TOGETHER = 8
"""Runs in which the same agents have the same of several strategies."""


@dataclass(frozen=True)
class Case:
    """All that a trial to be forecast consists of."""

    beliefs: Beliefs
    agents: int
    arms: int
    principal: Principal
    horizon: int
    people: People
    seed: int
    workers: int | None

    def sized(self, agents: int) -> Case | None:
        """Return the same with another number of agents; None if nothing is believed of them."""
        beliefs = self.beliefs if agents == self.agents else self.beliefs.sized(agents)
        return None if beliefs is None else replace(self, beliefs=beliefs, agents=agents)

    def forecast(self, runs: Sequence[int]) -> Forecast:
        """Simulate these runs; people who are not known exactly are drawn afresh for every one."""
        from freepull.simulation.compiled.engine import in_threads

        if self.people.sure and all(len(parts) in (1, self.agents) for parts in self._parts(self.people)):
            return self._simulated(runs, 0, self.workers)
        together = TOGETHER if self.people.sure else 1
        blocks = [(list(some), block) for block, some in groupby(runs, key=lambda run: run // together)]
        found = dict(
            in_threads(lambda it: self._simulated(it[0], it[1], 1), blocks, self.workers or os.cpu_count() or 1)
        )
        return reduce(Forecast.joined, [found[number] for number in range(len(blocks))])

    @staticmethod
    def _parts(people: People) -> tuple[tuple[Any, ...], ...]:
        return people.strategies, people.answers, people.activity, people.leaving

    def _simulated(self, runs: Sequence[int], block: int, workers: int | None) -> Forecast:
        from freepull.simulation import simulate

        people = self.people
        if not people.sure:
            people = people.drawn(np.random.default_rng([self.seed, block, _PEOPLE]), self.horizon)
        picks, answers, activity, leaving = (
            self._assigned(parts, block, purpose) for purpose, parts in enumerate(self._parts(people))
        )
        result = simulate(
            self.beliefs.game if isinstance(self.beliefs, Known) else self.beliefs,
            agents=picks,
            answers=answers,
            activity=activity,
            leaving=leaving,
            principal=self.principal,
            horizon=self.horizon,
            runs=runs,
            seed=self.seed,
            workers=workers,
            until="decided",
            progress=False,
        )
        frame = result.frame
        if result.interrupted:
            raise KeyboardInterrupt
        return Forecast(
            frame["paid" if self.principal.pricing is None else "spent"].to_numpy().astype(float),
            frame["certified"].to_numpy(),
            frame["decided_at"].cast(float).fill_null(math.nan).to_numpy(),
        )

    def best_response(self, runs: int) -> BestResponse:
        """Return what one in `ONE_IN` people could gain, who all play one strategy, the best that is found."""
        from freepull.strategic import best_response

        picks, answers, activity, leaving = (
            self._assigned(parts, 0, purpose) for purpose, parts in enumerate(self._parts(self.people))
        )
        return best_response(
            self.beliefs.game if isinstance(self.beliefs, Known) else self.beliefs,
            principal=self.principal, horizon=self.horizon, agent=list(range(0, self.agents, ONE_IN)), agents=picks,
            answers=answers, activity=activity, leaving=leaving, runs=runs, seed=self.seed, workers=self.workers,
        )  # fmt: skip

    def _assigned(self, parts: tuple[Any, ...], block: int, purpose: int) -> Any:
        """Return one for all, or one per agent: as given, or at random, the same for all runs of a block."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) == self.agents:
            return list(parts)
        drawn = np.random.default_rng([self.seed, block, purpose, _ASSIGNED]).integers(len(parts), size=self.agents)
        return [parts[i] for i in drawn.tolist()]


def beliefs_from(
    game: Any, log: Callable[[], Past] | None, arms: int | None, agents: int | None, guesses: Mapping[str, Any]
) -> tuple[Beliefs, int, int]:
    """Return what is believed, M and K; exactly one source must have been given."""
    given = {name: value for name, value in guesses.items() if value is not None}
    sources = [name for name, value in (("game", game), ("log", log)) if value is not None]
    sources += [name for name in ("gap", "means") if name in given]
    if len(sources) != 1:
        got = " and ".join(sources) or "none of them"
        raise InvalidInput(f"a plan must be given one of gap, means, log and game, got {got}.")
    source = sources[0]
    if source in ("gap", "means"):
        return _guessed(arms, agents, given)
    if given:
        raise InvalidInput(f"{next(iter(given))} must be left out with a {source}, which says it already.")
    if log is not None:
        past = log()
        _same("arms", arms, len(past.arms), "the log")
        if agents is None:
            return Logged(Posterior(past)), len(past.agents), len(past.arms)
        agents = _affordable(agents, len(past.arms))
        return Logged(Posterior(past), agents), agents, len(past.arms)
    if not isinstance(game, Game) and not callable(game):
        must = "game must be a freepull.Game, or a function that takes a generator and returns one"
        raise InvalidInput(f"{must}, got {validation.shown(game)}.")
    beliefs = Known(game) if isinstance(game, Game) else Drawn(game)
    drawn = beliefs(np.random.default_rng(0))
    _same("arms", arms, drawn.arms, "the game")
    _same("agents", agents, drawn.agents, "the game")
    return beliefs, drawn.agents, drawn.arms


def _guessed(arms: int | None, agents: int | None, given: dict[str, Any]) -> tuple[Guess, int, int]:
    if agents is None:
        raise InvalidInput("agents must be a whole number of at least 1, how many take part; got None.")
    means = given.pop("means", None)
    if means is not None:
        if "level" in given:
            raise InvalidInput("level must be left out with means, whose largest it is.")
        table = validation.numbers("means", means)
        if table.ndim != 1 or len(table) < 2 or not ((table > 0) & (table < 1)).all():
            raise InvalidInput(
                f"means must be at least 2 numbers in (0, 1), one per arm, got {validation.shown(means)}."
            )
        ranked = np.sort(table)[::-1]
        if ranked[0] == ranked[1]:
            raise InvalidInput(f"means must have one best arm, since arms that tie cannot be told apart; got {means}.")
        _same("arms", arms, len(table), "means")
        gaps, given["level"] = tuple((ranked[0] - ranked[1:]).tolist()), float(ranked[0])
        arms = len(table)
    else:
        gap = given.pop("gap")
        several = isinstance(gap, Sequence | np.ndarray) and not isinstance(gap, str)
        gaps = tuple(validation.real("gap", one) for one in (gap if several else [gap]))
        if arms is None:
            raise InvalidInput("arms must be a whole number of at least 2, how many there are; got None.")
    arms = validation.whole("arms", arms, 2, MOST_ARMS)
    agents = _affordable(agents, arms)
    return Guess(arms, agents, gaps, **given), agents, arms


def _affordable(agents: int, arms: int) -> int:
    """Return how many agents there are, unless that is too many."""
    agents = validation.whole("agents", agents, 1)
    if agents * arms > MOST_STREAMS:
        raise InvalidInput(f"agents × arms must be at most {MOST_STREAMS:,} in a plan, got {agents:,} × {arms:,}.")
    return agents


def _same(name: str, given: int | None, found: int, where: str) -> None:
    if given is not None and given != found:
        raise InvalidInput(f"{name} must be {found}, as in {where}, or be left out, got {validation.shown(given)}.")


def people_from(panel: Panel | None, beliefs: Beliefs, asked: Mapping[str, Any], horizon: int, day: int) -> People:
    """Return the people: as asked for, else as the panel has them, else as the log says, else as the paper has them."""
    given = {name: value for name, value in asked.items() if value is not None}
    if panel is not None:
        own = {"strategies": panel.agents, "answers": panel.answers}
        given = {**own, "activity": panel.activity, "leaving": panel.leaving, **given}
    habits = fit(beliefs.posterior.past, day) if isinstance(beliefs, Logged) else None
    fitted = frozenset(asked) - frozenset(given) if habits is not None else frozenset[str]()
    if habits is not None:
        given = habits.parts(horizon) | given
        if habits.refusals is None:
            fitted -= {"answers"}
    usual = {"strategies": AlphaUCB(), "answers": Always(), "activity": EveryStep(), "leaving": Stays()}
    return People(
        **{name: _several("strategy" if name == "strategies" else name, it) for name, it in (usual | given).items()},
        error=beliefs.error if isinstance(beliefs, Guess) else 0.0,
        habits=habits if fitted else None,
        fitted=fitted,
    )


def _several(name: str, given: Any) -> tuple[Any, ...]:
    """Return one or several parts as a tuple; classes without arguments are made objects."""
    several = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not several:
        raise InvalidInput(f"{name} must be one object or a list of at least one, got an empty one.")
    return tuple(item() if isinstance(item, type) else item for item in several)


def question(case: Case, log: Any) -> dict[str, Any]:
    """Return what was asked, as plain data."""
    principal = case.principal
    told: dict[str, Any] = {
        "arms": case.arms,
        "agents": case.agents,
        "horizon": case.horizon,
        "acts": float(case.horizon) if case.people.always_there else case.people.acts(case.horizon),
        "rule": repr(principal.rule),
        "observe": repr(principal.observe),
        "offers": principal.offers,
        "protocol": repr(principal.protocol),
        "budget": principal.budget,
        "strategy": [repr(it) for it in case.people.strategies],
        "answers": [repr(it) for it in case.people.answers],
        "activity": [repr(it) for it in case.people.activity],
        "leaving": [repr(it) for it in case.people.leaving],
        "beliefs": "; ".join(filter(None, (case.beliefs.words(), case.people.words()))),
    }
    if isinstance(case.beliefs, Logged):
        told["log"] = {"file": str(log) if isinstance(log, str | Path) else None}
        told["log"] |= case.beliefs.posterior.past.describe()
        if case.people.habits is not None:
            told["log"]["people"] = case.people.habits.describe()
    return told
