"""Samples that wait for their round, unread: one queue a stream, all in one pool of 8 bytes a sample.

A queue is a ring of links: its tail points to its head. Node 0 is nobody's, so that 0 means no node.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.numerics import jit

Words = NDArray[np.uint32]
Ints = NDArray[np.int64]
OWING, FREE, TOP = range(3)
"""Entries of ``Queues.tally``: streams that owe something to the coming round, the first node that was given back, and
the first that was never used."""
LEAST, MOST = 1 << 10, 1 << 20
"""Nodes that are added at once: an eighth of what there is, within these limits."""


class Queues(NamedTuple):
    """What compiled functions see."""

    tails: Words
    """The last node of every stream's queue, by arm and agent."""
    rewards: Words
    """In units of 2⁻³⁰."""
    links: Words
    tally: Ints


class Waiting:
    """The pool, which grows in place: a large array of this kind is moved by the system, not copied."""

    def __init__(self, arms: int, agents: int) -> None:
        self.tails: Words = np.zeros((arms, agents), np.uint32)
        self.tally: Ints = np.array([0, 0, 1], np.int64)
        self.rewards, self.links = array("I", bytes(4 * LEAST)), array("I", bytes(4 * LEAST))

    @property
    def queues(self) -> Queues:
        """The pool as it is now; make a new one after it has grown."""
        return Queues(
            self.tails, np.frombuffer(self.rewards, np.uint32), np.frombuffer(self.links, np.uint32), self.tally
        )

    def make_room(self) -> None:
        """Add nodes if none is left."""
        if self.tally[FREE] or self.tally[TOP] < len(self.links):
            return
        more = bytes(4 * min(max(LEAST, len(self.links) // 8), MOST))
        self.rewards.frombytes(more)
        self.links.frombytes(more)

    def restore(self, tails: Words, rewards: Words, links: Words, tally: Ints) -> None:
        """Go on from queues that were saved."""
        self.rewards, self.links = array("I", rewards.tobytes()), array("I", links.tobytes())
        np.copyto(self.tails, tails)
        np.copyto(self.tally, tally)

    def streams(self) -> dict[tuple[int, int], array[int]]:
        """Return what waits by arm and agent, in its order."""
        found = {}
        for k, m in np.argwhere(self.tails).tolist():
            tail, rewards = int(self.tails[k, m]), array("I")
            node = self.links[tail]
            while True:
                rewards.append(self.rewards[node])
                if node == tail:
                    break
                node = self.links[node]
            found[k, m] = rewards
        return found


@jit
def is_full(queues: Any) -> Any:
    """Whether there is no node left."""
    return queues.tally[FREE] == 0 and queues.tally[TOP] >= queues.links.shape[0]


@jit
def push(queues: Any, k: int, m: int, reward: Any) -> None:
    """Let a sample wait behind all others of its stream; there must be a node."""
    node = queues.tally[FREE]
    if node > 0:
        queues.tally[FREE] = np.int64(queues.links[node])
    else:
        node = queues.tally[TOP]
        queues.tally[TOP] += 1
    queues.rewards[node] = reward
    tail = np.int64(queues.tails[k, m])
    if tail == 0:
        queues.links[node] = node
    else:
        queues.links[node], queues.links[tail] = queues.links[tail], node
    queues.tails[k, m] = node


@jit
def pop(queues: Any, k: int, m: int) -> Any:
    """Take the sample that has waited longest; the queue must not be empty."""
    tail = np.int64(queues.tails[k, m])
    head = np.int64(queues.links[tail])
    if head == tail:
        queues.tails[k, m] = 0
    else:
        queues.links[tail] = queues.links[head]
    queues.links[head] = queues.tally[FREE]
    queues.tally[FREE] = head
    return queues.rewards[head]


@jit
def drop(queues: Any, k: int, m: int) -> None:
    """Let a whole queue go; it must not be empty."""
    tail = np.int64(queues.tails[k, m])
    head = np.int64(queues.links[tail])
    queues.links[tail] = queues.tally[FREE]
    queues.tally[FREE] = head
    queues.tails[k, m] = 0
