"""What a verdict rests on, in words, the policies that a rule refuses, and who may leave without a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.rules.base import STACKS
from freepull.principal.rules.paper import STEPS
from support.drive import assert_sentence, paper
from support.rounded import downwards


def start(rule: Any = None, agents: int = 3, **frame: Any) -> fp.Trial:
    rule = fp.rules.Certified(0.05) if rule is None else rule
    principal = fp.Principal(rule, observe=fp.observe.Steps(0))
    return principal.start(arms=2, agents=agents, **{"horizon": 100} | frame)


@pytest.mark.parametrize(
    ("rule", "leavers", "said"),
    [
        (
            None,
            "worst_case",
            "one of wait, independent, got 'worst_case', which there is no longer; take rules.Comparisons, which is "
            "right whatever makes people leave.",
        ),
        (paper(), "independent", "'wait' with rules.Paper, got 'independent'."),
        (fp.rules.Passive(), "independent", "'wait' with rules.Passive, got 'independent'."),
        (None, "waits", "one of wait, independent; got 'waits'; did you mean 'wait'?"),
    ],
)
def test_policies_that_a_rule_cannot_follow_are_refused_with_a_sentence(rule: Any, leavers: str, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        start(rule, leavers=leavers)
    assert assert_sentence(problem) == f"leavers must be {said}"


def test_withdrawing_an_arm_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput) as problem:
        start(withdrawal=True)
    said = "withdrawal must be False with rules.Certified; only rules.Comparisons provides for it."
    assert assert_sentence(problem) == said
    trial = start()
    with pytest.raises(InvalidInput) as problem:
        trial.withdraw(1)
    said = "withdrawing an arm must be provided for: start with rules.Comparisons and withdrawal=True."
    assert assert_sentence(problem) == said
    assert trial.active == [0, 1]


@pytest.mark.parametrize(
    ("weights", "target"),
    [
        (None, "the panel: the average over its 3 agents"),
        ([1, 1, 1], "the panel: the average over its 3 agents"),
        ([2, 1, 1], "the panel: the weighted average over its 3 agents"),
        ([0, 1, 1], "the panel: the average over its 2 agents"),
        ([0, 2, 1], "the panel: the weighted average over its 2 agents"),
    ],
)
def test_the_target(weights: Any, target: str) -> None:
    assert start(weights=weights).verdict().rests_on.target == target


def test_waiting_is_printed() -> None:
    trial = start(fp.rules.Certified(0.01))
    trial.leave(2)
    grounds = trial.verdict().rests_on
    assert grounds == fp.Grounds(
        "the certified rule at δ = 0.01 (proven)",
        0.01,
        "the panel: the average over its 3 agents",
        "wait; agent 2 left",
        STACKS,
    )
    assert str(grounds).splitlines() == [
        "rule: the certified rule at δ = 0.01 (proven)",
        "target: the panel: the average over its 3 agents",
        "agents who leave: wait; agent 2 left",
        "error: such a trial ends with a wrong certified verdict with probability 0.01 at most",
        *(f"assumes: {assumption}" for assumption in STACKS),
    ]


def test_dropping_is_printed() -> None:
    trial = start(fp.rules.Certified(0.06), agents=4, leavers="independent")
    assert trial.verdict().rests_on.leavers == "independent; nobody left; panel 1, tested at δ/2"
    trial.leave(0)
    trial.leave(2)
    trial.end_step()
    grounds = trial.verdict().rests_on
    assert grounds == fp.Grounds(
        "the certified rule at δ = 0.005 (proven)",
        0.06,
        "the panel: the average over its 2 agents",
        "independent; agent 0, agent 2 left; panel 3, tested at δ/12",
        (*STACKS, "who leaves, and in which order, has nothing to do with rewards"),
    )


@pytest.mark.parametrize("leavers", ["wait", "independent"])
def test_a_decision_is_certified_however_often_agents_act_in_a_step_and_leaving_then_changes_nothing(
    leavers: str,
) -> None:
    trial = start(leavers=leavers)
    for m in range(3):
        for _ in range(40):
            trial.tell(m, 0, 0.1)
            trial.tell(m, 1, 0.9)
    trial.end_step()
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified, verdict.at) == (1, True, True, 1)
    delta = "0.05" if leavers == "wait" else "0.025"
    assert verdict.why == (
        f"every other arm was eliminated by the certified rule at δ = {delta} (proven); stands as long as payment, "
        f"drift and the like move no mean by more than ± {downwards(verdict.survives or 0.0)}"
    )
    for m in range(3):
        trial.leave(m)  # also the last
        trial.end_step()
    assert trial.awaited == []
    assert (trial.verdict().arm, trial.verdict().at, trial.panel.number) == (1, 1, 1)
    assert trial.verdict().why == verdict.why


def test_an_agent_without_weight_leaves_no_new_panel_behind() -> None:
    trial = start(agents=4, leavers="independent", weights=[0.0, 1.0, 1.0, 1.0])
    trial.leave(0)
    trial.end_step()
    assert trial.panel.number == 1
    assert trial.panel.left == [True, False, False, False]
    with pytest.raises(InvalidInput):
        trial.tell(0, 0, 0.5)


def test_a_rule_with_the_worst_case_is_told_once_and_not_after_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    trial, told = start(agents=4), list[int]()
    trial.panel.setting = replace(trial.setting, leavers="worst_case")
    monkeypatch.setattr(trial.rule, "leave", told.append)
    trial.leave(2)
    trial.leave(2)
    trial.decided_at = 1
    trial.leave(3)
    assert told == [2]
    with pytest.raises(InvalidInput):
        trial.tell(2, 0, 0.5)


@pytest.mark.parametrize(
    "rule",
    [
        fp.rules.Certified(), fp.rules.Population(), fp.rules.Population(pulls=9),
        fp.rules.Paper(0.05, "finite_time"),
    ],
)  # fmt: skip
def test_every_proven_rule_prints_the_conditions_of_its_proof_and_claims_no_more(rule: fp.rules.Rule) -> None:
    lines = str(start(rule).verdict().rests_on).splitlines()
    for said in (
        "rewards lie in [0, 1]",
        "a paid pull is worth as much as an unpaid one",
        "nobody knows the reward of a pull, or part of it, when choosing it",
        "do not drift",
        "no event hits many agents at once",
        "every pull is reported exactly once, whatever came of it",
    ):
        assert sum(line.startswith("assumes: ") and said in line for line in lines) == 1, said
    assert "error: such a trial ends with a wrong certified verdict with probability 0.05 at most" in lines
    drawn = any("drawn independently from the population" in line for line in lines)
    assert drawn == isinstance(rule, fp.rules.Population)
    assert any("at most once in each step" in line for line in lines) == isinstance(rule, fp.rules.Paper)


@pytest.mark.parametrize("bound", ["finite_time", "equation"])
def test_a_certified_verdict_of_the_paper_says_what_its_proof_assumes(bound: str) -> None:
    principal = fp.Principal(fp.rules.Paper(0.1, bound))
    assert principal.start(arms=2, agents=2, horizon=3000).verdict().rests_on.assumptions == STEPS
    told = fp.simulate(fp.Game([[0.9, 0.1], [0.9, 0.1]]), principal=principal, horizon=3000, runs=1)
    assert told.frame["certified"].to_list() == [True]
    assert told.provenance["parameters"]["assumptions"] == list(STEPS)


def test_a_heuristic_claims_nothing_and_so_assumes_nothing() -> None:
    for rule in (paper(), fp.rules.Paper(1.0), fp.rules.Passive()):
        assert not start(rule).rule.proven
        grounds = start(rule).verdict().rests_on
        assert grounds.assumptions == ()
        assert "error" not in str(grounds), "it promises nothing either"
