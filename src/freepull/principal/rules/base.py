"""What a rule is: it sees pulls, and says which arms are still in, which pulls it wants, and how much is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput
from freepull.game import TIE
from freepull.messages import Difference
from freepull.principal.record import Record, Words, Work, finish
from freepull.principal.schedules import in_all

RULES = 2
"""The version of what decides, which trials and campaigns keep: rules, offers, bans, people who leave.

Under version 1 the certified rule had the ψ without a. In campaigns, agents who let offers lapse
had left, all who left within one step counted as one, and joining brought withdrawn arms back. That breaks the proofs;
replay does it again, and then the verdict is not certified.
"""


@dataclass(frozen=True)
class Setting:
    """The frame of one trial."""

    arms: int
    agents: int
    horizon: int | None
    weights: NDArray[np.float64]
    weighted: bool
    offers: str
    kappa: int | None = None
    """κ where the schedule knows it beforehand."""
    leavers: str = "wait"
    """What becomes of agents who leave: wait or independent; worst_case in trials that began under `Pairwise`."""
    withdrawal: bool = False
    """Whether arms may be withdrawn."""
    rules: int = RULES
    """The version under which the trial began."""
    unit: int | None = None
    """How many minor units of a currency a bonus of 1 has, where bonuses differ and are money; None: no money."""
    margins: bool = True
    """Whether it is kept by how much arms that go are worse; what decides is the same without."""

    @property
    def expected_kappa(self) -> int | None:
        """κ, or half the horizon where the schedule finds it on the way; None without both."""
        return self.kappa if self.kappa is not None or self.horizon is None else self.horizon // 2

    def without(self, agents: Sequence[int]) -> Setting:
        """Return the panel without some agents: weight 0, and the others' weights in proportion."""
        rest = self.weights.copy()
        rest[list(agents)] = 0.0
        if not rest.sum() > 0:
            raise InvalidInput("the last agent with a weight cannot leave; end the trial.")
        return replace(self, weights=rest / rest.sum(), weighted=True)

    def horizon_for(self, who: str) -> int:
        """Return T, or say that ``who`` cannot do without it."""
        if self.horizon is None:
            raise InvalidInput(
                f"horizon must be a number of steps, because {who} needs it, got None; give one, or take "
                "observe.Steps(n) and a rule that does without."
            )
        return self.horizon


Floats = NDArray[np.float64]
Wanted = NDArray[np.int32]
"""The arm that every agent would be paid for, −1 for none."""

STACKS = (
    "rewards lie in [0, 1]",
    "a paid pull is worth as much as an unpaid one of the same agent and arm",
    "nobody knows the reward of a pull, or part of it, when choosing it",
    "rewards of one agent and arm do not drift, and do not depend on what happened before",
    "no event hits many agents at once",
    "every pull is reported exactly once, whatever came of it, each agent's in their own order",
)
"""What the rules assume that are proven for any adaptive sampling (docs/certified.md, assumptions)."""
ASKED = 0xFFFFFFFF
"""What stands in place of a reward where an agent asks."""
PASSED = 0xFFFFFFFE
"""The same where an agent who has asked made no pull."""
SMALLEST = 1e-100
"""The smallest δ: nothing that is computed from it can then overflow."""


class Want(NamedTuple):
    """A pull that the rule would pay for."""

    agent: int
    arm: int
    need: int
    """How urgent it is: larger is needier."""


class Rule(ABC):
    """The settings of a rule; ``start`` gives its running state."""

    delta: float | None
    """The most that the probability of a wrong certified verdict may be; None if the rule claims nothing."""
    policies: ClassVar[tuple[str, ...]] = ("wait",)
    """The policies for agents who leave that the rule can follow."""
    withdrawals: ClassVar[bool] = False
    """Whether the rule can provide for arms that are withdrawn."""
    grows: ClassVar[bool] = False
    """Whether agents can join a trial that is under way, with everything else as it is and no share of δ."""
    forecasts: ClassVar[bool] = False
    """Whether the rule forecasts what a verdict still takes, and how likely it comes in time."""
    waits: ClassVar[bool] = True
    """Whether nothing goes on while somebody is silent."""
    designates: ClassVar[bool] = False
    """Whether it is settled when a pull is made what it counts for, so that its outcome may come after later ones."""

    @abstractmethod
    def start(self, setting: Setting, record: Record) -> RuleState:
        """Begin a trial; the record is the trial's own and is up to date at every evaluation."""

    def futile(self, setting: Setting) -> str | None:
        """Say why nothing can ever be decided where every agent pulls once a step; None if nothing is known."""
        return None


