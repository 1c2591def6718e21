"""Attacks on the life of an offer: odd orders, repetitions, delays that follow outcomes, and steps closed in slices."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

import freepull as fp
from freepull import commands, errors
from freepull.campaigns import state
from freepull.campaigns.commands import Decider
from freepull.campaigns.journal.recovery import verify
from support.staging import EACH, Clock, create, picture, reopen

COMPARING = fp.Principal(
    fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.NeverBan()
)


@pytest.mark.parametrize("principal", [COMPARING, EACH])
def test_while_a_step_is_closed_in_slices_all_of_it_is_replayed_in_its_place(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, principal: fp.Principal
) -> None:
    monkeypatch.setattr(state, "SMALL", 0)
    monkeypatch.setattr(state, "SLICE", 0.0)
    campaign = create(sqlite, clock, principal=principal, if_no_outcome=0.5, outcome_within="3 hours")
    rng, waiting, busy = random.Random(4), list[tuple[int, str]](), 0

    def ask(decider: Decider, at: int) -> None:
        nonlocal busy
        busy += decider.busy
        for m in range(3):
            decider.ask(m, at)

    for i in range(60):
        jobs: list[Any] = [campaign.core.tell_all([(m, (i + m) % 3, m / 2) for m in range(3)], strict=True)]
        jobs.append(campaign.core.do(ask))
        jobs.append(campaign.core.handle(commands.Act(i % 3, i % 2, f"a{i}")))
        waiting.append((i % 3, f"a{i}"))
        if rng.random() < 0.6:
            agent, event = waiting.pop(rng.randrange(len(waiting)))
            jobs.append(campaign.core.handle(commands.TellOutcome(agent, event, rng.random())))
        for job in jobs:
            with suppress(errors.WrongMoment):  # an outcome was waited for no longer
                job.result()
        clock.pass_hours(0.1)
    assert busy
    while campaign.core.do(lambda decider, at: decider.busy).result():
        pass
    assert campaign.status().never_came > 0
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()
    verify(sqlite, campaign.name)


def test_an_act_and_its_outcome_may_be_one_commit(sqlite: str, clock: Clock) -> None:
    async def run() -> None:
        async with await fp.AsyncCampaign.create(
            sqlite, name="x", arms=2, agents=50, price="0.50 EUR", principal=COMPARING, clock=clock
        ) as campaign:
            await campaign.start()
            told = await asyncio.gather(
                *(it for m in range(50) for it in (campaign.act(m, m % 2, "v"), campaign.outcome(m, "v", 0.5)))
            )
            assert len({it.event for it in told}) == 100
            status = await campaign.status()
            assert (status.observations, status.open_acts) == (50, 0)

    asyncio.run(run())
    verify(sqlite, "x")


def test_prices_of_their_own_wait_for_outcomes_too(url: str, clock: Clock) -> None:
    principal = fp.Principal(
        EACH.rule, observe=EACH.observe, offers="each", pricing=fp.pricing.Compensate(margin=0.3, least=0.3)
    )
    campaign = create(url, clock, principal=principal, if_no_outcome=0.0, pay_on="outcome", budget="0.40 EUR")
    offers = {name: campaign.ask(name) for name in ("ann", "bob")}
    for name, offer in offers.items():
        assert offer is not None
        assert offer.bonus.minor == 15
        campaign.act(name, offer.arm, "v1")
    assert (campaign.status().reserved.minor, campaign.ask("cy")) == (30, None)
    before = picture(campaign)
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert campaign.ask("cy") is None  # what waits for outcomes is bound after a restart as well
    assert str(campaign.outcome("ann", "v1", 0.5).paid) == "0.15 EUR"
    assert (campaign.status().spent.minor, campaign.status().reserved.minor) == (15, 15)
    campaign.close()
    verify(url, campaign.name)


def test_numbers_count_acts_and_never_outcomes(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    first = campaign.act("ann", "A", 1)
    campaign.tell("ann", "B", 0.5, 2)
    campaign.pass_over("ann", event=3)
    assert campaign.act("ann", "A", 1) == first  # an old act is still known, because an outcome may come
    campaign.outcome("ann", 1, 0.5)
    assert campaign.act("ann", "A", 4).event is not None
    with pytest.raises(errors.EventConflict):
        campaign.outcome("ann", 1, 0.25)
    with pytest.raises(errors.UnknownAct):
        campaign.outcome("ann", 2, 0.5)  # that was told with its reward


def test_ids_that_are_forgotten_leave_no_act_behind(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING, remembers="1 hour")
    campaign.act("ann", "A", "v1")
    clock.pass_hours(1)
    assert (campaign.status().open_acts, campaign.status().never_came) == (0, 1)
    with pytest.raises((errors.WrongMoment, errors.UnknownAct)):
        campaign.outcome("ann", "v1", 1.0)


def test_people_may_join_while_outcomes_are_under_way(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARING, late_joiners="count")
    campaign.ask("ann")
    campaign.act("ann", "A", "v1")
    campaign.add_agents(["dan"])
    campaign.ask("dan")
    campaign.act("dan", "B", "v1")
    campaign.outcome("ann", "v1", 1.0)
    assert campaign.status().open_acts == 1
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.outcome("dan", "v1", 1.0)


def falls(acts: bool, seed: int) -> bool:
    """Say whether one of two equal arms falls, if what comes late follows the outcome, and on the arm."""
    principal = fp.Principal(fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each")
    trial, rng = principal.start(arms=2, agents=30), random.Random(seed)
    late = list[tuple[int, int, int, int, float]]()
    for step in range(120):
        for agent in range(30):
            trial.ask(agent)
            arm, reward, number = rng.randrange(2), float(rng.random() < 0.5), 30 * step + agent
            if acts:
                trial.act(agent, arm, number)
            if (reward == 1.0) == (arm == 0):  # what speaks for arm 0 is told at once
                trial.outcome(number, reward) if acts else trial.tell(agent, arm, reward)
            else:
                late.append((step + 40, number, agent, arm, reward))
        while late and late[0][0] <= step:
            _, number, agent, arm, reward = late.pop(0)
            trial.outcome(number, reward) if acts else trial.tell(agent, arm, reward)
        trial.end_step()
        if len(trial.active) < 2:
            return True
    return False


@pytest.mark.slow
def test_delays_that_follow_outcomes_fell_no_arm_where_acts_are_told_first() -> None:
    assert sum(falls(acts=False, seed=seed) for seed in range(3)) == 3  # so the attack is one
    assert sum(falls(acts=True, seed=seed) for seed in range(12)) == 0
