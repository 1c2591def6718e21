"""Panels: a game with the people who play it, as one object that `fp.simulate` takes in place of a game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freepull import validation
from freepull.agents import Agent, AlphaUCB, Mind
from freepull.agents.activity import Activity, EveryStep, Lognormal
from freepull.agents.answers import Always, Answer, Reluctant
from freepull.agents.leaving import AnyOf, AtRandom, InAnger, Leaving, Stays
from freepull.disturbances import Disturbance
from freepull.game import Game
from freepull.instances import Family

__all__ = ["Panel", "ideal", "street"]

DAY = 10
"""Steps of a day on the street."""


@dataclass(frozen=True)
class Panel:
    """A game, or what draws one for every run, with its people and the time that they have.

    Every field but the game is what `fp.simulate` uses where it is not told otherwise.
    """

    game: Game | Callable[[np.random.Generator], Game]
    horizon: int
    agents: Agent | Mind | Sequence[Agent | Mind] = field(default_factory=AlphaUCB)
    answers: Answer | Sequence[Answer] = field(default_factory=Always)
    activity: Activity | Sequence[Activity] = field(default_factory=EveryStep)
    leaving: Leaving | Sequence[Leaving] = field(default_factory=Stays)
    disturbances: Disturbance | Sequence[Disturbance] = ()


def street(agents: int = 500, arms: int = 4, gap: float = 0.05) -> Panel:
    """Return people as they are: 60 days in 600 steps, in which most come now and then, and some leave or refuse.

    Means of arm k are normal around ½ − gap·k with a standard deviation of 0.1, clipped to [0.01, 0.99]. Acts a day are
    log-normal over people, with median ½ and σ = 0.8; 4 % never come. 10 % leave at a uniform time after the 5th day;
    5 % are angry: from their 6th act on, a reward of 0 makes them leave with probability 0.1. 20 % refuse an offer with
    probability 0.3. All are α-UCB learners, each by its own clock.

    >>> panel = street(agents=100)
    >>> panel.horizon, panel.activity
    (600, Lognormal(median=0.05, sigma=0.8, silent=0.04))
    """
    return Panel(
        game=_means(agents, arms, gap),
        horizon=60 * DAY,
        answers=Reluctant(share=0.2, probability=0.3),
        activity=Lognormal(median=0.5 / DAY, sigma=0.8, silent=0.04),
        leaving=AnyOf((AtRandom(share=0.1, after=5 * DAY), InAnger(share=0.05, after=5, reward=0.0, probability=0.1))),
    )


def ideal(agents: int = 500, arms: int = 4, gap: float = 0.05, horizon: int = 60) -> Panel:
    """Return the same means with people as the paper has them: everybody acts in every step and takes every offer.

    >>> ideal(agents=100).activity
    EveryStep()
    """
    return Panel(game=_means(agents, arms, gap), horizon=validation.whole("horizon", horizon, 1))


def _means(agents: int, arms: int, gap: float) -> Family:
    arms = validation.whole("arms", arms, 2)
    gap = validation.real("gap", gap, 0.0, 0.5 / (arms - 1))
    return Family(agents, means=tuple(0.5 - gap * k for k in range(arms)), sd=0.1, gap=None, clip=(0.01, 0.99))


PANELS: dict[str, Callable[..., Panel]] = {"street": street, "ideal": ideal}
"""The panels that commands and study files name as they name games."""
