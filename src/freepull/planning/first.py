"""The first answer: formulas at the guesses, and at some games drawn from what is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freepull.agents import AlphaUCB
from freepull.planning import formulas
from freepull.planning.forecast import Case
from freepull.planning.lower_bound import lower_bound

DRAWS, ROWS = 64, 20_000
"""Games that are drawn at most, and agents of all of them together."""
POWER = 0.95


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
    """Medians over what is believed."""
    lower_bound: float
    fixed_test: float
    alpha_ucb: bool
    """Whether the agents are the α-UCB learners that the formulas assume."""
    source: str = "formula"


def first(case: Case) -> First:
    """Compute the first answer."""
    learners = [agent for agent in case.strategies if type(agent) is AlphaUCB]
    alpha = float(np.mean([agent.alpha for agent in learners])) if learners else 2.0
    centre = case.beliefs.centre()
    at = formulas.sketch(centre, case.principal, case.horizon, alpha)
    rng = np.random.default_rng(case.seed)
    drawn = [
        formulas.sketch(case.beliefs(rng), case.principal, case.horizon, alpha)
        for _ in range(max(4, min(DRAWS, ROWS // case.agents)))
    ]
    spends, possible = [one.spend for one in drawn], float(np.mean([one.possible for one in drawn]))
    doubt = "near zero" if float(np.median([one.share for one in drawn])) < formulas.RELIABLE else ""
    doubt = doubt if possible >= 0.5 else "the horizon is too short"
    low, middle, high = np.quantile(spends, [0.05, 0.5, 0.95])
    order = np.argsort(-centre.global_means, kind="stable")
    delta = float(case.principal.rule.delta or 0.0)
    bound = lower_bound(centre, at.natural, delta).sum() if 0.0 < delta < 0.5 else math.nan
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
        lower_bound=float(bound),
        fixed_test=formulas.fixed_test(centre, delta, POWER),
        alpha_ucb=len(learners) == len(case.strategies),
    )
