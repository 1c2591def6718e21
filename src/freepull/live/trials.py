"""What a campaign asks of its trial: to start, to be told many pulls at once, and to say what a step changed."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.live.events import PAID, REFUSED
from freepull.live.settings import Settings
from freepull.principal import Principal, Trial
from freepull.principal.record import UNITS

Facts = dict[str, Any]
OUTCOMES = {"paid": PAID, "refused": REFUSED}


def start(settings: Settings, agents: int, weights: list[float] | None, panels: int = 1) -> Trial:
    """Begin the trial of the ``panels``-th panel.

    Where late joiners count, every panel is a chance to err: the i-th is tested at δ/(i(i+1)), which adds up to δ.
    """
    principal = settings.principal
    if settings.late_joiners == "count":
        principal = at_delta(principal, panels * (panels + 1))
    trial = principal.start(
        arms=len(settings.arms),
        agents=agents,
        horizon=settings.horizon,
        weights=weights,
        leavers=settings.leavers,
        withdrawal=settings.withdrawal,
    )
    if settings.mode == "free":
        trial.regular = False  # the paper's clock does not exist here, nor what is proven with it
    return trial


def at_delta(principal: Principal, share: int) -> Principal:
    """Return the principal with δ divided; it warns of nothing that was not said before."""
    delta = principal.rule.delta
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replace(principal, rule=replace(principal.rule, delta=delta and delta / share))  # type: ignore[type-var]


def tell_many(trial: Trial, agents: NDArray[Any], arms: NDArray[Any], values: NDArray[Any]) -> NDArray[np.uint8]:
    """Tell pulls in their order, rewards in units of 2⁻³⁰; return the outcomes as in `events`."""
    outcomes = np.zeros(len(agents), np.uint8)
    for i, end in enumerate(trial.tell_many(agents, arms, values / UNITS)):
        if end is not None:
            outcomes[i] = OUTCOMES[end]
    return outcomes


def changes(trial: Trial, active: list[int], refused: list[tuple[int, int]], decided: bool) -> Facts:
    """Return what the end of a step has changed: arms out or in again, bans, and the verdict."""
    facts: Facts = {}
    out, back = set(active) - set(trial.active), set(trial.active) - set(active)
    if out:
        facts["eliminated"] = sorted(out)
    if back:
        facts["returned"] = sorted(back)
    until = trial.bans.until
    bans = [[agent, offer, int(until[agent])] for agent, offer in refused if until[agent] > trial.steps]
    if bans:
        facts["bans"] = bans
    if trial.decided_at is not None and not decided:
        verdict = trial.verdict()
        grounds = asdict(verdict.rests_on)
        facts["decided"] = {"arm": verdict.arm, "certified": verdict.certified, "why": verdict.why} | {
            "rests_on": grounds | {"assumptions": list(grounds["assumptions"])}
        }
    return facts


def essence(facts: Facts | None) -> Facts:
    """Return what replay must find again: all but the words."""
    kept = {name: value for name, value in (facts or {}).items() if name in ("eliminated", "returned", "bans")}
    decided = (facts or {}).get("decided")
    return kept | ({"decided": (decided["arm"], decided["certified"])} if decided else {})
