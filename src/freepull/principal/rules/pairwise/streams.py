"""The streams of a live trial: every sample enters its block, and a full block enters its round; O(KM) of memory."""

from __future__ import annotations

import numpy as np

from freepull.principal.record import UNITS
from freepull.principal.rules.pairwise.blocks import block_size, prediction
from freepull.principal.rules.pairwise.books import Books, Constants, complete, enter, enter_worst, fresh


class Streams:
    """Per stream (arm, agent) how far it is, and the block that is being filled."""

    def __init__(self, arms: int, agents: int, constants: Constants) -> None:
        K, M = arms, agents
        self.constants = constants
        self.books: Books = fresh(K, 16, constants)
        self.pulls = np.zeros((K, M), np.int64)
        self.sums = np.zeros((K, M), np.int64)
        """Rewards so far, in units of 2⁻³⁰."""
        self.index = np.zeros((K, M), np.int64)
        """c, the block that is being filled."""
        self.blocks = np.full((K, M), constants.first_block, np.int64)
        self.missing = self.blocks.copy()
        """Samples that the block still lacks."""
        self.before = np.zeros((K, M), np.int64)
        """The sum of rewards before the block."""
        self.errors = np.zeros((K, M))
        """Σ(X − x̂)² of the block."""
        self.entered = np.zeros((K, 16), np.int64)
        """Blocks that have entered each round."""
        self.panel = constants.weights > 0
        self.gone: list[int] = []
        """Agents who left and count by the worst case."""

    def stays(self, agent: int) -> bool:
        """Say whether an agent is part of the panel and has not left."""
        return bool(self.panel[agent]) and agent not in self.gone

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Put a sample into its block; a full block enters its round, and the next one is sized."""
        k, m = arm, agent
        if not self.stays(m):
            return
        total, pulls = int(self.sums[k, m]), int(self.pulls[k, m])
        error = reward / UNITS - prediction(total, pulls)
        self.errors[k, m] += error * error
        total, pulls = total + reward, pulls + 1
        self.sums[k, m], self.pulls[k, m] = total, pulls
        self.missing[k, m] -= 1
        if self.missing[k, m] > 0:
            return
        c, block = int(self.index[k, m]), int(self.blocks[k, m])
        self._open(c)
        enter(self.books, self.constants, k, c, m, block, total - int(self.before[k, m]), float(self.errors[k, m]))
        self.entered[k, c] += 1
        level = int(self.constants.levels[c + 1])
        self.index[k, m], self.before[k, m], self.errors[k, m] = c + 1, total, 0.0
        self.blocks[k, m] = self.missing[k, m] = block_size(level, total, pulls, self.constants.neyman)

    def leave(self, agent: int) -> None:
        """Count all blocks that an agent has not filled by the worst case."""
        if not self.stays(agent):
            return
        self.gone.append(agent)
        for k in range(len(self.index)):
            for c in range(int(self.index[k, agent]), self.entered.shape[1]):
                self._enter_worst(k, c, agent)

    def advance(self) -> None:
        """Complete the rounds that all agents have entered."""
        needed = int(self.panel.sum())
        for k, rounds in enumerate(self.books.rounds):
            for c in range(int(rounds), self.entered.shape[1]):
                if self.entered[k, c] < needed or len(self.gone) == needed:
                    break
                complete(self.books, k)

    def _enter_worst(self, k: int, c: int, m: int) -> None:
        """Enter a missing block; its size, where it is not fixed yet, is the least it could be, the worst case."""
        size = self.blocks[k, m] if c == self.index[k, m] else self.constants.levels[c]
        enter_worst(self.books, self.constants, k, c, m, int(size))
        self.entered[k, c] += 1

    def _open(self, c: int) -> None:
        """Make room for a round, where those who left are missing from the start."""
        K, rounds = self.entered.shape
        if c < rounds:
            return
        more = np.zeros((K, rounds, *self.books.ledger.shape[2:]), np.int64)
        self.books = self.books._replace(ledger=np.concatenate([self.books.ledger, more], axis=1))
        self.entered = np.concatenate([self.entered, np.zeros((K, rounds), np.int64)], axis=1)
        for m in self.gone:
            for k in range(K):
                for later in range(max(rounds, int(self.index[k, m])), 2 * rounds):
                    self._enter_worst(k, later, m)
