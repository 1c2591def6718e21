"""What the pairwise rule provides for beforehand: stopping at ε, arms that are withdrawn, agents who leave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.rules.pairwise.evidence import log_evidence
from freepull.principal.rules.pairwise.state import PairwiseState
from support.drive import assert_sentence
from support.pairwise_reference import NEYMAN, Reference, drawn, feed, start
from support.tiers import mostly_slow

PLAIN = fp.rules.Blocks()


def trial_of(rule: fp.rules.Pairwise, arms: int, agents: int, **more: Any) -> tuple[fp.Trial, PairwiseState]:
    trial = fp.Principal(rule, observe=fp.observe.Steps(0)).start(arms=arms, agents=agents, **more)
    assert isinstance(trial.rule, PairwiseState)
    return trial, trial.rule


def tell(trial: fp.Trial, rewards: list[float], times: int, agents: int = 1) -> None:
    """Let every agent pull every arm so many times, one step each time."""
    for _ in range(times):
        for m in range(agents):
            for k, x in enumerate(rewards):
                trial.tell(m, k, x)
        trial.end_step()


def test_the_leader_is_declared_when_it_is_proven_to_be_best_up_to_epsilon() -> None:
    trial, state = trial_of(fp.rules.Pairwise(0.1, epsilon=0.2), 3, 1)
    rewards = [0.6, 0.6, 0.55]
    while trial.decided_at is None:
        assert state.declared is None
        assert min(state.lower(0, j) for j in (1, 2)) < -0.2
        tell(trial, rewards, 1)
    assert min(state.lower(0, j) for j in (1, 2)) >= -0.2
    assert (state.decided, state.leader(), trial.active) == (True, 0, [0, 1, 2])
    tell(trial, [0.0, 0.6, 0.55], 50)  # who leads later does not matter
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified) == (0, True, True)
    assert "at most ε = 0.2 worse than the best" in verdict.why
    assert verdict.rests_on.target.endswith("up to ε = 0.2")
    assert state.within(0) <= 0.2


def test_without_epsilon_nothing_is_declared() -> None:
    trial, state = trial_of(fp.rules.Pairwise(0.1), 2, 1)
    tell(trial, [0.6, 0.6], 500)
    assert trial.decided_at is None
    assert state.within(0) < 0.2
    assert "ε" not in trial.verdict().rests_on.target


def test_what_fell_only_to_a_withdrawn_arm_returns() -> None:
    trial, state = trial_of(fp.rules.Pairwise(0.1), 4, 1, withdrawal=True)
    while len(trial.active) > 2:
        tell(trial, [1.0, 0.5, 0.45, 1.0], 1)
    assert trial.active == [0, 3]
    trial.withdraw(3)
    assert trial.active == [0]  # arm 0 has enough against the others too
    trial, state = trial_of(fp.rules.Pairwise(0.1), 4, 1, withdrawal=True)
    while len(trial.active) > 2:
        tell(trial, [0.75, 0.5, 0.45, 1.0], 1)
    beaten = [k for k in (1, 2) if state.books.beaten[0, k]]
    trial.withdraw(3)
    assert beaten == []
    assert trial.active == [0, 1, 2]
    assert 3 not in [want.arm for want in state.wants([True])]
    tell(trial, [0.75, 0.5, 0.45, 1.0], 200)
    assert trial.verdict().arm == 0
    assert trial.verdict().why.endswith(", or withdrawn")


def test_a_withdrawn_arm_eliminates_nothing() -> None:
    trial, _ = trial_of(fp.rules.Pairwise(0.1), 3, 1, withdrawal=True)
    trial.withdraw(2)
    tell(trial, [0.5, 0.5, 1.0], 100)
    assert trial.active == [0, 1]


def test_arms_that_beat_each_other_leave_the_one_with_least_evidence() -> None:
    state = start(fp.rules.Pairwise(0.1), 3, [1], withdrawal=True)
    state.books.beaten[...] = [[0, 1, 0], [1, 0, 0], [1, 1, 0]]
    state.books.evidence[...] = [[0, 8, 0], [7, 0, 0], [9, 9, 0]]
    state.books.active[:2] = 0
    state.withdraw(2)
    assert state.active == [True, False, False]


def test_one_arm_must_stay() -> None:
    trial, _ = trial_of(fp.rules.Pairwise(0.1), 3, 1, withdrawal=True)
    trial.withdraw(1)
    with pytest.raises(InvalidInput) as problem:
        trial.withdraw(1)
    assert assert_sentence(problem) == "this arm is withdrawn already; withdraw another one, or none."
    trial.withdraw(0)
    with pytest.raises(InvalidInput) as problem:
        trial.withdraw(2)
    assert assert_sentence(problem).startswith("the last arm cannot be withdrawn, because at least one must stay")
    trial.end_step()
    assert trial.verdict().arm == 2


def test_the_worst_case_by_hand() -> None:
    """Blocks of one sample: agent 1 leaves after 2 pulls of arm 0 and 1 of arm 1; agent 0 goes on to 3 of each."""
    trial, state = trial_of(fp.rules.Pairwise(0.1, blocks=PLAIN), 2, 2, leavers="worst_case")
    for agent, arm, x in [(1, 0, 1.0), (1, 1, 0.0), (1, 0, 0.5)]:
        trial.tell(agent, arm, x)
    trial.leave(1)
    for _ in range(3):
        trial.tell(0, 0, 1.0)
        trial.tell(0, 1, 0.25)
    trial.end_step()
    ell = 0.6 * 1.5 ** -np.arange(20.0)
    psi = -np.log(1 - ell) - ell
    # arm 0: 3 + 1.5 and a missing block, 0 to 1; arm 1: .75 + 0 and two missing blocks, 0 to 2
    errors = [
        0.5**2 + 0.25**2 + (1 / 6) ** 2 + 0.5**2 + 0.25**2 + 1,  # x̂ = .5, .75, 5/6; then .5, .75
        0.25**2 + (0.25 - 0.375) ** 2 + (0.25 - 1 / 3) ** 2 + 0.5**2 + 2,
    ]
    for j, k, ahead in [(0, 1, 4.5 - (0.75 + 2)), (1, 0, 0.75 - (4.5 + 1))]:
        by_hand = math.log(np.mean(np.exp(ell * ahead - psi * sum(errors))))
        assert state.books.evidence[j, k] == pytest.approx(by_hand, abs=1e-9)
    assert state.books.rounds.tolist() == [3, 3]
    assert not state.awaits(1)
    assert state.wants([True, False]) != []


@pytest.mark.parametrize("weights", mostly_slow([1, 2, 4], [1, 1, 1]))
@pytest.mark.parametrize("blocks", mostly_slow(NEYMAN, PLAIN))
def test_the_worst_case_agrees_with_a_second_implementation(weights: list[int], blocks: fp.rules.Blocks) -> None:
    streams = drawn(3, 3, seed=5, most=400)
    short = [[arm[0], arm[1], arm[2][: 5 + 4 * k]] for k, arm in enumerate(streams)]
    first = [[arm[0][:20], arm[1][:7], arm[2]] for arm in short]
    state = feed(start(fp.rules.Pairwise(0.1, blocks=blocks), 3, weights), first)
    state.leave(2)
    state.leave(2)  # again changes nothing
    feed(state, [[arm[0][20:], arm[1][7:], []] for arm in short])
    other = Reference(short, weights, blocks, left=(2,))
    assert state.books.rounds.tolist() == other.C
    for j, k in [(0, 1), (1, 0), (1, 2), (2, 0)]:
        assert state.books.evidence[j, k] == pytest.approx(other.log_evidence(j, k), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_worst_case_never_proves_more_than_what_the_leaver_would_have_given(seed: int) -> None:
    streams, rng = drawn(2, 3, seed, most=300), np.random.default_rng(seed)
    extreme: list[list[float]] = [[float(seed % 2)] * 400, (rng.random(400) < 0.5).astype(float).tolist()]
    whole = [[arm[0], arm[1], arm[2][:9] + extreme[(k + seed) % 2]] for k, arm in enumerate(streams)]
    left = [[arm[0], arm[1], arm[2][:9]] for arm in streams]
    state = feed(start(fp.rules.Pairwise(0.1, blocks=NEYMAN), 2, [1, 1, 3]), left, look=False)
    before = start(fp.rules.Pairwise(0.1, blocks=NEYMAN), 2, [1, 1, 3])
    state.leave(2)
    state.evaluate(True)
    feed(before, whole)
    assert (state.books.rounds <= before.books.rounds).all()
    before.books.rounds[...] = state.books.rounds
    for j, k in [(0, 1), (1, 0)]:
        for x in (-0.5, 0.0, 0.5):
            worst, real = (log_evidence(s.books, s.constants, j, k, x) for s in (state, before))
            assert worst <= real


def test_nothing_goes_on_when_everybody_has_left() -> None:
    trial, state = trial_of(fp.rules.Pairwise(0.1), 2, 2, leavers="worst_case")
    tell(trial, [1.0, 0.0], 2, agents=2)
    for m in range(2):
        trial.leave(m)
    trial.end_step()
    assert state.books.rounds.tolist() == [2, 2]
    assert trial.decided_at is None


def test_a_wider_panel_takes_over_what_was_withdrawn_and_everything_else_but_pulls() -> None:
    principal = fp.Principal(fp.rules.Pairwise(0.3), observe=fp.observe.Steps(0), offers="each", budget=9.0)
    old = principal.start(arms=3, agents=3, withdrawal=True)
    assert old.ask(0) == fp.Offer(0, 0, 1.0)
    assert old.ask(1) == fp.Offer(1, 0, 1.0)
    old.tell(1, 1, 0.5)
    old.end_step()
    old.withdraw(0)
    old.leave(1)
    old.resting.add(2)
    old.afford(4)
    new = principal.start(arms=3, agents=4, withdrawal=True)
    new.tell(1, 1, 0.5)
    new.take_over(old)
    assert new.active == [1, 2]
    assert (new.panel.withdrawn, new.panel.left, new.resting) == ([0], [False, True, False, False], {2})
    assert (new.steps, new.banned, new.offers.affordable) == (1, 1, 4)
    assert [new.wanted(m) for m in range(4)] == [None, None, None, 1]
    assert new.tell(0, 0, 0.5) == "paid"
    assert "withdrawn: arm 0" in new.verdict().rests_on.target
    for _ in range(60):
        new.tell_many([0, 1, 2, 3] * 3, [0] * 4 + [1] * 4 + [2] * 4, [1.0] * 4 + [0.9] * 4 + [0.1] * 4)
        new.end_step()
    assert (new.verdict().arm, new.verdict().certified) == (1, True)
    with pytest.raises(InvalidInput, match="withdrawing an arm must be provided for"):
        principal.start(arms=3, agents=4).take_over(old)


def test_independent_leavers_are_dropped_and_withdrawn_arms_stay_out() -> None:
    streams = drawn(3, 3, seed=1)
    trial, _ = trial_of(fp.rules.Pairwise(0.1), 3, 3, leavers="independent", withdrawal=True)
    for k, arm in enumerate(streams):
        for m, rewards in enumerate(arm):
            for x in rewards[:5]:
                trial.tell(m, k, x)
    trial.withdraw(0)
    trial.leave(1)
    trial.end_step()
    assert trial.active == [1, 2]
    first = [[rewards[:5] for rewards in arm] for arm in streams]
    alone = feed(start(fp.rules.Pairwise(0.1), 3, [1, 0, 1], withdrawal=True), first)
    assert isinstance(trial.rule, PairwiseState)
    assert np.array_equal(trial.rule.books.evidence, alone.books.evidence)
