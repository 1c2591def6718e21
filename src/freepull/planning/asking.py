"""What a person gives to a plan, checked, as beliefs about the game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from freepull import checks
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.past import read
from freepull.planning.beliefs import Beliefs, Drawn, Guess, Known, Logged
from freepull.planning.case import Case
from freepull.shrinkage import Posterior

MOST_ARMS, MOST_STREAMS = 1_000, 10_000_000
"""Larger plans would take hours."""


def beliefs_from(
    game: Any, log: Any, arms: int | None, agents: int | None, guesses: Mapping[str, Any]
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
    if source == "log":
        past = read(log)
        _same("arms", arms, len(past.arms), "the log")
        if agents is None:
            return Logged(Posterior(past)), len(past.agents), len(past.arms)
        agents = _affordable(agents, len(past.arms))
        return Logged(Posterior(past), agents), agents, len(past.arms)
    if not isinstance(game, Game) and not callable(game):
        must = "game must be a freepull.Game, or a function that takes a generator and returns one"
        raise InvalidInput(f"{must}, got {checks.shown(game)}.")
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
        table = checks.numbers("means", means)
        if table.ndim != 1 or len(table) < 2 or not ((table > 0) & (table < 1)).all():
            raise InvalidInput(f"means must be at least 2 numbers in (0, 1), one an arm, got {checks.shown(means)}.")
        ranked = np.sort(table)[::-1]
        if ranked[0] == ranked[1]:
            raise InvalidInput(f"means must have one best arm, since arms that tie cannot be told apart; got {means}.")
        _same("arms", arms, len(table), "means")
        gaps, given["level"] = tuple((ranked[0] - ranked[1:]).tolist()), float(ranked[0])
        arms = len(table)
    else:
        gap = given.pop("gap")
        several = isinstance(gap, Sequence | np.ndarray) and not isinstance(gap, str)
        gaps = tuple(checks.real("gap", one) for one in (gap if several else [gap]))
        if arms is None:
            raise InvalidInput("arms must be a whole number of at least 2, how many there are; got None.")
    arms = checks.whole("arms", arms, 2, MOST_ARMS)
    agents = _affordable(agents, arms)
    return Guess(arms, agents, gaps, **given), agents, arms


def _affordable(agents: int, arms: int) -> int:
    """Return how many agents there are, unless that is too many."""
    agents = checks.whole("agents", agents, 1)
    if agents * arms > MOST_STREAMS:
        raise InvalidInput(f"agents × arms must be at most {MOST_STREAMS:,} in a plan, got {agents:,} × {arms:,}.")
    return agents


def _same(name: str, given: int | None, found: int, where: str) -> None:
    if given is not None and given != found:
        raise InvalidInput(f"{name} must be {found}, as in {where}, or be left out, got {checks.shown(given)}.")


def parts(name: str, given: Any, default: Any) -> tuple[Any, ...]:
    """Return one or several parts as a tuple; classes without arguments are made objects."""
    if given is None:
        return (default,)
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
        "rule": repr(principal.rule),
        "observe": repr(principal.observe),
        "offers": principal.offers,
        "protocol": repr(principal.protocol),
        "budget": principal.budget,
        "strategy": [repr(strategy) for strategy in case.strategies],
        "answers": [repr(answer) for answer in case.answers],
        "beliefs": case.beliefs.words(),
    }
    if isinstance(case.beliefs, Logged):
        told["log"] = {"file": str(log) if isinstance(log, str | Path) else None}
        told["log"] |= case.beliefs.posterior.past.describe()
    return told
