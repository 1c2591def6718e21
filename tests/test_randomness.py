"""Counter-based randomness: known words, keys that never meet, and no state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from freepull import numerics
from freepull.randomness import ANSWER, CHOICE, REWARD, key, mix, uniform, word
from support.drive import RISK, assert_follows


def test_words_under_key_0_are_the_published_ones_of_splitmix64() -> None:
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [word(0, 0, n) for n in (1, 2, 3, 4)] == published


def test_machine_words_mix_to_the_same_bits() -> None:
    for n in range(100):
        w = word(7, 1, n)
        assert int(numerics.mix(np.uint64(w))) == mix(w)
        assert numerics.uniform(np.uint64(w)) == uniform(w)


def test_a_word_is_a_function_of_key_arm_and_number_only() -> None:
    forwards = [word(5, k, n) for k in range(3) for n in range(1, 5)]
    backwards = [word(5, k, n) for k in reversed(range(3)) for n in reversed(range(1, 5))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == len(forwards)


def test_keys_differ_in_every_part() -> None:
    parts = itertools.product((0, 1, 2**64 - 1), range(6), range(6), (REWARD, CHOICE, ANSWER))
    keys = [key(*part) for part in parts]
    assert len(set(keys)) == len(keys)
    assert all(0 <= k < 2**64 for k in keys)


def test_keys_do_not_confuse_run_and_agent() -> None:
    assert key(0, 1, 2, REWARD) != key(0, 2, 1, REWARD)


@pytest.mark.parametrize("w", [0, 1, 2047, 2048, 2**63, 2**64 - 1])
def test_uniforms_lie_in_the_half_open_interval(w: int) -> None:
    assert 0.0 <= uniform(w) < 1.0
    assert uniform(w) == (w >> 11) / 2**53


def test_a_stack_is_uniform() -> None:
    k = key(1, 2, 3, REWARD)
    assert_follows(np.array([uniform(word(k, 4, n)) for n in range(1, 20_001)]), lambda x: x)


def test_the_first_words_of_many_runs_are_uniform() -> None:
    draws = [uniform(word(key(9, run, 0, REWARD), 0, 1)) for run in range(20_000)]
    assert_follows(np.array(draws), lambda x: x)


@pytest.mark.parametrize("other", ["arm", "agent", "run", "purpose", "next"])
def test_neighbouring_stacks_are_uncorrelated(other: str) -> None:
    n, base, arm, shift = 20_000, (3, 0, 0, REWARD), 0, 0
    beside = {"arm": base, "agent": (3, 0, 1, REWARD), "run": (3, 1, 0, REWARD), "purpose": (3, 0, 0, CHOICE)}
    arm, shift = (1 if other == "arm" else 0), (1 if other == "next" else 0)
    keys = key(*base), key(*beside.get(other, base))
    x = np.array([uniform(word(keys[0], 0, i)) for i in range(1, n + 1)]) - 0.5
    y = np.array([uniform(word(keys[1], arm, i + shift)) for i in range(1, n + 1)]) - 0.5
    tolerance = math.sqrt(math.log(2 / RISK) / (2 * n)) * 0.5  # Hoeffding: products lie within ±1/4
    assert abs(float((x * y).mean())) <= tolerance
