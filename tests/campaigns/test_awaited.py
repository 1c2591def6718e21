"""Nobody blocks silently: whoever nothing goes on without is named, under every rule, and what to do about it."""

from __future__ import annotations

import pytest

import freepull as fp
from support.staging import Clock, create, reopen

HALF = fp.observe.Steps(0)
WAITING = [
    fp.rules.Certified(0.05),
    fp.rules.Population(0.05, pulls=2),
    fp.rules.Population(0.05),
    fp.rules.Paper(0.05),
]


def principal(rule: fp.rules.Rule) -> fp.Principal:
    return fp.Principal(rule, observe=HALF, protocol=fp.protocols.NeverBan(), offers="each")


def without_cy(campaign: fp.Campaign, rounds: int = 20) -> None:
    """Let ann and bob try everything, again and again."""
    campaign.tell_many([(name, arm, 0.5) for _ in range(rounds) for name in ("ann", "bob") for arm in "ABC"])


@pytest.mark.parametrize("rule", WAITING)
def test_one_who_never_came_is_named(sqlite: str, clock: Clock, rule: fp.rules.Rule) -> None:
    campaign = create(sqlite, clock, principal=principal(rule), horizon=1000)
    assert campaign.status().awaited == []  # everybody still may come
    assert campaign.status().remedy == ""
    without_cy(campaign)
    status = campaign.status()
    assert status.awaited[0] == "cy"
    assert "Comparisons" in status.remedy
    assert "awaited: cy" in campaign.verdict().why
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.status().awaited == status.awaited


@pytest.mark.parametrize("rule", [fp.rules.Comparisons(0.05), fp.rules.Passive()])
def test_a_rule_that_waits_for_nobody_names_nobody(sqlite: str, clock: Clock, rule: fp.rules.Rule) -> None:
    campaign = create(sqlite, clock, principal=principal(rule), horizon=1000)
    without_cy(campaign)
    campaign.leave("bob")
    assert (campaign.status().awaited, campaign.status().remedy) == ([], "")


@pytest.mark.parametrize(
    ("leavers", "rule", "word"),
    [
        ("wait", fp.rules.Certified(0.05), "nobody can take their place"),
        ("independent", fp.rules.Certified(0.05), "nothing to do with rewards"),
    ],
)
def test_what_to_do_depends_on_the_policy(
    sqlite: str, clock: Clock, leavers: str, rule: fp.rules.Rule, word: str
) -> None:
    campaign = create(sqlite, clock, principal=principal(rule), leavers=leavers)
    without_cy(campaign)
    assert word in campaign.status().remedy
    if leavers != "wait":
        campaign.leave("cy")
        without_cy(campaign)
        assert "cy" not in campaign.status().awaited


def test_the_longest_silent_come_first_and_few_are_named(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=principal(fp.rules.Certified(0.05)), agents=3000)
    everybody = [m for m in range(3000) if m not in (7, 2500)]
    campaign.tell_many([(m, 0, 0.5) for m in everybody])
    campaign.tell_many([(m, 0, 0.5) for m in everybody for _ in range(2) if m >= 50])
    status = campaign.status()
    assert status.awaited[:2] == ["#7", "#2500"]
    assert status.awaited[2:] == [f"#{m}" for m in (0, 1, 2, 3, 4, 5, 6, 8)]


@pytest.mark.parametrize("rule", WAITING)
def test_a_trial_names_silent_agents_too(rule: fp.rules.Rule) -> None:
    trial = principal(rule).start(arms=2, agents=3, horizon=1000)
    for _ in range(10):
        for m in (0, 2):
            for arm in range(2):
                trial.tell(m, arm, 0.5)
        trial.end_step()
    assert trial.awaited == [1]
    assert "awaited: agent 1" in trial.verdict().why


def test_a_round_names_who_has_not_acted_and_says_what_to_do(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=principal(fp.rules.Comparisons(0.05)), mode="rounds")
    campaign.tell("ann", "A", 1.0)
    status = campaign.status()
    assert status.awaited == ["bob", "cy"]
    assert "round_lasts" in status.remedy
