"""The streams of a live trial: every sample enters its block, and a full block enters its round; O(KM) of memory.

A stream takes 28 bytes here; its pulls and the sum of its rewards are the record's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.numerics import zeros
from freepull.principal.record import BATCH, Record, Words, enter
from freepull.principal.rules.pairwise.blocks import block_size, prediction
from freepull.principal.rules.pairwise.books import Books, Constants, Floats, Ints, complete, enter_worst, fresh
from freepull.principal.rules.pairwise.books import enter as enter_block

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
