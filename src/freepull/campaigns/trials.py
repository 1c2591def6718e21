"""The trial inside a campaign: how it is created, restored and taken over."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from freepull import registry, validation
from freepull.campaigns.journal.events import PAID, REFUSED, Kind, Records
from freepull.campaigns.settings import (
    LATE_JOINERS,
    MODES,
    PAY_ON,
    Settings,
    arm_names,
    lasting,
    long,
    moment,
    no_outcome,
)
from freepull.commands import LONGEST_NAME
from freepull.errors import InvalidInput, OwnPartError
from freepull.game import normalised
from freepull.money import MOST_PRICE, Money
from freepull.principal import Checks, Grounds, Principal, Trial, for_people
from freepull.principal.pricing import Prices, Quote
from freepull.principal.principal import MOST_ARMS
from freepull.principal.protocols import NeverBan
from freepull.principal.record import UNITS
from freepull.principal.verdict import tipping_point
from freepull.scales import Scale

Facts = dict[str, Any]
OUTCOMES = {"paid": PAID, "refused": REFUSED}
JOINING = "who joins, in which batch and with which weight, has nothing to do with rewards; when a batch joins may"
"""What is assumed where late joiners count."""


def principal_of(settings: Settings, panels: int) -> Principal:
    """Return the principal of the ``panels``-th panel.

    Where late joiners count, every panel is a chance to err: the i-th is tested at δ/(i(i+1)), which adds up to δ.
    Under a rule that grows there is only one.
    """
    principal, delta = settings.principal, settings.principal.rule.delta
    if settings.late_joiners == "observe" or delta is None or principal.rule.grows:
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
        checks=settings.checks,
        unit=settings.price.minor if settings.priced else None,
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
    """Begin again with more agents, from the first pull on; whatever else there was stays as it is.

    Under a rule that grows, all of it stays, and nothing is told again.
    """
    new, first = start(settings, agents, weights, panels), 0
    for records in () if settings.principal.rule.grows else history:
        own = np.flatnonzero(np.isin(records["kind"], RETOLD) & (records["agent"] < old.setting.agents))
        told = records[own]
        if (told["kind"] == Kind.TOLD).all():
            new.tell_many(told["agent"], told["arm"], told["value"] / UNITS)
        else:
            for place, record in zip((first + own).tolist(), told, strict=True):
                _retell(new, settings, place, record)
        first += len(records)
    new.take_over(old)
    return new


RETOLD = (Kind.TOLD, Kind.ACTED, Kind.CAME, Kind.NEVER_CAME)


def _retell(trial: Trial, settings: Settings, place: int, record: Any) -> None:
    """Tell one event of the log again: a pull, an act or its outcome."""
    kind, _, arm, agent, value, act, _ = record.item()
    if kind == Kind.TOLD:
        trial.tell(agent, arm, value / UNITS)
    elif kind == Kind.ACTED:
        trial.act(agent, arm, place)
    else:
        trial.outcome(act, value / UNITS if kind == Kind.CAME else settings.without_outcome)


def first_events(history: Iterable[Records], count: int) -> Iterator[Records]:
    """Return the first events of a log, as many as asked for."""
    for records in history:
        yield records[:count]
        count -= len(records)
        if count <= 0:
            return


def grounds_of(trial: Trial, settings: Settings, panels: int) -> Grounds:
    """Say what a verdict rests on, with the share of δ that late joiners leave."""
    grounds = trial.grounds("agent #{}".format, settings.arms.__getitem__)
    if trial.acts.made:
        instead = settings.without_outcome
        worst = "its worst" if instead is None else settings.shown_reward(instead)
        counts = f"an outcome that does not come within {long(settings.awaits)} counts as {worst}"
        grounds = replace(grounds, assumptions=(*grounds.assumptions, counts))
    if settings.late_joiners == "observe":
        return grounds
    if settings.principal.rule.grows:
        return replace(grounds, leavers=f"{grounds.leavers}; late joiners count")
    return replace(
        grounds,
        delta=settings.principal.rule.delta,
        leavers=f"{grounds.leavers}; late joiners count, panel {panels}, tested at δ/{panels * (panels + 1)}",
        assumptions=(*grounds.assumptions, JOINING),
    )


def tell_many(
    trial: Trial, agents: NDArray[Any], arms: NDArray[Any], values: NDArray[Any], kinds: NDArray[Any]
) -> NDArray[np.uint8]:
    """Tell pulls, asks and passes in their order, rewards in units of 2⁻³⁰; return the outcomes as in `events`."""
    outcomes = np.zeros(len(agents), np.uint8)
    asks, passes = (which if which.any() else None for which in (kinds == Kind.ASKED, kinds == Kind.PASSED))
    for i, end in enumerate(trial.tell_many(agents, arms, values / UNITS, asks=asks, passes=passes)):
        if end is not None:
            outcomes[i] = OUTCOMES[end]
    return outcomes


def alarmed(trial: Trial) -> list[str]:
    """Return the names of the checks that have raised an alarm."""
    return [] if trial.checking is None else trial.checking.alarmed()


def changes(trial: Trial, active: list[int], refused: list[tuple[int, int]], known: list[str]) -> Facts:
    """Return what the end of a step has changed: arms out or in again, bans, and alarms that were not known."""
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
    if alarms := [name for name in alarmed(trial) if name not in known]:
        facts["alarms"] = alarms
    return facts


def decision_of(trial: Trial, settings: Settings, panels: int, doubts: list[str]) -> Facts:
    """Return the verdict of a trial that is decided, as plain data; it is not certified if there are doubts."""
    verdict = trial.verdict(settings.arms.__getitem__)
    grounds = asdict(grounds_of(trial, settings, panels))
    certified, survives, why = verdict.certified, verdict.survives, verdict.why
    if doubts:
        stands = "" if survives is None else f"; {tipping_point(survives)}"
        certified, survives, why = False, None, "; ".join([why.removesuffix(stands), *doubts])
    told: Facts = {"arm": verdict.arm, "certified": certified, "why": why, "survives": survives}
    if verdict.differences:
        told["differences"] = [asdict(it) for it in verdict.differences]
    return told | {"rests_on": grounds | {"assumptions": list(grounds["assumptions"])}}


FOUND = ("eliminated", "returned", "bans", "alarms")


def essence(facts: Facts | None, early: bool) -> Facts:
    """Return what replay must find again: all but the words; what was once certified may no longer be."""
    kept = {name: value for name, value in (facts or {}).items() if name in FOUND}
    decided = (facts or {}).get("decided")
    return kept | ({"decided": (decided["arm"], early or decided["certified"])} if decided else {})


FEW = 1_000_000
"""Streams up to which a trial is started on trial, to see that it can be."""


def agree(
    *,
    name: Any,
    arms: Any,
    principal: Any,
    price: Any,
    mode: Any,
    horizon: Any,
    ends: Any,
    leavers: Any,
    withdrawal: Any,
    late_joiners: Any,
    offer_lasts: Any,
    cool_down: Any,
    round_lasts: Any,
    remembers: Any,
    checks: Any = None,
    accept_within: Any = None,
    pay_on: Any = "act",
    outcome_within: Any = None,
    if_no_outcome: Any = None,
    scale: Any = None,
    budget: Any = None,
) -> Settings:
    """Check the settings of a campaign and return them, or raise a sentence that names the wrong one."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f"name must be a printable text of at most {LONGEST_NAME} characters, got {validation.shown(name)}."
        )
    settled = None if horizon is None else validation.whole("horizon", horizon, 1)
    principal = for_people(settled) if principal is None else principal
    validation.instance("principal", principal, Principal, "a freepull.Principal(...)")
    registry.encode(principal, own=False, logged=True)
    named = [it.name for it in registry.parts("rule")]
    registry.still("rule", type(principal.rule).__name__, "principal.rule", named)
    cost = Money.price(price)
    own = principal.pricing is not None and registry.declared(type(principal.pricing)) is None
    most = 0.0 if own else getattr(principal.pricing, "most", getattr(principal.pricing, "amount", 0.0))
    if most * cost.minor > MOST_PRICE:
        raise InvalidInput(
            f"price must be at most {Money(int(MOST_PRICE / most), cost.currency)} where bonuses go up to {most:g} "
            f"times it, got {cost}."
        )
    validation.one_of("mode", mode, MODES)
    validation.one_of("late_joiners", late_joiners, LATE_JOINERS)
    measure = None if scale is None else Scale.parse("scale", scale)
    if round_lasts is not None and mode != "rounds":
        raise InvalidInput("round_lasts must be left out in free mode, which has no rounds.")
    settings = Settings(
        name=name,
        arms=arm_names(arms),
        principal=principal,
        mode=mode,
        price=cost,
        budget=None,
        horizon=settled,
        ends=None if ends is None else moment("ends", ends),
        leavers=leavers,
        withdrawal=bool(withdrawal),
        late_joiners=late_joiners,
        offer_lasts=lasting("offer_lasts", offer_lasts),
        cool_down=lasting("cool_down", cool_down),
        round_lasts=None if round_lasts is None else lasting("round_lasts", round_lasts),
        remembers=lasting("remembers", remembers),
        accept_within=None if accept_within is None else lasting("accept_within", accept_within),
        pay_on=validation.one_of("pay_on", pay_on, PAY_ON),
        outcome_within=None if outcome_within is None else lasting("outcome_within", outcome_within),
        if_no_outcome=no_outcome(if_no_outcome, principal, measure),
        scale=None if measure is None else measure.text,
    )
    if settings.awaits > settings.remembers:
        raise InvalidInput("outcome_within must be at most as long as remembers: outcomes are told by event ids.")
    if settings.accept_within is not None and settings.accept_within > settings.offer_lasts:
        raise InvalidInput("accept_within must be at most as long as offer_lasts, which an accepted offer lasts.")
    rule = registry.declared(type(principal.rule))
    assert rule is not None
    if late_joiners == "count" and (leavers != "wait" or not rule.late_joiners):
        able = " or ".join(it.name for it in registry.parts("rule") if it.late_joiners)
        raise InvalidInput(f"late_joiners must be 'observe', unless leavers is 'wait' and the rule is {able}.")
    most = rule.most_arms or MOST_ARMS
    if len(settings.arms) > most:
        raise InvalidInput(
            f"arms must be at most {most:,} with rules.{rule.name}, which compares every two of them, "
            f"got {len(settings.arms):,}; leave some out."
        )
    settings = replace(settings, budget=settings.first_budget() if budget is None else money_of(budget, settings))
    settings = replace(settings, checks=checks_of(checks, settings))
    if own:
        check_own_pricing(settings)
    rehearse(settings, 1, None)
    if mode == "free" and principal.offers == "one":
        warnings.warn(
            "in free mode, offers = 'one' waits for the one agent whose pull is needed most; take offers = 'each', "
            "unless all agents come often.",
            stacklevel=4,
        )
    if principal.rule.waits and not isinstance(principal.protocol, NeverBan):
        warnings.warn(
            f"people may refuse, and rules.{rule.name} waits for everybody, also for whom {principal.protocol} has "
            "banned; take protocols.NeverBan(), or rules.Comparisons, which waits for nobody.",
            stacklevel=4,
        )
    return settings


