"""
Write an agent
==============

In simulations people pick as some learner does: ``AlphaUCB``, ``Thompson`` and others. If yours behave differently, say
how. An agent is a class with two methods, ``pick`` and ``learn``, and nothing else.
"""

# %%
# Creatures of habit
# ------------------
#
# These people try everything twice. Then they stay with what was best, and look around again every now and then.

import matplotlib.pyplot as plt

import freepull as fp


class Loyal:
    """Tries every option twice, stays with the best, and looks again every so many steps."""

    def __init__(self, every: int = 20) -> None:
        self.every = every

    def start(self, arms: int, key: int) -> None:
        """Called once before the first step; ``key`` is there for agents that toss coins."""
        self.pulls, self.sums = [0] * arms, [0.0] * arms

    def pick(self, t: int) -> int:
        """Say which option to try at step t = 1, 2, …"""
        if min(self.pulls) < 2 or t % self.every == 0:
            return self.pulls.index(min(self.pulls))
        means = [total / count for total, count in zip(self.sums, self.pulls, strict=True)]
        return means.index(max(means))

    def learn(self, arm: int, reward: float) -> None:
        """Note what came of it. The bonus is never part of the reward."""
        self.pulls[arm] += 1
        self.sums[arm] += reward


# %%
# Does it keep its promises?
# --------------------------
#
# Engines rely on some of them: an agent that is copied goes on like its original, the same key gives the same picks, an
# arm is a whole number. A kit tries them all, and names the first that is broken. No news is good news.

from freepull.testing import AGENT_CHECKS, check_agent

check_agent(Loyal())
for name in AGENT_CHECKS:
    print("kept:", name)

# %%
# What do such people cost?
# -------------------------
#
# Two games, the same but for the people. An agent of your own runs on the readable engine, which is slower than the
# compiled one and gives the same bits; freepull says so once.

import warnings

warnings.simplefilter("ignore", fp.errors.ReadableEngine)
game = fp.Game([[0.8, 0.6, 0.2], [0.3, 0.6, 0.8], [0.5, 0.7, 0.4], [0.4, 0.8, 0.6]])
principal = fp.Principal(fp.rules.Certified(delta=0.05), offers="each")
people: dict[str, fp.agents.Agent] = {
    "α-UCB": fp.agents.AlphaUCB(),
    "Thompson": fp.agents.Thompson(),
    "loyal": Loyal(),
}
results = {
    name: fp.simulate(game, agents=agents, principal=principal, horizon=400, runs=8, seed=3, until="decided")
    for name, agents in people.items()
}

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
fp.charts.spend(results, ax=left).set_title("Bonuses paid")
fp.charts.payments(results["loyal"], ax=right).set_title("Whom, and for what (loyal people)")
plt.show()

# %%
# Mixed company
# -------------
#
# A list has one agent for each person. Answers to offers can be mixed in the same way.

mixed = fp.simulate(
    game,
    agents=[Loyal(every=10), Loyal(every=50), fp.agents.AlphaUCB(), fp.agents.Greedy()],
    answers=[fp.answers.Always(), fp.answers.WithProbability(0.7), fp.answers.Always(), fp.answers.IfWorthIt()],
    principal=fp.Principal(fp.rules.Certified(delta=0.05), offers="each", protocol=fp.protocols.NeverBan()),
    horizon=400,
    runs=4,
    seed=3,
)
mixed.summary().filter(mixed.summary()["quantity"].is_in(["decided", "correct", "paid", "refused"]))

# %%
# In a study file such an agent is named by where it can be imported from, ``agents = "my_agents:Loyal:every=10"``. If
# it must be fast, write it as a formula, which the compiled engine runs too: `research <../research.html>`_ says how.
#
# Next: `reproduce a figure <reproduce_a_figure.html>`_ of the paper, or `simulate on a cluster <study_on_dask.html>`_.
