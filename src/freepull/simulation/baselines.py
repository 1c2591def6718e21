"""Mechanisms of others, as baselines: `simulate` and `compare` take them in a principal's place, on the same game.

They have agents of their own kind, who act in every step and take every offer that suits them; their rewards are those
of the game, from the same stacks. docs/research.md, baselines, says what is from the papers and what is ours.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import registry, validation
from freepull.agents import Agent, AlphaUCB
from freepull.agents.base import first_largest
from freepull.errors import AgentError, InvalidInput
from freepull.game import Game
from freepull.principal.record import UNITS, units
from freepull.randomness import CHOICE, REWARD, key, word

if TYPE_CHECKING:
    from freepull.simulation.experiment import Experiment
    from freepull.simulation.results import Checkpoint, Outcome

__all__ = ["Compensation", "Mechanism", "PriceSearch"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


class Counted(NamedTuple):
    """What there is to tell of a run: by recorded step, the last one being the horizon, by agent and arm."""

    pulls: Counts
    paid: Counts
    """How many of the pulls were paid for."""
    sums: Counts
    """Rewards…"""
    spent: Counts
    """…and payments, in units of 2⁻³⁰."""


def counted(steps: int, game: Game) -> Counted:
    """Return zeros."""
    pulls, paid, sums, spent = np.zeros((4, steps, game.agents, game.arms), np.int64)
    return Counted(pulls, paid, sums, spent)


def recorded(experiment: Experiment) -> list[int]:
    """Return the steps at whose end a run is recorded."""
    return sorted({*experiment.checkpoints, experiment.horizon})


class Mechanism(ABC):
    """A mechanism that is not Observe-then-Incentivize. It never decides; at the horizon it names what looks best."""

    rule = ""
    """What it is, in words."""

    def check(self, game: Game, horizon: int) -> None:  # noqa: B027
        """Raise a sentence if it cannot be played on this game for so long."""

    def describe(self) -> dict[str, Any]:
        """Return what provenance records."""
        return {"baseline": registry.brief(registry.encode(self)), "rule": self.rule, "assumptions": []}

    @abstractmethod
    def count(self, experiment: Experiment, game: Game, run: int) -> Counted:
        """Play one run in plain Python."""

    def play(self, experiment: Experiment, run: int) -> Outcome:
        """Play one run, step by step."""
        game = experiment.game_of(run)
        self.check(game, experiment.horizon)
        return outcome(experiment, game, run, self.count(experiment, game, run))


class Stacks:
    """The rewards of one run, in the order of pulls, as for any other agents of this seed, and what was paid."""

    def __init__(self, experiment: Experiment, game: Game, run: int) -> None:
        self.game = game
        self.places = {step: i for i, step in enumerate(recorded(experiment))}
        self.keys = [key(experiment.seed, run, m, REWARD) for m in range(game.agents)]
        self.now = [[[0] * game.arms for _ in range(game.agents)] for _ in Counted._fields]
        self.kept = counted(len(self.places), game)

    def pull(self, agent: int, arm: int, t: int, price: float = 0.0) -> float:
        """Return the next reward of this agent and arm, and note what is paid for it: its pull of step t."""
        pulls, paid, sums, spent = (each[agent] for each in self.now)
        pulls[arm] += 1
        reward = self.game.streams.draw(agent, arm, word(self.keys[agent], arm, pulls[arm]))
        sums[arm] += units(reward)
        spent[arm] += units(price)
        paid[arm] += units(price) > 0
        if t in self.places:
            for kept, now in zip(self.kept, self.now, strict=True):
                kept[self.places[t], agent] = now[agent]
        return reward


def outcome(experiment: Experiment, game: Game, run: int, found: Counted) -> Outcome:
    """Return the end of a run: the arm with the best average of the agents' sample means is named."""
    from freepull.simulation.results import Outcome

    arm = first_largest(looks(game, found.pulls[-1], found.sums[-1]))
    return Outcome(
        run=run, game=game, arm=arm, correct=game.is_best(arm), decided=False, certified=False, decided_at=None,
        offered=int(found.paid[-1].sum()), refused=0, banned=0, pulls=found.pulls[-1], sums=found.sums[-1],
        paid=found.paid[-1], received=found.spent[-1].sum(axis=1), trace=_trace(experiment, game, found),
    )  # fmt: skip


def looks(game: Game, pulls: Counts, sums: Counts) -> list[float]:
    """Return Σ_m p_m·S_km/N_km of every arm; what an agent never pulled counts as 0."""
    seen = np.where(pulls > 0, sums / np.maximum(pulls, 1), 0.0) / UNITS
    return [math.fsum(column) for column in (game.weights[:, None] * seen).T.tolist()]


