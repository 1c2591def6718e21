"""What a campaign asks of its trial: to start, to be told many pulls at once, and to say what a step changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.live.events import PAID, REFUSED, Kind, Records
from freepull.live.settings import Settings
from freepull.principal import Grounds, Principal, Trial
from freepull.principal.record import UNITS
from freepull.principal.verdict import tipping_point

Facts = dict[str, Any]
OUTCOMES = {"paid": PAID, "refused": REFUSED}
JOINING = "who joins, in which batch and with which weight, has nothing to do with rewards; when a batch joins may"
"""What is assumed where late joiners count."""


def principal_of(settings: Settings, panels: int) -> Principal:
    """Return the principal of the ``panels``-th panel.

    Where late joiners count, every panel is a chance to err: the i-th is tested at δ/(i(i+1)), which adds up to δ.
    """
    principal, delta = settings.principal, settings.principal.rule.delta
    if settings.late_joiners == "observe" or delta is None:
        return principal
    rule = replace(principal.rule, delta=delta / (panels * (panels + 1)))  # type: ignore[type-var]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of was said when the principal was made
        return replace(principal, rule=rule)


def start(settings: Settings, agents: int, weights: list[float] | None, panels: int = 1) -> Trial:
    """Begin the trial of a panel."""
    trial = principal_of(settings, panels).start(
        arms=len(settings.arms),
        agents=agents,
        horizon=settings.horizon,
        weights=weights,
        leavers=settings.leavers,
        withdrawal=settings.withdrawal,
        rules=settings.rules,
    )
    if settings.mode == "free":
        trial.regular = False  # the paper's clock does not exist here, nor what is proven with it
    trial.panel.by_steps = settings.early
    return trial


def restore(settings: Settings, panels: int, state: memoryview) -> Trial:
    """Go on with the saved trial of a panel."""
    trial = principal_of(settings, panels).restore(state)
    trial.panel.by_steps = settings.early
    return trial


def widened(
    old: Trial, settings: Settings, agents: int, weights: list[float] | None, panels: int, history: Iterable[Records]
) -> Trial:
    """Begin again with more agents, from the first pull on; whatever else there was stays as it is."""
    new = start(settings, agents, weights, panels)
    for records in history:
        told = records[(records["kind"] == Kind.TOLD) & (records["agent"] < old.setting.agents)]
        new.tell_many(told["agent"], told["arm"], told["value"] / UNITS)
    new.succeed(old)
    return new


def first_events(history: Iterable[Records], count: int) -> Iterator[Records]:
    """Return the first so many events of a log."""
    for records in history:
        yield records[:count]
        count -= len(records)
        if count <= 0:
            return


def grounds_of(trial: Trial, settings: Settings, panels: int) -> Grounds:
    """Say what a verdict rests on, with the share of δ that late joiners leave."""
    grounds = trial.panel.grounds("agent #{}".format, settings.arms.__getitem__)
    if settings.late_joiners == "observe":
        return grounds
    return replace(
        grounds,
        delta=settings.principal.rule.delta,
        leavers=f"{grounds.leavers}; late joiners count, panel {panels}, tested at δ/{panels * (panels + 1)}",
        assumptions=(*grounds.assumptions, JOINING),
    )


def tell_many(trial: Trial, agents: NDArray[Any], arms: NDArray[Any], values: NDArray[Any]) -> NDArray[np.uint8]:
    """Tell pulls in their order, rewards in units of 2⁻³⁰; return the outcomes as in `events`."""
    outcomes = np.zeros(len(agents), np.uint8)
    for i, end in enumerate(trial.tell_many(agents, arms, values / UNITS)):
        if end is not None:
            outcomes[i] = OUTCOMES[end]
    return outcomes


def changes(trial: Trial, active: list[int], refused: list[tuple[int, int]]) -> Facts:
    """Return what the end of a step has changed: arms out or in again, and bans."""
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
    return facts


def decision_of(trial: Trial, settings: Settings, panels: int, doubts: list[str]) -> Facts:
    """Return the verdict of a trial that is decided, as plain data; it is not certified if there are doubts."""
    verdict = trial.verdict()
    grounds = asdict(grounds_of(trial, settings, panels))
    certified, survives, why = verdict.certified, verdict.survives, verdict.why
    if doubts:
        stands = "" if survives is None else f"; {tipping_point(survives)}"
        certified, survives, why = False, None, "; ".join([why.removesuffix(stands), *doubts])
    told = {"arm": verdict.arm, "certified": certified, "why": why, "survives": survives}
    return told | {"rests_on": grounds | {"assumptions": list(grounds["assumptions"])}}


def essence(facts: Facts | None, early: bool) -> Facts:
    """Return what replay must find again: all but the words; what was once certified may no longer be."""
    kept = {name: value for name, value in (facts or {}).items() if name in ("eliminated", "returned", "bans")}
    decided = (facts or {}).get("decided")
    return kept | ({"decided": (decided["arm"], early or decided["certified"])} if decided else {})
