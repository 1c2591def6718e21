"""What people read of a campaign: status, verdict, and tables with names, dates and money."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from freepull import registry, validation
from freepull.campaigns.directory import Register
from freepull.campaigns.journal.events import Row
from freepull.campaigns.people import payment_key
from freepull.campaigns.settings import shown
from freepull.campaigns.state import State
from freepull.campaigns.stores import Store
from freepull.campaigns.trials import grounds_of
from freepull.errors import Corrupt
from freepull.messages import (
    SETTLEMENTS,
    Arm,
    AuditEntry,
    BanRow,
    CampaignVerdict,
    Check,
    Difference,
    Grounds,
    LedgerEntry,
    OfferRow,
    OverviewRow,
    Status,
    Stuck,
)
from freepull.money import Money
from freepull.principal import Trial
from freepull.principal.protocols import FOREVER
from freepull.principal.record import finish
from freepull.principal.verdict import tipping_point
from freepull.scales import Scale

NAMED = 10
"""This many agents are named."""
LOOKED_AT = 1000
"""This many absent agents are looked at to find them."""


def status_of(state: State, register: Register) -> Status:
    """Return how a campaign stands."""
    trial, settings, offers = state.started, state.settings, state.offers
    decision = state.decision
    endings, currency = offers.endings, offers.price.currency
    missing = awaited(state)
    leader = None if trial is None else trial.rule.leader() if decision else _leader(trial)[0]
    found = Status(
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
        certified=decision is not None and bool(decision["certified"]) and alarm(state) is None,
        rehearsal=state.rehearsals > 0,
        offered=offers.made,
        open_offers=len(offers.open),
        paid=endings["paid"],
        refused=endings["refused"],
        expired=endings["expired"],
        cancelled=endings["cancelled"],
        banned=0 if trial is None else sum(bool(trial.bans.until[m] > trial.steps) for m in state.people.banned),
        absent=state.people.absent,
        awaited=[register.shown(agent) for agent in missing],
        price=offers.price,
        spent=Money(offers.spent, currency),
        reserved=Money(offers.reserved, currency),
        budget=None if offers.budget is None else Money(offers.budget, currency),
        events=state.events,
        at=shown(state.at),
        survives=None if decision is None or alarm(state) is not None else decision.get("survives"),
        differences=differences(state, register),
        checks=checks(state),
        pricing=registry.shown(settings.principal.pricing) if settings.priced else "",
        remedy=remedy(state) if missing else "",
        acted=0 if trial is None else int(np.count_nonzero(trial.told)),
        epsilon=getattr(settings.principal.rule, "epsilon", None) or None,
        within=None if trial is None else trial.rule.nearly_best(),
        comparisons=None if trial is None else trial.rule.opened,
        settled=state.settlements.settled,
        lapsed=endings["lapsed"],
        open_acts=len(state.acts),
        never_came=state.never_came,
        unavailable=_lacking(state),
        held=held(state) or "",
        clipped=state.clipped,
    )
    return found if settings.on is None else _on_scale(found, settings.on)


def _on_scale(status: Status, scale: Scale) -> Status:
    """Return a status whose means and differences are on the scale of the rewards that are told."""

    def mean(x: float | None) -> float | None:
        return None if x is None else scale.mean(x)

    def effect(x: float | None) -> float | None:
        return None if x is None else scale.effect(x)

    widths = status.threshold is None  # then bounds are of means, and no evidence
    arms = [
        replace(it, mean=mean(it.mean), compared=mean(it.compared), bound=effect(it.bound) if widths else it.bound)
        for it in status.arms
    ]
    known, survives = [_difference(it, scale) for it in status.differences], effect(status.survives)
    shown = replace(status, arms=arms, differences=known, scale=scale.text)
    return replace(shown, epsilon=effect(status.epsilon), survives=survives)


def _difference(it: Difference, scale: Scale) -> Difference:
    seen = None if it.seen is None else scale.effect(it.seen)
    return replace(it, low=scale.effect(it.low), high=scale.effect(it.high), seen=seen, unit=scale.unit)


def verdict_of(state: State, register: Register) -> CampaignVerdict:
    """Return the verdict, on the scale of the rewards that are told."""
    found, scale = _verdict_of(state, register), state.settings.on
    if scale is None:
        return found
    why, rests_on = scale.words(found.why), found.rests_on
    if state.clipped:
        ends = f"{state.clipped:,} of the rewards told lay outside {scale.text}, and count as its ends"
        why = f"{why}; {ends}"
    words = tuple(map(scale.words, rests_on.assumptions))
    rests_on = replace(
        rests_on, rule=scale.words(rests_on.rule), target=scale.words(rests_on.target), assumptions=words
    )
    return replace(
        found,
        why=why,
        rests_on=rests_on,
        survives=None if found.survives is None else scale.effect(found.survives),
        differences=[_difference(it, scale) for it in found.differences],
        scale=scale.text,
        clipped=state.clipped,
    )


def _verdict_of(state: State, register: Register) -> CampaignVerdict:
    """Return the verdict: as it was logged once it is decided, as it stands until then; an alarm ends a certificate."""
    spent = Money(state.offers.spent, state.offers.price.currency)
    decision = state.decision
    if decision is not None:
        grounds = _with_names(
            Grounds(**decision["rests_on"] | {"assumptions": tuple(decision["rests_on"]["assumptions"])}), register
        )
        arm, step = register.arms[decision["arm"]], state.trial.decided_at
        certified, survives, why = bool(decision["certified"]), decision.get("survives"), str(decision["why"])
        if certified and (wrong := alarm(state)) is not None:  # it came after the decision
            stands = "" if survives is None else f"; {tipping_point(survives)}"
            certified, survives, why = False, None, f"{why.removesuffix(stands)}; {wrong}"
        known = differences(state, register)
        return CampaignVerdict(arm, True, certified, why, step, spent, grounds, survives, known, checks(state))
    trial = state.trial
    leader, leads_by = _leader(trial)
    reason = "nobody has pulled any yet" if leader is None else f"this one has {leads_by}"
    if sum(trial.rule.active) == 1:
        reason = "it is decided when the step ends"
    why = f"{trial.rule.standing()}; {reason}"
    missing = awaited(state)
    if missing:
        why += f"; awaited: {', '.join(register.shown(agent) for agent in missing)}"
    grounds = _with_names(grounds_of(trial, state.settings, state.panels), register)
    why = "; ".join([why, *(it for it in (held(state), trial.doubt) if it), *state.doubts])
    arm, known = None if leader is None else register.arms[leader], differences(state, register)
    return CampaignVerdict(arm, False, False, why, None, spent, grounds, None, known, checks(state))


def _with_names(grounds: Grounds, register: Register) -> Grounds:
    """Return grounds that name who left, whom the log knows by number."""
    named = re.sub(r"agent #(\d+)", lambda it: register.shown(int(it[1])), grounds.leavers)
    return replace(grounds, leavers=named)


def checks(state: State) -> list[Check]:
    """Return how the checks of assumptions stand; none before the start, and where none run."""
    return [] if state.started is None else list(state.started.checks())


def held(state: State) -> str | None:
    """Say why nothing is offered for now although the campaign goes on; None if offers are made, or it has ended."""
    return None if state.started is None or state.status == "stopped" else state.started.held


def alarm(state: State) -> str | None:
    """Say why nothing is certified, if a check has raised an alarm, before the decision or after it."""
    trial = state.started
    return None if trial is None or trial.checking is None else trial.checking.alarm()


def differences(state: State, register: Register) -> list[Difference]:
    """Return how much better one arm is than another, with their names; once it is decided, as was known then."""
    if state.started is None:
        return []
    told = None if state.decision is None else [Difference(**it) for it in state.decision.get("differences", ())]
    found = state.started.rule.differences() if told is None else told
    return [replace(it, arm=register.arms[int(it.arm)], than=register.arms[int(it.than)]) for it in found]


def awaited(state: State) -> list[int]:
    """Return whom the rule or the round waits for, at most ten of them."""
    trial = state.started
    if trial is None or state.decision is not None or state.status == "stopped":
        return []
    people = state.people
    absent = sorted(people.parked | people.left | {m for m in people.banned if trial.bans.until[m] > trial.steps})
    found = trial.rule.awaited(np.array(absent[:LOOKED_AT], np.int64))[:NAMED]
    found += [agent for agent in trial.silent() if agent not in found][: NAMED - len(found)]
    if state.settings.mode == "rounds" and state.in_step > 0:
        gone = people.parked | people.left
        silent = (int(m) for m in np.flatnonzero(~state.acted) if int(m) not in gone and int(m) not in found)
        found += list(islice(silent, NAMED - len(found)))
    return found


LET_GO = {
    "wait": "nobody can take their place: bring them back",
    "independent": "bring them back, or let them leave if that has nothing to do with rewards",
    "worst_case": "bring them back, or let them leave",
}
"""What can be done about somebody for whom the rule waits, by the policy for agents who leave."""


def remedy(state: State) -> str:
    """Say what can be done about those who are awaited."""
    if not state.settings.principal.rule.waits:
        return "the round goes on when they have acted, or have left; with round_lasts it would close by itself."
    return f"{LET_GO[state.settings.leavers]}; a new campaign under rules.Comparisons would wait for nobody."


def _arms(state: State, register: Register) -> list[Arm]:
    trial = state.started
    if trial is None:
        return [Arm(name, True, None, None, 0, 0) for name in register.arms]
    rule, means, out = trial.rule, _means(trial), trial.panel.withdrawn
    bounds, compared = rule.bounds(), rule.compared() or [None] * len(register.arms)
    return [
        Arm(name, rule.active[k], means[k], float(bounds[k]), int(state.pulls[k]), state.paid[k], k in out, compared[k])
        for k, name in enumerate(register.arms)
    ]


def _lacking(state: State) -> int:
    """Return how many agents cannot have an arm that is still in."""
    active = None if state.started is None else state.started.rule.active
    return len({agent for agent, arm in state.people.unavailable if active is None or active[arm]})


def _leader(trial: Trial) -> tuple[int | None, str]:
    """Return the active arm that leads, and what it has; None if nobody has pulled any.

    The rule's own means are looked at where it compares, so that differences are the leader's; else those shown.
    """
    if any(mean is not None and alive for mean, alive in zip(trial.rule.compared(), trial.rule.active, strict=False)):
        return trial.rule.leader(), trial.rule.leads_by
    known = [(mean, -k) for k, mean in enumerate(_means(trial)) if mean is not None and trial.rule.active[k]]
    return -max(known)[1] if known else None, "the largest mean"


def _means(trial: Trial) -> list[float | None]:
    """Return every arm's mean over the agents who have pulled it; with weights, the rule's own (others count as 0)."""
    record, agents = trial.rule.record, trial.setting.agents
    there = [agents - unpulled for unpulled in record.unpulled]
    if trial.setting.weighted:
        return [float(mean) if count else None for mean, count in zip(finish(trial.rule.means()), there, strict=True)]
    return [record.global_mean(k) * agents / count if count else None for k, count in enumerate(there)]


def _rows(store: Store, campaign: str, table: str, after: int, numbered: bool = True) -> Iterator[Row]:
    """Read a table after a given row, to where it ends now; no row may be missing in between."""
    last, next_one = store.before_last(campaign, table, 0), max(after, 0) + 1
    for row in store.read(campaign, table, (after,)):
        if numbered and row[0] != next_one:
            break
        yield row
        next_one = row[0] + 1
    else:
        if not last or last[0] < next_one:
            return
    raise Corrupt(f"row {next_one} or a later one of {table} of campaign {campaign!r} is missing; restore a backup.")


def ledger(store: Store, register: Register, after: int = 0, settlement: str = "") -> Iterator[LedgerEntry]:
    """Return what was paid, after a given entry; only what is in a state of settlement, if one is given."""
    validation.one_of("settlement", settlement, ("", "unsettled", *SETTLEMENTS))
    wanted = [it for it in SETTLEMENTS if settlement in ("", it) or (settlement == "unsettled" and it != "settled")]
    moved = store.read(register.campaign, "settlements", (after,))
    last = next(moved, None)
    for entry, offer, agent, arm, amount, currency, at in _rows(store, register.campaign, "ledger", after):
        while last is not None and last[0] < entry:
            last = next(moved, None)
        row = last if last is not None and last[0] == entry else (entry, "open", None, "", "", 1)
        _, state, when, payer, note, tries = row
        if state in wanted:
            yield LedgerEntry(
                entry=entry,
                offer=offer,
                agent=register.shown(agent),
                arm=register.arms[arm],
                amount=Money(amount, currency),
                at=shown(at),
                settlement=state,
                key=payment_key(register.id, entry, tries),
                payer=payer,
                note=note,
                moved=None if when is None else shown(when),
            )


def offers(store: Store, register: Register, after: int = 0) -> Iterator[OfferRow]:
    """Return all offers, after a given offer."""
    for row in _rows(store, register.campaign, "offers", after):
        yield offer_row(register, row)


def offer_row(register: Register, row: Row) -> OfferRow:
    """Return one offer as people read it."""
    offer, agent, arm, step, at, deadline, recalled, ending, ended, amount = row
    return OfferRow(
        offer=offer,
        agent=register.shown(agent),
        arm=register.arms[arm],
        step=step,
        at=shown(at),
        expires=shown(deadline),
        recalled=bool(recalled),
        ending=ending,
        ended=None if ended is None else shown(ended),
        bonus=register.price if amount is None else Money(amount, register.currency),
    )


def bans(store: Store, register: Register, after: int = -1) -> Iterator[BanRow]:
    """Return all bans, after a given one."""
    for _, agent, offer, step, until, at, lifted in _rows(store, register.campaign, "bans", after):
        end = None if lifted is None else shown(lifted)
        yield BanRow(register.shown(agent), offer, step, _until(until), shown(at), end)


def audit(store: Store, register: Register, after: int = -1) -> Iterator[AuditEntry]:
    """Return who did what, after a given event."""
    for event, at, author, action, detail in _rows(store, register.campaign, "audit", after, numbered=False):
        yield AuditEntry(event, shown(at), author, action, _named(register, msgspec.json.decode(detail)))


def _named(register: Register, detail: dict[str, Any]) -> dict[str, Any]:
    """Return a detail of the audit, which the log has in numbers, as people read it."""
    arms = register.arms
    read: dict[str, Callable[[Any], Any]] = {
        "agent": register.shown,
        **dict.fromkeys(("passed_over", "accepted", "declined"), register.shown),
        "arm": lambda arm: arms[arm],
        "eliminated": lambda out: [arms[arm] for arm in out],
        "returned": lambda back: [arms[arm] for arm in back],
        "bans": lambda rows: [
            {"agent": register.shown(agent), "offer": offer, "until": _until(until)} for agent, offer, until in rows
        ],
        "decided": lambda told: told | {"arm": arms[told["arm"]]},
        "principal": lambda given: (
            given | {"budget": f"{given['budget']:g} units of reward"} if given.get("budget") is not None else given
        ),
        "until": lambda at: shown(at).isoformat(),
        "budget": lambda minor: None if minor is None else str(Money(minor, register.currency)),
    }
    return {name: read[name](value) if name in read else value for name, value in detail.items()}


def _until(step: int) -> int | None:
    """Return the step that a ban ends with, None if it is for ever."""
    return None if step >= FOREVER else step


QUIET = 86_400 * 10**6
"""Microseconds without any event after which nobody seems to be there; longer, where offers stand for longer."""
WAITS = {
    "banned": ("is banned", "are banned", "must pull unpaid, or be unbanned", "unban"),
    "absent": ("does not act", "do not act", "must pull again; remind them", ""),
}


def stuck(state: State, register: Register, now: int) -> list[Stuck]:
    """Say why a campaign does not go on, the most pressing reason first; nothing if it does, or need not."""
    trial, settings = state.started, state.settings
    if trial is None or state.decision is not None or state.status == "stopped":
        return []
    if trial.phase == "over":
        return [Stuck("over", "The horizon is reached, and nothing is decided: stop it, and plan another.", [], "stop")]
    found = list[Stuck]()
    if state.status == "paused":
        found.append(Stuck("paused", "It is paused: nobody is offered anything until it is resumed.", [], "resume"))
    if (words := _out_of_money(state)) is not None:
        found.append(Stuck("budget", words, [], "budget"))
    missing = awaited(state)
    banned = [m for m in missing if m in state.people.banned and trial.bans.until[m] > trial.steps]
    for why, who in (("banned", banned), ("absent", [m for m in missing if m not in banned])):
        if who:
            one, many, must, helps = WAITS[why]
            names = [register.shown(m) for m in who]
            words = f"{', '.join(names)} {one if len(who) == 1 else many}, and {must}."
            found.append(Stuck(why, words, names, helps))
    if not found and now - state.at > max(QUIET, settings.offer_lasts):
        found.append(Stuck("quiet", f"Nobody has done anything since {shown(state.at):%Y-%m-%d %H:%M} UTC.", [], ""))
    return found


def _out_of_money(state: State) -> str | None:
    """Say so if the budget does not allow one more bonus or, where they differ, one as they have been on average."""
    offers, paid = state.offers, state.offers.endings["paid"]
    if offers.budget is None:
        return None
    left, whole = offers.budget - offers.spent - offers.reserved, Money(offers.budget, offers.price.currency)
    if left < (1 if state.settings.priced else offers.price.minor):
        return f"The budget of {whole} is used up: raise it, or nobody is paid."
    if state.settings.priced and left * paid < offers.spent:
        rest = Money(left, whole.currency)
        return f"Of the budget of {whole} only {rest} is left, less than a bonus has been on average: raise it."
    return None


def risk(state: State) -> tuple[float | None, float | None]:
    """Return the risk of error at which it would be decided now, and the one that was agreed; None where unknown."""
    trial = state.started
    if trial is None:
        return None, None
    agreed, edge = grounds_of(trial, state.settings, state.panels).delta, trial.rule.goes_at
    if agreed is None or edge is None or state.decision is not None:
        return None, agreed
    leader, _ = _leader(trial)
    bounds = trial.rule.bounds()
    others = [float(bounds[k]) for k, alive in enumerate(trial.rule.active) if alive and k != leader]
    evidence = max(min(others, default=0.0), trial.rule.nearly_best() or 0.0)
    return (1.0 if leader is None or evidence <= 0.0 else min(1.0, agreed * edge / evidence)), agreed


IN_SHORT = tuple(it.name for it in fields(Status) if it.name in OverviewRow.__struct_fields__)
"""What a row of the overview says as the status does."""


def overview(state: State, register: Register, now: int) -> OverviewRow:
    """Return a campaign in short."""
    status = status_of(state, register)
    at_risk, agreed = risk(state)
    active = {arm.name for arm in status.arms if arm.active}
    rivals = [it for it in status.differences if it.arm == status.leader and (status.decided or it.than in active)]
    return OverviewRow(
        owner="",
        here=True,
        risk=at_risk,
        agreed=agreed,
        ahead=min(rivals, key=lambda it: it.low, default=None),
        unsettled=status.paid - status.settled,
        stuck=stuck(state, register, now),
        alarms=[it.name for it in status.checks if it.alarmed],
        **{name: getattr(status, name) for name in IN_SHORT},
    )
