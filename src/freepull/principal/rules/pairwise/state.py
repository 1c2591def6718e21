"""The pairwise rule at work: looks at rounds that are complete, who is out, and what is wanted next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal.record import Record, Words
from freepull.principal.rules.base import STACKS
from freepull.principal.rules.need import fill_needed
from freepull.principal.rules.owing import Ints, OwingState
from freepull.principal.rules.pairwise.books import Books, Floats
from freepull.principal.rules.pairwise.evidence import against, compare, eliminate, fill_spreads, lower, nearly_best
from freepull.principal.rules.pairwise.streams import Streams
from freepull.principal.rules.window import smallest_gap
from freepull.principal.setting import Setting
from freepull.principal.work import Work

if TYPE_CHECKING:
    from freepull.principal.rules.pairwise.rule import Pairwise

MOST = 700.0
"""Evidence is shown up to e⁷⁰⁰, which is a finite number."""


class PairwiseState(OwingState):
    """Streams, their books, and what the looks have concluded."""

    proven = True
    stepwise = False
    assumptions = STACKS

    def __init__(self, rule: Pairwise, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        self.delta, self.epsilon = rule.delta, float(rule.epsilon)
        self.title = f"the pairwise rule at δ = {rule.delta:g} (proven)"
        self.constants = rule.constants(setting)
        self.streams = Streams(setting.arms, setting.agents, self.constants)
        self.declared: int | None = None
        """The arm that was declared best up to ε, if that has stopped the trial."""

    @property
    def books(self) -> Books:
        """The sums over agents, by arm and round."""
        return self.streams.books

    @property
    def decided(self) -> bool:
        """Whether one arm is left, or the leader is proven to be best up to ε."""
        return self.declared is not None or sum(self.active) == 1

    @property
    def target(self) -> str:
        """The panel, and up to which ε."""
        return super().target + (f"; the best arm up to ε = {self.epsilon:g}" if self.epsilon > 0 else "")

    def claim(self) -> str:
        """Say what has decided the trial."""
        if self.declared is not None:
            return f"it is at most ε = {self.epsilon:g} worse than the best arm by {self.title}"
        return super().claim() + (", or withdrawn" if self.books.withdrawn.any() else "")

    def leader(self) -> int:
        """Return the arm that was declared, or else the active one with the largest global sample mean."""
        return super().leader() if self.declared is None else self.declared

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Put a sample into its block."""
        self.streams.see(self.record, agent, arm, reward)

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and put them into their blocks, in their order."""
        self.streams.take(self.record, streams, rewards)

    def leave(self, agent: int) -> None:
        """Count what an agent has not given by the worst case."""
        self.streams.leave(agent)

    def withdraw(self, arm: int) -> None:
        """Take an arm out; arms that only withdrawn ones had enough against return."""
        books, arms = self.books, range(self.setting.arms)
        if books.withdrawn[arm]:
            raise InvalidInput("this arm is withdrawn already; withdraw another one, or none.")
        if sum(books.withdrawn) == self.setting.arms - 1:
            raise InvalidInput("the last arm cannot be withdrawn, because at least one must stay; end the trial.")
        books.withdrawn[arm], books.active[arm] = 1, 0
        stay = [k for k in arms if not books.withdrawn[k]]
        for k in stay:
            if not any(books.beaten[j, k] for j in stay if j != k):
                books.active[k] = 1
        if not books.active.any():
            books.active[min(stay, key=lambda k: (against(books, k), k))] = 1
        self._note_active()

    def evaluate(self, incentivizing: bool) -> None:
        """Look at the rounds that were completed since the last look, if there are any."""
        self.streams.advance()
        if not compare(self.books, self.constants):
            return
        left = eliminate(self.books, self.constants)
        self._note_active()
        if left > 1 and self.epsilon > 0 and nearly_best(self.books, self.constants, super().leader()):
            self.declared = super().leader()

    def _note_active(self) -> None:
        self.active = [bool(alive == 1) for alive in self.books.active]

    def lower(self, j: int, k: int) -> float:
        """Return a lower confidence bound of μ_j − μ_k; a pair holds at δ/(K−1), those of one k together at δ."""
        for arm in (j, k):
            checks.index("arm", arm, self.setting.arms)
        return 0.0 if j == k else float(lower(self.books, self.constants, j, k))

    def evidence(self) -> list[float]:
        """Return the largest evidence against every arm, max_j E_jk(c; 0): an arm goes at (K−1)/δ."""
        return self.bounds()

    def lower_bounds(self) -> Floats:
        """Return the bounds of all pairs, j by row and k by column; all together they hold at K·δ."""
        arms = range(self.setting.arms)
        return np.array([[self.lower(j, k) for k in arms] for j in arms])

    def within(self, arm: int) -> float:
        """Return how much worse than the best an arm is at most; for all arms and times together at δ."""
        checks.index("arm", arm, self.setting.arms)
        rivals = [self.lower(arm, j) for j in range(self.setting.arms) if self.active[j] and j != arm]
        return max(0.0, -min(rivals, default=0.0))

    def owed_by(self, agents: Any) -> Ints:
        """Return what streams lack of the lowest round that some active arm has not completed."""
        blocks, active = self.streams.blocks, np.array(self.active)
        lowest = self.books.rounds[active].min()
        lacks = (blocks.number[:, agents] <= lowest) & active[:, None] & self.streams.stay[agents]
        return np.asarray((blocks.missing[:, agents] * lacks).T.astype(np.int64))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Agents who are part of the panel and have not left."""
        return self.streams.stay

    def needed(self) -> Work[Floats]:
        """n_k from the sample means so far (`fill_needed`) with β = the log of the threshold + 2."""
        spreads, needed = np.zeros(self.setting.arms), np.zeros(self.setting.arms)
        fill_spreads(self.books, self.constants, spreads)
        means = yield from self.means()
        smallest = smallest_gap(self.setting, self.delta)
        fill_needed(needed, means, self.books.active, spreads, self.constants.threshold + 2.0, smallest)
        return needed

    def parts(self) -> dict[str, Any]:
        """Return the streams, their books, and what was declared."""
        return self.streams.parts() | {"declared": self.declared}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        self.streams.restore(parts)
        self.declared = parts["declared"]
        self._note_active()

    @property
    def goes_at(self) -> float:
        """(K−1)/δ, or K(K−1)/2δ where arms may be withdrawn."""
        return math.exp(min(self.constants.threshold, MOST))

    def bounds(self) -> list[float]:
        """The largest evidence against every arm, as a finite number."""
        return [math.exp(min(float(against(self.books, k)), MOST)) for k in range(self.setting.arms)]
