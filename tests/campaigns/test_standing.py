"""How a campaign stands: who leads, by the means that are shown, and how sure and how far a verdict is."""

from __future__ import annotations

import pytest

import freepull as fp
from support.rounded import downwards
from support.staging import Clock, create, reopen


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 1.0]])
def test_nobody_leads_before_the_first_pull(sqlite: str, clock: Clock, weights: list[float] | None) -> None:
    campaign = create(sqlite, clock, weights=weights)
    assert campaign.status().leader is None
    verdict = campaign.verdict()
    assert verdict.arm is None
    assert "nobody has pulled any yet" in verdict.why
    assert str(verdict).startswith("no arm (undecided")


def test_the_leader_has_the_largest_of_the_means_that_are_shown(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    campaign.tell_many([("ann", "A", 0.3), ("bob", "A", 0.3), ("cy", "B", 0.5)])
    status, verdict = campaign.status(), campaign.verdict()
    assert [arm.mean for arm in status.arms] == [pytest.approx(0.3), pytest.approx(0.5), None]
    assert status.leader == verdict.arm == "B"
    assert "this one has the largest mean" in verdict.why


@pytest.mark.parametrize("robust", [0.0, 0.03])
def test_a_decided_campaign_says_how_far_it_survives(sqlite: str, clock: Clock, robust: float) -> None:
    principal = fp.Principal(fp.rules.Certified(0.05, robust=robust), observe=fp.observe.Steps(0), offers="each")
    campaign = create(sqlite, clock, principal=principal, horizon=200)
    assert campaign.verdict().survives is campaign.status().survives is None
    while not campaign.status().decided:
        campaign.tell_many([(who, arm, reward) for who in range(3) for arm, reward in enumerate((1.0, 0.4, 0.0))])
    survives = campaign.verdict().survives
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.verdict().survives == campaign.status().survives == survives
    assert survives is not None
    assert survives >= max(robust, 0.001)
    why = f"stands as long as payment, drift and the like move no mean by more than ± {downwards(survives)}"
    assert campaign.verdict().why.endswith(why)
    decision = campaign.core.writer.decider.state.decision
    assert decision is not None
    del decision["survives"]  # as freepull stored it before
    assert campaign.verdict().survives is campaign.status().survives is None


@pytest.mark.parametrize(("mode", "certifiable"), [("free", False), ("rounds", True)])
def test_a_rule_for_steps_says_that_it_is_not_proven_in_free_mode(
    sqlite: str, clock: Clock, mode: str, certifiable: bool
) -> None:
    principal = fp.Principal(fp.rules.Paper(0.1), observe=fp.observe.Steps(2), offers="each")
    verdict = create(sqlite, clock, mode=mode, principal=principal, horizon=50).verdict()
    assert ("not certified, because" in verdict.why) is not certifiable
