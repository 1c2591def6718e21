"""
Run a trial with people, from the plan to the verdict
=====================================================

Now for real: people come when they like, money is paid, the process may crash at any time, and at the end somebody asks
what was paid for what. A *campaign* is a trial that is made for this. Everything is in one file (or in a PostgreSQL),
and whatever was answered is stored.

The people of this page are simulated, because a tutorial must end. All the rest is as in a real trial.
"""

# %%
# Plan
# ----
#
# Three greetings, 40 people, 20 cents for a bonus. We guess that the best greeting is liked 15 points more often than
# the next, and that people come about every other day.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import freepull as fp

GREETINGS = ["formal", "friendly", "funny"]
plan = fp.plan(
    arms=3,
    agents=40,
    horizon=100,
    gap=0.15,
    activity=fp.activity.Rate(0.5),
    epsilon=0.02,
    price="0.20 EUR",
    runs=100,
    curves=False,
)
print(plan)

# %%
# Create and start
# ----------------
#
# The panel closes at the start: these people are whom the verdict is about. The budget is a hard limit, and no offer is
# made that could exceed it. Real people have no common clock, so a campaign counts as a step as many pulls as it has
# people; the plan has just said what that makes of our 100 days.

folder = tempfile.TemporaryDirectory()
store = f"sqlite:///{Path(folder.name) / 'trial.db'}"
people = [f"user-{number}" for number in range(40)]

campaign = fp.Campaign.create(store, name="greetings", arms=GREETINGS, agents=people, price="0.20 EUR", horizon=40)
campaign.budget("100 EUR")
campaign.start(by="tutorial")
campaign.settings.principal

# %%
# Without a word about it, a campaign has the principal for people as they are: nobody is waited for, nobody is banned,
# and it is content with a greeting that is at most 0.02 worse than the best.
#
# Ask, act, tell
# --------------
#
# Your program does two things whenever somebody comes. Before they act it **asks** whether there is an offer for them;
# afterwards it **tells** what they did and how it was. The number of the visit makes it safe to tell something twice:
# after a time-out, just send it again.

offer = campaign.ask("user-7")
print(offer)  # None: she only watches at first
print(campaign.tell("user-7", "funny", 1.0, event=1))
print(campaign.tell("user-7", "funny", 1.0, event=1))  # again: the same answer, and it counts once

# %%
# Here are our simulated people. Each has tastes of their own, learns, comes every other day, and takes four offers in
# five.

LIKED = [0.40, 0.65, 0.50]


class Person:
    """Somebody with tastes of their own, who learns what they like."""

    def __init__(self, number: int) -> None:
        self.name, self.chance = people[number], np.random.default_rng([4, number])
        self.taste = np.clip(LIKED + self.chance.normal(0, 0.1, len(LIKED)), 0, 1)
        self.habit, self.visits = fp.agents.AlphaUCB(alpha=2.0), 0
        self.habit.start(arms=len(LIKED))

    def visit(self, campaign: fp.Campaign) -> None:
        """Ask, take the offer or do as one likes, and tell."""
        offer = campaign.ask(self.name)
        self.visits += 1
        if offer is not None and self.chance.random() < 0.8:
            arm = GREETINGS.index(offer.arm)
        else:
            arm = self.habit.pick(self.visits)
        reward = float(self.chance.random() < self.taste[arm])
        self.habit.learn(arm, reward)
        campaign.tell(self.name, GREETINGS[arm], reward, event=f"visit {self.visits}")


# %%
# And the trial, day by day, until it is decided.

crowd = [Person(number) for number in range(40)]
days, spent = [], []
for day in range(1, 101):
    for person in crowd:
        if person.chance.random() < 0.5:
            person.visit(campaign)
    status = campaign.status()
    days.append(day)
    spent.append(status.spent.minor / 100)
    if status.decided:
        break
print(f"day {day}: {status.observations} pulls, {status.paid} paid for, {status.spent} of {status.budget} spent")

# %%

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(days, spent, color=fp.charts.COLOURS[0])
ax.set(xlabel="day", ylabel="EUR", title="What was spent")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The verdict
# -----------

verdict = campaign.verdict()
print(verdict)

# %%
# It says how much better the named greeting is, and over which comparisons:

for difference in verdict.differences:
    print(difference)

# %%
# And it says what it rests on. This is what you must be ready to defend; nobody else can do it for you.

print(verdict.rests_on)

# %%
# While the trial ran, checks looked for traces of broken assumptions. An alarm would have taken the certificate away.

for check in verdict.checks:
    print(check)

# %%
# The money
# ---------
#
# Every bonus is a row of the ledger, with its offer; rows are only added. Their sum is what was spent, to the cent.

ledger = campaign.ledger()
print(ledger[0])
print(sum(entry.amount.minor for entry in ledger), "cents in the ledger,", status.spent.minor, "cents spent")

# %%
# After a crash
# -------------
#
# Close the campaign (or kill the process), and open it again: it is as it was. ``verify`` replays the whole log, and
# compares every offer, payment and elimination with what the rules say.

campaign.stop(why="decided", by="tutorial")
campaign.close()

from freepull.campaigns.journal.recovery import verify

with fp.Campaign.open(store, "greetings") as again:
    print(again.verdict().arm, again.status().spent)
print(verify(store, "greetings"))
folder.cleanup()

# %%
# Next
# ----
#
# - `Live campaigns <../live.html>`_ says what a campaign promises, and what not.
# - `The service <../service.html>`_ puts campaigns behind HTTP, with tokens and a dashboard.
# - Rehearse yours before it is real: ``freepull campaign play`` lets simulated people into a campaign of its own.
