"""A second reading of docs/certified.md in plain numpy: the rounds and the accounts as a function of stacks of rewards.

Written from the formulas. Of the package it uses only the numbers of a `Design` and a `Setting`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import freepull as fp
from freepull.principal.rules.base import Setting

Floats = NDArray[np.float64]
Stacks = Sequence[Sequence[Sequence[float]]]  # by arm, by agent, in order
MARGINS = np.array([0.0, *sorted(round(0.4 / 1.25**i, 5) for i in range(24))])  # x of W_k(x)


def grid(n: int) -> Floats:
    return np.array([0.4 / 1.5**i for i in range(n)])


def psi(u: Floats, a: Floats) -> Floats:
    """ψ_a(u) = ψ(au)/a², ψ(u) = −log(1−u) − u."""
    return np.asarray((-np.log1p(-a * u) - a * u) / a**2)


def series(u: Floats, a: Floats, largest: Floats) -> Floats:
    """ψ_a⁺(u), its tail divided by 1 less the largest a·u of the bet."""
    return np.asarray(sum(u**q * a ** (q - 2) / q for q in range(2, 9)) + u**9 * a**7 / (9 * (1 - largest[:, None])))


def candidates(rule: fp.rules.Certified, setting: Setting) -> tuple[Floats, Floats]:
    """ℓ_i and π_i."""
    K, T, kappa = setting.arms, setting.horizon, setting.expected_kappa or 0
    if rule.gap is not None:
        gap = rule.gap - 2 * rule.robust
        gaps = grid(max(13, math.ceil(math.log(0.4 / gap, 1.5)) + 3))
        near = np.exp(-np.abs(np.log(gaps) - math.log(gap)) / math.log(1.5))
        return gaps, 0.95 * near / near.sum() + 0.05 / len(gaps)
    if T is None:
        return grid(26), np.array([0.8 / 13] * 13 + [0.2 / 13] * 13)
    M = 1 / sum(float(p) ** 2 for p in setting.weights)
    beta = math.log(1 / rule.delta) + 2.5
    free = max(1.0, min(2 * math.log(max(kappa, 2)) / 0.16, kappa / (2 * K)))
    most = free + (T - kappa) / (K * M if setting.offers == "one" else K)
    high = min(1.5 * math.sqrt(beta / (free * M)), 0.4)
    low = min(math.sqrt(beta / (most * M)), high / 2)
    gaps = grid(max(13, math.ceil(math.log(0.4 / low, 1.5)) + 2))
    inside = [low / 1.2 <= gap <= 1.2 * high for gap in gaps]
    share = [0.8 * yes / sum(inside) if any(inside) else 0.8 / len(gaps) for yes in inside]
    return gaps, np.array(share) + 0.2 / len(gaps)


class Reference:
    """The endless process, as far as the stacks go."""

    def __init__(self, rule: fp.rules.Certified, setting: Setting, *, exact: bool = False) -> None:
        K, M = setting.arms, setting.agents
        self.d, self.delta, self.exact = rule.designed(setting), rule.delta, exact
        self.p, self.on = setting.weights, setting.weights > 0
        self.sharp, self.margin = setting.rules > 1, 2 * rule.robust
        self.margins = np.array(sorted({*MARGINS.tolist(), self.margin}))
        self.at = self.margins.tolist().index(self.margin)
        self.kappa = float(setting.expected_kappa or 0) if self.d.forecast else 0.0
        self.gaps, prior = candidates(rule, setting)
        self.fitted = self.d.fitted if rule.gap is None else 0.0
        start = (1 - self.d.held_back) * (1 - np.eye(K))[:, :, None] * prior / (K - 1)
        self.epsilon, self.aim, lent = rule.epsilon, self.margin - rule.epsilon, 0.9 if rule.epsilon else 0.0
        self.E, self.lent = lent * start, lent
        self.reached = np.ones((K, K))  # the most of the evidence against k and E_k[l] together
        self.declared: int | None = None
        self.C = np.tile((1 - lent) * start, (len(self.margins), 1, 1, 1))
        self.cash = np.tile(self.d.held_back * prior, (K, 1))
        self.U, self.S, self.Q = np.zeros((K, M), int), np.zeros((K, M)), np.zeros((K, M))
        self.m, self.tv, self.Q_bar, self.nu = np.full(K, 0.5), np.zeros(K), np.full(K, 0.25), np.ones(K)
        self.I, self.active, self.peaks = np.zeros(K), np.ones(K, bool), np.ones((len(self.margins), K))
        self.R = self.rounds = 0
        self.behind = 0.0  # how much the log of the evidence may lose in all by ψ⁺ in place of ψ
        self.design()

    def sigma2(self) -> Floats:
        return np.asarray(np.clip((self.Q + 3 * self.Q_bar[:, None]) / (self.U + 3), 1e-4, 0.25))

    def ranked(self) -> list[int]:
        return sorted(np.flatnonzero(self.active).tolist(), key=lambda k: (-self.m[k], k))

    def totals(self) -> Floats:
        """W_k(x), the evidence at x = 2γ."""
        return np.asarray(self.C.sum((2, 3)) + self.cash.sum(1))

    def design(self) -> None:
        d = self.d
        self.r = max(1, math.ceil(d.growth * self.R)) if self.rounds else d.first_level
        x = np.full(self.U.shape, float(self.r if self.rounds else d.first_block))
        order = self.ranked()
        if self.rounds:
            self.rebalance()
            if d.neyman is not None:
                x *= np.clip(np.sqrt(self.sigma2()) / d.neyman, 1, 0.5 / d.neyman)
            x[order[0]] *= (len(order) - 1) ** d.stretch
        b = np.ceil(x)
        if self.rounds and d.forecast is not None and self.kappa >= 2 * len(self.m):
            b = np.maximum(b, np.floor(np.minimum(d.forecast.cap * x, self.natural() * self.r)))
        self.b = np.where(self.active[:, None] & self.on, b, 0).astype(int)

    def natural(self) -> Floats:
        """(φ·F − U)/((h − 1)·R + r): the pulls that cost nothing, for each level to come."""
        f, order, log = self.d.forecast, self.ranked(), 2 * math.log(self.kappa)
        assert f is not None
        mu = (self.S + 25 * self.m[:, None]) / (self.U + 25)
        c = np.array([self.index(column, log) for column in mu.T])
        F = log / (c - mu + f.z / (2 * np.sqrt(self.U + 25))) ** 2
        h = np.full(len(self.m), f.shortest)
        for k in order:
            D = max(self.m[order[0]] - self.m[order[1] if k == order[0] else k] - self.aim, self.I[k] ** -0.5)
            need = f.gamma * 2 * (math.log(1 / self.delta) + 1.5) / (D * D * self.I[k])
            h[k] = min(max(need, f.shortest), f.longest)
        return np.asarray((f.phi * F - self.U) / ((h[:, None] - 1) * self.R + self.r))

    def index(self, means: Floats, log: float) -> float:
        """c with Σ_k 2·log κ/(c − μ_k)² = κ."""
        low, high = means.max() + math.sqrt(log / self.kappa) / 2, means.max() + math.sqrt(log * len(means))
        return float(brentq(lambda c: (log / (c - means) ** 2).sum() / self.kappa - 1, low, high, xtol=1e-15))

    def rebalance(self) -> None:
        old, n = self.R / (self.R + self.r), len(self.gaps)
        s_r, s_g = 1 - old**self.d.rival_memory, 1 - old**self.d.gap_memory
        for k in np.flatnonzero(self.active):
            top, *_ = rivals = [j for j in self.ranked() if j != k]
            P = np.zeros(len(self.m))
            for j in rivals:
                P[j] = max(math.exp(-2 * (self.m[top] - self.m[j]) ** 2 / (self.tv[top] + self.tv[j])), 1e-300)
            P /= P.sum()
            seen = max(self.m[top] - self.m[k] - self.margin, 0)
            fit = np.exp(-((self.gaps - seen) ** 2) / (2 * (self.tv[top] + self.tv[k]))) + 0.001 / n
            fit /= fit.sum()
            shown = max(self.m[top] - self.m[k] - self.aim, 0)
            aims = np.exp(-((self.gaps - shown) ** 2) / (2 * (self.tv[top] + self.tv[k]))) + 0.001 / n
            aims /= aims.sum()
            open_ = (self.reached[k] < 1 / self.delta)[:, None]
            self.E[k] = np.where(open_, (1 - s_g) * self.E[k] + s_g * np.outer(self.E[k].sum(1), aims), self.E[k])
            if self.d.held_until <= self.R or shown >= 2 * math.sqrt(self.tv[top] + self.tv[k]):
                self.E[k] += self.lent * self.cash[k].sum() * np.outer(P, aims)
                self.cash[k] *= 1 - self.lent
                self.C[:, k] += np.outer(P, self.fitted * self.cash[k].sum() * fit + (1 - self.fitted) * self.cash[k])
                self.cash[k] = 0
            C = np.where(np.isin(np.arange(len(P)), rivals)[:, None], self.C[:, k], 0)
            freed = self.C[:, k].sum(1) - (1 - s_r) * C.sum(1)
            C = (1 - s_r) * C + P[:, None] * freed[:, None, :]
            self.C[:, k] = (1 - s_g) * C + s_g * C.sum((1, 2))[:, None, None] * np.outer(P, fit)

    def advance(self, stacks: Stacks) -> None:
        while (
            self.active.sum() > 1
            and self.declared is None
            and all(len(stacks[k][m]) >= self.U[k, m] + self.b[k, m] for k, m in zip(*np.nonzero(self.b), strict=True))
        ):
            self.close(stacks)

    def close(self, stacks: Stacks) -> None:
        u = self.p / np.maximum(self.b, 1) * (self.b > 0)
        expected = (self.nu[:, None] * self.m[:, None] + self.S) / (self.nu[:, None] + self.U)
        total, B = np.zeros(u.shape), np.zeros(u.shape)
        for k, m in zip(*np.nonzero(self.b), strict=True):
            block = np.array(stacks[k][m][self.U[k, m] : self.U[k, m] + self.b[k, m]])
            total[k, m], B[k, m] = block.sum(), ((block - expected[k, m]) ** 2).sum()
        self.pay((u * total).sum(1), (u**2 * self.b * self.sigma2()).sum(1), u, B, expected)
        self.absorb(total, B)
        self.peaks = np.where(self.active, np.maximum(self.peaks, self.totals()), self.peaks)
        if self.epsilon:
            both = self.totals()[self.at][:, None] + self.E.sum(2)
            self.reached = np.where(
                self.active[:, None] & (self.reached < 1 / self.delta), np.maximum(self.reached, both), self.reached
            )
        out = self.active & (self.totals()[self.at] >= 1 / self.delta)
        if out.sum() == self.active.sum():
            out[np.argmin(np.where(self.active, self.totals()[self.at], math.inf))] = False
        self.active &= ~out
        shown = [k for k in self.ranked() if (np.delete(self.reached[:, k], k) >= 1 / self.delta).all()]
        if self.active.sum() > 1 and shown:
            self.declared = shown[0]
        elif self.active.sum() > 1:
            self.design()

    def pay(self, Y: Floats, V: Floats, u: Floats, B: Floats, expected: Floats) -> None:
        worst = 0.0
        below, above = (expected, 1 - expected) if self.sharp else (np.ones(u.shape), np.ones(u.shape))
        for k in self.ranked():
            held = self.totals()[:, k]
            small = self.C[:, k] <= 1e-12 * held[:, None, None]
            self.C[:, k, small[self.at] if self.sharp else small.all(0)] = 0
            for j in self.ranked():
                if j != k:
                    largest = max((below * u)[j].max(), (above * u)[k].max())
                    e = np.minimum(self.gaps / (V[j] + V[k]), 0.6 / largest)
                    at_j, at_k, at_most = np.outer(e, u[j]), np.outer(e, u[k]), e * largest
                    true = psi(at_j, below[j]) @ B[j] + psi(at_k, above[k]) @ B[k]
                    upper = series(at_j, below[j], at_most) @ B[j] + series(at_k, above[k], at_most) @ B[k]
                    worst = max(worst, float((upper - true).max()))
                    gain = e * (Y[j] - Y[k]) - (true if self.exact else upper)
                    self.C[:, k, j] *= np.exp(gain - np.outer(self.margins, e))
                    if self.reached[k, j] < 1 / self.delta:
                        self.E[k, j] *= np.exp(gain - self.aim * e)
        self.behind += worst
        order = self.ranked()
        for k in order:
            self.I[k] += 1 / (V[k] + V[order[1] if k == order[0] else order[0]])

    def absorb(self, total: Floats, B: Floats) -> None:
        self.R, self.rounds = self.R + self.r, self.rounds + 1
        self.U, self.S, self.Q = self.U + self.b, self.S + total, self.Q + B
        for k in np.flatnonzero(self.active):
            U, S = self.U[k, self.on], self.S[k, self.on]
            self.Q_bar[k] = self.Q[k, self.on].sum() / U.sum()
            sigma2 = self.sigma2()[k, self.on]
            self.m[k] = min(max((self.p[self.on] * S / U).sum(), 0.02), 0.98)
            self.tv[k] = (self.p[self.on] ** 2 * sigma2 / U).sum()
            tau2 = 1.0 if len(U) == 1 else max(np.var(S / U, ddof=1) - (sigma2 / U).mean(), 1e-4)
            self.nu[k] = min(max(sigma2.mean() / tau2, 1), 100) if self.d.shrink else 1.0

    def worse_by(self) -> list[float]:
        return [max([0.0, *self.margins[column >= 1 / self.delta]]) for column in self.peaks.T]

    def survives(self) -> float:
        """γ*, once one arm is left: every arm that is out has reached 1/δ with the margin 2γ*; γ after an ε-stop."""
        if self.declared is not None:
            return self.margin / 2
        return float(max(x / 2 for x, row in zip(self.margins, self.peaks, strict=True)
                         if (row[~self.active] >= 1 / self.delta).all()))  # fmt: skip
