"""A first answer by formulas, before anything is simulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.agents import AlphaUCB
from freepull.agents.answers import Always
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.planning.question import Case
from freepull.principal import Principal
from freepull.principal.offers import affordable
from freepull.principal.rules import Certified, Comparisons, Rule
from freepull.principal.rules.base import Setting
from freepull.principal.rules.rounds import fill_needed
from freepull.theory import cost_of, lower_bound, natural_pulls

Array = NDArray[np.float64]
ENOUGH = 0.01
"""A trial counts as free by the formulas where less than this share of the pulls that it needs has to be bought."""
RELIABLE = 0.3
"""Below this share that has to be bought, the formulas are too close to zero to be shown."""
MOST_AGENTS = 1e9
"""More agents than this are no number."""


@dataclass(frozen=True)
class Sketch:
    """One game by formulas: the pulls that every agent should give, and those that come for free."""

    needed: Array
    """n_k, pulls of every arm by every agent."""
    natural: Array
    """N_km(κ), M×K."""
    kappa: int
    horizon: int
    one: bool
    """Whether there is one offer a step, or one for each agent."""
    budget: float = math.inf
    """How many bonuses can be afforded."""
    copies: float = 1.0
    """How many agents each row stands for."""

    @property
    def missing(self) -> Array:
        """(n_k − N_km)⁺."""
        return np.asarray(np.maximum(self.needed - self.natural, 0.0))

    @property
    def spend(self) -> float:
        """Ĉ = Σ(n_k − N_km)⁺, at most what can be paid in the time that is left, and from the budget."""
        left, each = float(self.horizon - self.kappa), self.missing.sum(axis=1)
        paid = min(self._total, left) if self.one else float(np.minimum(each, left).sum()) * self.copies
        return min(paid, self.budget)

    @property
    def share(self) -> float:
        """The share of the needed pulls that has to be bought."""
        needed = float(self.needed.sum()) * len(self.natural)
        return float(self.missing.sum()) / needed if needed > 0 else 0.0

    @property
    def possible(self) -> bool:
        """Whether money and time suffice: for all agents one after the other, or for the one who misses most."""
        longest = self._total if self.one else float(self.missing.sum(axis=1).max())
        return longest <= self.horizon - self.kappa and self._total <= self.budget

    @property
    def _total(self) -> float:
        return float(self.missing.sum()) * self.copies

    def with_agents(self, agents: float) -> Sketch:
        """Return the same for another number of agents like these: everybody's share of the need is M/M′ of it."""
        copies = agents / len(self.natural)
        return replace(self, needed=self.needed * self.copies / copies, copies=copies)


def sketch(game: Game, principal: Principal, horizon: int, alpha: float = 2.0) -> Sketch:
    """Compute n_k and N_km(κ) for a known game and α-UCB agents."""
    kappa = observed(game, principal, horizon)
    needed, active = np.zeros(game.arms), np.ones(game.arms, np.int64)
    spreads = (game.weights[:, None] ** 2 * game.variances).sum(axis=0)
    beta = evidence(principal.rule)
    plain: Any = getattr(fill_needed, "py_func", fill_needed)  # loading machine code takes longer than this
    means = game.global_means + tolerance(principal.rule) * (np.arange(game.arms) == game.best)
    margin = 2 * principal.rule.robust if isinstance(principal.rule, Certified) else 0.0
    plain(needed, means, active, spreads, beta, 1e-9, margin)
    natural = natural_pulls(game.means, kappa, alpha) if kappa > 1 else np.zeros(game.means.shape)
    money = affordable(principal.budget, principal.bonus)
    return Sketch(needed, natural, kappa, horizon, principal.offers == "one", math.inf if money is None else money)


def observed(game: Game, principal: Principal, horizon: int) -> int:
    """κ, as far as it is known beforehand."""
    setting = Setting(game.arms, game.agents, horizon, game.weights, game.weighted, principal.offers)
    return replace(setting, kappa=principal.observe.kappa(setting, principal.rule)).expected_kappa or 0


def evidence(rule: Rule) -> float:
    """β, the evidence that a rule has to gather (docs/planning.md, formulas)."""
    assert isinstance(rule, Certified)
    return math.log(1 / rule.delta) + 1


def check_rule(rule: Rule) -> None:
    """Refuse rules that no plan is made for."""
    if not isinstance(rule, Certified | Comparisons):
        raise InvalidInput(
            "rule must be rules.Certified or rules.Comparisons, which plans are made for, "
            f"got {type(rule).__name__}; simulate others with freepull.simulate."
        )


