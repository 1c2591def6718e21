"""Personalised targets: the best arm for a named agent, its own mean mixed with everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal.principal import Principal
from freepull.principal.trial import Trial


def personal_weights(agents: int, agent: int, beta: float) -> NDArray[np.float64]:
    """Return p_m (docs/certified.md, personalised): β = 0 is the plain average, β = 1 the agent alone.

    >>> personal_weights(4, 1, 0.6).round(3).tolist()
    [0.1, 0.7, 0.1, 0.1]
    """
    M = checks.whole("agents", agents, 1)
    checks.whole("agent", agent, 0, M - 1)
    beta = checks.real("beta", beta, 0.0, 1.0)
    weights = np.full(M, (1 - beta) / M)
    weights[agent] += beta
    return weights


def personalised(
    principal: Principal, named: Sequence[int], beta: float, *, arms: int, agents: int, **frame: Any
) -> dict[int, Trial]:
    """Start a trial for every named agent, each at δ/n for n of them, so that all verdicts hold together at 1 − δ.

    Name the agents before the first reward that counts, and tell every pull to every trial. The trials know nothing of
    each other's offers: in a step, ``ask`` only one of them for an agent, or it may be offered two arms, and taking one
    refuses the other. A budget is each trial's own. ``frame`` is passed on to `Principal.start`.
    """
    rule = principal.rule
    if rule.delta is None or not is_dataclass(rule):
        raise InvalidInput(f"principal must have a rule with a delta, got {checks.shown(rule)}.")
    if np.ndim(named) != 1 or len(named) == 0 or len(set(named)) < len(named):
        raise InvalidInput(f"named must be a list of different agents, at least one, got {checks.shown(named)}.")
    if "weights" in frame:
        raise InvalidInput("weights must be left out, because they follow from the named agents and beta.")
    each = replace(principal, rule=replace(rule, delta=rule.delta / len(named)))
    weights = {int(agent): personal_weights(agents, agent, beta) for agent in named}
    return {agent: each.start(arms=arms, agents=agents, weights=p, **frame) for agent, p in weights.items()}
