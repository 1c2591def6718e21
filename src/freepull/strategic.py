"""`fp.best_response`: what a strategic user could gain, by search, while all others are honest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import showing, validation
from freepull.agents import Agent, AlphaUCB, Withholding
from freepull.agents.activity import Activity
from freepull.agents.answers import Always, Answer, HoldOut, IfWorthIt, Never, WithProbability
from freepull.agents.leaving import Leaving
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.principal import Principal, rules
from freepull.simulation import Result, simulate
from freepull.simulation.experiment import GameMaker, check

ALPHAS = (2.0, 1.0, 0.5, 0.2, 0.1, 0.05)
SHARES = (0.5, 0.75, 1.0)
"""Of the horizon, up to which arms are withheld; who stops before the end makes up for it then."""
AGAINST = ("control", "honesty")
ANSWERS: tuple[Answer, ...] = (Always(), HoldOut(10), HoldOut(1000), IfWorthIt(), WithProbability(0.8), Never())
KEPT = 4
"""Of so many strategies one is kept from round to round, and played four times as often."""
_FRESH = 1 << 40
"""The first of the runs on which the strategy that was found is judged: none that it was chosen by."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """A mean over runs with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:+,.1f} ± {1.96 * self.error:,.1f}"


@dataclass(frozen=True)
class BestResponse:
    """The best strategy that was found, and what it brings, on luck that it was not chosen by.

    All in units of reward and a run, against honesty on the same luck.
    """

    agent: Agent
    answer: Answer
    """How it picks, and how it answers offers."""
    gain: Part
    """What it earns more: rewards and bonuses together."""
    rewards: Part
    bonuses: Part
    """The same, apart."""
    alone: Part
    """What the same strategy gains where nobody is ever paid, which incentives are not to blame for."""
    added: Part
    """The gain without that: what incentives add."""
    cost: Part
    """What the principal pays more."""
    tried: int
    """How many strategies were tried."""
    runs: int
    """On how many runs it is judged."""

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        names = ("gain", "rewards", "bonuses", "alone", "added", "cost")
        rows = [(name, str(getattr(self, name))) for name in names]
        return showing.table(f"{self.agent!r}, {self.answer!r}", ("", "against honesty, 95 %"), rows)


def best_response(
    game: Game | GameMaker,
    *,
    principal: Principal,
    horizon: int,
    agent: int | Sequence[int] = 0,
    agents: Agent | Sequence[Agent] = AlphaUCB(),  # noqa: B008
    answers: Answer | Sequence[Answer] = Always(),  # noqa: B008
    activity: Activity | Sequence[Activity] | None = None,
    leaving: Leaving | Sequence[Leaving] | None = None,
    strategies: Sequence[tuple[Agent, Answer]] | None = None,
    against: str = "control",
    runs: int = 200,
    seed: int = 0,
    workers: int | None = None,
) -> BestResponse:
    """Search for the strategy by which an agent, or a coalition, earns most, rewards and bonuses, if others are honest.

    It is a search among families, not a proof that there is nothing better: the strategies explore more or less,
    withhold an arm or all but one up to some step; the best quarter of them answer offers in six ways. All are played a
    few times, the best more often, on the same luck; the one that is left is judged on luck that is new. What no
    strategy can exceed is proven in docs/mechanics.md, extraction.

    Parameters
    ----------
    game, principal, horizon
        What is played, as for `simulate`; a function that draws games draws one for every run.
    agent
        Who is strategic: a number, or several who all play one strategy.
    agents, answers
        What is honest.
    activity, leaving
        As for `simulate`.
    strategies
        Search among these, each a way to pick and a way to answer, instead of the families.
    against
        What the search wants most of: the gain over honesty without what the same strategy gains where nobody is ever
        paid, the "control", if it gains anything there; or all of the gain over "honesty".
    runs
        On how many runs the strategy that was found is judged.
    seed, workers
        As for `simulate`.

    >>> import freepull as fp
    >>> principal = fp.Principal(fp.rules.Paper(0.1, "simplified", 0.1))
    >>> found = best_response(fp.Game([[0.8, 0.55], [0.1, 0.55]]), principal=principal, horizon=200, runs=20)
    >>> found.tried, found.runs
    (102, 20)
    """
    people = {name: it for name, it in (("activity", activity), ("leaving", leaving)) if it is not None}
    checked = check(game, agents, answers, principal, horizon, 1, seed, "horizon", None, **people)
    M, K = checked.shape
    who = list(agent) if isinstance(agent, Sequence | np.ndarray) else [agent]
    if not who or not all(validation.is_index(m, M) for m in who):
        raise InvalidInput(f"agent must be numbers from 0 to {M - 1}, got {validation.shown(agent)}.")
    net = validation.one_of("against", against, AGAINST) == "control"
    world = _World(game, principal, horizon, who, checked.agents, checked.answers, people, seed, workers)
    tried, played, left = 0, 4, [] if strategies is None else list(strategies)
    if strategies is None:
        families = _agents(K, horizon)
        picked = world.best([(it, ANSWERS[0]) for it in families], played, net)
        tried, left = len(families), [(it, answer) for it, _ in picked for answer in ANSWERS]
    if not left:
        raise InvalidInput("strategies must have at least one pair of an agent and an answer, got none.")
    for it in left:
        if not isinstance(it, tuple) or len(it) != 2:
            raise InvalidInput(f"strategies must be pairs of an agent and an answer, got {validation.shown(it)}.")
    tried += len(left)
    while len(left) > 1:
        left = world.best(left, played, net)
        played *= KEPT
    fresh = range(_FRESH, _FRESH + validation.whole("runs", runs, 2))
    return world.judged(left[0], fresh, tried)


