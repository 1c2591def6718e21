"""The people of a trial to be forecast: what is guessed of them or fitted to a log, and how far off that may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from freepull import registry
from freepull.agents import Agent
from freepull.agents.activity import Activity, EveryStep
from freepull.agents.answers import Always, Answer
from freepull.agents.leaving import AnyOf, Leaving, Stays
from freepull.fitting import Habits

FACTORS = ("rate", "median", "sigma")
"""Parameters of people that an error multiplies…"""
ODDS = ("p", "probability", "share", "silent")
"""…and those whose odds it multiplies."""


@dataclass(frozen=True)
class People:
    """How people pick, answer, come and leave: of each one for all, one each, or some, of which everybody has one."""

    strategies: tuple[Agent, ...]
    answers: tuple[Answer, ...]
    activity: tuple[Activity, ...] = (EveryStep(),)
    leaving: tuple[Leaving, ...] = (Stays(),)
    error: float = 0.0
    """How far off the numbers in answers, activity and leaving may be."""
    habits: Habits | None = None
    """What a log says of those that are fitted."""
    fitted: frozenset[str] = frozenset()
    """Which of these fields come from the log."""

    @property
    def always_there(self) -> bool:
        """Whether everybody acts in every step, to the end."""
        return {type(it) for it in (*self.activity, *self.leaving)} == {EveryStep, Stays}

    @property
    def ideal(self) -> bool:
        """Whether everybody also takes every offer."""
        return self.always_there and all(type(it) is Always for it in self.answers)

    @property
    def sure(self) -> bool:
        """Whether nothing about them has to be drawn."""
        off = self.error > 0 and any(map(_uncertain, (*self.answers, *self.activity, *self.leaving)))
        return not off and not self.fitted

    def drawn(self, rng: np.random.Generator, horizon: int) -> People:
        """Return people who may be the true ones."""
        if self.habits is not None:
            told = self.habits.draw(rng, horizon)
            fitted: dict[str, Any] = {name: (told[name],) for name in self.fitted}
            return replace(self, **{**fitted, "habits": None, "fitted": frozenset()})
        parts: dict[str, Any] = {
            name: tuple(blurred(it, self.error, rng) for it in getattr(self, name))
            for name in ("answers", "activity", "leaving")
        }
        return replace(self, **{**parts, "error": 0.0})

    def words(self) -> str:
        """Say in words what is believed of them; nothing where they are as the paper has them."""
        if self.habits is not None:
            return self.habits.words()
        if self.ideal:
            return ""
        there = "" if self.always_there else f"come by {_named(self.activity)}, leave by {_named(self.leaving)} and "
        sure = "" if self.sure else f", these numbers off by about {100 * self.error:g} % too"
        return f"people {there}answer by {_named(self.answers)}{sure}"


def blurred(part: Any, error: float, rng: np.random.Generator) -> Any:
    """Return a part with numbers that may be the true ones: rates times e^{error·z}, and the odds of shares.

    What is not built in is taken as exact.
    """
    if isinstance(part, AnyOf):
        return AnyOf([blurred(one, error, rng) for one in part.leaving])
    changed = {}
    for name in _uncertain(part):
        value, factor = float(getattr(part, name)), math.exp(error * rng.normal())
        changed[name] = value * factor if name in FACTORS else value * factor / (1.0 - value + value * factor)
    return replace(part, **changed) if changed else part


def _uncertain(part: Any) -> list[str]:
    """Name the parameters that may be off."""
    if isinstance(part, AnyOf):
        return [name for one in part.leaving for name in _uncertain(one)]
    about = registry.declared(type(part))
    if about is None or about.own or not is_dataclass(part):
        return []
    return [it.name for it in fields(part) if it.name in FACTORS + ODDS]


def _named(parts: tuple[Any, ...]) -> str:
    """Name the first few of them."""
    told = list(dict.fromkeys(map(repr, parts)))
    return ", ".join(told[:3]) + (", …" if len(told) > 3 else "")