def tolerance(rule: Rule) -> float:
    """ε: how much worse than the best the named arm may be."""
    return rule.epsilon if isinstance(rule, Certified | Comparisons) else 0.0


def agents_for_free(of: Sketch) -> float:
    """The number of agents at which free pulls do nearly all of it."""
    return _smallest(lambda agents: of.with_agents(agents).share <= ENOUGH)


def agents_for_certainty(of: Sketch) -> float:
    """The number of agents at which the horizon suffices."""
    return _smallest(lambda agents: of.with_agents(agents).possible)


def _smallest(fits: Callable[[float], bool]) -> float:
    low, high = 1.0, MOST_AGENTS
    if not fits(high):
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(math.ceil(high))


def fixed_test(game: Game, delta: float, power: float, epsilon: float = 0.0) -> float:
    """Pulls that a fixed A/B test pays for, all arms together.

    As many of every arm by every agent, a number n fixed beforehand, one look at the end. The best arm is named if it
    beats every rival by a one-sided z-test at δ/(K−1), and n is the smallest with which that fails with probability at
    most 1 − ``power`` (a union over rivals). With ``epsilon`` it has to show only that no rival is better by more.
    Agents' own choices play no part, so every pull is paid for. n may be a fraction, as if a part of the agents could
    stand for all.

    >>> round(fixed_test(Game([[0.5, 0.4]]), 0.05, 0.9))
    840
    """
    spreads = (game.weights[:, None] ** 2 * game.variances).sum(axis=0)
    return _whole(game.agents * game.arms * _fixed(game, spreads, delta, power, epsilon))


def randomised_test(game: Game, delta: float, power: float, epsilon: float = 0.0) -> float:
    """Pulls that a randomised test needs where options can simply be assigned, all arms together; no bonus is paid.

    Every pull is of an arm drawn at random, whoever makes it, so what people differ by is noise as well; pulls of one
    person are taken for those of several. Otherwise it is `fixed_test`.

    >>> round(randomised_test(Game([[0.5, 0.4]]), 0.05, 0.9))
    840
    """
    apart = game.means - game.global_means
    spreads = (game.weights[:, None] * (game.variances + apart**2)).sum(axis=0)
    return _whole(game.arms * _fixed(game, spreads, delta, power, epsilon))


def _whole(pulls: float) -> float:
    return float(math.ceil(pulls)) if math.isfinite(pulls) else pulls


def _fixed(game: Game, spreads: Array, delta: float, power: float, epsilon: float) -> float:
    """The least n with which the best arm beats every rival, where an arm's mean has the variance s_k/n."""
    normal, best = NormalDist(), game.best
    z = normal.inv_cdf(1 - delta / (game.arms - 1))
    rivals = [(float(game.gaps[k]), float(spreads[best] + spreads[k])) for k in range(game.arms) if k != best]
    if game.minimum_gap + epsilon == 0.0:
        return math.inf

    def fails(n: float) -> float:
        return sum(normal.cdf(z - (gap + epsilon) * math.sqrt(n / spread)) for gap, spread in rivals if spread > 0)

    low, high = 0.0, 1e-6
    while fails(high) > 1 - power:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) > 1 - power else (low, middle)
    return high


DRAWS, ROWS, PANEL = 64, 20_000, 5_000
"""Games that are drawn at most, agents of all of them, and agents of one, who stand for all if there are more."""
POWER = 0.95
HEURISTIC = "formula, heuristic"
FREE, OUT_OF_REACH = "most of it is free", "time or money do not suffice"
UNKNOWN = "simulation only: formulas know the rule Certified, people who always act, and one bonus for all"
"""Why a spend is not shown."""


@dataclass(frozen=True)
class First:
    """What formulas say; the range comes from the guesses alone, not from the luck of a trial."""

    spend: float | None
    """The median over what is believed; None where formulas are unreliable, which ``doubt`` explains."""
    doubt: str
    """Empty where formulas are reliable."""
    range: tuple[float, float] | None
    """The 90 % range of the formula over what is believed."""
    possible: float
    """The share of what is believed in which the horizon suffices."""
    needed: tuple[float, ...]
    """Pulls of every arm that every agent should give, best arm first, at the guesses; none where nothing is known."""
    natural: tuple[float, ...]
    """Those that an agent gives for free by the end of the observing phase, on average over agents."""
    kappa: int
    agents_needed: float
    agents_free: float
    """Medians over what is believed; the second only says where a search by simulation begins."""
    lower_bound: float
    """NaN where there is none: for δ ≥ ½, for ε > 0, and where formulas know nothing."""
    lower_money: float
    """The same in units of reward, if everybody is paid what a pull makes it give up."""
    fixed_test: float
    """NaN where not everybody is there in every step, so that nobody can be given every arm equally often."""
    randomised: float
    """Pulls of a randomised test that pays nothing."""
    as_assumed: bool
    """Whether the agents are what the formulas assume: α-UCB learners who take every offer."""
    source: str = HEURISTIC

    @property
    def known(self) -> bool:
        """Whether formulas know anything of such a trial."""
        return self.doubt != UNKNOWN


