"""KL-UCB: the arm with the largest index, found independently."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize, special

from freepull.agents import KLUCB
from freepull.errors import InvalidInput
from support.drive import assert_sentence

Arms = st.lists(st.tuples(st.integers(1, 60), st.floats(0.0, 1.0)), min_size=2, max_size=5)


def index(mean: float, pulls: int, budget: float) -> float:
    """The same index by another way: Brent's method on the definition."""

    def excess(q: float) -> float:
        return pulls * float(special.rel_entr(mean, q) + special.rel_entr(1 - mean, 1 - q)) - budget

    top = 1 - 1e-13
    if mean >= top or excess(top) <= 0:
        return 1.0
    return float(optimize.brentq(excess, mean, top, xtol=1e-14))


def agent_with(pulls: list[int], means: list[float], c: float = 0.0) -> KLUCB:
    agent = KLUCB(c)
    agent.start(len(pulls))
    agent.pulls, agent.sums = pulls, [n * mean for n, mean in zip(pulls, means, strict=True)]
    return agent


@given(arms=Arms, t=st.integers(2, 10**6), c=st.sampled_from([0.0, 3.0]))
def test_it_picks_the_largest_index(arms: list[tuple[int, float]], t: int, c: float) -> None:
    budget = math.log(t) + (c * math.log(math.log(t)) if t >= 3 else 0.0)
    assume(budget > 0)
    indices = [index(n * mean / n, n, budget) for n, mean in arms]
    ranked = sorted(indices)
    assume(ranked[-1] - ranked[-2] > 1e-9)
    agent = agent_with([n for n, _ in arms], [mean for _, mean in arms], c)
    assert agent.pick(t) == indices.index(ranked[-1])


def test_a_case_by_hand() -> None:
    # 2·kl(0, q) = −2·log(1−q) ≤ log 9 gives q = 2/3 for two pulls without reward
    assert agent_with([2, 1000], [0.0, 0.60]).pick(9) == 0
    assert agent_with([2, 1000], [0.0, 0.66]).pick(9) == 1


def test_the_log_log_term_counts_from_step_3_on() -> None:
    # with c = 3 at t = 9: −2·log(1−q) ≤ log 9 + 3·log log 9 = 4.559 gives q = 0.898
    assert agent_with([2, 100_000], [0.0, 0.85], c=3.0).pick(9) == 0
    assert agent_with([2, 100_000], [0.0, 0.91], c=3.0).pick(9) == 1
    # at t = 2 there is none: q = 1 − 2^{−1/2} = 0.293
    assert agent_with([2, 100_000], [0.0, 0.28], c=3.0).pick(2) == 0
    assert agent_with([2, 100_000], [0.0, 0.30], c=3.0).pick(2) == 1


@pytest.mark.parametrize("c", [-0.1, float("nan"), "0"])
def test_c_must_be_at_least_0(c: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        KLUCB(c)
    assert assert_sentence(problem).startswith("c must be a number of at least 0")
