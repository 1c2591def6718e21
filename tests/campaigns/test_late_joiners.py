"""Late joiners who count: the panel widens, everything is looked at anew, and each panel has its share of δ."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.trials import JOINING
from support.staging import Clock, create, picture, reopen

RULES = [fp.rules.Certified(0.3), fp.rules.Certified(0.3, epsilon=0.1)]


@pytest.mark.parametrize("rule", RULES)
def test_a_wider_panel_is_the_one_that_would_have_been_told_everything(
    url: str, clock: Clock, rule: fp.rules.Rule
) -> None:
    principal = fp.Principal(rule, observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.BanFor(50))
    campaign = create(url, clock, principal=principal, late_joiners="count", arms=["A", "B"], agents=["ann", "bob"])
    paid = campaign.ask("ann")
    assert paid is not None
    campaign.tell("ann", paid.arm, 0.5)
    refused = campaign.ask("bob")
    assert refused is not None
    campaign.tell("bob", "B" if refused.arm == "A" else "A", 0.25)
    pulls = [("ann", "A", 1.0), ("bob", "B", 0.0), ("ann", "B", 0.5), ("bob", "A", 0.75)] * 3
    campaign.tell_many(pulls)
    open_offer = campaign.ask("ann")
    campaign.add_agents(["cy", "dan"], by="ops")
    status = campaign.status()
    assert (status.agents, status.late_joiners, status.observations) == (4, 0, 14)
    assert campaign.ask("ann") == open_offer
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    trial = campaign.core.writer.decider.state.trial
    assert trial.principal.rule.delta == pytest.approx(0.3 / 6)
    fresh = fp.Principal(trial.principal.rule, observe=fp.observe.Steps(0), offers="each").start(arms=2, agents=4)
    names, arms = {"ann": 0, "bob": 1}, {"A": 0, "B": 1}
    fresh.tell(0, arms[paid.arm], 0.5)
    fresh.tell(1, 1 - arms[refused.arm], 0.25)
    for agent, arm, reward in pulls:
        fresh.tell(names[agent], arms[arm], reward)
    fresh.end_step()
    campaign.tell_many([("cy", "A", 1.0), ("dan", "A", 1.0)])
    fresh.tell_many([2, 3], [0, 0], [1.0, 1.0])
    assert trial.record.pulls.tolist() == fresh.record.pulls.tolist()
    assert trial.rule.bounds() == fresh.rule.bounds()
    assert campaign.status().banned == 1
    assert campaign.ask("cy") is not None
    grounds = campaign.verdict().rests_on
    assert grounds.delta == 0.3
    assert "late joiners count, panel 2, tested at δ/6" in grounds.leavers
    assert JOINING in grounds.assumptions
    campaign.close()


def test_a_campaign_with_late_joiners_can_be_decided_and_then_only_observes(sqlite: str, clock: Clock) -> None:
    principal = fp.Principal(fp.rules.Certified(0.3), observe=fp.observe.Steps(0), offers="each")
    campaign = create(sqlite, clock, principal=principal, late_joiners="count", arms=["A", "B"], agents=["ann"])
    campaign.add_agents(["bob"])
    campaign.add_agents(["cy"])
    assert campaign.core.writer.decider.state.trial.principal.rule.delta == pytest.approx(0.3 / 12)
    while not campaign.status().decided:
        campaign.tell_many([(agent, arm, reward) for agent in range(3) for arm, reward in (("A", 1.0), ("B", 0.0))] * 5)
        assert campaign.status().step < 1000
    assert campaign.verdict().certified
    campaign.add_agents(["dan"])
    assert (campaign.status().agents, campaign.status().late_joiners) == (3, 1)
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before
    campaign.close()


def test_an_arm_that_was_withdrawn_stays_out_when_the_panel_widens(url: str, clock: Clock) -> None:
    principal = fp.Principal(fp.rules.Comparisons(0.3), observe=fp.observe.Steps(0), offers="each")
    campaign = create(url, clock, principal=principal, late_joiners="count", withdrawal=True, agents=["ann", "bob"])
    while (offer := campaign.ask("ann")) is None:
        campaign.tell("ann", "B", 0.9)
        assert campaign.status().step < 20
    assert offer.arm == "A"
    campaign.withdraw("A", by="ops")
    campaign.add_agents(["cy"])
    for _ in range(2):  # as it was, and read back from the log
        assert [(arm.name, arm.active, arm.withdrawn) for arm in campaign.status().arms] == [
            *(("A", False, True), ("B", True, False), ("C", True, False))
        ]
        before = picture(campaign)
        campaign = reopen(campaign, url, clock)
        assert picture(campaign) == before
    campaign.snapshot()
    assert campaign.tell("ann", "A", 1.0).outcome == "paid"  # the offer was recalled, and is honoured
    while not campaign.status().decided:
        rewards = {"A": 1.0, "B": 0.9, "C": 0.1}
        for agent, arm in product(range(3), "ABC"):
            campaign.ask(agent)
            campaign.tell(agent, arm, rewards[arm])
        assert campaign.status().step < 1000
    verdict = campaign.verdict()
    assert (verdict.arm, verdict.certified) == ("B", True)
    assert "(withdrawn: A)" in verdict.rests_on.target
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.close()
    assert verify(url, campaign.name).snapshots == 1


def test_counting_late_joiners_needs_a_rule_and_a_policy_that_allow_it(sqlite: str, clock: Clock) -> None:
    independent: dict[str, Any] = {"leavers": "independent"}
    population = {"principal": fp.Principal(fp.rules.Population(0.1), observe=fp.observe.Steps(0), offers="each")}
    for wrong in (independent, population):
        with pytest.raises(errors.InvalidInput, match="late_joiners must be 'observe', unless"):
            create(sqlite, clock, late_joiners="count", **wrong)


def test_late_joiners_have_weights_if_the_others_do(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, late_joiners="count", weights=[1, 1, 2])
    with pytest.raises(errors.InvalidInput, match="weights must be given for all agents"):
        campaign.add_agents(["dan"])
    campaign.add_agents(["dan"], weights=[4])
    assert campaign.core.writer.decider.state.trial.setting.weights.tolist() == [0.125, 0.125, 0.25, 0.5]
    campaign.close()


def test_a_panel_that_would_be_too_wide_changes_nothing(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, late_joiners="count")
    before = picture(campaign)
    with pytest.raises(errors.InvalidInput, match="agents must be at most"):
        campaign.add_agents(1 << 31)
    assert picture(campaign) == before
    assert campaign.add_agents(["dan"]) == [3]
    before = picture(campaign)
    assert picture(reopen(campaign, sqlite, clock)) == before


COMPARING = fp.Principal(
    fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), protocol=fp.protocols.NeverBan(), offers="each"
)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, [1.0, 0.3]])
def test_under_comparisons_the_trial_simply_goes_on_with_more_people(
    url: str, clock: Clock, weights: list[float] | None
) -> None:
    settings: dict[str, Any] = {"principal": COMPARING, "late_joiners": "count", "arms": ["A", "B"]}
    campaign = create(url, clock, agents=["ann", "bob"], weights=weights, **settings)
    visit(campaign, ["ann", "bob"], 6)
    before = campaign.status()
    campaign.add_agents(["cy", "dan"], weights=None if weights is None else [0.5, 0.7])
    status = campaign.status()
    assert (status.agents, status.late_joiners) == (4, 0)
    assert [arm.bound for arm in status.arms] == [arm.bound for arm in before.arms]  # nothing begins anew
    assert status.differences == before.differences
    assert campaign.core.writer.decider.state.trial.principal.rule.delta == 0.05
    campaign.snapshot()
    visit(campaign, ["cy", "ann", "dan"], 6)
    now = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == now
    visit(campaign, ["ann", "bob", "cy", "dan"], 200)
    verdict = campaign.verdict()
    assert verdict.certified
    assert verdict.rests_on.leavers.endswith("late joiners count")
    assert JOINING not in verdict.rests_on.assumptions
    assert max(it.people for it in verdict.differences) == 4
    campaign.close()
    verify(url, campaign.name)


def visit(campaign: fp.Campaign, names: list[str], times: int) -> None:
    """Let people ask and act; A is always better."""
    for t in range(times):
        for name in names:
            offer = campaign.ask(name)
            arm = "AB"[t % 2] if offer is None else offer.arm
            campaign.tell(name, arm, float(arm == "A"))


def test_nobody_joins_comparisons_with_more_weight_than_anybody_had(sqlite: str, clock: Clock) -> None:
    settings: dict[str, Any] = {"principal": COMPARING, "late_joiners": "count"}
    campaign = create(sqlite, clock, weights=[1.0, 2.0, 2.0], **settings)
    with pytest.raises(errors.InvalidInput, match="at most the largest"):
        campaign.add_agents(["dan"], weights=[2.5])
    assert campaign.status().agents == 3
    campaign.add_agents(["dan"], weights=[2.0])
    assert campaign.status().agents == 4
