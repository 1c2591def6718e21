"""A trial: the principal at work. It knows nothing of simulation, storage or HTTP; whoever drives it asks and tells."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput
from freepull.messages import Check
from freepull.principal import saving
from freepull.principal.offers import NOBODY, PAID, REFUSED, Bans, Offer, Offers
from freepull.principal.panel import Closing, Panel, payable, wanting
from freepull.principal.record import Act, Acts, Record, Words, finish, mark, packed, units
from freepull.principal.rules.base import ASKED, PASSED, RuleState, Setting
from freepull.principal.schedules import within
from freepull.principal.verdict import SHOWN, Checking, Checks, Grounds, Verdict, listed, tipping_point

if TYPE_CHECKING:
    from freepull.principal.principal import Principal

ENDS = {PAID: "paid", REFUSED: "refused"}
IRREGULAR = "not certified, because agents did not act once in each step, as its proof demands"
UNKNOWING = "whoever said that a pull was made did not know its outcome yet"
OR_ACT = ", or said that it was made"
"""What is assumed besides, where outcomes come after the pulls that are made."""
LOOKED_AT = 1000
"""This many silent agents are looked at to find who is awaited."""
GROUPED = "not certified, because agents who left within one step were counted as one, which may depend on rewards"


class Trial:
    """The running state of a principal: record, active arms, offers, bans and payments.

    A step is: ``ask`` for every agent, ``tell`` every pull, ``end_step``. Rules are evaluated at the end of steps and
    nowhere else, so the order of tells cannot matter.

    >>> from freepull.principal import Principal, rules, schedules
    >>> principal = Principal(rules.Paper(delta=0.5, bound="simplified"), observe=schedules.Steps(0))
    >>> trial = principal.start(arms=2, agents=1, horizon=10)
    >>> trial.ask(0)
    Offer(agent=0, arm=0, bonus=1.0)
    >>> trial.tell(0, arm=0, reward=0.25)
    'paid'
    >>> trial.end_step()
    >>> trial.wanted(0), trial.spent
    (1, 1.0)
    """

    def __init__(self, principal: Principal, setting: Setting, checks: Checks | None = None) -> None:
        kappa = within(principal.observe.kappa(setting, principal.rule), setting.horizon)
        one = setting.offers == "one"
        self.principal = principal
        self.record = Record(setting.agents, setting.arms)
        self.panel = Panel(principal.rule, replace(setting, kappa=kappa), self.record)
        self.offers = Offers(self.record, principal.priced, principal.budget, one, setting.unit)
        self.bans = Bans(principal.protocol, setting.agents)
        self.kappa = kappa
        """κ, the last step of the observing phase; None while an adaptive schedule has not found it."""
        self.waits = self.futile = False
        """Whether nothing is offered because an adaptive schedule waits, and because a verdict in time is unlikely."""
        self.steps = 0
        """Steps that have ended."""
        self.decided_at: int | None = None
        self.regular = True
        """Whether no agent was told of twice in one step, as the paper's clock has it; its proofs need that."""
        self.resting: set[int] = set()
        """Agents who get no new offers for now, whatever the rule wants; looked at when offers are chosen."""
        self.unavailable: set[tuple[int, int]] = set()
        """Agents, each with an arm that it cannot have for now."""
        self.lacking: set[int] = set()
        """Agents to whom an arm was ever unavailable."""
        self.told: NDArray[np.int64] = np.zeros(setting.agents, np.int64)
        """In which step each agent was last told of, counted from 1; 0: never."""
        self.checking = None if checks is None else Checking(checks, setting)
        """The checks of assumptions at work, if there are any."""
        self.asking: NDArray[np.bool_] = np.zeros(setting.agents if self.rule.hears_asks else 0, bool)
        """Who has asked and was not told of since, where the rule hears asks: a pull of theirs may be under way."""
        self.acts = Acts(setting.agents, not principal.rule.designates)
        """Pulls whose outcomes are to come."""
        self._closing: Closing | None = None
        self.offers.begin(1, setting.horizon)
        self._choose()

    @property
    def setting(self) -> Setting:
        """The frame of the trial, with the weights of today's panel."""
        return self.panel.setting

    @property
    def rule(self) -> RuleState:
        """The rule at work on today's panel."""
        return self.panel.state

    @property
    def active(self) -> list[int]:
        """The arms that are still in."""
        return [k for k, alive in enumerate(self.rule.active) if alive]

    @property
    def phase(self) -> str:
        """The phase: observing, incentivizing, decided, or over (undecided at the horizon)."""
        if self.decided_at is not None:
            return "decided"
        if self.over:
            return "over"
        return "incentivizing" if self.kappa is not None and self.steps >= self.kappa else "observing"

    @property
    def over(self) -> bool:
        """Whether the horizon is reached."""
        return self.setting.horizon is not None and self.steps >= self.setting.horizon

    @property
    def certifiable(self) -> bool:
        """Whether what the rule claims is proven for a trial that went as this one did."""
        return self.rule.proven and self.doubt is None

    @property
    def doubt(self) -> str | None:
        """Why a proven rule proves nothing in a trial that went as this one did; None if it does, or is not proven."""
        if not self.rule.proven:
            return None
        if self.rule.stepwise and not self.regular:
            return IRREGULAR
        if not self.panel.numbered:
            return GROUPED
        return None if self.checking is None else self.checking.alarm()

    @property
    def closing(self) -> bool:
        """Whether a step has ended and is still being worked on."""
        return self._closing is not None

    @property
    def offered(self) -> int:
        """How many offers were made."""
        return self.offers.offered

    @property
    def refused(self) -> int:
        """How many offers were refused."""
        return self.offers.refused

    @property
    def paid_total(self) -> int:
        """How many bonuses were paid."""
        return self.offers.paid_total

    @property
    def paid(self) -> NDArray[np.int64]:
        """How many bonuses were paid, by agent and arm."""
        return self.offers.payments().table()

    @property
    def spent(self) -> float:
        """C(t), in units of reward."""
        return self.offers.spent

    @property
    def banned_until(self) -> list[int]:
        """The last step of each agent's ban; 0 if it was never banned."""
        until: list[int] = self.bans.until.tolist()
        return until

    @property
    def banned(self) -> int:
        """How many agents were banned at least once."""
        return int(np.count_nonzero(self.bans.until))

    @property
    def awaited(self) -> list[int]:
        """Agents without whom the rule cannot go on: who have left or are banned, then `silent` ones."""
        if self.decided_at is not None:
            return []
        gone = self.rule.awaited(np.flatnonzero(self.panel.absent | (self.bans.until > self.steps)))
        return gone + [agent for agent in self.silent() if agent not in set(gone)]

    def silent(self) -> list[int]:
        """Return agents without whom the rule cannot go on and who let a whole step pass, longest silent first.

        Only those who have been silent longest are looked at, a thousand of them; at most ten are returned.
        """
        if not self.principal.rule.waits or self.decided_at is not None or self.over:
            return []
        rank = self.told * self.setting.agents + np.arange(self.setting.agents)
        if len(rank) > LOOKED_AT:
            rank = np.partition(rank, LOOKED_AT)[:LOOKED_AT]
        rank = np.sort(rank)
        agents = rank[rank < self.steps * self.setting.agents] % self.setting.agents
        return self.rule.awaited(agents)[:SHOWN]

    def wanted(self, agent: int) -> int | None:
        """Return the arm we would pay this agent for now, or None; changes nothing."""
        self._check_agent(agent)
        arm = self.offers.wanted(int(agent), self._chosen(int(agent)))
        return arm if arm >= 0 else None

    def ask(self, agent: int) -> Offer | None:
        """Issue the offer for this agent, if there is one; asking again returns the same offer."""
        self.hear(agent)
        return self.answer(agent)

    def answer(self, agent: int) -> Offer | None:
        """Issue the offer for an agent who has been heard (`hear`), if there is one."""
        self._check_agent(agent)
        if self.checking is not None and self.checking.chosen(agent):
            return None
        return self.offers.ask(int(agent), self._chosen(int(agent)))

    def _chosen(self, agent: int) -> int:
        """Return the arm that an agent is wanted for now, −1 for none: as was chosen, or as the rule says at asks."""
        if not self.rule.hears_asks or self.offers.one:
            return int(self.offers.arms_wanted[agent])
        may = self._closing is None and self.decided_at is None and self.may_pay(agent)
        return self.rule.wanted(agent) if may else NOBODY

    def may_pay(self, agent: int) -> bool:
        """Say whether an agent could get an offer now."""
        if self.over or self.kappa is None or self.steps < self.kappa or self.offers.open[agent] >= 0:
            return False
        gone = self.panel.absent[agent] or agent in self.resting
        return not gone and bool(self.bans.until[agent] <= self.steps)

    def hears(self, agent: int) -> bool:
        """Say whether it would change anything if this agent asked now, an offer aside; changes nothing."""
        self._check_agent(agent)
        if self._rule_hears(agent):
            return True
        return self.checking is not None and self.checking.hears(int(agent)) and not self.acts.quiet(int(agent))

    @property
    def listening(self) -> bool:
        """Whether asks are still for the rule; the checks hear them to the end."""
        return self.rule.hears_asks and self.decided_at is None and not self.over

    def _rule_hears(self, agent: int) -> bool:
        return self.listening and (self.rule.counts_asks or not bool(self.asking[agent]))

    def hear(self, agent: int) -> None:
        """Let the rule and the checks know that an agent asks, in order with what is told; `ask` does it too."""
        self._check_agent(agent)
        if self.checking is not None and not self.acts.quiet(int(agent)):
            self.checking.asked(int(agent), self.steps)
        if not self._rule_hears(agent):
            return
        self.asking[agent] = True
        if self._closing is None:
            self.rule.asked(int(agent))
        else:
            stream = int(agent) * self.setting.arms
            self._closing.tell_later(array("I", [stream]).tobytes(), array("I", [ASKED]).tobytes())

    def chose(self, agent: int, arm: int) -> bool:
        """Say what an agent without an offer has chosen, before the outcome; return whether that is paid by surprise.

        For the check of payment (docs/checks.md, payment): without it, or without an ask before it, nothing is paid.
        """
        self._check_agent(agent)
        self._check_arm(arm)
        if self.checking is None or self.offers.open[agent] >= 0:
            return False
        paid = self.checking.chose(int(agent), int(arm), self.offers.room)
        if paid:
            self.offers.surprise(int(agent), int(arm))
        return paid

    def tell(self, agent: int, arm: int, reward: float) -> str | None:
        """Record one pull; return what became of the agent's open offer: "paid", "refused", or None without one."""
        self._check_agent(agent)
        self._check_arm(arm)
        x = units(validation.real("reward", reward, 0.0, 1.0))
        agent, arm = int(agent), int(arm)
        self.panel.welcome(agent)
        self.regular = self.regular and bool(self.told[agent] <= self.steps)
        self.told[agent] = self.steps + 1
        self._check_report(agent, arm, x, heard=not self.acts.quiet(agent))
        if self.rule.hears_asks:
            self.asking[agent] = False
        if self.acts.ordered and self.acts.awaits(agent):
            self.acts.keep(agent, arm, x)
        else:
            self._enter(agent, arm, x)
        return self._settle(agent, arm)

    def _check_report(self, agent: int, arm: int, reward: int, heard: bool) -> None:
        if self.checking is not None:
            if heard:
                self.checking.told(agent, arm, reward, self.steps)
            else:
                self.checking.unheard(1)

    def _enter(self, agent: int, arm: int, reward: int) -> None:
        """Pass a pull on to the rule, at once or when the step that is being closed is."""
        if self._closing is None:
            self.panel.observe(agent, arm, reward)
        else:
            stream = agent * self.setting.arms + arm
            self._closing.tell_later(array("I", [stream]).tobytes(), array("I", [reward]).tobytes())

    def act(self, agent: int, arm: int, number: int, *, pay: bool = True) -> str | None:
        """Note that a pull is made, whose outcome comes later (`outcome`); return what `tell` returns.

        The offer is settled now: taking it pays its bonus or, without ``pay``, reserves it until the outcome has come.
        ``number`` is what the act is known by, a new one. Where the rule designates, nobody may know the outcome yet.
        """
        self._check_agent(agent)
        self._check_arm(arm)
        agent, arm = int(agent), int(arm)
        self.panel.welcome(agent)
        self.regular = self.regular and bool(self.told[agent] <= self.steps)
        self.told[agent] = self.steps + 1
        act = Act(agent, arm, self.steps)
        if not self.acts.ordered:
            self.work()
            act.checked = not self.acts.quiet(agent)
            self.asking[agent] = False
            act.sample = self.rule.acted(agent, arm)
        self.acts.add(number, act)
        return self._settle(agent, arm, None if pay else number)

    def outcome(self, number: int, reward: float | None, *, paid: bool = True, counts: bool = True) -> None:
        """Record what came of an act; None: its outcome is missing for good, which only rules that designate can bear.

        ``paid`` is for a bonus that waited for it, and without ``counts`` the rule is told nothing: its agent has left.
        """
        x = None if reward is None else units(validation.real("reward", reward, 0.0, 1.0))
        if x is None and counts and self.acts.ordered:
            raise InvalidInput(
                f"reward must be a number in [0, 1] with rules.{type(self.principal.rule).__name__}, which needs every "
                "outcome; rules.Comparisons can do without."
            )
        act = self.acts.take(number)
        self.offers.finish(number, paid)
        if not counts:
            self.acts.drop(act)
        elif self.acts.ordered:
            assert x is not None
            act.reward = x
            self.regular = self.regular and act.step == self.steps
            for it in self.acts.released(act.agent):
                self._enter(it.agent, it.arm, it.reward)
        else:
            self.work()
            if x is None:
                self.acts.missing += 1
                self.acts.muted.add(act.agent)
            else:
                self._check_report(act.agent, act.arm, x, act.checked)
            self.rule.came(act.agent, act.arm, act.sample, x)

    def decline(self, agent: int) -> str | None:
        """End an agent's open offer without a pull; return "refused", or None if there was none, or it was recalled."""
        self._check_agent(agent)
        return self._settle(int(agent), NOBODY)

    def lapse(self, agent: int) -> None:
        """End an open offer that was not accepted in time: no refusal, and asking again brings the same one."""
        offer = self.cancel(agent)
        if offer is None or (agent, offer.arm) in self.unavailable:
            return
        if self.decided_at is None and not self.waits and not self.futile and self.may_pay(agent):
            self.offers.arms_wanted[agent] = offer.arm

    def tell_many(
        self,
        agents: Any,
        arms: Any,
        rewards: Any,
        *,
        asks: NDArray[np.bool_] | None = None,
        passes: NDArray[np.bool_] | None = None,
    ) -> list[str | None]:
        """Record pulls in their order, all or none of them; return for each what `tell` returns.

        ``asks`` is True where an agent does not pull but asks (`hear`), and ``passes`` where it has asked and made no
        pull (`pass_over`, but an open offer stands); its arm and reward are not looked at then.

        >>> from freepull.principal import Principal, rules, schedules
        >>> trial = Principal(rules.Certified(0.05), observe=schedules.Steps(0), offers="each").start(arms=2, agents=3)
        >>> trial.ask(0).arm
        0
        >>> trial.tell_many([0, 2, 0], [0, 1, 1], [0.5, 1.0, 0.0])
        ['paid', None, None]
        """
        streams, units_ = packed(agents, arms, rewards, (self.setting.agents, self.setting.arms))
        pullers = streams // np.uint32(self.setting.arms)
        others = asks if passes is None else passes if asks is None else asks | passes
        told = pullers if others is None else pullers[~others]
        self.panel.welcome(told)
        self.regular = bool(mark(self.told, told, self.steps)) and self.regular
        if self.listening:
            self.asking[pullers] = False if asks is None else asks  # of several by one agent the last one counts
        elif self.rule.hears_asks:
            self.asking[told] = False
        if others is not None:
            if not self.rule.hears_asks:
                raise InvalidInput("asks must be left out with a rule that does not hear them.")
            units_[others] = ASKED
        if passes is not None:
            units_[passes] = PASSED
        if self.checking is not None:
            self._check_reports(pullers, streams, units_, others)
        own = slice(None) if others is None or self.listening else ~others
        held = self.acts.awaiting(pullers) if self.acts.ordered else None
        if held is not None and held.any():
            own = ~held
            for at in np.flatnonzero(held).tolist():
                self.acts.keep(int(pullers[at]), int(streams[at]) % self.setting.arms, int(units_[at]))
        if self._closing is None:
            self.panel.take(streams[own], units_[own])
        else:
            self._closing.tell_later(streams[own].tobytes(), units_[own].tobytes())
        settled: list[str | None] = [None] * len(streams)
        for at in np.flatnonzero(self.offers.open[pullers] >= 0).tolist() if self.offers.opened else ():
            if others is None or not others[at]:
                settled[at] = self._settle(*divmod(int(streams[at]), self.setting.arms))
        return settled

    def _check_reports(self, pullers: Words, streams: Words, rewards: Words, others: NDArray[np.bool_] | None) -> None:
        """Let the checks see pulls and asks of all to whom they listen."""
        assert self.checking is not None
        quiet = self.acts.silent(pullers)
        if quiet is None:
            self.checking.told_many(streams, rewards, self.steps)
            return
        self.checking.told_many(streams[~quiet], rewards[~quiet], self.steps)
        self.checking.unheard(int((quiet if others is None else quiet & ~others).sum()))

    def _settle(self, agent: int, arm: int, act: int | None = None) -> str | None:
        """End the agent's open offer, if there is one."""
        end = self.offers.settle(agent, arm, act)
        if end == REFUSED:
            self.bans.refusing.append(agent)
        return ENDS.get(end)

    def cancel(self, agent: int) -> Offer | None:
        """Withdraw an agent's open offer, which is neither taken nor refused then; return it, or None without one."""
        self._check_agent(agent)
        return self.offers.cancel(int(agent))

    def pass_over(self, agent: int) -> None:
        """Note that an agent who asked has made no pull, so that none is under way; its open offer is cancelled."""
        self._check_agent(agent)
        self.work()
        self.rule.passed_over(int(agent))
        if self.checking is not None and not self.acts.quiet(int(agent)):
            self.checking.passed_over(int(agent))
        if self.rule.hears_asks:
            self.asking[agent] = False
        self.offers.cancel(int(agent))

    def recall(self, agent: int) -> None:
        """Take back an open offer that the agent may be acting on: still paid if taken, no refusal if not."""
        self._check_agent(agent)
        self.offers.recall(int(agent))

    def unban(self, agent: int) -> None:
        """End an agent's ban and forget its refusals."""
        self._check_agent(agent)
        self.work()
        self.bans.lift(int(agent), self.steps)

    def afford(self, bonuses: int | None) -> None:
        """Change the budget: how many bonuses may be paid in all, None for any number.

        Where bonuses differ, it is how many of the smallest amounts: see ``unit`` of `Principal.start`.
        """
        count = None if bonuses is None else validation.whole("bonuses", bonuses, 0)
        self.work()
        self.offers.afford(count)
        if self.futile and self.decided_at is None and not self.over:
            left = self.setting.horizon_for("futility") - self.steps
            self.futile = finish(self.rule.chance(left, self.offers.pays_for)) < self.principal.futility
        self._choose()

    def _choose(self) -> None:
        """Say anew who is wanted for what."""
        held = self.decided_at is not None or self.waits or self.futile
        wanted = None if held else finish(wanting(self, *payable(self), self.kappa))
        self.offers.replace(wanted, self.panel.absent)

    def take_over(self, old: Trial) -> None:
        """Go on where a trial of fewer agents was, its pulls aside, unless the rule can grow.

        Clock, offers, payments, bans, absences and withdrawn arms are taken over. Both wait for agents who leave,
        because a panel that shrinks and grows has no share of δ.
        """
        for policy in (old.setting.leavers, self.setting.leavers):
            if policy != "wait":
                raise InvalidInput(f"leavers must be 'wait' where one trial takes over from another, got {policy!r}.")
        old.work()
        if self.principal.rule.grows:
            self.rule.take_over(old.rule)
            self.record.take_over(old.record)
            self.panel.withdrawn = old.panel.withdrawn
            self.asking[: len(old.asking)] = old.asking
            self.acts.take_over(old.acts)
        else:
            for arm in old.panel.withdrawn:
                self.withdraw(arm)
        self.steps, self.kappa, self.regular, self.resting = old.steps, old.kappa, old.regular, old.resting
        self.unavailable, self.lacking = old.unavailable, old.lacking
        self.waits, self.futile = old.waits, old.futile
        self.told[: len(old.told)] = old.told
        self.panel.absent[: len(old.told)] = old.panel.absent
        self.bans.take_over(old.bans)
        self.offers.take_over(old.offers)
        self.offers.begin(self.steps + 1, self.setting.horizon)
        if self.checking is not None and old.checking is not None:
            self.checking.take_over(old.checking)
        self.afford(old.offers.limit)

    def leave(self, agent: int) -> None:
        """Note that an agent has left: it gets no more offers, and the policy for leavers decides about its pulls.

        "wait": nothing is claimed that needs it, until it is told of again. "independent": it is dropped at the end of
        the step, and the statistics start again from the first pulls of those who stayed; after i − 1 were dropped
        they are tested at δ/(i(i+1)), because every panel is a chance to err.
        """
        self._check_agent(agent)
        if self.setting.leavers != "wait":
            self.work()
        self.panel.leave(int(agent), decided=self.decided_at is not None)
        self.offers.cancel(int(agent))
        self.offers.forget(int(agent))

    def withdraw(self, arm: int) -> None:
        """Take an arm out of the trial, if that was provided for.

        An open offer for it is still paid if the agent takes it, and is no refusal if not.
        """
        if not self.setting.withdrawal:
            raise InvalidInput(
                "withdrawing an arm must be provided for: start with rules.Comparisons and withdrawal=True."
            )
        self._check_arm(arm)
        self.work()
        if self.decided_at is not None:
            raise InvalidInput("no arm can be withdrawn any more, because the trial is decided.")
        self.panel.withdraw(int(arm))
        self.offers.release(int(arm))

    def bar(self, agent: int, arm: int, barred: bool = True) -> None:
        """Note that an arm is unavailable to an agent, who is offered nothing for it then; or that it no longer is.

        An open offer for it is still paid if the agent takes it, and is no refusal if not. A pull that is told all the
        same counts.
        """
        self._check_agent(agent)
        self._check_arm(arm)
        self.work()
        agent, arm = int(agent), int(arm)
        self.rule.bar(agent, arm, barred)
        if not barred:
            self.unavailable.discard((agent, arm))
            return
        self.unavailable.add((agent, arm))
        self.lacking.add(agent)
        wanted = arm in (self.offers.open[agent], self.offers.arms_wanted[agent])
        if self.offers.open[agent] == arm:
            self.offers.recall(agent)
        if self.offers.arms_wanted[agent] == arm:
            self.offers.forget(agent)
        if wanted and self.offers.one:  # it is for somebody else now
            self._choose()

    def end_step(self, at_once: bool = True) -> None:
        """Close a step: refusals become bans, then the rule is evaluated, then the schedule.

        With ``at_once=False`` the closing only begins, and `work` goes on with it. Meanwhile asks are answered as
        before it, and pulls that are told settle their offers but are looked at in the next step. What is found does
        not depend on the slices, only on what was asked and told before the closing began and before it was done.
        """
        self.work()
        self.steps += 1
        if self.checking is not None:
            self.checking.end_step(self.steps)
        banning = self.bans.enact(self.steps)
        if self.decided_at is not None or (self.setting.horizon is not None and self.steps > self.setting.horizon):
            finish(banning)
            return
        if self.over:
            self.offers.replace(None, self.panel.absent)
        self._closing = Closing(self, banning)
        if at_once:
            self.work()

    def work(self, seconds: float | None = None) -> bool:
        """Go on closing a step for about this many seconds, or to its end; return whether nothing is left to do.

        One slice more or less takes a few milliseconds. Nothing happens if no step is being closed.
        """
        limit = None if seconds is None else validation.real("seconds", seconds, 0.0)
        if self._closing is not None and self._closing.go_on(limit):
            self._closing = None
        return self._closing is None

    def verdict(self, arm: Callable[[int], str] = "arm {}".format) -> Verdict:
        """Say which arm, whether that is decided and certified, why, when, and what it cost; ``arm`` names one."""
        decided = self.decided_at is not None
        why = self.rule.claim(arm) if decided else f"{self.rule.standing()}; this one has {self.rule.leads_by}"
        if decided and self.doubt is not None:
            why += f"; {self.doubt}"
        survives = self.rule.survives() if decided and self.certifiable else None
        if survives is not None:
            why += f"; {tipping_point(survives)}"
        if self.held is not None:
            why += f"; {self.held}"
        if awaited := self.awaited:
            why += f"; awaited: {listed(awaited)}"
        return Verdict(
            arm=self.rule.leader(),
            decided=decided,
            certified=decided and self.certifiable,
            why=why,
            at=self.decided_at,
            spent=self.spent,
            payments=self.offers.payments(),
            rests_on=self.grounds(),
            survives=survives,
            checks=self.checks(),
            differences=tuple(self.rule.differences()),
        )

    def grounds(
        self, agent: Callable[[int], str] = "agent {}".format, arm: Callable[[int], str] = "arm {}".format
    ) -> Grounds:
        """Say what a verdict rests on; ``agent`` and ``arm`` name one."""
        found = self.panel.grounds(agent, arm)
        if self.lacking and self.rule.hears_asks:
            some = "1 agent" if len(self.lacking) == 1 else f"{len(self.lacking):,} agents"
            lacked = f"; opened while the agent could have every arm still in, which {some} could not at all times"
            found = replace(found, target=found.target + lacked)
        if self.acts.made and not self.acts.ordered:
            told, *others = reversed(found.assumptions)
            found = replace(found, assumptions=(*reversed(others), UNKNOWING, told + OR_ACT))
        unasked = 0 if self.checking is None or self.rule.counts_asks else self.checking.unasked
        if not unasked or not self.rule.hears_asks:
            return found
        *others, told = found.assumptions
        told += f", also of the {unasked:,} that were told without an ask, which are in no comparison"
        return replace(found, assumptions=(*others, told))

    @property
    def held(self) -> str | None:
        """Why nothing is offered for now although the trial goes on, in words; None if offers are made."""
        if not self.futile or self.decided_at is not None or self.over:
            return None
        where = "in time" if self.offers.limit is None else "in time and within the budget"
        return f"no offers for now, because a verdict {where} is less likely than {100 * self.principal.futility:g} %"

    def checks(self) -> tuple[Check, ...]:
        """Say how the checks of assumptions stand; nothing where none run beside the trial."""
        return () if self.checking is None else self.checking.results(self.rule.counts_asks)

    def state(self) -> bytes:
        """Return all that `Principal.restore` needs to go on with the same trial, bit for bit."""
        return b"".join(self.state_pieces())

    def state_pieces(self) -> Iterator[bytes | memoryview]:
        """Return the state in pieces, without a copy of it in memory; let nothing change until they are written."""
        if self.closing:
            raise InvalidInput("a step is being closed, so there is no state to save; go on with trial.work() first.")
        return saving.pack(saving.parts_of(self))

    def _check_arm(self, arm: Any) -> None:
        validation.index("arm", arm, self.setting.arms)

    def _check_agent(self, agent: Any) -> None:
        validation.index("agent", agent, self.setting.agents)