def money_of(budget: Any, settings: Settings) -> int:
    """Check a budget in money; return its minor units."""
    if settings.principal.budget is not None:
        raise InvalidInput(
            "budget must be given once: as money with the campaign, or in units of reward with its principal."
        )
    amount, currency = Money.parse("budget", budget), settings.price.currency
    if amount.currency != currency:
        raise InvalidInput(f"budget must be in {currency}, as the price is, got {amount}.")
    return amount.minor


def checks_of(given: Any, settings: Settings) -> Checks | None:
    """Return the checks of a new campaign; they need asks, which are in the log only where the rule hears them."""
    if given is not None and not isinstance(given, (bool, Checks)):
        raise InvalidInput(f"checks must be True, False, None or freepull.Checks(...), got {validation.shown(given)}.")
    hears = start(settings, 1, None).rule.hears_asks
    wanted = hears if given is None else given is not False
    if not wanted:
        return None
    if not hears:
        name = type(settings.principal.rule).__name__
        raise InvalidInput(
            f"checks must be left out with rules.{name}, whose campaigns have no asks in their log; "
            "rules.Comparisons has them."
        )
    checks = given if isinstance(given, Checks) else Checks()
    if checks.payment > 0:
        raise InvalidInput("checks must have payment=0 in a campaign, which pays nobody by surprise.")
    return checks


