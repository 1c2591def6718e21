"""The panel: the agents that a trial speaks of, those among them who have left, and the rule for who is there today."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput
from freepull.principal.record import STREAMS, Record, Words, Work, pieces
from freepull.principal.rules.base import Rule, RuleState, Setting
from freepull.principal.verdict import Grounds, listed


class Panel:
    """A rule at work on a panel, under a policy for agents who leave.

    Every agent who is dropped ("independent") leaves a new panel behind, and one more chance to err: the i-th panel is
    tested at δ/(i(i+1)), which adds up to δ (docs/certified.md, leavers).
    """

    def __init__(self, rule: Rule, setting: Setting, record: Record) -> None:
        self.setting, self.record = setting, record
        self.absent: NDArray[np.bool_] = np.zeros(setting.agents, bool)
        """Who has left."""
        self.withdrawn: list[int] = []
        """Arms that were taken out."""
        self.number = 1
        """Which panel this is: one more than agents were dropped, whenever that was."""
        self.by_steps = False
        """Whether all who are dropped within one step count as one, as version 1 of a campaign's rules had it."""
        self._dropped = 0
        """How many agents with a weight have been dropped."""
        self._rule = rule
        self._leaving: list[int] = []
        """Agents who will be dropped at the end of the step."""
        self._staying = int(np.count_nonzero(setting.weights))
        """Agents with a weight who have not left for good."""
        self._streams, self._rewards = array("I"), array("I")
        """Every pull in its order, kept only where agents may be dropped."""
        self.state = self._start(record)

    @property
    def left(self) -> list[bool]:
        """Who has left, by agent."""
        left: list[bool] = self.absent.tolist()
        return left

    @property
    def numbered(self) -> bool:
        """Whether this panel's share of δ follows from how many were dropped alone, as the proof needs it."""
        return self.number > self._dropped

    def _rule_of(self, panel: int) -> Rule:
        """Return the rule for the i-th panel; a δ that has become too small is refused."""
        if self.setting.leavers != "independent" or self._rule.delta is None:
            return self._rule
        return replace(self._rule, delta=self._rule.delta / (panel * (panel + 1)))  # type: ignore[type-var]

    def _start(self, record: Record) -> RuleState:
        return self._rule_of(self.number).start(self.setting, record)

    def welcome(self, agents: Any) -> None:
        """Let agents be told of: under "wait" that brings back those who had left, else it is refused."""
        if self.setting.leavers != "wait" and self.absent[agents].any():
            who = int(np.atleast_1d(agents)[np.atleast_1d(self.absent[agents])][0])
            raise InvalidInput(f"agent {who} has left, so its pulls no longer count; do not tell them.")
        self.absent[agents] = False

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Pass one pull on to the record and the rule."""
        if self.setting.leavers == "independent":
            self._streams.append(agent * self.setting.arms + arm)
            self._rewards.append(reward)
        self.record.add(agent, arm, reward)
        self.state.observe(agent, arm, reward)

    def take(self, streams: Words, rewards: Words) -> None:
        """Pass pulls on to the record and the rule, in their order."""
        if self.setting.leavers == "independent":
            self._streams.frombytes(streams.tobytes())
            self._rewards.frombytes(rewards.tobytes())
        self.state.take(streams, rewards)

    def leave(self, agent: int, decided: bool) -> None:
        """Note that an agent has left; once the trial is decided, that changes nothing."""
        if self.absent[agent]:
            return
        decided = decided or self.state.finished
        if not decided and self.setting.leavers == "independent" and self.setting.weights[agent] > 0:
            if self._staying == 1:
                raise InvalidInput("the last agent with a weight cannot leave; end the trial.")
            self._rule_of(self._dropped + len(self._leaving) + 2)
            self._leaving.append(agent)
            self._staying -= 1
        elif not decided and self.setting.leavers == "worst_case":
            self.state.leave(agent)
        self.absent[agent] = True

    def withdraw(self, arm: int) -> None:
        """Take an arm out."""
        self.state.withdraw(arm)
        self.withdrawn.append(arm)

    def renewal(self) -> Work[None]:
        """Drop those who have left, and begin the statistics anew from the first pull of everybody else, in slices."""
        if not self._leaving:
            return
        self.setting = self.setting.without(self._leaving)
        self._dropped += len(self._leaving)
        self._leaving.clear()
        self.number = self.number + 1 if self.by_steps else self._dropped + 1
        state = self._start(Record(self.setting.agents, self.setting.arms))
        streams, rewards = np.frombuffer(self._streams, np.uint32), np.frombuffer(self._rewards, np.uint32)
        for first, last in pieces(len(streams), STREAMS):
            state.take(streams[first:last], rewards[first:last])
            yield
        for arm in self.withdrawn:
            state.withdraw(arm)
        state.record = self.record
        self.state = state

    def grounds(
        self, agent: Callable[[int], str] = "agent {}".format, arm: Callable[[int], str] = "arm {}".format
    ) -> Grounds:
        """Say what a verdict rests on: rule, δ, target, policy, assumptions; ``agent`` and ``arm`` name one."""
        who = listed(np.flatnonzero(self.absent).tolist(), agent)
        waits = self.setting.leavers.replace("_", " ") if self._rule.waits else "nobody is waited for"
        policy = f"{waits}; {who or 'nobody'} left"
        target = self.state.target
        if self.withdrawn:
            target += f"; among the arms that were not withdrawn (withdrawn: {', '.join(map(arm, self.withdrawn))})"
        assumptions = self.state.assumptions
        if self.setting.leavers == "independent":
            policy += f"; panel {self.number}, tested at δ/{self.number * (self.number + 1)}"
            assumptions += ("who leaves, and in which order, has nothing to do with rewards",)
        return Grounds(self.state.title, self._rule.delta, target, policy, assumptions)

    def parts(self) -> dict[str, Any]:
        """Return all that changes, the rule's own included."""
        kept: dict[str, Any] = {
            "weights": self.setting.weights,
            "weighted": self.setting.weighted,
            "absent": self.absent,
            "withdrawn": self.withdrawn,
            "number": self.number,
            "dropped": self._dropped,
            "leaving": self._leaving,
            "streams": np.frombuffer(self._streams, np.uint32),
            "rewards": np.frombuffer(self._rewards, np.uint32),
        }
        return kept | {f"rule.{name}": part for name, part in self.state.parts().items()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned; the record is restored already."""
        self.setting = replace(self.setting, weights=parts["weights"].copy(), weighted=parts["weighted"])
        np.copyto(self.absent, parts["absent"])
        self.withdrawn, self.number, self._leaving = parts["withdrawn"], parts["number"], parts["leaving"]
        self._staying = int(np.count_nonzero(self.setting.weights)) - len(self._leaving)
        gone = int(np.count_nonzero(self.absent & (self.setting.weights == 0.0))) if self.number > 1 else 0
        self._dropped = parts.get("dropped", gone)  # older states do not say; then whoever left without a weight counts
        self._streams = array("I", parts["streams"].tobytes())
        self._rewards = array("I", parts["rewards"].tobytes())
        if self.number > 1:
            self.state = self._start(self.record)
        self.state.restore({name[5:]: part for name, part in parts.items() if name.startswith("rule.")})
