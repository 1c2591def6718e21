"""What a campaign is made of, checked once, before anything is written."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from freepull import checks, registry
from freepull.commands import LONGEST_NAME
from freepull.errors import InvalidInput
from freepull.game import normalised
from freepull.live.settings import LATE_JOINERS, MODES, Settings, arm_names
from freepull.live.times import lasting, moment
from freepull.live.trials import start
from freepull.money import Money
from freepull.principal import Principal
from freepull.principal.principal import MOST_ARMS

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
) -> Settings:
    """Check the settings of a campaign and return them, or raise a sentence that names the wrong one."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f"name must be a printable text of at most {LONGEST_NAME} characters, got {checks.shown(name)}."
        )
    principal = Principal() if principal is None else principal
    checks.instance("principal", principal, Principal, "a freepull.Principal(...)")
    registry.encode(principal, own=False)
    cost = Money.price(price)
    checks.one_of("mode", mode, MODES)
    checks.one_of("late_joiners", late_joiners, LATE_JOINERS)
    if round_lasts is not None and mode != "rounds":
        raise InvalidInput("round_lasts must be left out in free mode, which has no rounds.")
    settings = Settings(
        name=name,
        arms=arm_names(arms),
        principal=principal,
        mode=mode,
        price=cost,
        budget=None,
        horizon=None if horizon is None else checks.whole("horizon", horizon, 1),
        ends=None if ends is None else moment("ends", ends),
        leavers=leavers,
        withdrawal=bool(withdrawal),
        late_joiners=late_joiners,
        offer_lasts=lasting("offer_lasts", offer_lasts),
        cool_down=lasting("cool_down", cool_down),
        round_lasts=None if round_lasts is None else lasting("round_lasts", round_lasts),
        remembers=lasting("remembers", remembers),
    )
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
    settings = replace(settings, budget=settings.first_budget())
    rehearse(settings, 1, None)
    if mode == "free" and principal.offers == "one":
        warnings.warn(
            "in free mode, offers = 'one' waits for the one agent whose pull is needed most; take offers = 'each', "
            "unless all agents come often.",
            stacklevel=4,
        )
    return settings


def rehearse(settings: Settings, agents: int, weights: list[float] | None) -> None:
    """Start the trial and throw it away: what cannot be started is refused now, not later."""
    if agents * len(settings.arms) <= FEW:
        start(settings, agents, weights)


def checked_weights(weights: Any, agents: int) -> list[float] | None:
    """Check the weights of some agents; they are normalised when the panel closes."""
    if weights is None:
        return None
    given = checks.numbers("weights", weights)
    normalised(given, agents)
    return [float(weight) for weight in given]
