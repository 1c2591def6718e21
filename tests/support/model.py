"""A campaign as one would write it down on paper: a plain trial, a list of offers, a list of payments, and a clock.

It knows nothing of events, segments, stores or writers; the stateful test compares it with the real thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import freepull as fp

from .plain_trial import plain_trial

HOUR = 3600 * 10**6


@dataclass
class Paper:
    """One offer."""

    agent: int
    arm: int
    deadline: int
    ending: str | None = None
    recalled: bool = False
    accepted: bool = False


class Model:
    """Free mode, one offer an agent."""

    def __init__(
        self,
        principal: fp.Principal,
        arms: int,
        agents: int,
        horizon: int | None,
        lasts: int,
        cools: int,
        price: int,
        short: int | None = None,
    ) -> None:
        self.trial = plain_trial(principal, principal.start(arms=arms, agents=agents, horizon=horizon).setting)
        self.agents, self.lasts, self.cools, self.price, self.short = agents, lasts, cools, price, short
        self.declined: set[int] = set()
        self.acts: dict[int, tuple[int, str, float]] = {}
        """Acts whose outcomes are to come, by a number: the agent, the event, and when it was made."""
        self.lapsed = self.never = 0
        self.offers: list[Paper] = []
        self.paid: list[tuple[int, int, int]] = []
        self.pulls: list[tuple[int, int, float | None]] = []
        self.ids: dict[tuple[int, str], tuple[int, float, str | None]] = {}
        self.status = "running"
        self.cooling: dict[int, int] = {}
        self.silent = [0] * agents
        self.absent: set[int] = set()
        self.in_step = 0
        self.budget: int | None = None

    def of(self, agent: int) -> Paper | None:
        return next((it for it in self.offers if it.agent == agent and it.ending is None), None)

    @property
    def reserved(self) -> int:
        return self.price * sum(it.ending is None for it in self.offers)

    def tick(self, now: int) -> None:
        for it in sorted((it for it in self.offers if it.ending is None), key=lambda it: (it.deadline, it.agent)):
            if it.deadline > now:
                continue
            it.ending = "cancelled" if it.recalled else "expired"
            if not it.recalled and self.short is not None and not it.accepted:
                self.trial.lapse(it.agent)
                self.lapsed += 1
                continue
            self.trial.cancel(it.agent)
            if it.recalled:
                continue
            self.cooling[it.agent] = it.deadline + self.cools
            self.trial.resting.add(it.agent)
            self.silent[it.agent] += 1
            if self.silent[it.agent] == 3:
                self.silent[it.agent] = 0
                self.absent.add(it.agent)

    def ask(self, agent: int, now: int) -> int | None:
        self.tick(now)
        self.trial.hear(agent)
        if self.status != "running":
            return None
        standing = self.of(agent)
        if standing is not None:
            return None if standing.recalled else standing.arm
        arm = self.trial.ask(agent)
        if arm is not None:
            self.offers.append(Paper(agent, arm, now + min(self.lasts, self.short or self.lasts)))
        return arm

    def accept(self, agent: int, now: int) -> bool:
        """Say whether there was an offer to accept."""
        self.tick(now)
        standing = self.of(agent)
        if standing is None or standing.recalled:
            return False
        if not standing.accepted:
            standing.accepted, standing.deadline = True, now + self.lasts
        return True

    def decline(self, agent: int, now: int) -> bool:
        """Say whether there was an offer to decline."""
        self.tick(now)
        standing = self.of(agent)
        if standing is None:
            return False
        if standing.recalled:
            self.trial.cancel(agent)
            standing.ending = "cancelled"
            return True
        standing.ending = self.trial.decline(agent)
        self.silent[agent] = 0
        self.declined.add(agent)
        self.trial.resting.add(agent)
        return True

    def act(self, agent: int, arm: int, number: int, now: int) -> str | None:
        self.tick(now)
        return self.pull(agent, arm, None, now, lambda: self.trial.act(agent, arm, number))

    def tell(self, agent: int, arm: int, reward: float, now: int) -> str | None:
        self.tick(now)
        return self.pull(agent, arm, reward, now, lambda: self.trial.tell(agent, arm, reward))

    def pull(self, agent: int, arm: int, reward: float | None, now: int, make: Callable[[], str | None]) -> str | None:
        standing = self.of(agent)
        outcome = make()
        if agent in self.absent or agent in self.declined:
            self.absent.discard(agent)
            self.declined.discard(agent)
            self.trial.resting = self.absent | self.cooling.keys() | self.declined
        self.pulls.append((agent, arm, reward))
        if standing is not None:
            if standing.arm == arm:
                self.paid.append((self.offers.index(standing) + 1, agent, arm))
            standing.ending = outcome or "cancelled"
            self.silent[agent] = 0
            outcome = standing.ending
        self.in_step += 1
        if self.in_step == self.agents:
            self.in_step = 0
            self.cooling = {who: until for who, until in self.cooling.items() if until > now}
            self.trial.resting = self.absent | self.cooling.keys() | self.declined
            self.trial.end_step()
            self.recall(lambda it: self.trial.decided_at is not None or it.arm not in self.trial.active)
        return outcome

    def recall(self, which: object) -> None:
        assert callable(which)
        for it in self.offers:
            if it.ending is None and which(it):
                it.recalled = True
                self.trial.recall(it.agent)
