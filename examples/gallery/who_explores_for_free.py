"""
Who explores for free
=====================

What a principal lacks is the option that a person tried least. How often that happens for free depends on how people
learn: bold learners give much, and people who stay with their first luck nearly nothing.
"""

import matplotlib.pyplot as plt
import numpy as np

import freepull as fp

game = fp.Game(np.tile([0.6, 0.5, 0.4], (50, 1)))
learners: dict[str, fp.agents.Agent] = {
    "α-UCB, α = 2": fp.agents.AlphaUCB(2.0),
    "α-UCB, α = ½": fp.agents.AlphaUCB(0.5),
    "KL-UCB": fp.agents.KLUCB(),
    "Thompson": fp.agents.Thompson(),
    "ε-greedy": fp.agents.EpsilonGreedy(),
    "greedy": fp.agents.Greedy(),
}
least = {}
for name, learner in learners.items():
    watched = fp.simulate(
        game, agents=learner, principal=fp.Principal(fp.rules.Passive()), horizon=500, runs=5, keep="agents"
    )
    assert watched.agents is not None
    least[name] = np.array(watched.agents["pulls"].to_list()).min(axis=1)

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
low, middle, high = (np.array([np.quantile(tries, q) for tries in least.values()]) for q in (0.1, 0.5, 0.9))
ax.barh(list(least), middle, xerr=[middle - low, high - middle], color=fp.charts.COLOURS[4], ecolor="0.3", capsize=3)
ax.invert_yaxis()
ax.set(xlabel="tries of the option that a person tried least, in 500 steps: median, and 80 % of people")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
