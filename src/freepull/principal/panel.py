"""The panel: the agents that a trial speaks of, those among them who have left, and the rule for who is there today."""

from __future__ import annotations

from array import array
from dataclasses import replace

from freepull.errors import InvalidInput
from freepull.principal.record import Record
from freepull.principal.rules.base import Rule, RuleState
from freepull.principal.setting import Setting
from freepull.principal.verdict import Grounds

SHOWN = 10
"""So many agents are named, the others counted."""


class Panel:
    """A rule at work on a panel, under a policy for agents who leave.

    Every time that agents are dropped ("independent") there is a new panel, and one more chance to err: the i-th panel
    is tested at δ/(i(i+1)), which adds up to δ.
    """

    def __init__(self, rule: Rule, setting: Setting, record: Record) -> None:
        self.setting, self.record = setting, record
        self.left = [False] * setting.agents
        self.withdrawn: list[int] = []
        """Arms that were taken out."""
        self.number = 1
        """How many panels there have been, this one included."""
        self._rule = rule
        self._leaving: list[int] = []
        """Agents who will be dropped at the end of the step."""
        self._history: dict[tuple[int, int], array[int]] = {}
        """Every reward in units of 2⁻³⁰ by (agent, arm), kept only where agents may be dropped."""
        self.state = self._start()

    def _rule_of(self, panel: int) -> Rule:
        """Return the rule for the i-th panel; a δ that has become too small is refused."""
        if self.setting.leavers != "independent" or self._rule.delta is None:
            return self._rule
        return replace(self._rule, delta=self._rule.delta / (panel * (panel + 1)))  # type: ignore[type-var]

    def _start(self) -> RuleState:
        return self._rule_of(self.number).start(self.setting, self.record)

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Pass a pull on to the rule; under "wait", it brings an agent back who had left."""
        self.left[agent] = False
        if self.setting.leavers == "independent":
            self._history.setdefault((agent, arm), array("I")).append(reward)
        self.state.observe(agent, arm, reward)

    def refuse_the_absent(self, agent: int) -> None:
        """Say that an agent who has left for good cannot be told of."""
        if self.left[agent] and self.setting.leavers != "wait":
            raise InvalidInput(f"agent {agent} has left, so its pulls no longer count; do not tell them.")

    def leave(self, agent: int, decided: bool) -> None:
        """Note that an agent has left; once the trial is decided, that changes nothing."""
        if self.left[agent]:
            return
        decided = decided or self.state.finished
        if not decided and self.setting.leavers == "independent" and self.setting.weights[agent] > 0:
            self.setting.without([*self._leaving, agent])
            self._rule_of(self.number + 1)
            self._leaving.append(agent)
        elif not decided and self.setting.leavers == "worst_case":
            self.state.leave(agent)
        self.left[agent] = True

    def withdraw(self, arm: int) -> None:
        """Take an arm out."""
        self.state.withdraw(arm)
        self.withdrawn.append(arm)

    def end_step(self) -> None:
        """Drop those who have left, and begin the statistics anew from the first pull of everybody else."""
        if not self._leaving:
            return
        self.setting = self.setting.without(self._leaving)
        self._leaving.clear()
        self.number += 1
        self.state = self._start()
        for (m, k), rewards in self._history.items():
            for reward in rewards if self.setting.weights[m] > 0 else ():
                self.state.observe(m, k, reward)
        for arm in self.withdrawn:
            self.state.withdraw(arm)

    def grounds(self) -> Grounds:
        """Say what a verdict rests on: rule, δ, target, policy, assumptions."""
        gone = [f"agent {m}" for m, left in enumerate(self.left) if left]
        who = ", ".join(gone[:SHOWN]) + (f" and {len(gone) - SHOWN} others" if len(gone) > SHOWN else "")
        policy = f"{self.setting.leavers.replace('_', ' ')}; {who or 'nobody'} left"
        target = self.state.target
        if self.withdrawn:
            target += f"; among the arms that were not withdrawn ({', '.join(f'arm {k}' for k in self.withdrawn)} were)"
        assumptions = self.state.assumptions
        if self.setting.leavers == "independent":
            policy += f"; panel {self.number}, tested at δ/{self.number * (self.number + 1)}"
            assumptions += ("leaving has nothing to do with rewards",)
        return Grounds(self.state.title, self._rule.delta, target, policy, assumptions)
