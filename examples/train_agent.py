"""Train a strategic agent against the principal, in a PettingZoo environment, with evolution strategies in NumPy.

It decides by five numbers how its own means, its pulls, offers and the phase weigh, and learns them from what it earns,
rewards and bonuses, while the others are honest α-UCB learners. Needs `pip install 'freepull[envs]'`.
"""

import numpy as np
from numpy.typing import NDArray

import freepull as fp
from freepull import envs

GAME = fp.Game([[0.9, 0.7, 0.1], [0.1, 0.7, 0.9]])
PRINCIPAL = fp.Principal(fp.rules.Paper(0.05, "simplified", 0.1), observe=fp.observe.Share(0.3))
HORIZON = 300
HONEST = np.array([1.0, 0.4, 0.0, 0.0, 3.0])
"""Means, few pulls, few pulls while nobody pays, arm 1 while nobody pays, and the arm on offer."""


def arm_of(policy: NDArray[np.float64], seen: NDArray[np.float32], arms: int) -> int:
    """The arm with the largest score."""
    pulls, means, t = seen[:arms] * HORIZON, seen[arms : 2 * arms], seen[2 * arms]
    few = np.sqrt(np.log(1.0 + t * HORIZON) / np.maximum(pulls, 0.5))
    early = float(t < 0.3)
    middle = np.zeros(arms)
    middle[1] = 1.0
    offer = seen[2 * arms + 1 : 3 * arms + 1]
    return int(np.argmax(policy @ np.stack([means, few, early * few, early * middle, offer])))


def earned(policy: NDArray[np.float64], seed: int) -> float:
    """What agent 0 earns in an episode, with the luck of a seed."""
    env = envs.parallel_env(GAME, PRINCIPAL, HORIZON)
    seen, _ = env.reset(seed=seed)
    other, total, t = fp.agents.AlphaUCB(), 0.0, 0
    other.start(GAME.arms, seed)
    while env.agents:
        t += 1
        offered = seen["agent_1"][2 * GAME.arms + 1 : 3 * GAME.arms + 1]
        honest = int(np.argmax(offered)) if offered.any() else other.pick(t)
        seen, rewards, _, _, infos = env.step(
            {"agent_0": arm_of(policy, seen["agent_0"], GAME.arms), "agent_1": honest}
        )
        other.learn(honest, infos["agent_1"]["reward"])
        total += rewards["agent_0"]
    return total + 0.9 * (HORIZON - t)  # after the decision it would play its best arm


def main(rounds: int = 30, pairs: int = 8) -> tuple[float, float]:
    """Return what an honest start earns on average, and what the trained policy earns, on luck that is new to both."""
    chance, policy, size = np.random.default_rng(1), HONEST.copy(), 0.5
    for round_ in range(rounds):
        steps = chance.standard_normal((pairs, len(policy)))
        gains = [
            earned(policy + size * step, seed) - earned(policy - size * step, seed)
            for step, seed in zip(steps, range(round_ * pairs, (round_ + 1) * pairs), strict=True)
        ]
        scale = float(np.std(gains)) or 1.0
        policy += 0.3 * (np.array(gains) @ steps) / (pairs * scale)
    fresh = range(10**6, 10**6 + 4 * pairs)
    before, after = (float(np.mean([earned(it, seed) for seed in fresh])) for it in (HONEST, policy))
    print(f"honest start: {before:.1f}, trained: {after:.1f}, policy: {np.round(policy, 2).tolist()}")
    return before, after


if __name__ == "__main__":
    main()
