"""Hypothesis drives a campaign and a model written on paper, on both stores; they must agree after every act."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import freepull as fp
from chaos.postgres_server import PostgresServer
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.principal.rules.comparisons.rule import ComparisonsState
from support.examples import examples
from support.model import HOUR, Model
from support.plain_trial import HearingTrial
from support.staging import Clock, picture

AGENTS, ARMS = 3, 3
AGENT, ARM = st.integers(0, AGENTS - 1), st.integers(0, ARMS - 1)
REWARD = st.sampled_from([0.0, 0.25, 0.5, 1.0])
NO_BAN = fp.protocols.NeverBan()
PRINCIPALS = [
    fp.Principal(fp.rules.Certified(0.4), observe=fp.observe.Steps(0), offers="each", budget=12),
    fp.Principal(fp.rules.Population(0.4), observe=fp.observe.Steps(1), offers="each", protocol=fp.protocols.BanFor(2)),
    fp.Principal(fp.rules.Paper(0.5, "simplified", scale=0.02), observe=fp.observe.Steps(1), offers="each"),
    fp.Principal(fp.rules.Comparisons(0.9, 0.1), observe=fp.observe.Steps(0), offers="each", protocol=NO_BAN),
    fp.Principal(fp.rules.Comparisons(0.9, late=True), observe=fp.observe.Steps(1), offers="each"),
]


class Machine(RuleBasedStateMachine):
    """One campaign, one model."""

    url: str

    @initialize(
        which=st.integers(0, len(PRINCIPALS) - 1),
        lasts=st.integers(1, 3),
        cools=st.integers(1, 3),
        short=st.sampled_from([None, 0.5]),
    )
    def begin(self, which: int, lasts: int, cools: int, short: float | None) -> None:
        self.clock, self.numbers, self.told = Clock(), [0] * AGENTS, list[tuple[Any, ...]]()
        self.passed: list[tuple[int, str | int]] = []
        self.acts: list[tuple[int, int, str]] = []
        self.came: list[tuple[int, str, float]] = []
        principal = PRINCIPALS[which]
        horizon = None if isinstance(principal.rule, fp.rules.Comparisons) else 1000
        reserved = None if short is None else round(short * HOUR)
        self.model = Model(principal, ARMS, AGENTS, horizon, lasts * HOUR, cools * HOUR, 50, reserved)
        self.model.budget = None if principal.budget is None else round(principal.budget) * 50
        self.name = f"c{self.clock.now}"
        self.fresh()
        self.campaign = fp.Campaign.create(
            self.url,
            name="x",
            arms=ARMS,
            agents=AGENTS,
            principal=principal,
            price="0.50 EUR",
            horizon=horizon,
            offer_lasts=f"{lasts} hours",
            cool_down=f"{cools} hours",
            accept_within=None if short is None else f"{60 * short:g} minutes",
            if_no_outcome=None if principal.rule.designates else 0.0,
            clock=self.clock,
        )
        self.campaign.start()

    def fresh(self) -> None:
        """Make the store empty."""

    @rule(agent=AGENT)
    def ask(self, agent: int) -> None:
        offer = self.campaign.ask(agent)
        assert (None if offer is None else offer.arm) == _arm(self.model.ask(agent, self.clock.now))

    @rule(agent=AGENT, arm=ARM, reward=REWARD, how=st.sampled_from(["plain", "id", "number"]))
    def tell(self, agent: int, arm: int, reward: float, how: str) -> None:
        event: str | int | None = {"plain": None, "id": f"e{len(self.told)}", "number": self.numbers[agent] + 1}[how]
        reply = self.campaign.tell(agent, arm, reward, event)
        self.numbers[agent] += how == "number"
        assert reply.outcome == self.model.tell(agent, arm, reward, self.clock.now)
        if event is not None:
            self.told.append((agent, arm, reward, event, reply))

    @rule(arms=st.tuples(ARM, ARM, ARM), reward=REWARD)
    def everybody(self, arms: tuple[int, int, int], reward: float) -> None:
        """A whole step: without it few machines would see one end, or a ban."""
        for agent, arm in enumerate(arms):
            self.ask(agent)
            self.tell(agent, arm, reward, "plain")

    @rule(agent=AGENT)
    def accept(self, agent: int) -> None:
        if self.model.accept(agent, self.clock.now):
            assert self.campaign.accept(agent).accepted
        else:
            with pytest.raises(errors.WrongMoment):
                self.campaign.accept(agent)

    @rule(agent=AGENT)
    def decline(self, agent: int) -> None:
        if self.model.decline(agent, self.clock.now):
            self.campaign.decline(agent)
        else:
            with pytest.raises(errors.WrongMoment):
                self.campaign.decline(agent)

    @rule(agent=AGENT, arm=ARM, takes=st.booleans())
    def act(self, agent: int, arm: int, takes: bool) -> None:
        self.model.tick(self.clock.now)
        standing = self.model.of(agent)
        arm = standing.arm if takes and standing is not None else arm
        number, event = len(self.came) + len(self.acts), f"a{len(self.came) + len(self.acts)}"
        told = self.campaign.act(agent, arm, event)
        assert told.outcome == self.model.act(agent, arm, number, self.clock.now)
        self.acts.append((number, agent, event))
        assert self.campaign.act(agent, arm, event) == told

    @precondition(lambda self: self.acts)
    @rule(data=st.data(), reward=REWARD)
    def outcome(self, data: st.DataObject, reward: float) -> None:
        """Outcomes come in any order."""
        number, agent, event = self.acts.pop(data.draw(st.integers(0, len(self.acts) - 1)))
        self.model.tick(self.clock.now)
        self.campaign.outcome(agent, event, reward)
        self.model.trial.outcome(number, reward)
        self.came.append((agent, event, reward))

    @precondition(lambda self: self.came)
    @rule(data=st.data())
    def outcome_again(self, data: st.DataObject) -> None:
        agent, event, reward = data.draw(st.sampled_from(self.came))
        self.model.tick(self.clock.now)
        self.campaign.outcome(agent, event, reward)
        with pytest.raises(errors.EventConflict):
            self.campaign.outcome(agent, event, 1.0 - reward if reward != 0.5 else 0.0)

    @rule(replies=st.lists(st.sampled_from(["takes", "refuses", "is silent"]), min_size=AGENTS, max_size=AGENTS))
    def step(self, replies: list[str]) -> None:
        """Everybody asks, and then most act."""
        for agent in range(AGENTS):
            self.ask(agent)
        for agent, reply in enumerate(replies):
            standing = self.model.of(agent)
            arm = agent if standing is None else (standing.arm + (reply == "refuses")) % ARMS
            if reply != "is silent":
                self.tell(agent, arm, 0.25 * arm, "plain")

    @rule(agent=AGENT, how=st.sampled_from(["plain", "id", "number"]))
    def pass_over(self, agent: int, how: str) -> None:
        place = f"p{len(self.passed)}"
        event: str | int | None = {"plain": None, "id": place, "number": self.numbers[agent] + 1}[how]
        self.campaign.pass_over(agent, event=event)
        self.numbers[agent] += how == "number"
        self.model.tick(self.clock.now)
        self.model.trial.passed(agent)
        if event is not None:
            self.passed.append((agent, event))

    @precondition(lambda self: self.passed)
    @rule(data=st.data())
    def pass_over_again(self, data: st.DataObject) -> None:
        agent, event = data.draw(st.sampled_from(self.passed))
        self.campaign.pass_over(agent, event=event)
        self.model.tick(self.clock.now)
        if event == self.numbers[agent] or isinstance(event, str):
            with pytest.raises(errors.EventConflict):
                self.campaign.tell(agent, 0, 0.0, event)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def tell_again(self, data: st.DataObject) -> None:
        agent, arm, reward, event, reply = data.draw(st.sampled_from(self.told))
        self.model.tick(self.clock.now)
        again = self.campaign.tell(agent, arm, reward, event)
        old = isinstance(event, int) and event < self.numbers[agent]
        assert again == (reply if not old else fp.Told(None))
        if not old:
            with pytest.raises(errors.EventConflict):
                self.campaign.tell(agent, (arm + 1) % ARMS, reward, event)

    @rule(pulls=st.lists(st.tuples(AGENT, ARM, REWARD), min_size=2, max_size=12))
    def tell_many(self, pulls: list[tuple[int, int, float]]) -> None:
        replies = self.campaign.tell_many(pulls)
        assert [reply.outcome for reply in replies] == [self.model.tell(*pull, self.clock.now) for pull in pulls]

    @rule(agent=AGENT)
    def gap(self, agent: int) -> None:
        with pytest.raises(errors.EventGap) as problem:
            self.campaign.tell(agent, 0, 0.5, self.numbers[agent] + 2)
        assert problem.value.expected == self.numbers[agent] + 1
        self.model.tick(self.clock.now)

    @rule(halves=st.integers(1, 8))
    def wait(self, halves: int) -> None:
        self.clock.pass_hours(halves / 2)

    @rule()
    def pause_or_resume(self) -> None:
        self.model.tick(self.clock.now)
        if self.model.status == "running":
            self.campaign.pause()
            self.model.status = "paused"
            self.model.recall(lambda it: True)
        else:
            self.campaign.resume()
            self.model.status = "running"

    @rule(more=st.sampled_from([-1, 0, 1, 2, 20]))
    def budget(self, more: int) -> None:
        """So many bonuses more than are paid or reserved."""
        self.model.tick(self.clock.now)
        bonuses = max(0, len(self.model.paid) + self.model.reserved // 50 + more)
        amount = 50 * bonuses
        if amount < 50 * len(self.model.paid) + self.model.reserved:
            with pytest.raises(errors.BudgetTooSmall):
                self.campaign.budget(f"{amount / 100:.2f} EUR")
            return
        self.campaign.budget(f"{amount / 100:.2f} EUR")
        self.model.budget = amount
        self.model.trial.afford(bonuses)

    @rule(agent=AGENT)
    def unban(self, agent: int) -> None:
        self.model.tick(self.clock.now)
        if self.model.trial.until[agent] > self.model.trial.steps:
            self.campaign.unban(agent)
            self.model.trial.unban(agent)
        else:
            with pytest.raises(errors.WrongMoment):
                self.campaign.unban(agent)

    @rule(agent=AGENT)
    def leave(self, agent: int) -> None:
        self.model.tick(self.clock.now)
        self.campaign.leave(agent)
        standing = self.model.of(agent)
        if standing is not None:
            standing.ending = "cancelled"
        self.model.trial.leave(agent)
        self.model.absent.add(agent)

    @rule(how=st.sampled_from(["log", "snapshot", "kept"]))
    def reopen(self, how: str) -> None:
        if how == "kept":
            self.campaign.snapshot()
            self.model.tick(self.clock.now)
        before = picture(self.campaign)
        self.campaign.close()
        self.campaign = fp.Campaign.open(self.url, "x", clock=self.clock, snapshots=how != "log")
        assert picture(self.campaign) == before

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "campaign"):
            return
        status = self.campaign.status()
        self.model.tick(self.clock.now)
        model, trial = self.model, self.campaign.core.writer.decider.state.trial
        offers = [(row.agent, row.arm, row.ending, row.recalled) for row in self.campaign.offers()]
        assert offers == [(f"#{it.agent}", _arm(it.arm), it.ending, it.recalled) for it in model.offers]
        ledger = [(entry.offer, entry.agent, entry.arm, entry.amount.minor) for entry in self.campaign.ledger()]
        assert ledger == [(offer, f"#{agent}", _arm(arm), 50) for offer, agent, arm in model.paid]
        assert (status.spent.minor, status.reserved.minor) == (50 * len(model.paid), model.reserved)
        if model.budget is not None:
            assert status.spent.minor + status.reserved.minor <= model.budget
        assert status.observations == len(model.pulls)
        assert (status.open_acts, status.lapsed) == (len(self.acts), model.lapsed)
        assert status.absent == len(model.absent)
        assert (status.step, status.in_step) == (model.trial.steps, model.in_step)
        assert trial.active == model.trial.active
        assert trial.record.pulls.tolist() == model.trial.pulls()
        assert trial.rule.bounds() == model.trial.numbers()
        if isinstance(model.trial, HearingTrial):
            assert isinstance(trial.rule, ComparisonsState)
            for name, found in model.trial.rule.book.book._asdict().items():
                assert np.array_equal(getattr(trial.rule.book, name), found), name
            assert np.array_equal(trial.asking, model.trial.asking)
        assert trial.banned_until == model.trial.until
        assert [trial.wanted(m) for m in range(AGENTS)] == [model.trial.wanted(m) for m in range(AGENTS)]
        assert status.decided == (model.trial.decided_at is not None)
        endings = Counter(it.ending for it in model.offers)
        assert (status.paid, status.refused, status.expired, status.cancelled, status.open_offers) == (
            *(endings["paid"], endings["refused"], endings["expired"] - model.lapsed, endings["cancelled"]),
            endings[None],
        )

    def teardown(self) -> None:
        if hasattr(self, "campaign"):
            self.campaign.close()
            verify(self.url, "x")


def _arm(arm: int | None) -> str | None:
    return None if arm is None else f"arm {arm}"


@pytest.mark.slow
def test_a_campaign_on_sqlite_agrees_with_the_model(tmp_path: Path) -> None:
    numbers = count()

    class OnSqlite(Machine):
        def fresh(self) -> None:
            self.url = f"sqlite:///{tmp_path}/{next(numbers)}.db"

    run_state_machine_as_test(OnSqlite, settings=examples(30, stateful_step_count=40))


def test_a_campaign_on_postgres_agrees_with_the_model(server: PostgresServer) -> None:
    class OnPostgres(Machine):
        url = server.url

        def fresh(self) -> None:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")

    run_state_machine_as_test(OnPostgres, settings=examples(8, stateful_step_count=30))
