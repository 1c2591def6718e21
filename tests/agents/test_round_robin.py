"""Round-robin: the step decides, nothing else."""

from __future__ import annotations

from freepull.agents import RoundRobin


def test_arms_take_turns_from_the_first() -> None:
    agent = RoundRobin()
    agent.start(3)
    assert [agent.pick(t) for t in range(1, 8)] == [0, 1, 2, 0, 1, 2, 0]


def test_paid_pulls_do_not_shift_the_turn() -> None:
    agent = RoundRobin()
    agent.start(3)
    agent.learn(2, 1.0)
    agent.learn(2, 1.0)
    assert agent.pick(3) == 2
    assert agent.pick(4) == 0
