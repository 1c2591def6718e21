"""The pairwise rule's numbers: against a second implementation, in any order of tells, and at the end of steps only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.record import UNITS
from freepull.principal.rules.base import Setting
from freepull.principal.rules.pairwise.evidence import eliminate, log_evidence
from freepull.principal.rules.pairwise.state import PairwiseState
from support.drive import RISK, assert_sentence
from support.pairwise_reference import NEYMAN, Reference, drawn, feed, start

PLAIN = fp.rules.Blocks()


@pytest.mark.parametrize("blocks", [NEYMAN, PLAIN, fp.rules.Blocks(5, 1, 1.0)])
@pytest.mark.parametrize(("weights", "gap"), [([1, 1, 1], None), ([1, 2, 5], 0.1), ([3, 0, 1], None)])
def test_evidence_and_bounds_agree_with_a_second_implementation(weights: Any, gap: float | None, blocks: Any) -> None:
    streams = drawn(4, 3, seed=sum(weights))
    state = feed(start(fp.rules.Pairwise(0.2, gap=gap, blocks=blocks), 4, weights), streams)
    other = Reference(streams, weights, blocks, gap)
    assert state.books.rounds.tolist() == other.C
    threshold = math.log(3 / 0.2)
    for j in range(4):
        for k in [k for k in range(4) if k != j]:
            assert state.books.evidence[j, k] == pytest.approx(other.log_evidence(j, k), abs=1e-9)
            assert state.lower(j, k) == pytest.approx(other.lower(j, k, threshold), abs=1e-8)
    out = {k for k in range(4) for j in range(4) if j != k and other.log_evidence(j, k) >= threshold}
    assert {k for k in range(4) if not state.active[k]} == out


def test_the_toys_bounds_after_6000_pulls_each() -> None:
    means, rng = [[0.89, 0.47, 0.01], [0.01, 0.47, 0.89]], np.random.default_rng(0)
    state = start(fp.rules.Pairwise(0.01, gap=0.02, blocks=fp.rules.Blocks(30, 6, 0.1, 0.1)), 3, [1, 1])
    for _ in range(6000):
        for k in range(3):
            for m in range(2):
                reward = UNITS if rng.random() < means[m][k] else 0
                state.record.add(m, k, reward)
                state.observe(m, k, reward)
    state.evaluate(False)
    found = [state.lower(1, 0), state.lower(1, 2), state.lower(0, 1)]
    assert found == pytest.approx([0.0011494045896, 0.0007871879511, -0.0419485466212], abs=1e-11)
    assert state.active == [False, True, False]
    assert state.within(1) == 0.0
    assert state.within(0) == pytest.approx(0.0419485466212, abs=1e-11)
    assert state.lower_bounds()[0, 1] == state.lower(0, 1)


def test_the_order_of_tells_changes_no_bit() -> None:
    streams = drawn(3, 4, seed=8)
    states = [feed(start(fp.rules.Pairwise(0.2, blocks=NEYMAN), 3, [1, 2, 2, 1]), streams, seed) for seed in range(5)]
    for state in states[1:]:
        assert np.array_equal(state.books.ledger, states[0].books.ledger)
        assert np.array_equal(state.books.evidence, states[0].books.evidence)


def test_rounds_are_looked_at_at_the_end_of_steps_and_nowhere_else() -> None:
    principal = fp.Principal(fp.rules.Pairwise(0.5), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=1)
    state = trial.rule
    assert isinstance(state, PairwiseState)
    for _ in range(60):
        trial.tell(0, 0, 1.0)
        trial.tell(0, 1, 0.0)
    assert trial.active == [0, 1]
    assert (state.bounds(), state.lower(0, 1), state.books.rounds.tolist()) == ([0.0, 0.0], -1.0, [0, 0])
    trial.end_step()
    assert trial.active == [0]
    assert trial.verdict().certified  # this proof does not mind an agent who acts twice in a step
    assert state.bounds()[1] >= 1 / 0.5 > state.bounds()[0]


def test_a_planned_gap_moves_the_bets_and_withdrawal_the_threshold() -> None:
    rule = fp.rules.Pairwise(0.1, gap=0.1)
    plain, planned = (start(r, 4, [1]).constants for r in (fp.rules.Pairwise(0.1), rule))
    assert np.exp(plain.prior) == pytest.approx(np.full(20, 0.05))
    assert planned.bets[int(np.argmax(planned.prior))] == pytest.approx(0.1 / 0.4608, rel=0.25)
    assert np.exp(planned.prior).sum() == pytest.approx(1)
    assert plain.threshold == pytest.approx(math.log(3 / 0.1))
    assert start(rule, 4, [1], withdrawal=True).constants.threshold == pytest.approx(math.log(6 / 0.1))


def test_long_horizons_get_a_first_block_of_thirty_and_short_ones_of_one() -> None:
    rule, weights = fp.rules.Pairwise(), np.array([0.5, 0.5])
    for horizon, first in [(None, 1), (1799, 1), (1800, 30)]:
        assert rule.constants(Setting(3, 2, horizon, weights, False, "one")).first_block == first
    long = rule.constants(Setting(3, 2, 1800, weights, False, "one"))
    assert (long.levels[:7].tolist(), long.neyman) == ([6, 1, 1, 1, 1, 1, 2], 0.1)
    assert long.reached[:3].tolist() == [6, 7, 8]


def test_if_all_would_go_at_once_the_one_with_least_evidence_stays() -> None:
    state = start(fp.rules.Pairwise(0.1), 3, [1])
    state.books.evidence[...] = [[0, 9, 9], [8, 0, 9], [7, 9, 0]]
    assert eliminate(state.books, state.constants) == 1
    assert state.books.active.tolist() == [1, 0, 0]


def test_evidence_is_shown_as_a_finite_number() -> None:
    state = feed(start(fp.rules.Pairwise(0.1), 2, [1]), [[[1.0] * 4000], [[0.0] * 4000]])
    assert log_evidence(state.books, state.constants, 0, 1, 0.0) > 1000
    assert state.bounds()[1] == math.exp(700)


@pytest.mark.parametrize("offers", ["one", "each"])
def test_the_lowest_round_is_paid_for_first_and_there_the_stream_that_lacks_most(offers: str) -> None:
    state = start(fp.rules.Pairwise(0.01, blocks=fp.rules.Blocks(3, 3, 0.1)), 3, [1, 1, 1, 0], offers)
    for m, pulls in enumerate([[3, 3, 1], [3, 2, 3], [3, 3, 5], [0, 0, 0]]):
        for k, n in enumerate(pulls):
            for _ in range(n):
                state.observe(m, k, 0)
    state.evaluate(True)
    assert state.books.rounds.tolist() == [1, 0, 0]
    lacks = [(0, 2, 2), (1, 1, 1)]  # agent 2 has given its block of every arm, agent 3 is not in the panel
    assert [tuple(want) for want in state.wants([True] * 4)] == (lacks if offers == "each" else lacks[:1])
    assert [tuple(want) for want in state.wants([False, True, True, True])] == lacks[1:]
    assert [state.awaits(m) for m in range(4)] == [True, True, False, False]


def test_missing_pulls_by_hand() -> None:
    streams = [[1.0, 0.0, 1.0, 1.0, 0.0] * 4, [1.0, 0.0] * 10]
    state = feed(start(fp.rules.Pairwise(0.2), 2, [1, 1]), [[stream] * 2 for stream in streams])
    state.setting = Setting(2, 2, 10_000, np.array([0.5, 0.5]), False, "one")
    squares = [sum((x[n] - (0.5 + sum(x[:n])) / (n + 1)) ** 2 for n in range(19)) for x in streams]  # R = 19
    spreads = [(errors + 0.25) / 20 / 2 for errors in squares]
    n = 1.05 * 2 * (math.log(1 / 0.2) + 2) * sum(spreads) / 0.1**2
    assert state.constants.reached[int(state.books.rounds[0]) - 1] == 19
    assert np.array(state.missing()) == pytest.approx(np.full((2, 2), n - 20), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("law", [None, fp.rewards.Beta(1.0)])
def test_a_best_arm_is_seldom_eliminated(law: Any) -> None:
    delta, runs = 0.2, 3000
    game = fp.Game([[0.9, 0.5], [0.1, 0.5], [0.5, 0.5]], rewards=law)
    principal = fp.Principal(fp.rules.Pairwise(delta), observe=fp.observe.Steps(30))
    result = fp.simulate(game, principal=principal, horizon=600, runs=runs, seed=3, until="decided", progress=False)
    for arm in range(2):  # both are best, and each may be eliminated with probability δ
        kept_other = ((result.frame["arm"] != arm) & result.frame["decided"]).mean()
        assert kept_other is not None
        assert float(kept_other) <= delta + math.sqrt(math.log(1 / RISK) / (2 * runs))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fp.rules.Pairwise(0.0), "delta must be"),
        (lambda: fp.rules.Pairwise(epsilon=-0.1), "epsilon must be"),
        (lambda: fp.rules.Pairwise(gap=2.0), "gap must be"),
        (lambda: fp.rules.Pairwise(blocks="many"), "blocks must be"),
        (lambda: fp.rules.Blocks(2, 3), "first_level must be"),
        (lambda: fp.rules.Blocks(growth=0.0), "growth must be"),
        (lambda: fp.rules.Blocks(neyman=0.9), "neyman must be"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)
