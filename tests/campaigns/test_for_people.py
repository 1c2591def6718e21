"""What a campaign does unless told otherwise, how much better arms are, and what is said of that by name."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import freepull as fp
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.rehearsal import play
from freepull.principal import for_people
from support.staging import EACH, Clock, create, reopen


@pytest.mark.parametrize("horizon", [None, 60])
def test_a_campaign_without_a_principal_gets_what_is_best_for_people(
    sqlite: str, clock: Clock, horizon: int | None
) -> None:
    campaign = create(sqlite, clock, principal=None, horizon=horizon)
    assert campaign.settings.principal == for_people(horizon)
    assert isinstance(for_people(horizon).rule, fp.rules.Comparisons)
    assert isinstance(for_people(horizon).protocol, fp.protocols.NeverBan)


def test_bans_with_a_rule_that_waits_for_everybody_are_warned_of(sqlite: str, clock: Clock) -> None:
    with pytest.warns(UserWarning, match="people may refuse"):
        create(sqlite, clock, principal=EACH)
    quiet = [for_people(), fp.Principal(fp.rules.Certified(), fp.observe.Steps(0), fp.protocols.NeverBan(), "each")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i, principal in enumerate(quiet):
            create(sqlite, clock, principal=principal, name=f"quiet {i}")


def act(campaign: fp.Campaign, times: int, means: dict[str, float]) -> None:
    """Let three people ask and act, until it is decided or they have had enough."""
    chance = random.Random(1)
    for _ in range(times):
        for name in ("ann", "bob", "cy"):
            offer = campaign.ask(name)
            arm = chance.choice(list(means)) if offer is None else offer.arm
            campaign.tell(name, arm, float(chance.random() < means[arm]))
        if campaign.status().decided:
            break


def test_how_much_better_the_leader_is_has_names_and_both_bounds(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people())
    assert campaign.status().differences == []
    act(campaign, 40, {"A": 0.6, "B": 0.5, "C": 0.4})
    status, verdict = campaign.status(), campaign.verdict()
    assert not status.decided
    assert status.differences == verdict.differences
    assert {it.than for it in status.differences} == {"A", "B", "C"} - {str(status.differences[0].arm)}
    for it in status.differences:
        assert -1 <= it.low < it.high <= 1
        assert it.people == 3
        assert it.comparisons > 0
    trial = campaign.core.writer.decider.state.trial
    numbers = [(status.arms[int(it.arm)].name, it.low) for it in trial.verdict().differences]
    assert numbers == [(it.arm, it.low) for it in status.differences]


def test_a_decided_verdict_names_arms_and_keeps_what_was_known(sqlite: str, clock: Clock) -> None:
    campaign = create(
        sqlite, clock, principal=fp.Principal(fp.rules.Comparisons(0.05), fp.observe.Steps(0), offers="each")
    )
    act(campaign, 400, {"A": 0.95, "B": 0.05, "C": 0.05})
    verdict = campaign.verdict()
    assert verdict.certified
    assert "A was better than B on average" in verdict.why
    assert "arm 0" not in verdict.why
    assert {(it.arm, it.than) for it in verdict.differences} >= {("A", "C")}
    assert all(0 < it.low < 0.9 < it.high for it in verdict.differences if it.arm == "A")
    campaign.tell_many([("ann", "B", 1.0)] * 50)
    assert campaign.verdict().differences == verdict.differences
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.verdict().differences == campaign.status().differences == verdict.differences
    campaign.close()
    verify(sqlite, campaign.name)


def test_that_the_leader_is_best_up_to_epsilon_has_its_evidence_where_that_against_arms_is(
    sqlite: str, clock: Clock
) -> None:
    principal = fp.Principal(fp.rules.Comparisons(0.05, 0.3), fp.observe.Steps(0), fp.protocols.NeverBan(), "each")
    campaign = create(sqlite, clock, principal=principal)
    assert (campaign.status().within, campaign.status().epsilon) == (None, 0.3)
    act(campaign, 25, {"A": 0.6, "B": 0.6, "C": 0.6})
    status, verdict = campaign.status(), campaign.verdict()
    assert not status.decided
    assert status.within is not None
    assert status.threshold is not None
    assert 0 < status.within < status.threshold
    assert f"best up to ε has evidence {status.within:.4g}, {status.threshold:.4g} needed" in verdict.why
    act(campaign, 400, {"A": 0.6, "B": 0.6, "C": 0.6})
    status = campaign.status()
    assert status.decided
    assert status.within is not None
    assert status.within >= 120
    assert f"any other arm still in (evidence {status.within:.4g}, 120 needed)" in campaign.verdict().why
    with_one_arm = create(sqlite, clock, principal=EACH, name="certified").status()
    assert (with_one_arm.within, with_one_arm.epsilon, with_one_arm.comparisons) == (None, None, None)


def test_the_leader_is_the_one_whose_differences_are_shown(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people())
    act(campaign, 40, {"A": 0.6, "B": 0.5, "C": 0.4})
    campaign.tell_many([(name, "C", 1.0) for name in ("ann", "bob", "cy")] * 200)  # unasked: in means per agent alone
    status, verdict = campaign.status(), campaign.verdict()
    assert max(status.arms, key=lambda arm: arm.mean or 0).name == "C"
    compared = max(status.arms, key=lambda arm: arm.compared or 0).name
    assert compared != "C"
    assert {status.leader, verdict.arm, *(it.arm for it in status.differences)} == {compared}
    assert "this one has the largest mean in comparisons" in verdict.why


def test_a_verdict_says_what_it_takes_of_pulls_that_were_told_without_an_ask(sqlite: str, clock: Clock) -> None:
    """A pull without an ask fills nothing; what matters is that it is told before the agent asks again."""
    campaign = create(sqlite, clock, principal=for_people())
    act(campaign, 4, {"A": 0.6, "B": 0.5, "C": 0.4})
    assert campaign.verdict().rests_on.assumptions[-1] == "whoever asks has told of every pull made before"
    campaign.tell_many([("ann", "A", 1.0)] * 7)
    act(campaign, 400, {"A": 0.95, "B": 0.05, "C": 0.05})
    verdict = campaign.verdict()
    assert verdict.certified
    told = ", also of the 7 that were told without an ask, which are in no comparison"
    assert verdict.rests_on.assumptions[-1] == f"whoever asks has told of every pull made before{told}"


def test_who_left_is_named_and_nobody_is_waited_for(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people())
    campaign.leave("bob")
    assert campaign.verdict().rests_on.leavers == "nobody is waited for; bob left"
    act(campaign, 400, {"A": 0.95, "B": 0.05, "C": 0.05})
    campaign.leave("bob")
    assert campaign.verdict().decided
    campaign.erase_names(anyway=True)
    assert "#" not in campaign.verdict().rests_on.leavers  # who left after the decision is not in it


def test_the_names_of_who_left_before_the_decision_can_be_erased(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people(), agents=["ann", "bob", "cy", "dan"])
    campaign.leave("dan")
    act(campaign, 400, {"A": 0.95, "B": 0.05, "C": 0.05})
    assert campaign.verdict().rests_on.leavers == "nobody is waited for; dan left"
    campaign.erase_names(["dan"], anyway=True)
    assert campaign.verdict().rests_on.leavers == "nobody is waited for; #3 left"


def test_how_many_comparisons_were_opened_never_goes_back(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people())
    opened = [0]
    for _ in range(60):
        act(campaign, 1, {"A": 0.9, "B": 0.2, "C": 0.1})
        opened.append(campaign.status().comparisons or 0)
    assert opened == sorted(opened)
    assert f" of {opened[-1]:,} comparisons opened" in campaign.verdict().rests_on.target


def test_rules_that_bound_no_difference_say_none(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH)
    act(campaign, 10, {"A": 0.9, "B": 0.1, "C": 0.1})
    assert campaign.status().differences == campaign.verdict().differences == []


@pytest.mark.parametrize("mode", ["free", "rounds"])
def test_simulated_people_ask_before_they_act(sqlite: str, clock: Clock, mode: str) -> None:
    settings: dict[str, Any] = {"principal": for_people(40), "agents": 20, "mode": mode, "horizon": 40}
    campaign = create(sqlite, clock, arms=2, **settings)
    play(campaign, fp.Game([[0.95, 0.05]] * 20), steps=40, until="decided")
    verdict = campaign.verdict()
    assert verdict.decided
    assert verdict.arm == "arm 0"
    assert not verdict.certified  # it is a rehearsal


def test_a_rehearsal_with_people_as_they_are_has_silent_ones(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=for_people(), agents=100, arms=2)
    pulls = play(campaign, fp.panels.street(100, 2), steps=50, seed=3)
    status = campaign.status()
    assert 0 < pulls == status.observations < 50 * 100 / 4
    assert status.differences
    assert (campaign.core.writer.decider.state.trial.record.pulls.sum(axis=1) == 0).any()
    with pytest.raises(fp.errors.InvalidInput, match="in rounds, which wait for everybody"):
        play(create(sqlite, clock, principal=for_people(), mode="rounds", name="r"), fp.panels.street(3, 3), steps=5)