PULLS = (0, 1, 3, 10, 40)
"""What agents have pulled of an arm, and how many offers they have taken, in quotes that are made up."""


def check_own_pricing(settings: Settings) -> None:
    """Refuse a pricing of one's own that is another one, or has other prices, when it is made again from the log."""
    try:
        registry.shown(settings.principal.pricing)
    except Exception as error:  # every status shows it
        named = type(settings.principal.pricing).__name__
        raise InvalidInput(
            f"principal.pricing must be a pricing that can be shown, got {registry.one_line(error)} from {named}; "
            "mend its __repr__."
        ) from error
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(settings.encode()))
    arms, unit = len(settings.arms), settings.price.minor
    given, again = (
        Prices(it.principal.pricing, arms, unit)
        for it in (settings, Settings.decode(plain))
        if it.principal.pricing is not None
    )
    quotes = []
    for i, own in enumerate(product(PULLS, PULLS)):
        pulls = [own[k % 2] + k // 2 for k in range(arms)]
        means = [(1 + (3 * i + 5 * k) % 7) / 8 for k in range(arms)]
        sums = [n * mean for n, mean in zip(pulls, means, strict=True)]
        taken = min(PULLS[(i + i // len(PULLS)) % len(PULLS)], sum(pulls))
        quotes.append(Quote(i % 4, i % arms, tuple(pulls), tuple(sums), taken))
    first = [given.quoted(quote) for quote in quotes]
    for quote, price in reversed([*zip(quotes, first, strict=True)]):  # in another order, and by both
        for prices in (again, given):
            other = prices.quoted(quote)
            if other != price:
                raise OwnPartError(
                    f"principal.pricing {registry.encode(given.pricing)['part']} must have the same price for the same "
                    "quote whenever it is asked, also when it is made again from the log with its parameters, got "
                    f"{Money(price, settings.price.currency)} and then {Money(other, settings.price.currency)} for "
                    f"{validation.shown(quote)}; make the price of nothing else."
                )


def rehearse(settings: Settings, agents: int, weights: list[float] | None) -> None:
    """Start the trial and throw it away: what cannot be started is refused now, not later."""
    if agents * len(settings.arms) <= FEW:
        start(settings, agents, weights)


def checked_weights(weights: Any, agents: int) -> list[float] | None:
    """Check the weights of some agents; they are normalised when the panel closes."""
    if weights is None:
        return None
    given = validation.numbers("weights", weights)
    normalised(given, agents)
    return [float(weight) for weight in given]
