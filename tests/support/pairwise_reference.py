"""The pairwise rule a second time, from docs/certified.md alone: whole streams at hand, cut and added up in one go.

And how tests feed streams to the rule itself.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import freepull as fp
from freepull.principal.record import UNITS, Record, units
from freepull.principal.rules.base import Setting
from freepull.principal.rules.pairwise.state import PairwiseState

Streams = list[list[list[float]]]
"""Rewards by arm, agent and order."""
NEYMAN = fp.rules.Blocks(4, 2, 0.2, 0.1)


def start(rule: fp.rules.Pairwise, K: int, weights: Any, offers: str = "one", **more: Any) -> PairwiseState:
    """Return the rule's state on an empty record, without a horizon."""
    p = np.asarray(weights, float) / np.sum(weights)
    return rule.start(Setting(K, len(p), None, p, bool(np.ptp(p) > 0), offers, **more), Record(len(p), K))


def drawn(K: int, M: int, seed: int, most: int = 80) -> Streams:
    """Return streams of 30 to ``most`` rewards."""
    rng = np.random.default_rng(seed)
    return [[(np.rint(rng.beta(1 + k, 2, rng.integers(30, most)) * UNITS) / UNITS).tolist() for _ in range(M)]
            for k in range(K)]  # fmt: skip


def feed(state: PairwiseState, streams: Streams, seed: int = 0, look: bool = True) -> PairwiseState:
    """Tell all streams, in an order of its own but each in its own order, and look at the end."""
    left = [(k, m) for k, arm in enumerate(streams) for m, stream in enumerate(arm) for _ in stream]
    random.Random(seed).shuffle(left)
    coming = [[iter(stream) for stream in arm] for arm in streams]
    for k, m in left:
        x = units(next(coming[k][m]))
        state.record.add(m, k, x)
        state.observe(m, k, x)
    if look:
        state.evaluate(True)
    return state


def levels(first: int, growth: float, count: int) -> list[int]:
    """r_0, r_1, …"""
    found = [first]
    while len(found) < count:
        found.append(max(1, math.ceil(growth * sum(found))))
    return found


def cut(rewards: list[float], blocks: Any, r: list[int]) -> list[tuple[int, float, float]]:
    """Every full block of a stream: its size, its sum, and its squared errors of prediction."""
    found, at, b = [], 0, blocks.first_block
    while at + b <= len(rewards):
        errors = [rewards[n] - (0.5 + sum(rewards[:n])) / (n + 1) for n in range(at, at + b)]
        found.append((b, sum(rewards[at : at + b]), sum(e * e for e in errors)))
        at += b
        b = r[len(found)]
        if blocks.neyman is not None:
            p = (sum(rewards[:at]) + 1) / (at + 2)
            b = math.ceil(b * min(max(math.sqrt(p * (1 - p)) / blocks.neyman, 1), 0.5 / blocks.neyman))
    return found


class Reference:
    """E_jk and its bounds from whole streams; ``left`` are agents whose missing blocks count by the worst case."""

    def __init__(
        self, streams: Streams, weights: Any, blocks: Any, gap: float | None = None, left: tuple[int, ...] = ()
    ) -> None:
        p = np.asarray(weights, float) / np.sum(weights)
        self.M = int((p > 0).sum())
        q = p * self.M
        self.ell: NDArray[np.float64] = 0.6 / max(1.0, q.max()) * 1.5 ** -np.arange(20.0)
        near = np.full(20, 1.0)
        if gap is not None:
            near = np.exp(-np.abs(np.log(self.ell / (gap / (0.96 * (blocks.neyman or 0.48))))) / math.log(1.5) / 3)
        self.pi = near / near.sum()
        self.r = levels(blocks.first_level, blocks.growth, 150)
        parts = [[cut(stream, blocks, self.r) for stream in arm] for arm in streams]
        stayed = [m for m in range(len(p)) if p[m] > 0 and m not in left]
        self.C = [min(len(arm[m]) for m in stayed) for arm in parts]
        self.S = [np.zeros(rounds) for rounds in self.C]
        self.worst = [np.zeros(rounds) for rounds in self.C]
        self.A = [np.zeros((rounds, 20)) for rounds in self.C]
        for k, arm in enumerate(parts):
            for c in range(self.C[k]):
                for m in [m for m in range(len(p)) if p[m] > 0]:
                    if c < len(arm[m]):
                        b, total, errors = arm[m][c]
                        self.S[k][c] += q[m] * self.r[c] / b * total
                    else:
                        b, errors = self.r[c], 0.0
                        if c == len(arm[m]):
                            b = self._next(streams[k][m], arm[m], blocks)
                        errors = float(b)
                        self.worst[k][c] += q[m] * self.r[c]
                    self.A[k][c] += self.psi(self.ell * (q[m] * self.r[c] / b)) * errors

    @staticmethod
    def psi(u: NDArray[np.float64]) -> NDArray[np.float64]:
        """ψ."""
        return np.asarray(-np.log(1 - u) - u)

    def _next(self, stream: list[float], parts: list[tuple[int, float, float]], blocks: Any) -> int:
        """The size of the block that a leaver had begun."""
        if not parts:
            return int(blocks.first_block)
        used = sum(b for b, _, _ in parts)
        padded = stream[:used] + [0.5] * 10**4
        return cut(padded, blocks, self.r)[len(parts)][0]

    def log_evidence(self, j: int, k: int, x: float = 0.0) -> float:
        """log E_jk(c; x)."""
        c = min(self.C[j], self.C[k]) - 1
        if c < 0:
            return -math.inf
        ahead = self.S[j][: c + 1].sum() - self.S[k][: c + 1].sum() - self.worst[k][: c + 1].sum()
        ahead -= sum(self.r[: c + 1]) * self.M * x
        errors = self.A[j][: c + 1].sum(axis=0) + self.A[k][: c + 1].sum(axis=0)
        return float(np.logaddexp.reduce(np.log(self.pi) + self.ell * ahead - errors))

    def lower(self, j: int, k: int, threshold: float) -> float:
        """The largest x with E_jk(c; x) ≥ the threshold, to 1e-9."""
        if self.log_evidence(j, k, -1.0) < threshold:
            return -1.0
        inside = np.array([-1.0, 1.0])
        while inside[1] - inside[0] > 1e-10:
            middle = float(inside.mean())
            inside[0 if self.log_evidence(j, k, middle) >= threshold else 1] = middle
        return float(inside[0])
