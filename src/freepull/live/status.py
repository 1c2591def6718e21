"""How a campaign stands, in words and numbers that people read."""

from __future__ import annotations

from itertools import islice

import numpy as np

from freepull.live.batches import Register
from freepull.live.state import State
from freepull.live.times import shown
from freepull.live.trials import grounds_of
from freepull.messages import Arm, CampaignVerdict, Grounds, Status
from freepull.money import Money
from freepull.principal import Trial
from freepull.principal.work import finish

NAMED = 10
"""So many agents are named."""
LOOKED_AT = 1000
"""So many absent agents are looked at to find them."""


def status_of(state: State, register: Register) -> Status:
    """Return how a campaign stands."""
    trial, settings, offers = state.started, state.settings, state.offers
    decision = state.decision
    endings, currency = offers.endings, offers.price.currency
    leader = None if trial is None else trial.rule.leader() if decision else _leader(trial)
    return Status(
        name=settings.name,
        status=state.status,
        why=state.stopped_why,
        phase=None if trial is None else trial.phase,
        mode=settings.mode,
        step=0 if trial is None else trial.steps,
        in_step=state.in_step,
        horizon=settings.horizon,
        kappa=None if trial is None else trial.kappa,
        agents=state.panel,
        late_joiners=state.people.enrolled - state.panel,
        observations=state.observations,
        observed_only=state.observed,
        arms=_arms(state, register),
        threshold=None if trial is None else trial.rule.goes_at,
        leader=None if leader is None else register.arms[leader],
        decided=decision is not None,
        certified=decision is not None and bool(decision["certified"]),
        rehearsal=state.rehearsals > 0,
        offered=offers.made,
        open_offers=len(offers.open),
        paid=endings["paid"],
        refused=endings["refused"],
        expired=endings["expired"],
        cancelled=endings["cancelled"],
        banned=0 if trial is None else sum(bool(trial.bans.until[m] > trial.steps) for m in state.people.banned),
        absent=state.people.absent,
        awaited=[register.shown(agent) for agent in awaited(state)],
        price=offers.price,
        spent=Money(offers.spent, currency),
        reserved=Money(offers.reserved, currency),
        budget=None if offers.budget is None else Money(offers.budget, currency),
        events=state.events,
        at=shown(state.at),
        survives=None if decision is None else decision.get("survives"),
    )


def verdict_of(state: State, register: Register) -> CampaignVerdict:
    """Return the verdict: as it was logged once it is decided, as it stands until then."""
    spent = Money(state.offers.spent, state.offers.price.currency)
    decision = state.decision
    if decision is not None:
        grounds = Grounds(**decision["rests_on"] | {"assumptions": tuple(decision["rests_on"]["assumptions"])})
        arm, step = register.arms[decision["arm"]], state.trial.decided_at
        certified, survives = bool(decision["certified"]), decision.get("survives")
        return CampaignVerdict(arm, True, certified, decision["why"], step, spent, grounds, survives)
    trial = state.trial
    leader = _leader(trial)
    reason = "nobody has pulled any yet" if leader is None else "this one has the largest mean"
    if sum(trial.rule.active) == 1:
        reason = "it is decided when the step ends"
    why = f"{trial.rule.standing()}; {reason}"
    missing = awaited(state)
    if missing:
        why += f"; awaited: {', '.join(register.shown(agent) for agent in missing)}"
    grounds = grounds_of(trial, state.settings, state.panels)
    why = "; ".join([why, *([trial.doubt] if trial.doubt else []), *state.doubts])
    return CampaignVerdict(None if leader is None else register.arms[leader], False, False, why, None, spent, grounds)


def awaited(state: State) -> list[int]:
    """Return whom the rule or the round waits for, at most ten of them."""
    trial = state.started
    if trial is None or state.decision is not None or state.status == "stopped":
        return []
    people = state.people
    absent = sorted(people.parked | people.left | {m for m in people.banned if trial.bans.until[m] > trial.steps})
    found = trial.rule.awaited(np.array(absent[:LOOKED_AT], np.int64))[:NAMED]
    if state.settings.mode == "rounds" and state.in_step > 0:
        gone = people.parked | people.left
        silent = (int(m) for m in np.flatnonzero(~state.acted) if int(m) not in gone and int(m) not in found)
        found += list(islice(silent, NAMED - len(found)))
    return found


def _arms(state: State, register: Register) -> list[Arm]:
    trial = state.started
    if trial is None:
        return [Arm(name, True, None, None, 0, 0) for name in register.arms]
    bounds, means, out = trial.rule.bounds(), _means(trial), trial.panel.withdrawn
    return [
        Arm(name, trial.rule.active[k], means[k], float(bounds[k]), int(state.pulls[k]), state.paid[k], k in out)
        for k, name in enumerate(register.arms)
    ]


def _leader(trial: Trial) -> int | None:
    """Return the active arm with the largest mean, as means are shown; None if nobody has pulled any."""
    known = [(mean, -k) for k, mean in enumerate(_means(trial)) if mean is not None and trial.rule.active[k]]
    return -max(known)[1] if known else None


def _means(trial: Trial) -> list[float | None]:
    """Return every arm's mean over the agents who have pulled it; with weights, the rule's own (others count as 0)."""
    record, agents = trial.rule.record, trial.setting.agents
    there = [agents - unpulled for unpulled in record.unpulled]
    if trial.setting.weighted:
        return [float(mean) if count else None for mean, count in zip(finish(trial.rule.means()), there, strict=True)]
    return [record.global_mean(k) * agents / count if count else None for k, count in enumerate(there)]
