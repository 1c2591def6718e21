"""
An agent with one mind
======================

It sees the offer on the table, the phase, its own pulls and payments, and decides everything itself. This one waits to
be paid for an option that it would have tried by itself; what it is paid, against an honest twin with the same luck.
"""

import warnings
from dataclasses import dataclass

import matplotlib.pyplot as plt

import freepull as fp

warnings.simplefilter("ignore", fp.errors.ReadableEngine)


@dataclass
class Waiting:
    """α-UCB, but for one arm, which it leaves alone until the trial is decided."""

    arm: int = 1

    def start(self, arms: int, key: int) -> None:
        """Called once before the first step."""
        self.own = fp.agents.AlphaUCB()
        self.own.start(arms, key)

    def act(self, view: fp.agents.View) -> int:
        """Pulling the arm on offer takes the offer."""
        if view.offer is not None:
            return view.offer.arm
        pick = self.own.pick(view.t)
        others = [k for k in range(len(view.pulls)) if k != self.arm]
        best = max(others, key=lambda k: view.sums[k] / max(view.pulls[k], 1))
        return best if pick == self.arm and view.phase != "decided" else pick

    def learn(self, arm: int, reward: float, paid: float) -> None:
        """What came of it, and the bonus."""
        self.own.learn(arm, reward)


figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
principal = fp.Principal(fp.rules.Paper(0.05, "simplified", 0.1))
learners: tuple[fp.agents.Agent | fp.agents.Mind, ...] = (fp.agents.AlphaUCB(), Waiting())
for place, first in enumerate(learners):
    found = fp.simulate(
        fp.Game([[0.9, 0.7, 0.1], [0.1, 0.7, 0.9]]), principal=principal, agents=[first, fp.agents.AlphaUCB()],
        horizon=1_500, runs=6, seed=1, keep="agents",
    )  # fmt: skip
    assert found.agents is not None
    ax.barh(place, found.agents.filter(agent=0)["bonus"].to_numpy().mean(), color=fp.charts.COLOURS[place])
ax.set(yticks=[0, 1], yticklabels=["honest", "waits to be paid"], xlabel="bonuses of agent 1")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
