"""`Pairwise` in a trial: streams of blocks, and what is still owed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.numerics import zeros
from freepull.principal.record import BATCH, Record, Words, Work, enter
from freepull.principal.rules.base import STACKS, Setting
from freepull.principal.rules.pairwise.evidence import (
    Books,
    Constants,
    Floats,
    Ints,
    against,
    block_size,
    compare,
    complete,
    eliminate,
    enter_worst,
    fill_spreads,
    fresh,
    lower,
    nearly_best,
    prediction,
)
from freepull.principal.rules.pairwise.evidence import enter as enter_block
from freepull.principal.rules.rounds import OwingState, fill_needed, smallest_gap

if TYPE_CHECKING:
    from freepull.principal.rules.pairwise.rule import Pairwise


ROUNDS = 16
"""Rounds that there is room for at first."""
LARGEST_BLOCK = 2**32 - 1
"""No block is counted as larger; none of this size is ever filled."""


class Blocks(NamedTuple):
    """The block that each stream is filling, by arm and agent."""

    number: Words
    """c."""
    sizes: Words
    missing: Words
    """Samples that it still lacks."""
    before: Ints
    """The sum of rewards before it, in units of 2⁻³⁰."""
    errors: Floats
    """Its Σ(X − x̂)²."""


class Streams:
    """Per stream (arm, agent) how far it is, and the block that is being filled."""

    def __init__(self, arms: int, agents: int, constants: Constants) -> None:
        shape, rounds = (arms, agents), min(ROUNDS, len(constants.levels) - 1)
        self.constants = constants
        self.books: Books = fresh(arms, rounds, constants)
        self.entered: Ints = np.zeros((arms, rounds), np.int64)
        """Blocks that have entered each round."""
        self.blocks = Blocks(
            number=zeros(shape, np.uint32),
            sizes=np.full(shape, constants.first_block, np.uint32),
            missing=np.full(shape, constants.first_block, np.uint32),
            before=zeros(shape, np.int64),
            errors=zeros(shape, np.float64),
        )
        self.stay: NDArray[np.bool_] = constants.weights > 0
        """Agents who are part of the panel and have not left."""
        self.needed = int(self.stay.sum())
        """Blocks that complete a round."""
        self.gone: list[int] = []
        """Agents who left and count by the worst case."""

    def see(self, record: Record, agent: int, arm: int, reward: int) -> None:
        """Put a sample that is in the record already into its block."""
        if not has_room(self.blocks, self.entered, arm, agent):
            self._add_rounds()
        stage = self.blocks, self.entered, self.stay, self.books, self.constants
        see(record.pulls, record.sums, *stage, agent, arm, reward)

    def take(self, record: Record, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and put them into their blocks, in their order."""
        done = 0
        while done < len(streams):
            batch = slice(done, done + BATCH)
            stage = self.blocks, self.entered, self.stay, self.books, self.constants
            done += take(record.pulls, record.sums, record.changes, *stage, streams[batch], rewards[batch])
            record.note(0, record.arms)
            if done < len(streams):
                agent, arm = divmod(int(streams[done]), record.arms)
                if not has_room(self.blocks, self.entered, arm, agent):
                    self._add_rounds()

    def leave(self, agent: int) -> None:
        """Count all blocks that an agent has not filled by the worst case."""
        if not self.stay[agent]:
            return
        self.stay[agent] = False
        self.gone.append(agent)
        for k in range(len(self.entered)):
            for c in range(int(self.blocks.number[k, agent]), self.entered.shape[1]):
                self._enter_worst(k, c, agent)

    def advance(self) -> None:
        """Complete the rounds that all agents have entered."""
        for k, rounds in enumerate(self.books.rounds):
            for c in range(int(rounds), self.entered.shape[1]):
                if self.entered[k, c] < self.needed or len(self.gone) == self.needed:
                    break
                complete(self.books, k)

    def _enter_worst(self, k: int, c: int, m: int) -> None:
        """Enter a missing block; its size, where it is not fixed yet, is the least it could be, the worst case."""
        size = self.blocks.sizes[k, m] if c == self.blocks.number[k, m] else self.constants.levels[c]
        enter_worst(self.books, self.constants, k, c, m, int(size))
        self.entered[k, c] += 1

    def _add_rounds(self) -> None:
        """Make room for as many rounds again, where those who left are missing from the start."""
        K, rounds = self.entered.shape
        self._widen(min(rounds, len(self.constants.levels) - 1 - rounds))
        for m in self.gone:
            for k in range(K):
                for later in range(max(rounds, int(self.blocks.number[k, m])), self.entered.shape[1]):
                    self._enter_worst(k, later, m)

    def _widen(self, rounds: int) -> None:
        """Make room for more rounds."""
        K = len(self.entered)
        more = np.zeros((K, rounds, *self.books.ledger.shape[2:]), np.int64)
        self.books = self.books._replace(ledger=np.concatenate([self.books.ledger, more], axis=1))
        self.entered = np.concatenate([self.entered, np.zeros((K, rounds), np.int64)], axis=1)

    def parts(self) -> dict[str, Any]:
        """Return all that changes."""
        kept = {"streams": self.blocks._asdict(), "books": self.books._asdict()}
        named = {f"{book}.{name}": part for book, fields in kept.items() for name, part in fields.items()}
        return named | {"entered": self.entered, "stay": self.stay, "gone": self.gone}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        self._widen(parts["entered"].shape[1] - self.entered.shape[1])
        for book, kept in (("streams", self.blocks), ("books", self.books)):
            for name, part in kept._asdict().items():
                np.copyto(part, parts[f"{book}.{name}"])
        np.copyto(self.entered, parts["entered"])
        np.copyto(self.stay, parts["stay"])
        self.gone = parts["gone"]