def _trace(experiment: Experiment, game: Game, found: Counted) -> list[Checkpoint]:
    from freepull.simulation.results import Checkpoint, regret_by_arm

    steps, trace = recorded(experiment), list[Checkpoint]()
    for i, t in enumerate(steps):
        if t in experiment.checkpoints:
            seen, regrets = looks(game, found.pulls[i], found.sums[i]), regret_by_arm(game, found.pulls[i])
            paid, pulls = int(found.paid[i].sum()), found.pulls[i].sum(axis=0).tolist()
            trace.extend(
                Checkpoint(t, k, True, seen[k], math.nan, paid, pulls[k], regrets[k]) for k in range(game.arms)
            )
    return trace


@dataclass(frozen=True)
class Compensation(Mechanism):
    """Known compensation: players who want what looks best are paid the empirical gap for what a policy picks.

    Every agent is a place to which a new, myopic player comes in each step. A player knows what was seen there, and
    wants the arm with the best sample mean; an arm that was never pulled counts as 0 for it. The principal's policy
    picks an arm from the same samples and pays the player what the best sample mean is above that of this arm: the
    least that makes a player pull it. She wants little regret and little compensation at every place; which arm is
    best on average over places is told by the samples afterwards.

    Parameters
    ----------
    policy
        How she picks: an agent, such as ``AlphaUCB(2)``, ``EpsilonGreedy()`` or ``Thompson()``, which both engines run,
        or any other one with ``pick(t)`` and ``learn(arm, reward)``.

    References
    ----------
    Wang and Huang, *Multi-armed bandits with compensation*, NeurIPS 2018: a lower bound of Σ_i Δ_i/KL_i·log T, up to a
    constant, and policies of these three kinds that pay O(log T), with a regret of O(log T). Ours are the policies in
    their textbook form, from which those of the paper may differ.

    >>> import freepull as fp
    >>> game = fp.Game([[0.9, 0.6, 0.3]])
    >>> found = fp.simulate(game, principal=Compensation(), horizon=500, runs=3, progress=False)
    >>> found.frame.select("arm", "decided").unique().rows()
    [(0, False)]
    """

    policy: Agent = field(default_factory=AlphaUCB)

    rule = "compensation of the empirical gap (Wang and Huang 2018), heuristic"

    def __post_init__(self) -> None:
        if isinstance(self.policy, type) or not isinstance(self.policy, Agent):
            must = "policy must be an agent with methods pick(t) and learn(arm, reward)"
            raise InvalidInput(f"{must}, got {validation.shown(self.policy)}.")

    def count(self, experiment: Experiment, game: Game, run: int) -> Counted:
        """Place by place: each goes its own way."""
        stacks = Stacks(experiment, game, run)
        for m in range(game.agents):
            policy = copy.deepcopy(self.policy)
            begin = getattr(policy, "start", None)
            if begin is not None:
                begin(game.arms, key(experiment.seed, run, m, CHOICE))
            told = {"paid": 0.0} if registry.hears_of_bonuses(policy) else {}  # the policy pays, and is paid nothing
            means, sums, pulls = [0.0] * game.arms, [0.0] * game.arms, [0] * game.arms
            for t in range(1, experiment.horizon + 1):
                arm = policy.pick(t)
                if not validation.is_index(arm, game.arms):
                    must = f"policy.pick({t}) must return an arm from 0 to {game.arms - 1}"
                    raise AgentError(f"{must}, got {validation.shown(arm)}.")
                reward = stacks.pull(m, arm, t, max(means) - means[arm])
                policy.learn(arm, reward, **told)
                pulls[arm] += 1
                sums[arm] += reward
                means[arm] = sums[arm] / pulls[arm]
        return stacks.kept


