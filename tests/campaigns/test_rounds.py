"""Rounds: the paper's clock, live. A campaign that simulated agents play follows `freepull.simulate` bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns import files as exports
from freepull.campaigns.rehearsal import play
from freepull.simulation import readable
from freepull.simulation.experiment import check
from support.staging import Clock, create, picture, reopen

GAME = fp.Game([[0.9, 0.7, 0.1], [0.1, 0.7, 0.9]])
WORLDS: list[tuple[fp.Principal, Any, Any]] = [
    (fp.Principal(fp.rules.Certified(0.2), offers="one"), fp.agents.AlphaUCB(2.0), fp.answers.Always()),
    (
        fp.Principal(fp.rules.Certified(0.1), offers="each", protocol=fp.protocols.BanFor(3), budget=40),
        fp.agents.AlphaUCB(2.0),
        fp.answers.WithProbability(0.7),
    ),
    (
        fp.Principal(fp.rules.Certified(0.2, epsilon=0.05), offers="one", protocol=fp.protocols.BanAfter(2)),
        fp.agents.EpsilonGreedy(),
        [fp.answers.HoldOut(1), fp.answers.IfWorthIt()],
    ),
    (
        fp.Principal(fp.rules.Paper(0.1, "simplified", scale=0.1), observe=fp.observe.Root(), offers="one"),
        [fp.agents.Thompson(), fp.agents.AlphaUCB(2.0)],
        fp.answers.WithProbability(0.9),
    ),
]


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_a_campaign_in_rounds_follows_the_simulation_bit_for_bit(sqlite: str, clock: Clock, world: int) -> None:
    principal, agents, answers = WORLDS[world]
    steps, seed, run = 80, 7, 3
    campaign = create(sqlite, clock, arms=3, agents=2, principal=principal, mode="rounds", horizon=steps)
    play(campaign, GAME, agents=agents, answers=answers, steps=steps, seed=seed, run=run)
    experiment = check(GAME, agents, answers, principal, steps, [run], seed, "horizon", None)
    path: list[tuple[int, int, int, float, bool]] = []
    outcome = readable.play(experiment, run, lambda *pull: path.append(pull))
    told = exports.observations(campaign.core.store, campaign.core.register)
    ours = list(
        zip(told["agent"], told["arm"], told["reward"], (told["outcome"] == "paid").fill_null(False), strict=True)
    )
    assert ours == [(f"#{m}", f"arm {k}", x, paid) for _, m, k, x, paid in path]
    trial = campaign.core.writer.decider.state.trial
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified, verdict.at) == (
        *(outcome.arm, outcome.decided, outcome.certified),
        outcome.decided_at,
    )
    assert (trial.offered, trial.refused, trial.banned) == (outcome.offered, outcome.refused, outcome.banned)
    assert np.array_equal(trial.paid, outcome.paid)
    shared: dict[str, Any] = {"agents": agents, "answers": answers, "principal": principal, "engine": "readable"}
    simulated = fp.simulate(GAME, horizon=steps, runs=[run], seed=seed, **shared)
    status, row = campaign.status(), simulated.frame.row(0, named=True)
    assert (status.offered, status.paid, status.refused) == (row["offered"], row["paid"], row["refused"])
    assert campaign.verdict().arm == f"arm {row['arm']}"
    assert status.step == steps
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()


def rounds(url: str, clock: Clock, **settings: Any) -> fp.Campaign:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")
    return create(url, clock, mode="rounds", principal=principal, **settings)


def test_a_round_closes_when_everybody_has_acted_and_nobody_acts_twice(url: str, clock: Clock) -> None:
    campaign = rounds(url, clock)
    campaign.tell("ann", "A", 0.5)
    with pytest.raises(errors.OutOfTurn, match="agent ann has acted in this round already"):
        campaign.tell("ann", "B", 0.5)
    assert campaign.ask("ann") is None
    campaign = reopen(campaign, url, clock)
    assert campaign.status().awaited == ["bob", "cy"]
    replies = campaign.tell_each(
        [("bob", "A", 0.5), ("ann", "A", 0.5), ("cy", "A", 0.5), ("ann", "A", 0.5), ("ann", "A", 0.5)]
    )
    assert [isinstance(reply, errors.OutOfTurn) for reply in replies] == [False, True, False, False, True]
    assert (campaign.status().step, campaign.status().in_step) == (1, 1)
    campaign.close()


def test_a_batch_may_span_several_rounds(sqlite: str, clock: Clock) -> None:
    campaign = rounds(sqlite, clock)
    campaign.tell_many([(agent, "A", 0.5) for _ in range(4) for agent in ("ann", "bob", "cy")])
    assert (campaign.status().step, campaign.status().in_step) == (4, 0)
    campaign.close()


def test_a_round_closes_at_its_deadline_and_the_silent_ones_offers_expire(url: str, clock: Clock) -> None:
    campaign = rounds(url, clock, round_lasts="1 hour")
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.tell("bob", "A", 0.5)
    clock.pass_hours(1)
    status = campaign.status()
    assert (status.step, status.expired, status.banned) == (1, 1, 0)
    campaign.pause()
    clock.pass_hours(10)
    assert campaign.status().step == 1
    campaign.resume()
    clock.pass_hours(0.99)
    assert campaign.status().step == 1
    clock.pass_hours(0.01)
    assert campaign.status().step == 2
    campaign.close()


def test_a_round_does_not_wait_for_those_who_left(url: str, clock: Clock) -> None:
    campaign = rounds(url, clock)
    campaign.tell("ann", "A", 0.5)
    campaign.leave("ann")
    campaign.tell("bob", "A", 0.5)
    assert campaign.status().step == 0
    campaign.leave("cy")
    assert campaign.status().step == 1
    campaign.tell("bob", "A", 0.5)
    assert campaign.status().step == 2
    campaign.tell_many([("cy", "A", 0.5), ("bob", "A", 0.5)])
    assert (campaign.status().step, campaign.status().absent) == (3, 1)
    campaign.close()


def test_the_papers_bounds_are_not_certified_in_free_mode(sqlite: str, clock: Clock) -> None:
    principal = fp.Principal(fp.rules.Paper(0.1, "finite_time"), observe=fp.observe.Steps(2), offers="each")
    for mode, certified in (("rounds", True), ("free", False)):
        campaign = create(
            sqlite, clock, name=mode, principal=principal, mode=mode, agents=["ann"], arms=["A", "B"], horizon=2000
        )
        while not campaign.status().decided:
            campaign.tell_many([("ann", "A", 1.0), ("ann", "B", 0.0)] * 50)
        assert campaign.verdict().certified is certified
        campaign.close()
