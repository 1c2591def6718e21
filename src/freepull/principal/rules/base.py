"""What a rule is: it sees pulls, and says which arms are still in, which pulls it wants, and how much is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from freepull.game import TIE
from freepull.principal.record import Record
from freepull.principal.setting import Setting

STACKS = (
    "rewards lie in [0, 1], independent and of one law within a stream (arm, agent); streams are independent",
    "no agent knows this pull's reward in advance, and every pull is reported, in the agent's own order",
    "no shock is common to many agents",
)
"""What the rules assume that are proven for any adaptive sampling."""


class Want(NamedTuple):
    """A pull that the rule would pay for."""

    agent: int
    arm: int
    need: int
    """How urgent it is: larger is needier."""


class Rule(ABC):
    """The settings of a rule; ``start`` gives its running state."""

    delta: float | None
    """The error probability that the rule allows, None if it claims nothing."""
    policies: ClassVar[tuple[str, ...]] = ("wait",)
    """The policies for agents who leave that the rule can follow."""
    withdrawals: ClassVar[bool] = False
    """Whether the rule can provide for arms that are withdrawn."""

    @abstractmethod
    def start(self, setting: Setting, record: Record) -> RuleState:
        """Begin a trial; the record is the trial's own and is up to date at every evaluation."""


class RuleState(ABC):
    """A rule at work. It is evaluated at the end of steps and nowhere else."""

    proven: bool
    """Whether a decision of this rule is proven in this setting."""
    stepwise = True
    """Whether the proof needs that every agent acts at most once a step."""
    title: str
    """How the rule is named in verdicts, with "heuristic" where it is one."""
    assumptions: tuple[str, ...] = ()
    """What a decision assumes, in words."""

    def __init__(self, setting: Setting, record: Record) -> None:
        self.setting, self.record = setting, record
        self.active = [True] * setting.arms

    @property
    def decided(self) -> bool:
        """Whether one arm is left."""
        return sum(self.active) == 1

    @property
    def finished(self) -> bool:
        """Whether the rule will never look again, decided or not."""
        return False

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """See one pull, its reward in units of 2⁻³⁰, in the order of the stream; the record has it already."""
        return

    @property
    def target(self) -> str:
        """Whom the rule speaks of, in words."""
        among = int((self.setting.weights > 0).sum())
        how = "the weighted average" if np.ptp(self.setting.weights[self.setting.weights > 0]) > TIE else "the average"
        return f"the panel: {how} over its {among} agent{'s' if among > 1 else ''}"

    def claim(self) -> str:
        """Say in words what has decided the trial."""
        return f"every other arm was eliminated by {self.title}"

    def standing(self) -> str:
        """Say in words how things stand while the trial is undecided."""
        count = sum(self.active)
        return f"{count} arms are still in under {self.title}; this one has the largest global sample mean"

    def awaits(self, agent: int) -> bool:
        """Say whether the rule cannot go on without a pull of this agent."""
        return False

    def leave(self, agent: int) -> None:
        """Count an agent who left by the worst case; only for rules with that policy."""
        raise NotImplementedError

    def withdraw(self, arm: int) -> None:
        """Take an arm out; only for rules that provide for it."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, incentivizing: bool) -> None:
        """Look at the record at the end of a step; ``incentivizing`` from the end of step κ on."""

    @abstractmethod
    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """Return the pulls to pay for in the next step, at most one an agent, neediest first."""

    @abstractmethod
    def missing(self) -> list[list[float]]:
        """Return an estimate, per agent and arm, of the pulls still missing for a decision."""

    @abstractmethod
    def bounds(self) -> list[float]:
        """Return what stops the trial, per arm, for traces (the paper's rule: CB_k)."""

    def mean(self, arm: int) -> float:
        """Return the global sample mean."""
        if self.setting.weighted:
            return self.record.weighted_mean(arm, self.setting.weights)
        return self.record.global_mean(arm)

    def leader(self) -> int:
        """Return the active arm with the largest global sample mean; of several, the lowest."""
        return max((k for k in range(self.setting.arms) if self.active[k]), key=lambda k: (self.mean(k), -k))
