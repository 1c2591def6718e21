"""What is believed of a game and its people before the trial: every call draws one that may be the true one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from freepull import registry, validation
from freepull.agents import Agent
from freepull.agents.activity import Activity, EveryStep
from freepull.agents.answers import Always, Answer
from freepull.agents.leaving import AnyOf, Leaving, Stays
from freepull.data import Posterior
from freepull.errors import InvalidInput
from freepull.fitting import Habits
from freepull.game import Game
from freepull.rewards import Bernoulli, Law, TruncatedNormal

FACTORS = ("rate", "median", "sigma")
"""Parameters of people that an error multiplies…"""
DRAWN = 50
"""Panels, and people of each, that are drawn to say how often one acts."""
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

    def acts(self, horizon: int) -> float:
        """Return about how often one of them acts, people who leave in anger taken to stay."""
        rng, total = np.random.default_rng(0), 0.0
        for _ in range(DRAWN):
            people = self.drawn(rng, horizon)
            for key in rng.integers(1 << 62, size=DRAWN).tolist():
                comes, goes = (it[key % len(it)] for it in (people.activity, people.leaving))
                total += comes.chance(key, 1) * min(goes.until(key, horizon), horizon)
        return total / DRAWN**2

    def words(self) -> str:
        """Say in words what is believed of them; nothing where they are as the paper has them."""
        if self.habits is not None:
            return self.habits.words()
        if self.ideal:
            return ""
        comes = f"come by {_named(self.activity)}, leave by {_named(self.leaving)}, choose by {_named(self.strategies)}"
        there = "" if self.always_there else f"{comes} and "
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
    told = list(dict.fromkeys(map(described, parts)))
    return ", ".join(told[:3]) + (", …" if len(told) > 3 else "")


def described(part: Any) -> str:
    """Return a part as people read it: its name, and its numbers to four digits."""
    if isinstance(part, float):
        return f"{part:.4g}"
    if isinstance(part, tuple | list):
        return " or ".join(map(described, part)) if any(map(is_dataclass, part)) else " / ".join(map(described, part))
    if not is_dataclass(part) or isinstance(part, type):
        return validation.shown(part) if callable(part) else str(part)
    about = registry.declared(type(part))
    own = {it.name: getattr(part, it.name) for it in fields(part) if it.repr}
    told = [
        described(value) if is_dataclass(value) or _parts(value) else f"{name} {described(value)}"
        for name, value in own.items()
        if value is not None
    ]
    name = type(part).__name__.lower() if about is None or about.own else about.written
    return f"{name} ({', '.join(told)})" if told else name


def _parts(value: Any) -> bool:
    return isinstance(value, tuple | list) and any(map(is_dataclass, value))


Array = NDArray[np.float64]
NAMED = 6
"""Arms of a log that are named."""
EDGE = 0.01
"""No arm is believed to be nearer to 0 or 1 than this, on average."""


class Beliefs(Protocol):
    """A game drawn from what is believed, for a panel of any size."""

    def __call__(self, rng: np.random.Generator) -> Game:
        """Draw a game that may be the true one."""

    def sized(self, agents: int) -> Beliefs | None:
        """Return the same beliefs about another number of agents; None if nothing is believed of them."""

    def centre(self) -> Game:
        """Return the game at the guesses themselves, taken as exact."""

    def words(self) -> str:
        """Say in words what is believed."""


@dataclass(frozen=True)
class Guess:
    """Guesses of the gaps, of the best arm's mean and of how much agents differ, each off by about ``error``.

    Every gap and the spread are multiplied by e^{error·z}, the odds of the level too, z standard normal. With a single
    gap, the arms behind the second lie at random distances (exponential, a gap on average). Agents' means are normal
    around the arm's, with standard deviation ``spread``, moved so that the panel's means are exactly what was drawn.
    """

    arms: int
    agents: int
    gaps: tuple[float, ...]
    """From the best arm to the others: one number, from the best to the next, or K − 1."""
    level: float = 0.5
    """The mean of the best arm."""
    spread: float = 0.1
    error: float = 0.25
    rewards: Law = field(default_factory=Bernoulli)

    def __post_init__(self) -> None:
        validation.whole("arms", self.arms, 2)
        validation.whole("agents", self.agents, 1)
        if not EDGE <= validation.real("level", self.level) <= 1.0 - EDGE:
            raise InvalidInput(
                f"level must be from {EDGE:g} to {1.0 - EDGE:g}, since it is the best arm's mean, got {self.level:g}."
            )
        validation.real("spread", self.spread, 0.0, 0.5)
        validation.real("error", self.error, 0.0, 1.0)
        validation.instance("rewards", self.rewards, Law, "a reward law such as freepull.rewards.Beta(10)")
        if self.rewards.means() is not None or isinstance(self.rewards, TruncatedNormal):
            must = "rewards must be a law that can have any mean in [0, 1], such as Bernoulli() or Beta(10)"
            raise InvalidInput(f"{must}, got {validation.shown(self.rewards)}.")
        if len(self.gaps) not in (1, self.arms - 1):
            raise InvalidInput(f"gap must be one number, or {self.arms - 1}, one for every other arm; got {self.gaps}.")
        for gap in self.gaps:
            if not 0.0 < validation.real("gap", gap) <= self.level - EDGE:
                raise InvalidInput(
                    f"gap must lie in (0, {self.level - EDGE:g}], since the best arm's mean, level, is {self.level:g}, "
                    f"got {gap:g}; give a larger level if it is larger."
                )

    def __call__(self, rng: np.random.Generator) -> Game:
        """Draw a panel."""
        odds = self.level / (1 - self.level) * math.exp(self.error * rng.normal())
        best = min(max(odds / (1 + odds), 2 * EDGE), 1.0 - EDGE)
        centres = np.clip(np.append(best, best - self._gaps(rng)), EDGE, 1.0 - EDGE)
        spread = self.spread * math.exp(self.error * rng.normal())
        means = rng.normal(0.0, spread, (self.agents, self.arms)) if self.agents > 1 else np.zeros((1, self.arms))
        order = rng.permutation(self.arms)
        return Game(_centred(centres + means, centres)[:, order], rewards=self.rewards)

    def _gaps(self, rng: np.random.Generator) -> Array:
        gaps = np.array(self.gaps) * np.exp(self.error * rng.normal(size=len(self.gaps)))
        if len(gaps) == self.arms - 1:
            return np.asarray(gaps)
        further = rng.exponential(size=self.arms - 2) if self.error > 0 else np.ones(self.arms - 2)
        return np.asarray(gaps[0] * np.cumsum(np.append(1.0, further)))

    def sized(self, agents: int) -> Guess:
        """Return the same guesses for more or fewer agents."""
        return replace(self, agents=agents)

    def centre(self) -> Game:
        """Return a panel at the guesses themselves, with evenly spaced arms behind a single gap."""
        return replace(self, error=0.0)(np.random.default_rng(0))

    def words(self) -> str:
        """Say in words what is believed."""
        gaps = ", ".join(f"{gap:g}" for gap in self.gaps)
        sure = f"each of these off by about {100 * self.error:g} %" if self.error else "all of it taken as exact"
        return (
            f"a gap of {gaps} behind a best arm of mean {self.level:g}, agents who differ by {self.spread:g} "
            f"(standard deviation), {sure}"
        )


@dataclass(frozen=True)
class Known:
    """One game, taken as exact; a larger panel has every agent several times."""

    game: Game

    def __call__(self, rng: np.random.Generator) -> Game:
        """Return the game."""
        return self.game

    def sized(self, agents: int) -> Known | None:
        """Return every agent several times, if that comes to this many; None where the law fixes who there is."""
        if agents % self.game.agents or self.game.rewards.means() is not None:
            return None
        rows = np.arange(agents) % self.game.agents
        weights = self.game.weights[rows] if self.game.weighted else None
        return Known(Game(self.game.means[rows], rewards=self.game.rewards, weights=weights))

    def centre(self) -> Game:
        """Return the game."""
        return self.game

    def words(self) -> str:
        """Say in words what is believed."""
        return f"{self.game!r}, taken as exact"


@dataclass(frozen=True)
class Drawn:
    """Beliefs of one's own: a function from a generator to a game."""

    maker: Callable[[np.random.Generator], Game]

    def __call__(self, rng: np.random.Generator) -> Game:
        """Draw one."""
        game = self.maker(rng)
        validation.instance("game", game, Game, "a function that returns a freepull.Game")
        return game

    def sized(self, agents: int) -> Drawn | None:
        """Return the same makers for another number, if they say how many they make, as `instances.Family` does."""
        maker: Any = self.maker
        if not is_dataclass(maker) or "agents" not in {part.name for part in fields(maker)}:
            return None
        resized: Any = replace(maker, agents=agents)  # type: ignore[type-var]
        return Drawn(resized)

    def centre(self) -> Game:
        """Return one of them."""
        return self(np.random.default_rng(0))

    def words(self) -> str:
        """Say in words what is believed."""
        return f"games drawn by {described(self.maker)}"


