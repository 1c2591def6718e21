"""The rule for people as they are: silent, leaving, refusing, each at their own pace (docs/comparisons.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.messages import Difference
from freepull.numerics import zeros
from freepull.principal.record import BATCH, NO_SAMPLE, Record, Words, enter
from freepull.principal.rules.base import ASKED, PASSED, SMALLEST, STACKS, Rule, RuleState, Setting, Want
from freepull.principal.rules.comparisons.book import (
    IN,
    NONE,
    OPENED,
    READ,
    READERS,
    WHOLE,
    WIDTH,
    WITHDRAWN,
    Constants,
    designate,
    fill,
    fresh,
    is_due,
    leading,
    least,
    look,
    lower_bound,
    renew_predictions,
    settle,
    strongest,
    tipping_point,
    total_of,
)
from freepull.principal.rules.comparisons.openings import hear, judge_guesses, pass_over, wanted, worth_paying
from freepull.registry import part

ASKING = "whoever acts has asked first, once for every pull"
REPORTING = "whoever asks has told of every pull made before"
UNLIMITED = (1 << 31) - 1
RARE = ("under_way", "barred")
"""What the book has no rows of before they are needed."""


@part("rule", "comparisons", kernel=5, most_arms=500, late_joiners=True)
@dataclass(frozen=True)
class Comparisons(Rule):
    """Compares arms within people, whoever comes, however often, and whoever leaves: **proven** at every time.

    A comparison belongs to one agent: its next pull of every arm that is still in. It is opened when the agent asks,
    before it acts, and what is missing of it counts at its worst. With probability at least 1 − δ every statement "over
    the first n comparisons, arm j was better than arm k on average" is true, at all times and for all pairs at once.

    Parameters
    ----------
    delta
        The most that the probability of a wrong certified verdict may be, in (0, 1).
    epsilon
        Stop as soon as an arm is proven to be at most this much worse than every other one that is still in; 0: when
        one arm is left.
    cap
        The most comparisons that one agent may have, so that few people do not speak for all; None: any number.
    late
        Whether outcomes may come late, after the agent has asked again. Then every ask counts as a pull that may be
        under way until it is told of, and of whoever asks and does nothing you must say so: `Trial.pass_over`, and
        ``pass_over`` of a campaign.

    >>> Comparisons(delta=0.05, epsilon=0.02)
    Comparisons(delta=0.05, epsilon=0.02, cap=None, late=False)
    """

    withdrawals: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    waits: ClassVar[bool] = False
    designates: ClassVar[bool] = True

    delta: float = 0.05
    epsilon: float = 0.0
    cap: int | None = None
    late: bool = False

    def __post_init__(self) -> None:
        validation.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        validation.keep_real(self, "epsilon", 0.0, 1.0)
        if self.cap is not None:
            validation.keep_whole(self, "cap", 1, UNLIMITED)

    def constants(self, setting: Setting) -> Constants:
        """Return all that is fixed before the first pull: θ = K(K−1)/δ, and w_m = p_m/max p."""
        K, p = setting.arms, setting.weights
        weights = np.rint(p / p.max() * WHOLE).astype(np.int64)
        threshold = math.log(K * (K - 1) / self.delta)
        return Constants(weights, threshold, self.epsilon, self.cap or UNLIMITED, self.late, setting.horizon or 0)

    def start(self, setting: Setting, record: Record) -> ComparisonsState:
        """Begin a trial."""
        return ComparisonsState(self, setting, record)


@jit
def take(book: Any, constants: Any, pulls: Any, sums: Any, changes: Any, step: int, streams: Any, rewards: Any) -> None:
    """Hear asks, enter pulls into the record, and count those that a comparison lacks, in their order."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        m, k = int(streams[i] // K), int(streams[i] % K)
        if rewards[i] == ASKED:
            hear(book, constants, 0, m, m, pulls[m], sums[m], step)
        elif rewards[i] == PASSED:
            pass_over(book, m)
        else:
            enter(pulls, sums, changes, m, k, rewards[i])
            fill(book, constants, 0, m, m, k, np.int64(rewards[i]))


