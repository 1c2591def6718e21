"""The myopic agent."""

from __future__ import annotations

from freepull.agents import Greedy


def test_it_pulls_every_arm_once_and_then_the_best_so_far() -> None:
    agent = Greedy()
    agent.start(3)
    picked = []
    for t, reward in enumerate([0.2, 0.9, 0.5, 0.0, 0.0, 0.4], start=1):
        picked.append(agent.pick(t))
        agent.learn(picked[-1], reward)
    # after step 3: .2, .9, .5; then arm 1 falls to .45, so arm 2 (.5), which falls to .25, so arm 1 again
    assert picked == [0, 1, 2, 1, 2, 1]


def test_the_mean_counts_not_the_sum() -> None:
    agent = Greedy()
    agent.start(2)
    agent.learn(0, 0.6)
    for _ in range(10):
        agent.learn(1, 0.5)
    assert agent.pick(12) == 0


def test_it_learns_from_pulls_that_it_did_not_pick() -> None:
    agent = Greedy()
    agent.start(2)
    agent.learn(1, 1.0)
    agent.learn(0, 0.0)
    assert agent.pick(3) == 1
    assert agent.pulls == [1, 1]