@jit
def has_room(blocks: Any, entered: Any, k: int, m: int) -> Any:
    """Whether the next sample of a stream can be put into its block: a block that it fills needs its round."""
    return blocks.missing[k, m] > 1 or np.int64(blocks.number[k, m]) < entered.shape[1]


@jit
def take(
    pulls: Any, sums: Any, changes: Any, blocks: Any, entered: Any, stay: Any, books: Any, constants: Any, streams: Any,
    rewards: Any,
) -> int:  # fmt: skip
    """Enter pulls into the record and put them into their blocks, until a round lacks; return how many."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        m, k = streams[i] // K, streams[i] % K
        if not has_room(blocks, entered, k, m):
            return i
        enter(pulls, sums, changes, m, k, rewards[i])
        see(pulls, sums, blocks, entered, stay, books, constants, m, k, rewards[i])
    return len(streams)


@jit
def _signed(count: Any) -> Any:
    """Make a count one that can be subtracted."""
    return np.int64(count)


@jit
def see(
    pulls: Any, sums: Any, blocks: Any, entered: Any, stay: Any, books: Any, constants: Any, m: int, k: int, reward: Any
) -> None:
    """Put a sample into its block; a full block enters its round, and the next is sized. The record has it already."""
    if not stay[m]:
        return
    total, n = sums[m, k], _signed(pulls[m, k])
    error = float(reward) * 2.0**-30 - prediction(total - _signed(reward), n - 1)
    blocks.errors[k, m] += error * error
    blocks.missing[k, m] -= 1
    if blocks.missing[k, m] > 0:
        return
    c, size, given = _signed(blocks.number[k, m]), _signed(blocks.sizes[k, m]), total - blocks.before[k, m]
    enter_block(books, constants, k, c, m, size, given, blocks.errors[k, m])
    entered[k, c] += 1
    size = min(block_size(constants.levels[c + 1], total, n, constants.neyman), LARGEST_BLOCK)
    blocks.number[k, m], blocks.before[k, m], blocks.errors[k, m] = c + 1, total, 0.0
    blocks.sizes[k, m] = blocks.missing[k, m] = size


MOST = 700.0
"""Evidence is shown up to e⁷⁰⁰, which is a finite number."""


class PairwiseState(OwingState):
    """Streams, their books, and what the looks have concluded."""

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

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say what has decided the trial."""
        if self.declared is not None:
            return f"it is at most ε = {self.epsilon:g} worse than the best arm by {self.title}"
        return super().claim(arm) + (", or withdrawn" if self.books.withdrawn.any() else "")

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
            validation.index("arm", arm, self.setting.arms)
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
        validation.index("arm", arm, self.setting.arms)
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