class ComparisonsState(RuleState):
    """The book of one trial. An agent takes 11 bytes here, and one for every arm."""

    proven = True
    stepwise = False
    hears_asks = True
    leads_by = "the largest mean in comparisons"

    def __init__(self, rule: Comparisons, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        self.epsilon, self.constants = rule.epsilon, rule.constants(setting)
        self.book = fresh(1, setting.agents, setting.arms)
        self.counts_asks = rule.late
        self._goes_at = setting.arms * (setting.arms - 1) / rule.delta
        self.declared: int | None = None
        """The arm that is best up to ε, once there is one."""
        up_to = f" up to ε = {rule.epsilon:g}" if rule.epsilon > 0 else ""
        self.title = f"comparisons within people at δ = {rule.delta:g}{up_to} (proven)"
        self.assumptions = (*STACKS, ASKING if rule.late else REPORTING)

    @property
    def decided(self) -> bool:
        """Whether one arm is left, or one is best up to ε."""
        return self.declared is not None or sum(self.active) == 1

    @property
    def target(self) -> str:
        """The comparisons that were opened, not the panel."""
        comparisons, people = self.extent
        how = "weighted average" if self.setting.weighted else "average"
        opened = f"{comparisons:,} of {self.opened:,} comparisons opened"
        return f"the {how} over the first {opened}, of {people:,} agents"

    @property
    def extent(self) -> tuple[int, int]:
        """How many comparisons the last look has read, and of how many agents."""
        return int(self.book.counts[0, READ]), int(self.book.counts[0, READERS])

    @property
    def opened(self) -> int:
        """How many comparisons were opened, complete or not."""
        return int(self.book.counts[0, OPENED])

    def asked(self, agent: int) -> None:
        """Open a comparison, if that is likely to be completed."""
        pulls, sums = self.record.pulls[agent], self.record.sums[agent]
        hear(self.book, self.constants, 0, agent, agent, pulls, sums, self.step)

    def passed_over(self, agent: int) -> None:
        """Forget that the agent has asked."""
        pass_over(self.book, agent)

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Count the pull as the sample that is lacking, if it is."""
        fill(self.book, self.constants, 0, agent, agent, arm, reward)

    def acted(self, agent: int, arm: int) -> tuple[int, int]:
        """Say of which comparison a pull that is made is the sample, and of which edition its predictions are."""
        if not len(self.book.under_way):
            self.book = self.book._replace(under_way=zeros(self.record.pulls.shape, np.uint16))
        self.book.under_way[agent, arm] += 1
        if not designate(self.book, self.constants, 0, agent, arm):
            return NO_SAMPLE
        return int(self.book.place[agent]), int(self.book.edition[agent])

    def came(self, agent: int, arm: int, sample: tuple[int, int], reward: int | None) -> None:
        """Enter the outcome of an earlier pull, and put it where it was missing; there it stays if it never comes."""
        self.book.under_way[agent, arm] -= 1
        if reward is None:
            return
        self.record.add(agent, arm, reward)
        if sample != NO_SAMPLE:
            settle(self.book, self.constants, 0, agent, *sample, arm, reward)

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls and asks, in their order."""
        record = self.record
        for first in range(0, len(streams), BATCH):
            some = slice(first, first + BATCH)
            take(
                self.book, self.constants, record.pulls, record.sums, record.changes, self.step, streams[some],
                rewards[some],
            )  # fmt: skip
            record.note(0, record.arms)

    def evaluate(self, incentivizing: bool) -> None:
        """Look, if there is news enough."""
        renew_predictions(self.book, 0)
        judge_guesses(self.book, 0)
        if not self.decided and is_due(self.book, 0):
            found = look(self.book, self.constants, 0)
            self.declared = None if found == NONE else int(found)
            self.active = (self.book.active[0] == IN).tolist()

    def wanted(self, agent: int) -> int:
        """Return the arm that an agent would be paid for if it asked now, −1 for none."""
        if not worth_paying(self.book, self.constants, 0, self.step):
            return NONE
        return int(wanted(self.book, 0, agent, self.record.pulls[agent], self.record.sums[agent]))

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """Oldest comparisons first; one of them if there is one offer a step."""
        found = [(int(self.book.place[m]), m, self.wanted(m)) for m, may in enumerate(payable) if may]
        opened = len(found) and int(self.book.place.max())
        wants = [Want(m, arm, opened - place) for place, m, arm in sorted(found) if arm != NONE]
        return wants if self.setting.offers == "each" else wants[:1]

    def missing(self) -> list[list[float]]:
        """What open comparisons lack."""
        lacks = self.book.lacks * np.array(self.active, np.uint8)
        rows: list[list[float]] = lacks.astype(float).tolist()
        return rows

    def withdraw(self, arm: int) -> None:
        """Take an arm out; one to which others fell stays, because nothing else speaks against them."""
        victims = [k for k in range(self.setting.arms) if self.book.fell[0, k, 0] == arm]
        if victims:
            raise InvalidInput(
                f"arm {arm} cannot be withdrawn, because arm {victims[0]} fell to it; stop here and begin anew."
            )
        if not self.active[arm]:
            raise InvalidInput(f"arm {arm} cannot be withdrawn, because it is out already.")
        if sum(self.active) == 1:
            raise InvalidInput("the last arm cannot be withdrawn; stop the trial.")
        self.book.active[0, arm] = WITHDRAWN
        self.active = (self.book.active[0] == IN).tolist()

    def bar(self, agent: int, arm: int, barred: bool) -> None:
        """Open nothing for an agent to whom an arm that is still in is unavailable, and pay it for others alone."""
        if not len(self.book.barred):
            self.book = self.book._replace(barred=zeros(self.record.pulls.shape, np.uint8))
        self.book.barred[agent, arm] = barred

    def leader(self) -> int:
        """Return the arm that is best up to ε, or the active one whose samples have the largest mean."""
        return int(leading(self.book, 0)) if self.declared is None else self.declared

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say what is proven, over which comparisons, of how many people."""
        said = [
            f"over the first {it.comparisons:,} comparisons opened, of {it.people:,} agents, {arm(int(it.arm))} was "
            f"better than {arm(int(it.than))} on average, by {math.floor(1e4 * it.low) / 1e4:.4f} or more"
            for it in self._fallen()
        ]
        if self.declared is not None and sum(self.active) > 1:
            n, people = self.extent
            opened = "" if said else " comparisons opened"  # it was said what these are
            said.append(
                f"over the first {n:,}{opened}, of {people:,} agents, {arm(self.declared)} was at most "
                f"{self.epsilon:g} worse than any other arm still in (evidence {self.nearly_best():.4g}, "
                f"{self.goes_at:.4g} needed)"
            )
        return "; ".join([*(said or ["every other arm was withdrawn"]), *self._disagreement(arm)]) + f" ({self.title})"

    def standing(self) -> str:
        """Say how many arms are in, and how far the leader is from being best up to ε."""
        found = self.nearly_best()
        if found is None:
            return super().standing()
        near = f"that the leader is best up to ε has evidence {found:.4g}, {self.goes_at:.4g} needed"
        return f"{super().standing()}; {near}"

    def nearly_best(self) -> float | None:
        """The least of E_lk(n; −ε) over the other arms still in, for the leader l, as the last look has read it."""
        if self.epsilon == 0 or self.book.counts[0, READ] == 0 or sum(self.active) == 1:
            return None
        return math.exp(min(least(self.book, self.constants, 0, self.leader()), 700.0))

    def compared(self) -> list[float | None]:
        """Every arm's mean over the samples that have come."""
        found = [total_of(self.book, 0, k) for k in range(self.setting.arms)]
        return [float(total / came) if came > 0 else None for total, came in found]

    def survives(self) -> float | None:
        """γ*, where rewards are 0 and 1."""
        return tipping_point(self.book, self.constants, 0, self.leader())

    def differences(self) -> list[Difference]:
        """Bound what the leader has over every arm still in, as the last look has read it, and what others fell by.

        With probability at least 1 − δ all of these hold, at all times.
        """
        return self._bounded() + self._fallen()

    def _bounded(self) -> list[Difference]:
        if self.book.counts[0, READ] == 0:
            return []
        leader, (n, people) = self.leader(), self.extent
        return [
            Difference(
                arm=leader,
                than=k,
                low=lower_bound(self.book, self.constants, 0, leader, k),
                high=-lower_bound(self.book, self.constants, 0, k, leader),
                comparisons=n,
                people=people,
                seen=self._seen(leader, k),
            )
            for k in range(self.setting.arms)
            if k != leader and self.active[k]
        ]

    def _seen(self, first: int, second: int) -> float | None:
        """Return how far the means of what came of comparisons are apart."""
        (one, n), (other, m) = (total_of(self.book, 0, k) for k in (first, second))
        return float(one / n - other / m) if min(n, m) > 0 else None

    def _fallen(self) -> list[Difference]:
        fell, margins = self.book.fell[0].tolist(), self.book.margins[0].tolist()
        return [
            Difference(by, k, margins[k][0], margins[k][1], n, people)
            for k, (by, n, people) in enumerate(fell)
            if by != NONE
        ]

    def _disagreement(self, arm: Callable[[int], str]) -> list[str]:
        """Say so if the two leading arms differ otherwise in the second half of the comparisons than in the first."""
        arms = np.flatnonzero(self.book.active[0] != WITHDRAWN).tolist()
        if len(arms) < 2:
            return []
        means = {k: total / max(came, 1.0) for k in arms for total, came in [total_of(self.book, 0, k)]}
        first, second = sorted(arms, key=lambda k: (-means[k], k))[:2]
        counts = self.book.counts[0]
        half = (int(counts[OPENED]) // int(counts[WIDTH]) + 1) // 2
        found, variance = [], 0.0
        for blocks in (slice(0, half), slice(half, None)):
            came, sums = (part[0, blocks].sum(axis=0) / WHOLE for part in (self.book.came, self.book.sums))
            if min(came[first], came[second]) < 1:
                return []
            found.append(sums[first] / came[first] - sums[second] / came[second])
            variance += sum(
                max(m * (1 - m), 0.01) / n for m, n in ((sums[k] / came[k], came[k]) for k in (first, second))
            )
        if abs(found[0] - found[1]) <= 3 * math.sqrt(variance):
            return []
        early, late = (f"{it:+.3f}" for it in found)
        return [
            f"early and late comparisons disagree: {arm(first)} against {arm(second)} {early} in the first half, "
            f"{late} in the second"
        ]

    @property
    def goes_at(self) -> float:
        """θ = K(K−1)/δ."""
        return self._goes_at

    def bounds(self) -> list[float]:
        """The largest evidence against every arm at the last look; of an arm that is out, when it went."""
        evidence = self.book.evidence[0]
        found = [float(evidence[strongest(self.book, 0, k), k]) for k in range(self.setting.arms)]
        return [math.exp(min(log, 700.0)) for log in found]

    def evidence(self) -> list[float]:
        """Return the largest evidence against every arm, as `bounds` does."""
        return self.bounds()

    def parts(self) -> dict[str, Any]:
        """Return the book."""
        declared = NONE if self.declared is None else self.declared
        plain = {"declared": declared, "active_arms": self.active, "step": self.step}
        weights = {"weights": self.constants.weights} if self.setting.weighted else {}
        return self.book._asdict() | plain | weights

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        known = {name: getattr(self.book, name) for name in RARE} | parts
        self.book = self.book._replace(**{name: known[name].copy() for name in RARE})
        for name, own in self.book._asdict().items():
            np.copyto(own, known[name])
        self.declared = None if parts["declared"] == NONE else parts["declared"]
        self.active, self.step = parts["active_arms"], parts["step"]
        np.copyto(self.constants.weights, parts.get("weights", self.constants.weights))

    def take_over(self, old: RuleState) -> None:
        """Go on with more agents, who have the weights that they would have had from the beginning."""
        assert isinstance(old, ComparisonsState)
        weights, before = self.constants.weights, old.constants.weights
        if int(weights[: len(before)].max()) < WHOLE:
            raise InvalidInput("weights of agents who join must be at most the largest there is.")
        weights[: len(before)] = before
        for name in RARE:
            theirs = getattr(old.book, name)
            if len(theirs):
                self.book = self.book._replace(**{name: zeros(self.record.pulls.shape, theirs.dtype)})
        for name, theirs in old.book._asdict().items():
            getattr(self.book, name)[: len(theirs)] = theirs
        self.active, self.declared, self.step = old.active, old.declared, old.step