def first(case: Case) -> First:
    """Compute the first answer."""
    principal = case.principal
    if not case.people.always_there or isinstance(principal.rule, Comparisons) or principal.pricing is not None:
        return _unknown(case)
    learners = [agent for agent in case.people.strategies if type(agent) is AlphaUCB]
    alpha = float(np.mean([agent.alpha for agent in learners])) if learners else 2.0
    few = case.sized(PANEL) if case.agents > PANEL else None
    beliefs = case.beliefs if few is None else few.beliefs

    def sketched(game: Game) -> Sketch:
        return sketch(game, case.principal, case.horizon, alpha).with_agents(case.agents)

    centre = beliefs.centre()
    at = sketched(centre)
    rng = np.random.default_rng(case.seed)
    drawn = [sketched(beliefs(rng)) for _ in range(max(4, min(DRAWS, ROWS // centre.agents)))]
    spends, possible = [one.spend for one in drawn], float(np.mean([one.possible for one in drawn]))
    free = float(median([one.share for one in drawn])) < RELIABLE
    doubt = "" if possible >= 0.5 and not free else FREE if possible >= 0.5 else OUT_OF_REACH
    low, middle, high = np.quantile(spends, [0.05, 0.5, 0.95])
    order = np.argsort(-centre.global_means, kind="stable")
    delta, epsilon = float(case.principal.rule.delta or 0.0), tolerance(case.principal.rule)
    bound, in_money = _bounds(case, alpha)
    return First(
        spend=None if doubt else float(middle),
        doubt=doubt,
        range=None if doubt else (float(low), float(high)),
        possible=possible,
        needed=tuple(at.needed[order].tolist()),
        natural=tuple(at.natural.mean(axis=0)[order].tolist()),
        kappa=at.kappa,
        agents_needed=float(median([agents_for_certainty(one) for one in drawn])),
        agents_free=float(median([agents_for_free(one) for one in drawn])),
        lower_bound=bound,
        lower_money=in_money,
        fixed_test=fixed_test(centre, delta, POWER, epsilon),
        randomised=randomised_test(centre, delta, POWER, epsilon),
        as_assumed=len(learners) == len(case.people.strategies)
        and all(type(it) is Always for it in case.people.answers),
    )


def _unknown(case: Case) -> First:
    """What is known where formulas are not: κ, and the fixed test if everybody is there to take it."""
    centre, rule, nan = case.beliefs.centre(), case.principal.rule, math.nan
    test = fixed_test(centre, float(rule.delta or 0.0), POWER, tolerance(rule)) if case.people.always_there else nan
    unbounded = not case.people.always_there or isinstance(rule, Comparisons)
    return First(
        spend=None, doubt=UNKNOWN, range=None, possible=nan, needed=(), natural=(),
        kappa=observed(centre, case.principal, case.horizon), agents_needed=nan, agents_free=nan, lower_bound=nan,
        lower_money=nan if unbounded else _bounds(case, 2.0)[1], fixed_test=test,
        randomised=randomised_test(centre, float(rule.delta or 0.0), POWER, tolerance(rule)), as_assumed=True,
        source="formula",
    )  # fmt: skip


def _bounds(case: Case, alpha: float) -> tuple[float, float]:
    """The lower bound at the guesses, in bonuses, and in units of reward at true gaps.

    With the free pulls of a whole horizon: later ones help a principal as well.
    """
    delta = float(case.principal.rule.delta or 0.0)
    if not 0.0 < delta < 0.5 or tolerance(case.principal.rule) > 0.0:
        return math.nan, math.nan
    game = case.beliefs.centre()
    free = natural_pulls(game.means, case.horizon, alpha)
    cheapest = lower_bound(game, free, delta, game.losses)
    return float(lower_bound(game, free, delta).sum()), cost_of(cheapest, game.losses)
