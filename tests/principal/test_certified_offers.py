"""What the certified rule asks for: the streams that owe most to the coming round, and what it thinks is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.principal.rules.base import Want
from freepull.principal.rules.certified.state import CertifiedState
from freepull.principal.rules.rounds import fill_needed

DESIGN = fp.rules.Design(4, 1, growth=0.5, held_back=0.5)


def start(K: int = 3, M: int = 2, offers: str = "each", delta: float = 0.05, **frame: Any) -> fp.Trial:
    principal = fp.Principal(fp.rules.Certified(delta, design=DESIGN), observe=fp.observe.Steps(0), offers=offers)
    return principal.start(arms=K, agents=M, **{"horizon": 100} | frame)


def state_of(trial: fp.Trial) -> CertifiedState:
    assert isinstance(trial.rule, CertifiedState)
    return trial.rule


def feed(trial: fp.Trial, pulls: dict[tuple[int, int], int], rewards: tuple[float, ...] = (0.5, 0.5, 0.5)) -> None:
    for (m, k), n in pulls.items():
        for _ in range(n):
            trial.tell(m, k, rewards[k])


def test_each_agent_is_asked_for_the_arm_that_it_owes_most_of() -> None:
    trial = start()
    state = state_of(trial)
    assert state.wants([True, True]) == [Want(0, 0, 4), Want(1, 0, 4)]  # ties: the lowest arm, then the lowest agent
    feed(trial, {(0, 0): 3, (0, 1): 2, (0, 2): 2, (1, 0): 4, (1, 1): 1})
    assert [[state.owed(m, k) for k in range(3)] for m in range(2)] == [[1, 2, 2], [0, 3, 4]]
    assert state.wants([True, True]) == [Want(1, 2, 4), Want(0, 1, 2)]
    assert state.wants([True, False]) == [Want(0, 1, 2)]
    assert state.wants([False, False]) == []
    feed(trial, {(1, 1): 3, (1, 2): 9})
    assert state.wants([True, True]) == [Want(0, 1, 2)]
    assert (state.awaits(0), state.awaits(1)) == (True, False)
    feed(trial, {(0, 0): 1, (0, 1): 2})
    assert state.awaits(0)  # for arm 2 alone
    feed(trial, {(0, 2): 2})
    assert state.wants([True, True]) == []  # the round is full; the next begins at the end of the step
    assert not state.awaits(0)
    assert [trial.wanted(m) for m in range(2)] == [0, 0]
    trial.end_step()
    assert state.coming.blocks.tolist() == [[1, 1]] * 3
    assert state.used.pulls.tolist() == [[4, 4]] * 3
    assert state.have.tolist() == [[0, 0], [0, 0], [0, 1]]  # one of the five that waited has entered
    assert [[state.owed(m, k) for k in range(3)] for m in range(2)] == [[1, 1, 1], [1, 1, 0]]
    assert {stream: len(rewards) for stream, rewards in state.waiting.items()} == {(2, 1): 4}


def test_one_offer_goes_to_the_stream_that_owes_most() -> None:
    trial = start(offers="one")
    state = state_of(trial)
    feed(trial, {(0, 0): 2, (1, 0): 2, (1, 1): 1, (0, 1): 1, (0, 2): 1, (1, 2): 1})
    assert state.wants([True, True]) == [Want(0, 1, 3)]
    assert state.wants([False, True]) == [Want(1, 1, 3)]
    feed(trial, {(0, 1): 1})
    assert state.wants([True, True]) == [Want(1, 1, 3)]  # arm 1 before arm 2, though agent 1 comes after agent 0
    trial.end_step()
    assert [trial.wanted(m) for m in range(2)] == [None, 1]


def test_nothing_is_asked_of_agents_without_weight_or_for_eliminated_arms() -> None:
    trial = start(M=3, weights=[1.0, 0.0, 1.0], delta=0.5)
    state = state_of(trial)
    assert state.wants([True] * 3) == [Want(0, 0, 4), Want(2, 0, 4)]
    assert not state.awaits(1)
    while trial.active == [0, 1, 2]:
        for m in range(3):
            for k, x in enumerate((0.8, 0.7, 0.0)):
                for _ in range(max(state.owed(m, k), 1)):
                    trial.tell(m, k, x)
        trial.end_step()
    assert trial.active == [0, 1]
    assert [state.owed(m, 2) for m in range(3)] == [0, 0, 0]
    held = state.evidence()[2]
    feed(trial, {(0, 2): 50, (2, 2): 50}, (0.0, 0.0, 1.0))
    trial.end_step()
    assert not any(arm == 2 or agent == 1 for arm, agent in state.waiting), "they would wait for ever"
    assert state.evidence()[2] == held
    assert [want.agent for want in state.wants([True] * 3)] == [0, 2]


def test_need_by_hand() -> None:
    needed, means = np.full(4, -1.0), np.array([0.5, 0.7, 0.3, 0.9])
    spreads, three = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 1, 1, 0])
    fill_needed(needed, means, three, spreads, 5.0, 0.001)
    # arm 1 leads, since arm 3 is out: 1.05·10·(.2 + .1)/.04 and 1.05·10·(.2 + .3)/.16
    assert needed == pytest.approx([78.75, 78.75, 32.8125, 0.0])
    fill_needed(needed, means, three, spreads, 5.0, 0.5)  # gaps of .2 and .4 count as .5
    assert needed == pytest.approx([12.6, 21.0, 21.0, 0.0])
    means[3] = 0.7
    fill_needed(needed, means, np.ones(4), spreads, 5.0, 0.5)  # arms 1 and 3 tie: the lowest leads
    assert needed == pytest.approx([12.6, 25.2, 21.0, 25.2])


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.0]])
def test_missing_by_hand(weights: Any) -> None:
    trial = start(2, 3, weights=weights)
    state = state_of(trial)
    feed(trial, {(m, k): 4 for m in range(3) for k in range(2)}, (0.5, 0.25))
    feed(trial, {(0, 0): 2, (2, 1): 30}, (0.5, 0.25))
    p = np.full(3, 1 / 3) if weights is None else np.array([0.75, 0.25, 0.0])
    spread = 0.25 * (p**2).sum()  # before the first round σ̂² = ¼
    need = 1.05 * 2 * (math.log(20) + 3) * 2 * spread / 0.25**2
    pulls, counts = np.array([[6, 4], [4, 4], [4, 34]]), (p > 0)[:, None]
    np.testing.assert_allclose(state.missing(), np.maximum(need - pulls, 0) * counts, rtol=1e-9)
    trial.end_step()  # then σ̂² from squared errors: 0 for arm 0, four times 1/16 for arm 1
    learned = [1e-4, 1 / 16]
    need = 1.05 * 2 * (math.log(20) + 3) * sum(learned) * (p**2).sum() / 0.25**2
    np.testing.assert_allclose(state.missing(), np.maximum(need - pulls, 0) * counts, rtol=1e-9)


def test_a_tie_counts_as_the_smallest_gap_that_the_horizon_allows() -> None:
    trial = start(2, 1, horizon=1_000)
    feed(trial, {(0, 0): 1, (0, 1): 1})
    smallest2 = (math.log(20) + 2.5) / (2 * math.log(500) / 0.16 + 250)  # as in the window, at κ = 500
    need = 1.05 * 2 * (math.log(20) + 3) * 0.5 / smallest2
    np.testing.assert_allclose(state_of(trial).missing(), [[need - 1, need - 1]], rtol=1e-9)
