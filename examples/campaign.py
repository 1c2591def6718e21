"""A live campaign: which of three greetings do 60 users like best? It is closed in the middle and opened again.

The users here are simulated, and everything else is as in a real trial: before acting, a user asks whether there is an
offer, then tells which greeting was seen and how it was liked. `python examples/campaign.py` takes some seconds.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import numpy as np

import freepull as fp
from freepull.campaigns.journal.recovery import verify

USERS, GREETINGS = 60, ["formal", "friendly", "funny"]
LIKED = [0.45, 0.75, 0.55]
"""How often each greeting is liked on average."""


class User:
    """Somebody with a taste of their own, who learns what they like."""

    def __init__(self, number: int) -> None:
        self.name, self.random = f"user-{number}", np.random.default_rng([7, number])
        self.taste = np.clip(LIKED + self.random.normal(0, 0.1, len(LIKED)), 0, 1)
        self.habit, self.visits = fp.agents.AlphaUCB(alpha=2.0), count(1)
        self.habit.start(arms=len(LIKED))

    def visit(self, campaign: fp.Campaign) -> None:
        """Ask for an offer, take it or do as one likes, and tell."""
        offer, visit = campaign.ask(self.name), next(self.visits)
        arm = self.habit.pick(visit) if offer is None else GREETINGS.index(offer.arm)
        reward = float(self.random.random() < self.taste[arm])
        self.habit.learn(arm, reward)
        campaign.tell(self.name, GREETINGS[arm], reward, event=visit)  # a number of the user's own: safe to repeat


def main(url: str, most: int = 100) -> fp.Campaign:
    """Run the trial until it is decided, at most so many visits of everybody."""
    people = [User(number) for number in range(USERS)]
    campaign = fp.Campaign.create(
        url,
        name="greetings",
        arms=GREETINGS,
        agents=[user.name for user in people],
        price="0.20 EUR",
    )
    campaign.budget("400 EUR")
    campaign.start(by="example")
    for day in range(1, most + 1):
        for user in people:
            user.visit(campaign)
        if day == 5:
            campaign.close()  # or a crash: nothing that was answered is lost
            campaign = fp.Campaign.open(url, "greetings")
            print(f"opened again after {campaign.status().observations} pulls")
        if campaign.verdict().decided:
            break
    return campaign


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        where = f"sqlite:///{Path(folder) / 'trial.db'}"
        with main(where) as done:
            status = done.status()
            print(done.verdict())
            print(f"{status.observations} pulls, {status.paid} paid for, {status.spent} spent")
            print(f"the ledger has {len(done.ledger())} entries; the last one: {done.ledger()[-1:]}")
            done.stop(why="decided", by="example")
        print(verify(where, "greetings"))