@dataclass(frozen=True)
class Logged:
    """What a log says: of the logged agents themselves, or of others like them."""

    posterior: Posterior
    agents: int | None = None

    def __call__(self, rng: np.random.Generator) -> Game:
        """Draw one."""
        return Game(self.posterior.draw(rng, self.agents), rewards=self.posterior.law)

    def sized(self, agents: int) -> Logged:
        """Return the beliefs about another number of agents, like the logged ones."""
        return Logged(self.posterior, agents)

    def centre(self) -> Game:
        """Return the estimated game; others than the logged agents are drawn around its arms."""
        means = self.posterior.means()
        if self.agents is not None:
            arms = means.mean(axis=0)
            rows = np.random.default_rng(0).normal(arms, self.posterior.spread, (self.agents, len(arms)))
            means = _centred(rows, arms)
        return Game(means, rewards=self.posterior.law)

    def words(self) -> str:
        """Say in words what is believed."""
        past, posterior = self.posterior.past, self.posterior
        whom = "these agents themselves" if self.agents is None else "others like them"
        arms = ", ".join(past.arms[:NAMED]) + (", …" if len(past.arms) > NAMED else "")
        left_out = f", {len(past.unusable):,} of {past.rows:,} rows left out," if past.unusable else ""
        return (
            f"what a log of {past.pulls.sum():,} pulls of {len(past.arms)} arms ({arms}) by {len(past.agents):,} "
            f"agents{left_out} says about {whom}: they differ by about {posterior.spread:.2g}, arms by about "
            f"{posterior.arms_spread:.2g} (standard deviations); panels of other sizes are of others like them"
        )


def _centred(means: Array, centres: Array) -> Array:
    """Move every arm's means within [0, 1] so that they average to its centre."""
    for _ in range(100):
        shift = centres - means.sum(axis=0) / len(means)
        means = np.clip(means + shift, 0.0, 1.0)
        if np.abs(shift).max() < 1e-9:
            break
    return means
