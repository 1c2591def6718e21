"""The panel: the agents that a trial speaks of, those among them who have left, and the rule for who is there today.

It changes at the end of a step, which is worked on in slices: nothing that agents see changes before its last moment.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput
from freepull.principal.record import STREAMS, Record, Words, Work, finish, pieces
from freepull.principal.rules.base import Rule, RuleState, Setting, Wanted
from freepull.principal.schedules import Adaptive, looks_at
from freepull.principal.verdict import Grounds, listed

if TYPE_CHECKING:
    from freepull.principal.trial import Trial


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


Payable = NDArray[np.bool_]
Shown = tuple[RuleState, list[bool]]
_NOBODY = np.zeros(0, bool)


class Closing:
    """A step that has ended and is being worked on."""

    def __init__(self, trial: Trial, banning: Work[None]) -> None:
        self._trial = trial
        self._later = array("I"), array("I")
        """Pulls that were told meanwhile: streams and rewards."""
        self._shown = self._worked_on = self._view()
        """The rule as it is shown, and as it is worked on."""
        self._work = self._slices(banning, *payable(trial))

    def tell_later(self, streams: bytes, rewards: bytes) -> None:
        """Keep pulls, as 32-bit words, for the next step; so are asks, where the rule hears them."""
        self._later[0].frombytes(streams)
        self._later[1].frombytes(rewards)

    def go_on(self, seconds: float | None) -> bool:
        """Work for about this many seconds, or to the end; return whether it is done."""
        self._show(self._worked_on)
        if seconds is None:
            finish(self._work)
            return True
        until = time.perf_counter() + seconds
        for _ in self._work:
            if time.perf_counter() >= until:
                self._worked_on = self._view()
                self._show(self._shown)
                return False
        return True

    def _slices(self, banning: Work[None], who: Payable, room: int) -> Work[None]:
        """Bans, the rule, the schedule, and whom the rule wants in the next step."""
        trial = self._trial
        t, kappa = trial.steps, trial.kappa
        yield from banning
        yield from trial.panel.renewal()
        trial.rule.step = t
        yield from trial.rule.evaluation(incentivizing=kappa is not None and t >= kappa)
        schedule, waits, futile = trial.principal.observe, trial.waits, trial.futile
        if isinstance(schedule, Adaptive) and schedule.looks(t, trial.setting):
            if trial.rule.forecasts:
                if not trial.rule.decided:
                    waits = not schedule.pays(t, (yield from trial.rule.still_owed()), trial.setting)
                    kappa = t if kappa is None and not waits else kappa
            elif kappa is None:
                total, most = yield from trial.rule.lacking()
                if schedule.due(t, total, most, trial.setting):
                    kappa = t
                    yield from trial.rule.evaluation(incentivizing=True)
        if trial.principal.futility > 0.0 and kappa is not None and t >= kappa and not trial.rule.decided:
            T = trial.setting.horizon_for("futility")
            if looks_at(t, T, trial.setting.arms):
                futile = (yield from trial.rule.chance(T - t, trial.offers.pays_for)) < trial.principal.futility
        decided = trial.rule.decided
        wanted = None if decided or waits or futile else (yield from wanting(trial, who, room, kappa))
        while self._later[0]:
            streams, rewards = (np.array(kept, np.uint32) for kept in self._later)
            self._later = array("I"), array("I")
            for first, last in pieces(len(streams), STREAMS):
                trial.panel.take(streams[first:last], rewards[first:last])
                yield
        trial.kappa, trial.decided_at = kappa, t if decided else None
        trial.waits, trial.futile = waits, futile
        trial.offers.begin(t + 1, trial.setting.horizon)
        trial.offers.replace(wanted, trial.panel.absent)

    def _view(self) -> Shown:
        state = self._trial.panel.state
        return state, state.active

    def _show(self, view: Shown) -> None:
        panel = self._trial.panel
        panel.state, panel.state.active = view


def payable(trial: Trial) -> tuple[Payable, int]:
    """Say who could get an offer, bans aside, and how many; none where one is open that must be the only one."""
    if trial.kappa is not None and trial.steps < trial.kappa:
        return _NOBODY, 0
    who = trial.offers.open < 0
    if np.count_nonzero(trial.panel.absent):
        who &= ~trial.panel.absent
    if trial.resting:
        who[list(trial.resting)] = False
    return who, 0 if trial.offers.taken_up else trial.offers.room


def wanting(trial: Trial, who: Payable, room: int, kappa: int | None) -> Work[Wanted | None]:
    """Find who is wanted for what in the coming step; short of money, the neediest come first.

    Whoever is wanted for an arm that is unavailable to it is passed over in this step, for whoever comes next.
    """
    if trial.over or kappa is None or trial.steps < kappa or room < 1:
        return None
    if trial.rule.hears_asks and not trial.offers.one:
        return None  # found at every ask
    if np.count_nonzero(trial.bans.until):
        who = who & (trial.bans.until <= trial.steps)
    while True:
        wanted = yield from trial.rule.wanting(who, room)
        barred = [agent for agent, arm in trial.unavailable if wanted[agent] == arm]
        if not barred:
            return wanted
        who = who.copy()
        who[barred] = False