class RuleState(ABC):
    """A rule at work. It is evaluated at the end of steps and nowhere else.

    A rule has to give `evaluate`, `wants`, `missing` and `bounds`, and `observe` if the record is not all it needs.
    What else there is serves large trials, whose steps are closed in slices, and trials that are saved: `take`,
    `evaluation`, `wanting`, `lacking`, `parts`.
    """

    proven: bool
    """Whether a decision of this rule is proven in this setting."""
    stepwise = True
    """Whether the proof needs that every agent acts at most once a step."""
    title: str
    """How the rule is named in verdicts, with "heuristic" where it is one."""
    assumptions: tuple[str, ...] = ()
    """What a decision assumes, in words; nothing where nothing is proven."""
    leads_by = "the largest global sample mean"
    """What the arm has that is named while nothing is decided."""
    hears_asks = False
    """Whether `asked` does something, so that asks have to be kept in order with pulls."""
    counts_asks = False
    """Whether asks count that come before the last pull was told of."""
    step = 0
    """The last step that has ended; set before every evaluation."""

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

    def asked(self, agent: int) -> None:
        """Learn that an agent asks, before it acts."""
        return

    def passed_over(self, agent: int) -> None:
        """Learn that an agent who asked has made no pull."""
        return

    def acted(self, agent: int, arm: int) -> tuple[int, int]:
        """Say what a pull that is made will count for when its outcome comes; of rules that designate."""
        raise self._lacks("acted")

    def came(self, agent: int, arm: int, sample: tuple[int, int], reward: int | None) -> None:
        """Enter the outcome of a pull into the record, and see it as `acted` has said; None: it will never come.

        Of rules that designate.
        """
        raise self._lacks("came")

    def wanted(self, agent: int) -> int:
        """Return the arm that an agent would be paid for if it asked now, −1 for none; of rules that hear asks."""
        raise self._lacks("wanted")

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and see them, in their order; a stream is agent·K + arm.

        A reward of `ASKED` is none: the agent asks; nor is one of `PASSED`: it asked, and made no pull. Only rules that
        hear asks are given these.
        """
        if type(self).observe is RuleState.observe:
            self.record.add_many(streams, rewards)
            return
        for stream, reward in zip(streams.tolist(), rewards.tolist(), strict=True):
            agent, arm = divmod(stream, self.setting.arms)
            self.record.add(agent, arm, reward)
            self.observe(agent, arm, reward)

    @property
    def target(self) -> str:
        """Whom the rule speaks of, in words."""
        among = int((self.setting.weights > 0).sum())
        how = "the weighted average" if np.ptp(self.setting.weights[self.setting.weights > 0]) > TIE else "the average"
        return f"the panel: {how} over its {among} agent{'s' if among > 1 else ''}"

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say in words what has decided the trial; ``arm`` names one."""
        return f"every other arm was eliminated by {self.title}"

    def differences(self) -> list[Difference]:
        """Return what is known of how much better one arm is than another; nothing where the rule does not bound it."""
        return []

    def nearly_best(self) -> float | None:
        """Return the evidence that the leader is best up to ε, which decides at `goes_at`; None without an ε."""
        return None

    def compared(self) -> list[float | None]:
        """Return every arm's mean in comparisons; nothing where the rule makes none."""
        return []

    @property
    def opened(self) -> int | None:
        """How many comparisons were opened, complete or not; None where the rule makes none."""
        return None

    def survives(self) -> float | None:
        """Return γ*, how far every mean may be moved before a decision loses its proof; None where that is not known.

        It is asked once the trial is decided.
        """
        return None

    def standing(self) -> str:
        """Say in words how things stand while the trial is undecided."""
        count = sum(self.active)
        return f"{count} {'arms are' if count > 1 else 'arm is'} still in under {self.title}"

    def awaits(self, agent: int) -> bool:
        """Say whether the rule cannot go on without a pull of this agent."""
        return False

    def awaited(self, agents: NDArray[np.int64]) -> list[int]:
        """Return those of some agents without whom the rule cannot go on."""
        return [agent for agent in agents.tolist() if self.awaits(agent)]

    def take_over(self, old: RuleState) -> None:
        """Go on where the rule was with fewer agents; only for rules that grow."""
        raise self._lacks("take_over")

    def leave(self, agent: int) -> None:
        """Count an agent who left by the worst case; only for rules with that policy."""
        raise self._lacks("leave")

    def withdraw(self, arm: int) -> None:
        """Take an arm out; only for rules that provide for it."""
        raise self._lacks("withdraw")

    def bar(self, agent: int, arm: int, barred: bool) -> None:
        """Learn that an arm is unavailable to an agent, or is available again; the trial offers nothing for it."""
        return

    @abstractmethod
    def evaluate(self, incentivizing: bool) -> None:
        """Look at the record at the end of a step; ``incentivizing`` from the end of step κ on."""

    def evaluation(self, incentivizing: bool) -> Work[None]:
        """Evaluate in slices."""
        self.evaluate(incentivizing)
        yield

    @abstractmethod
    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """Return the pulls to pay for in the next step, at most one per agent, neediest first."""

    def wanting(self, payable: NDArray[np.bool_], room: int) -> Work[Wanted]:
        """Find the wants in slices, at most ``room`` of them."""
        wanted = np.full(self.setting.agents, -1, np.int32)
        for want in self.wants(payable.tolist())[:room]:
            wanted[want.agent] = want.arm
        yield
        return wanted

    @abstractmethod
    def missing(self) -> list[list[float]]:
        """Return an estimate, per agent and arm, of the pulls still missing for a decision."""

    def lacking(self) -> Work[tuple[float, float]]:
        """Find in slices how many pulls are missing in all, and of the agent who misses most."""
        yield
        return in_all(self.missing())

    @property
    def forecasts(self) -> bool:
        """Whether `still_owed` and `chance` are known."""
        return False

    def still_owed(self) -> Work[float]:
        """Find in slices what is owed until a verdict: in all, or by the agent who owes most if each may be paid."""
        raise self._lacks("still_owed")

    def chance(self, left: int, bonuses: float) -> Work[float]:
        """Find in slices how likely a verdict is in the steps that are left, with so many more bonuses at most."""
        raise self._lacks("chance")

    @abstractmethod
    def bounds(self) -> list[float]:
        """Return what stops the trial, per arm, for traces (the paper's rule: CB_k)."""

    @property
    def goes_at(self) -> float | None:
        """The evidence (`bounds`) at which an arm is eliminated; None where bounds are something else."""
        return None

    def parts(self) -> dict[str, Any]:
        """Return all that changes in a trial, by name: arrays, which `restore` is given back, and plain values."""
        raise self._lacks("parts")

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned; the record is restored already."""
        raise self._lacks("restore")

    def _lacks(self, method: str) -> InvalidInput:
        whats = {"leave": "count leavers by the worst case", "withdraw": "take arms out", "wanted": "hear asks"}
        whats |= dict.fromkeys(("acted", "came"), "settle what a pull counts for when it is made")
        whats |= {"still_owed": "forecast what is owed", "chance": "forecast a verdict"}
        what = (whats | {"take_over": "let agents join"}).get(method, "be saved")
        return InvalidInput(f"{type(self).__name__} must have the method {method}, if trials under it are to {what}.")

    def mean(self, arm: int) -> float:
        """Return the global sample mean."""
        if self.setting.weighted:
            return self.record.weighted_mean(arm, self.setting.weights)
        return self.record.global_mean(arm)

    def means(self) -> Work[Floats]:
        """Find the global sample means of all arms in slices."""
        if self.setting.weighted:
            return (yield from self.record.weighted_means(self.setting.weights))
        return np.array([self.record.global_mean(k) for k in range(self.setting.arms)])

    def leader(self) -> int:
        """Return the active arm with the largest global sample mean; of several, the lowest."""
        means = finish(self.means())
        return max((k for k in range(self.setting.arms) if self.active[k]), key=lambda k: (means[k], -k))