@dataclass(frozen=True)
class PriceSearch(Mechanism):
    """IPA: search the least price of every arm by halving, then UCB on what is left of the rewards.

    The agents know what their arms are worth to them and pull the arm that is best with what is offered on top. In the
    first K·⌈log₂ T⌉ steps the arms are offered in turn, to every agent in the middle of where its least price for the
    arm must lie, which is halved. From then on one arm a step is offered, to all agents at their prices and 1/T² more,
    so that all of them pull it: the one with the largest mean of what is left of the rewards, X − price, and
    √(α·log T/N) more, with α = 4·σ²·Σp², an arm without such a step first. Samples of the search are not used for that.

    Parameters
    ----------
    sigma
        How wide a single reward is: sub-Gaussian with this σ, as any reward in [0, 1] is with ½.
    most
        The largest price there can be.
    worth
        What pulls are worth to the agents, M×K, where that is not what they yield: the mean rewards by default.
    known
        The prices are known, and nothing is searched: what the search costs is the difference.

    References
    ----------
    Scheid, Tiapkin, Boursier, Capitaine, El Mhamdi, Moulines, Jordan and Durmus, *Incentivized learning in
    principal-agent bandit games*, ICML 2024. It has one agent; offers to M of them, each at its own price, are ours.

    >>> import freepull as fp
    >>> game = fp.Game([[0.9, 0.6, 0.3], [0.1, 0.6, 0.3]])
    >>> found = fp.simulate(game, principal=PriceSearch(), horizon=2000, runs=3, progress=False)
    >>> found.frame["arm"].to_list()
    [1, 1, 1]
    """

    sigma: float = 0.5
    most: float = 1.0
    worth: Any = None
    known: bool = False

    rule = "search for the least prices, then UCB (Scheid et al. 2024), heuristic"

    def __post_init__(self) -> None:
        validation.keep_real(self, "sigma", 0.0, open_low=True)
        validation.keep_real(self, "most", 0.0, open_low=True)

    def check(self, game: Game, horizon: int) -> None:
        """All arms must be searched and tried, and no price may be too large to be found."""
        worth = self.worths(game)
        apart = float(np.ptp(worth, axis=1).max())
        if apart > self.most:
            raise InvalidInput(f"most must be at least {apart:g}, the largest loss of an agent here, got {self.most}.")
        least = self.searched(game, horizon) + game.arms
        if horizon < least:
            raise InvalidInput(f"horizon must be at least {least} here, to search prices and try arms, got {horizon}.")

    def worths(self, game: Game) -> Array:
        """What every arm is worth to every agent."""
        if self.worth is None:
            return game.means
        worth = validation.numbers("worth", self.worth)
        if worth.shape != game.means.shape or not np.isfinite(worth).all():
            must = f"worth must be a table of {game.agents} agents × {game.arms} arms"
            raise InvalidInput(f"{must}, got {validation.shown(self.worth)}.")
        return worth

    def searched(self, game: Game, horizon: int) -> int:
        """How many steps the search takes."""
        return 0 if self.known else game.arms * math.ceil(math.log2(horizon))

    def bracket(self, game: Game) -> tuple[Array, Array]:
        """Between which two numbers the least prices must lie, M×K, at first."""
        least = self.worths(game).max(axis=1, keepdims=True) - self.worths(game)
        if self.known:
            return least, least.copy()
        return np.zeros(game.means.shape), np.full(game.means.shape, self.most)

    def width(self, game: Game, horizon: int) -> float:
        """√(α·log T)."""
        share = math.fsum((game.weights**2).tolist())
        return math.sqrt(4.0 * self.sigma**2 * share * math.log(horizon))

    def count(self, experiment: Experiment, game: Game, run: int) -> Counted:
        """Search, then offer one arm a step to all."""
        stacks, T = Stacks(experiment, game, run), experiment.horizon
        agents, weights = range(game.agents), game.weights.tolist()
        worth = self.worths(game).tolist()
        low, high = (table.tolist() for table in self.bracket(game))
        search, width, more = self.searched(game, T), self.width(game, T), 1.0 / (T * T)
        for t in range(1, search + 1):
            k = (t - 1) % game.arms
            for m in agents:
                price = (low[m][k] + high[m][k]) / 2.0
                arm = _wanted(worth[m], k, price)
                stacks.pull(m, arm, t, price if arm == k else 0.0)
                (high if arm == k else low)[m][k] = price
        left, times = [0.0] * game.arms, [0] * game.arms
        for t in range(search + 1, T + 1):
            k = times.index(0) if 0 in times else first_largest(
                [total / n + width / math.sqrt(n) for total, n in zip(left, times, strict=True)]
            )  # fmt: skip
            gain = cost = 0.0
            for m in agents:
                price = high[m][k] + more
                arm = _wanted(worth[m], k, price)
                gain += weights[m] * stacks.pull(m, arm, t, price if arm == k else 0.0)
                cost += price if arm == k else 0.0
            left[k] += gain - cost / game.agents
            times[k] += 1
        return stacks.kept


def _wanted(worth: list[float], offered: int, price: float) -> int:
    """Return what an agent pulls who is offered a price for one arm; of equals, the lowest."""
    return first_largest([value + price if k == offered else value for k, value in enumerate(worth)])
