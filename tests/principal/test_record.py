"""The record: exact integers, whatever the order of the pulls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freepull.principal.record import ONE, UNITS, Record, units

Pulls = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, UNITS)), max_size=60)


def filled(pulls: list[tuple[int, int, int]], agents: int = 3, arms: int = 2) -> Record:
    record = Record(agents, arms)
    for agent, arm, reward in pulls:
        record.add(agent, arm, reward)
    return record


def test_sums_over_agents_by_hand() -> None:
    record = Record(2, 2)
    for reward in (1.0, 0.0, 1.0):
        record.add(0, 0, units(reward))
    assert record.inverse_sums == [366503875925, 0]  # ⌊2⁴⁰/3⌋
    assert record.mean_sums == [733007751850, 0]  # ⌊2⁴⁰·2/3⌋
    record.add(1, 0, units(0.5))
    assert record.inverse_sums == [366503875925 + 2**40, 0]
    assert record.mean_sums == [733007751850 + 2**39, 0]
    assert record.unpulled == [0, 2]
    assert record.pulls.tolist() == [[3, 0], [1, 0]]
    assert record.sums.tolist() == [[2 * UNITS, 0], [UNITS // 2, 0]]


def test_the_global_mean_averages_sample_means_not_pulls() -> None:
    record = Record(2, 1)
    for _ in range(3):
        record.add(0, 0, UNITS)
    record.add(1, 0, UNITS // 2)
    assert record.global_mean(0) == 0.75
    assert record.sample_mean(0, 0) == 1.0
    assert record.sample_mean(1, 0) == 0.5


def test_an_unpulled_stream_counts_as_mean_0() -> None:
    record = Record(2, 1)
    record.add(0, 0, UNITS)
    assert record.sample_mean(1, 0) == 0.0
    assert record.global_mean(0) == 0.5
    assert record.unpulled == [1]


def test_the_weighted_mean_weighs_agents() -> None:
    record = Record(2, 1)
    record.add(0, 0, UNITS)
    record.add(1, 0, UNITS // 2)
    assert record.weighted_mean(0, np.array([0.75, 0.25])) == 0.875


def test_fractions_that_are_equal_on_paper_are_equal_here() -> None:
    """1/3 + 1/3 + 1/3 and 1/2 + 1/3 + 1/6 differ as floats; as fixed-point sums they tie."""
    assert 1 / 2 + 1 / 3 + 1 / 6 != 1 / 3 + 1 / 3 + 1 / 3
    counts = [(3, 2), (3, 3), (3, 6)]
    record = filled([(m, k, 0) for m, row in enumerate(counts) for k, n in enumerate(row) for _ in range(n)])
    assert record.inverse_sums[0] == record.inverse_sums[1]


def test_every_order_of_tells_leaves_the_same_record() -> None:
    pulls = [(0, 0, 7), (0, 0, UNITS), (1, 0, 3), (1, 0, 11), (2, 0, 5)]
    records = [filled(list(order)) for order in itertools.permutations(pulls)]
    assert {tuple(record.inverse_sums + record.mean_sums) for record in records} == {
        (ONE // 2 + ONE // 2 + ONE, 0, (UNITS + 7) * 1024 // 2 + 14 * 1024 // 2 + 5 * 1024, 0)
    }


@given(pulls=Pulls)
def test_kept_sums_equal_fresh_sums(pulls: list[tuple[int, int, int]]) -> None:
    record = filled(pulls)
    for k in range(2):
        streams = [[x for m, arm, x in pulls if (m, arm) == (agent, k)] for agent in range(3)]
        pulled = [stream for stream in streams if stream]
        assert record.inverse_sums[k] == sum(2**40 // len(stream) for stream in pulled)
        assert record.mean_sums[k] == sum(2**40 * sum(stream) // (2**30 * len(stream)) for stream in pulled)
        assert record.unpulled[k] == 3 - len(pulled)
        assert record.pulls[:, k].tolist() == [len(stream) for stream in streams]
        assert record.sums[:, k].tolist() == [sum(stream) for stream in streams]


def test_kept_sums_are_plain_integers_without_limit() -> None:
    record = Record(1, 1)
    record.pulls[0, 0], record.sums[0, 0] = 2**31, 2**31 * UNITS
    record.inverse_sums[0], record.mean_sums[0] = ONE // 2**31, ONE
    record.add(0, 0, UNITS)
    assert record.inverse_sums[0] == ONE // (2**31 + 1)
    assert record.mean_sums[0] == ONE
    assert record.global_mean(0) == 1.0


@pytest.mark.parametrize(
    ("reward", "expected"),
    [(0.0, 0), (1.0, 2**30), (2.0**-30, 1), (2.0**-31, 0), (1.5 * 2.0**-30, 2), (2.5 * 2.0**-30, 2), (0.1, 107374182)],
)
def test_rewards_are_rounded_half_even(reward: float, expected: int) -> None:
    assert units(reward) == expected
