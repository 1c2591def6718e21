"""A trial: the principal at work. It knows nothing of simulation, storage or HTTP; whoever drives it asks and tells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal.budget import affordable, cost
from freepull.principal.panel import Panel
from freepull.principal.record import Record, units
from freepull.principal.rules.base import RuleState
from freepull.principal.schedules import Adaptive
from freepull.principal.setting import Setting
from freepull.principal.verdict import Verdict

if TYPE_CHECKING:
    from freepull.principal.principal import Principal


@dataclass(frozen=True)
class Offer:
    """A bonus on one arm, to one agent, on top of the reward."""

    agent: int
    arm: int
    bonus: float


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

    def __init__(self, principal: Principal, setting: Setting) -> None:
        kappa = _within(principal.observe.kappa(setting, principal.rule), setting.horizon)
        self.principal = principal
        self.record = Record(setting.agents, setting.arms)
        self.panel = Panel(principal.rule, replace(setting, kappa=kappa), self.record)
        self.kappa = kappa
        """κ, the last step of the observing phase; None while an adaptive schedule has not found it."""
        self.steps = 0
        """Steps that have ended."""
        self.decided_at: int | None = None
        self.paid: NDArray[np.int64] = np.zeros((setting.agents, setting.arms), np.int64)
        self.offered = self.refused = self.paid_total = 0
        self.refusals = [0] * setting.agents
        self.banned_until = [0] * setting.agents
        """The last step of each agent's ban; 0 if it was never banned."""
        self.regular = True
        """Whether no agent was told of twice in one step, as the paper's clock has it; its proofs need that."""
        self._told = [0] * setting.agents
        self._open: dict[int, Offer] = {}
        self._refusing: list[int] = []
        self._released: set[int] = set()
        """Agents whose open offer is for a withdrawn arm: still paid if taken, no refusal if not."""
        self._affordable = affordable(principal.budget, principal.bonus)
        self._plan: dict[int, int] = {}
        self._make_plan()

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
        if self.setting.horizon is not None and self.steps >= self.setting.horizon:
            return "over"
        return "incentivizing" if self.kappa is not None and self.steps >= self.kappa else "observing"

    @property
    def spent(self) -> float:
        """C(t), in units of reward."""
        return cost(self.paid_total, self.principal.bonus)

    @property
    def banned(self) -> int:
        """How many agents were banned at least once."""
        return sum(until > 0 for until in self.banned_until)

    def wanted(self, agent: int) -> int | None:
        """Return the arm we would pay this agent for now, or None; changes nothing."""
        self._check_agent(agent)
        if agent in self._open:
            return self._open[agent].arm
        if self.setting.offers == "one" and self._open:
            return None
        if self._affordable is not None and self.paid_total + len(self._open) + 1 > self._affordable:
            return None
        return self._plan.get(agent)

    def ask(self, agent: int) -> Offer | None:
        """Issue the offer for this agent, if there is one; asking again returns the same offer."""
        arm = self.wanted(agent)
        if arm is None or agent in self._open:
            return self._open.get(agent)
        del self._plan[agent]
        self._open[agent] = Offer(agent, arm, self.principal.bonus)
        self.offered += 1
        return self._open[agent]

    def tell(self, agent: int, arm: int, reward: float) -> str | None:
        """Record one pull; return what became of the agent's open offer: "paid", "refused", or None without one."""
        self._check_agent(agent)
        self._check_arm(arm)
        x = checks.real("reward", reward, 0.0, 1.0)
        self.panel.refuse_the_absent(agent)
        self.regular = self.regular and self._told[agent] <= self.steps
        self._told[agent] = self.steps + 1
        self.record.add(agent, arm, units(x))
        self.panel.observe(agent, arm, units(x))
        offer = self._open.pop(agent, None)
        if offer is None:
            return None
        released = agent in self._released
        self._released.discard(agent)
        if offer.arm == arm:
            self.paid[agent, arm] += 1
            self.paid_total += 1
            return "paid"
        if released:
            return None
        self.refused += 1
        self._refusing.append(agent)
        return "refused"

    def cancel(self, agent: int) -> Offer | None:
        """Withdraw an agent's open offer, which is neither taken nor refused then; return it, or None without one."""
        self._check_agent(agent)
        return self._open.pop(agent, None)

    def leave(self, agent: int) -> None:
        """Note that an agent has left: it gets no more offers, and the policy for leavers decides about its pulls.

        "wait": nothing is claimed that needs it, until it is told of again. "independent": it is dropped at the end of
        the step, and the statistics start again from the first pulls of those who stayed; the i-th panel is tested at
        δ/(i(i+1)), because every panel is a chance to err. "worst_case": what it has not given counts against every
        claim.
        """
        self._check_agent(agent)
        self.panel.leave(agent, decided=self.decided_at is not None)
        self._open.pop(agent, None)
        self._plan.pop(agent, None)

    @property
    def awaited(self) -> list[int]:
        """Agents who have left or are banned, and without whom the rule cannot go on."""
        if self.decided_at is not None:
            return []
        gone = [left or until > self.steps for left, until in zip(self.panel.left, self.banned_until, strict=True)]
        return [m for m, absent in enumerate(gone) if absent and self.rule.awaits(m)]

    def withdraw(self, arm: int) -> None:
        """Take an arm out of the trial, if that was provided for; what fell only to this arm returns.

        An open offer for it is still paid if the agent takes it, and is no refusal if not.
        """
        if not self.setting.withdrawal:
            raise InvalidInput(
                "withdrawing an arm must be provided for: start with rules.Pairwise and withdrawal=True."
            )
        self._check_arm(arm)
        if self.decided_at is not None:
            raise InvalidInput(f"arm {arm} cannot be withdrawn, because the trial is decided.")
        self.panel.withdraw(int(arm))
        self._released |= {agent for agent, offer in self._open.items() if offer.arm == arm}
        self._plan = {agent: planned for agent, planned in self._plan.items() if planned != arm}

    def end_step(self) -> None:
        """Close a step: refusals become bans, then the rule is evaluated, then the schedule."""
        self.steps += 1
        t = self.steps
        for agent in self._refusing:
            self.refusals[agent] += 1
            until = self.principal.protocol.banned_until(t, self.refusals[agent])
            if until > t:
                self.banned_until[agent] = until
        self._refusing.clear()
        if self.decided_at is not None or (self.setting.horizon is not None and t > self.setting.horizon):
            return
        self.panel.end_step()
        self.rule.evaluate(incentivizing=self.kappa is not None and t >= self.kappa)
        self._find_kappa(t)
        if self.rule.decided:
            self.decided_at = t
        self._make_plan()

    def verdict(self) -> Verdict:
        """Say which arm, whether that is decided and certified, why, when, and what it cost."""
        decided = self.decided_at is not None
        why = self.rule.claim() if decided else self.rule.standing()
        certified = decided and self.rule.proven and (self.regular or not self.rule.stepwise)
        if decided and self.rule.proven and not certified:
            why += "; not certified, because an agent acted twice in one step, which its proof does not allow"
        if self.awaited:
            why += f"; awaited: {', '.join(f'agent {m}' for m in self.awaited)}"
        return Verdict(
            arm=self.rule.leader(),
            decided=decided,
            certified=certified,
            why=why,
            at=self.decided_at,
            spent=self.spent,
            paid=self.paid.copy(),
            rests_on=self.panel.grounds(),
        )

    def _find_kappa(self, t: int) -> None:
        """Let an adaptive schedule look; the step at whose end it starts is κ, and the rule looks there too."""
        schedule = self.principal.observe
        if self.kappa is not None or not isinstance(schedule, Adaptive) or not schedule.looks(t, self.setting):
            return
        if schedule.starts(t, self.rule.missing(), self.setting):
            self.kappa = t
            self.rule.evaluate(incentivizing=True)

    def _make_plan(self) -> None:
        """Fix who is wanted for what in the coming step; short of money, the neediest come first."""
        self._plan = {}
        if self.phase != "incentivizing" or (self.setting.offers == "one" and self._open):
            return
        room = math.inf if self._affordable is None else self._affordable - self.paid_total - len(self._open)
        if room < 1:
            return
        coming = self.steps + 1
        payable = [
            until < coming and m not in self._open and not self.panel.left[m]
            for m, until in enumerate(self.banned_until)
        ]
        wants = self.rule.wants(payable)
        self._plan = {want.agent: want.arm for want in wants[: int(min(room, len(wants)))]}

    def _check_arm(self, arm: Any) -> None:
        if not checks.is_index(arm, self.setting.arms):
            raise InvalidInput(
                f"arm must be a whole number from 0 to {self.setting.arms - 1}, got {checks.shown(arm)}."
            )

    def _check_agent(self, agent: Any) -> None:
        if not checks.is_index(agent, self.setting.agents):
            raise InvalidInput(
                f"agent must be a whole number from 0 to {self.setting.agents - 1}, got {checks.shown(agent)}."
            )


def _within(kappa: int | None, horizon: int | None) -> int | None:
    """Return κ as a whole number from 0 to T."""
    if kappa is None:
        return None
    return max(0, int(kappa) if horizon is None else min(int(kappa), horizon))