def _agents(arms: int, horizon: int) -> list[Agent]:
    held = [(arm, -1) for arm in range(arms)] + ([(-1, but) for but in range(arms)] if arms > 2 else [])
    withheld = [(-1, 0, -1), *((arm, math.ceil(share * horizon), but) for arm, but in held for share in SHARES)]
    return [Withholding(arm, until, alpha, but) for alpha in ALPHAS for arm, until, but in withheld]


@dataclass(frozen=True)
class _World:
    """Who plays with whom."""

    game: Game | GameMaker
    principal: Principal
    horizon: int
    who: list[int]
    agents: Sequence[Any]
    answers: Sequence[Any]
    """What is honest, one each."""
    people: Mapping[str, Any]
    seed: int
    workers: int | None

    def play(self, strategy: tuple[Any, Any] | None, runs: range, paid: bool = True) -> Result:
        """Let the strategists play a strategy, or be honest, with the principal or without any."""
        agents, answers = list(self.agents), list(self.answers)
        for m in self.who if strategy is not None else ():
            agents[m], answers[m] = strategy or (None, None)
        principal = self.principal if paid else Principal(rules.Passive())
        found = simulate(
            self.game, principal=principal, agents=agents, answers=answers, horizon=self.horizon, runs=list(runs),
            seed=self.seed, workers=self.workers, keep="agents", progress=False, **self.people,
        )  # fmt: skip
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    def own(self, result: Result, what: str) -> Floats:
        """Return what the strategists got, run by run."""
        assert result.agents is not None
        ours = result.agents.filter(result.agents["agent"].is_in(self.who)).select("run", what)
        return ours.group_by("run").sum().sort("run")[what].to_numpy()

    def earned(self, result: Result) -> Floats:
        """Rewards and bonuses."""
        return self.own(result, "reward") + self.own(result, "bonus")

    def best(self, strategies: list[tuple[Any, Any]], runs: int, net: bool) -> list[tuple[Any, Any]]:
        """Return the best of these strategies, after so many runs of each."""
        order = np.argsort(self.scores(strategies, range(runs), net))[::-1]
        return [strategies[i] for i in order[: max(1, len(strategies) // KEPT)].tolist()]

    def scores(self, strategies: list[tuple[Any, Any]], runs: range, net: bool) -> list[float]:
        """Return what strategies earn on average, without what they gain where nobody is paid if that is asked for."""
        alone: dict[str, float] = {}
        if net:
            honest = self.earned(self.play(None, runs, paid=False)).mean()
            for agent, answer in strategies:
                if repr(agent) not in alone:
                    unpaid = self.earned(self.play((agent, answer), runs, paid=False)).mean()
                    alone[repr(agent)] = max(float(unpaid - honest), 0.0)
        found = [float(self.earned(self.play(it, runs)).mean()) for it in strategies]
        return [earned - alone.get(repr(it[0]), 0.0) for earned, it in zip(found, strategies, strict=True)]

    def judged(self, strategy: tuple[Any, Any], runs: range, tried: int) -> BestResponse:
        """Compare a strategy with honesty."""
        one, two = self.play(strategy, runs), self.play(None, runs)
        rewards, bonuses = (self.own(one, what) - self.own(two, what) for what in ("reward", "bonus"))
        alone = self.own(self.play(strategy, runs, paid=False), "reward")
        alone = alone - self.own(self.play(None, runs, paid=False), "reward")
        cost = one.frame["spent"].to_numpy() - two.frame["spent"].to_numpy()
        return BestResponse(
            agent=strategy[0],
            answer=strategy[1],
            gain=_part(rewards + bonuses),
            rewards=_part(rewards),
            bonuses=_part(bonuses),
            alone=_part(alone),
            added=_part(rewards + bonuses - alone),
            cost=_part(cost),
            tried=tried,
            runs=len(runs),
        )


def _part(values: Floats) -> Part:
    return Part(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))
