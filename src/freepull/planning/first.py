"""The first answer: formulas at the guesses, and at some games drawn from what is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freepull.agents import AlphaUCB
from freepull.answers import Always
from freepull.fluid import natural_pulls
from freepull.game import Game
from freepull.planning import formulas
from freepull.planning.case import Case
from freepull.planning.lower_bound import lower_bound

DRAWS, ROWS, PANEL = 64, 20_000, 5_000
"""Games that are drawn at most, agents of all of them, and agents of one, who stand for all if there are more."""
POWER = 0.95
HEURISTIC = "formula, heuristic"
FREE, OUT_OF_REACH = "most of it is free", "time or money do not suffice"
"""Why a spend is not shown."""


@dataclass(frozen=True)
class First:
    """What formulas say; the range comes from the guesses alone, not from the luck of a trial."""

    spend: float | None
    """The median over what is believed; None where formulas are unreliable, which ``doubt`` explains."""
    doubt: str
    range: tuple[float, float] | None
    """The 90 % range of the formula over what is believed."""
    possible: float
    """The share of what is believed in which the horizon suffices."""
    needed: tuple[float, ...]
    """Pulls of every arm that every agent should give, best arm first, at the guesses."""
    natural: tuple[float, ...]
    """Those that an agent gives for free by the end of the observing phase, on average over agents."""
    kappa: int
    agents_needed: float
    agents_free: float
    """Medians over what is believed; the second only says where a search by simulation begins."""
    lower_bound: float
    """NaN where there is none: for δ ≥ ½, and for ε > 0."""
    fixed_test: float
    as_assumed: bool
    """Whether the agents are what the formulas assume: α-UCB learners who take every offer."""
    source: str = HEURISTIC


def first(case: Case) -> First:
    """Compute the first answer."""
    learners = [agent for agent in case.strategies if type(agent) is AlphaUCB]
    alpha = float(np.mean([agent.alpha for agent in learners])) if learners else 2.0
    few = case.sized(PANEL) if case.agents > PANEL else None
    beliefs = case.beliefs if few is None else few.beliefs

    def sketched(game: Game) -> formulas.Sketch:
        return formulas.sketch(game, case.principal, case.horizon, alpha).with_agents(case.agents)

    centre = beliefs.centre()
    at = sketched(centre)
    rng = np.random.default_rng(case.seed)
    drawn = [sketched(beliefs(rng)) for _ in range(max(4, min(DRAWS, ROWS // centre.agents)))]
    spends, possible = [one.spend for one in drawn], float(np.mean([one.possible for one in drawn]))
    free = float(np.median([one.share for one in drawn])) < formulas.RELIABLE
    doubt = "" if possible >= 0.5 and not free else FREE if possible >= 0.5 else OUT_OF_REACH
    low, middle, high = np.quantile(spends, [0.05, 0.5, 0.95])
    order = np.argsort(-centre.global_means, kind="stable")
    delta, epsilon = float(case.principal.rule.delta or 0.0), formulas.tolerance(case.principal.rule)
    return First(
        spend=None if doubt else float(middle),
        doubt=doubt,
        range=None if doubt else (float(low), float(high)),
        possible=possible,
        needed=tuple(at.needed[order].tolist()),
        natural=tuple(at.natural.mean(axis=0)[order].tolist()),
        kappa=at.kappa,
        agents_needed=float(np.median([formulas.agents_for_certainty(one) for one in drawn])),
        agents_free=float(np.median([formulas.agents_for_free(one) for one in drawn])),
        lower_bound=_bound(case, alpha, delta) if 0.0 < delta < 0.5 and epsilon == 0.0 else math.nan,
        fixed_test=formulas.fixed_test(centre, delta, POWER, epsilon),
        as_assumed=len(learners) == len(case.strategies) and all(type(it) is Always for it in case.answers),
    )


def _bound(case: Case, alpha: float, delta: float) -> float:
    """The lower bound at the guesses, with the free pulls of a whole horizon: later ones help a principal as well."""
    game = case.beliefs.centre()
    return float(lower_bound(game, natural_pulls(game.means, case.horizon, alpha), delta).sum())
