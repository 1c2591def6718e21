"""
The principal's side as an environment
======================================

Sixteen trials at once in a Gymnasium vector environment on the compiled engine: an action says which option is offered
to whom, at which price. The policy here offers everybody what it has pulled least. Nobody takes less than an offer
costs it, so the rarest pulls are bought only at a price above the largest gap.
"""

import matplotlib.pyplot as plt
import numpy as np

import freepull as fp
from freepull import envs

game, horizon, trials = fp.Game([[0.8, 0.55, 0.3], [0.3, 0.55, 0.8], [0.4, 0.5, 0.6]]), 300, 16
prices, spent, least = [0.05, 0.1, 0.2, 0.3, 0.4, 0.6], [], []
for price in prices:
    answers, protocol = fp.answers.IfWorthIt(), fp.protocols.NeverBan()
    env = envs.PrincipalVectorEnv(game, horizon, trials, answers=answers, protocol=protocol)
    seen, info = env.reset(seed=1)
    paid = np.zeros(trials)
    for _step in range(horizon - 1):
        pulls = seen[:, : game.agents * game.arms].reshape(trials, game.agents, game.arms)
        offers = {"arm": pulls.argmin(axis=2), "price": np.full((trials, game.agents), price), "stop": np.zeros(trials)}
        seen, reward, ended, stopped, info = env.step(offers)
        paid -= reward
    spent.append(paid.mean())
    least.append(horizon * seen[:, : game.agents * game.arms].min(axis=1).mean())

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(prices, least, marker="o", color=fp.charts.COLOURS[0])
left.set(xlabel="price of an offer", ylabel="pulls of the rarest pair of agent and option")
right.plot(prices, spent, marker="o", color=fp.charts.COLOURS[1])
right.set(xlabel="price of an offer", ylabel="paid a trial")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
