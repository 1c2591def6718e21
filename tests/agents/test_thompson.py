"""Thompson sampling: the right beliefs, and draws that depend on (key, t, arm) alone."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats

from freepull.agents import Thompson
from freepull.numerics import beta_draw, decision_key
from freepull.randomness import CHOICE, key
from support.drive import assert_average, assert_follows

N = 20_000


def believe(a: float, b: float, own: int, t: int, arm: int) -> float:
    return beta_draw(a, b, np.uint64(decision_key(np.uint64(own), t, arm)))


def agent_with(pulls: list[int], sums: list[float], own: int = 5) -> Thompson:
    agent = Thompson()
    agent.start(len(pulls), own)
    agent.pulls, agent.sums = pulls, sums
    return agent


def test_it_picks_the_arm_with_the_largest_of_its_beliefs() -> None:
    agent = agent_with([5, 3, 0], [1.5, 2.0, 0.0])
    beliefs = [(2.5, 4.5), (3.0, 2.0), (1.0, 1.0)]  # Beta(1 + S, 1 + N − S)
    for t in range(1, 200):
        draws = [believe(a, b, 5, t, k) for k, (a, b) in enumerate(beliefs)]
        assert agent.pick(t) == draws.index(max(draws))


def test_each_arm_is_picked_with_the_probability_that_it_is_best() -> None:
    first, second = stats.beta(1 + 1.5, 1 + 3.5), stats.beta(1 + 2.0, 1 + 1.0)
    chance, _ = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 0, 1)
    agent = agent_with([5, 3], [1.5, 2.0])
    picks = np.array([agent.pick(t) == 0 for t in range(1, N + 1)], float)
    assert_average(picks, chance, chance * (1 - chance))


def test_an_unpulled_arm_is_believed_to_be_uniform_not_pulled_first() -> None:
    agent = agent_with([100, 0], [90.0, 0.0])
    picks = np.array([agent.pick(t) == 1 for t in range(1, N + 1)], float)
    chance = 1 - 91 / 102  # P(U > Beta(91, 11))
    assert_average(picks, chance, chance * (1 - chance))


def test_draws_for_one_arm_follow_its_belief_over_steps_and_over_runs() -> None:
    law = stats.beta(3.5, 1.25)
    steps = [believe(3.5, 1.25, 9, t, 1) for t in range(1, N + 1)]
    runs = [believe(3.5, 1.25, key(0, r, 2, CHOICE), 7, 0) for r in range(N)]
    assert_follows(np.array(steps), law.cdf)
    assert_follows(np.array(runs), law.cdf)


def test_a_pick_depends_on_the_step_not_on_how_often_it_was_asked() -> None:
    agent, other = agent_with([5, 3], [1.5, 2.0]), agent_with([5, 3], [1.5, 2.0])
    forwards = [agent.pick(t) for t in range(1, 50)]
    assert [other.pick(t) for t in reversed(range(1, 50))] == forwards[::-1]


def test_other_keys_draw_otherwise() -> None:
    one, two = agent_with([5, 3], [1.5, 2.0], own=5), agent_with([5, 3], [1.5, 2.0], own=6)
    assert [one.pick(t) for t in range(1, 50)] != [two.pick(t) for t in range(1, 50)]
