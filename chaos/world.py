"""What all chaos has in common: a campaign with many agents, and a check that what was answered is in the log."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import freepull as fp
from freepull.campaigns import Told
from freepull.campaigns.journal.events import ENDINGS, OUTCOME
from freepull.campaigns.journal.recovery import owned, segments, verify
from freepull.campaigns.stores import Where
from freepull.principal.record import UNITS

NAME, ARMS, AGENTS = "chaos", 3, 60
PRINCIPAL = fp.Principal(
    fp.rules.Certified(0.01), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.BanFor(3)
)
"""The default rule, under which only some pulls are paid for."""
PAYING = fp.Principal(
    fp.rules.Population(0.01, pulls=10**6), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.BanFor(3)
)
"""Everybody is offered something all the time."""
ASKING = fp.Principal(
    fp.rules.Comparisons(1e-100), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.NeverBan()
)
"""Every ask is an event, and nothing is ever decided."""
LATE = replace(ASKING, rule=fp.rules.Comparisons(1e-100, late=True))
"""The same where asks count until they are told of, or passed over."""
PRICED = replace(PAYING, pricing=fp.pricing.Compensate(margin=0.033), budget=40_000.0)
"""Every offer has a price of its own, and the budget ends the paying."""
NO_PULL = -1
"""Stands for an arm where an agent asked and made no pull."""


class Pull(NamedTuple):
    """One request to tell."""

    agent: int
    arm: int
    reward: float
    event: str


class Answer(NamedTuple):
    """One reply to it."""

    pull: Pull
    told: Told


def create(store: Where, **settings: Any) -> fp.Campaign:
    """Make the campaign and start it."""
    chosen: dict[str, Any] = {"arms": ARMS, "agents": AGENTS, "principal": PRINCIPAL, "price": "0.25 EUR"}
    campaign = fp.Campaign.create(store, name=NAME, **chosen | settings)
    campaign.start()
    return campaign


def pull(rng: random.Random, offered: int | None, number: object, agent: int) -> Pull:
    """Let an agent act: it takes four offers of five; arms differ so little that nothing is ever decided."""
    arm = offered if offered is not None and rng.random() < 0.8 else rng.randrange(ARMS)
    return Pull(agent, arm, round(rng.random() * 0.9 + 0.1 * (arm == 0), 6), f"{agent}:{number}")


def lost(store: Where, answers: Iterable[Answer]) -> list[Answer]:
    """Return the answers that the log does not bear out, exactly as they were given."""
    wanted = {answer.told.event: answer for answer in answers}
    missing = []
    with owned(store, NAME, wait=30.0) as (opened, _):
        for segment in segments(opened, NAME):
            for place in range(segment.first, segment.first + len(segment.records)):
                answer = wanted.pop(place, None)
                if answer is not None and not _borne_out(segment.records[place - segment.first], answer):
                    missing.append(answer)
    return missing + list(wanted.values())


def _borne_out(record: Any, answer: Answer) -> bool:
    pulled, told = answer.pull, answer.told
    return (
        int(record["agent"]) == pulled.agent
        and int(record["arm"]) == pulled.arm
        and int(record["value"]) == round(pulled.reward * UNITS)
        and ENDINGS[int(record["flags"]) & OUTCOME] == told.outcome
        and (int(record["offer"]) or None) == told.offer
    )


def right(store: Where) -> str:
    """Verify the campaign; return what is wrong with it, nothing if all is well."""
    try:
        verify(store, NAME, wait=30.0)
    except fp.errors.FreepullError as error:
        return str(error)
    return ""


def forked(work: Callable[[int], object]) -> tuple[int, int]:
    """Run work in a process of its own, given where to write what it says; return its number, and where to read that.

    It ends with 0 only if the work comes to its end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            work(writing)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    return child, reading
