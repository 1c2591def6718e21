"""A second reading of docs/mechanics.md, written without looking at the package's own: slow, plain, and with fractions.

Only agents, answers, reward streams and θ are the package's; they have tests of their own.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import freepull as fp
from freepull import randomness
from freepull.agents.answers import Situation

FIXED = 2**40


@dataclass
class Ending:
    """Everything that a run leaves behind, and what was seen on the way."""

    arm: int = 0
    decided_at: int | None = None
    offered: int = 0
    refused: int = 0
    banned: set[int] = field(default_factory=set)
    pulls: list[list[int]] = field(default_factory=list)
    sums: list[list[Fraction]] = field(default_factory=list)
    paid: list[list[int]] = field(default_factory=list)
    active: list[set[int]] = field(default_factory=list)


def means(end: Ending, K: int, M: int) -> list[float]:
    """μ̂_k from integers."""
    found = []
    for k in range(K):
        parts = [math.floor(FIXED * end.sums[m][k] / end.pulls[m][k]) for m in range(M) if end.pulls[m][k]]
        found.append(sum(parts) / FIXED / M)
    return found


def width(end: Ending, k: int, M: int) -> int | None:
    """Σ_m 1/N_km as an integer, None for infinity."""
    column = [end.pulls[m][k] for m in range(M)]
    return None if 0 in column else sum(FIXED // n for n in column)


def eliminate(end: Ending, active: set[int], theta: float, K: int, M: int) -> set[int]:
    """Eq. (3) of the paper."""
    mean = means(end, K, M)
    bound = {}
    for k in active:
        w = width(end, k, M)
        bound[k] = math.inf if w is None else math.sqrt(w / FIXED * theta) / M
    highest = max(mean[j] - bound[j] for j in active)
    return {k for k in active if mean[k] + bound[k] >= highest}


def starts(end: Ending, active: set[int], t: int, T: int, theta: float, principal: fp.Principal) -> bool:
    """The adaptive schedule's check (docs/statistics.md, adaptive)."""
    schedule = principal.observe
    assert isinstance(schedule, fp.observe.Adaptive)
    M, K = len(end.pulls), len(end.pulls[0])
    if t != T and (t % max(1, T // 1000) or t < K or t < T / 10):
        return False
    half, delta = T // 2, principal.rule.delta
    assert delta is not None
    beta = math.log(1 / delta) + 2.5
    free = max(1.0, min(2 * math.log(max(half, 2)) / 0.16, half / (2 * K)))
    more = (T - half) / K / (M if principal.offers == "one" else 1)
    high = min(1.5 * math.sqrt(beta / (free * M)), 0.4)
    low = min(math.sqrt(beta / ((free + more) * M)), high / 2)
    mean = means(end, K, M)
    leader = max(active, key=lambda k: (mean[k], -k))
    gap = {k: mean[leader] - mean[k] for k in active if k != leader}
    gap[leader] = min(gap.values())
    need = {k: 4 * theta / (M * max(gap[k], low) ** 2) for k in active}
    lacks = [sum(max(need[k] - end.pulls[m][k], 0.0) for k in sorted(active)) for m in range(M)]
    return T - t <= schedule.slack * (sum(lacks) if principal.offers == "one" else max(lacks))


def plan(end: Ending, active: set[int], payable: list[int], room: float, offers: str) -> dict[int, int]:
    """Who is offered what in the coming step."""
    M = len(end.pulls)
    if offers == "each":
        wants = sorted((*min((end.pulls[m][k], k) for k in active), m) for m in payable)
        return {m: k for _, k, m in wants[: int(min(room, M))]}
    best: tuple[Any, ...] | None = None
    for k in sorted(active):
        w = width(end, k, M)
        able = [m for m in payable if end.pulls[m][k] == 0] if w is None else payable
        if able and (best is None or (math.inf if w is None else w) > best[0]):
            best = (math.inf if w is None else w, k, min(able, key=lambda m: (end.pulls[m][k], m)))
    return {} if best is None or room < 1 else {best[2]: best[1]}


def last_banned(protocol: Any, t: int, refusals: int) -> float:
    """The last step of the ban that this refusal earns, 0 for none."""
    if isinstance(protocol, fp.protocols.BanFor):
        return t + protocol.rounds
    limit = {fp.protocols.TakeOrBan: 1}.get(type(protocol), getattr(protocol, "refusals", math.inf))
    return math.inf if refusals >= limit else 0


def play(
    game: fp.Game, agents: Any, answers: Any, principal: fp.Principal, horizon: int, seed: int, run: int, until: str
) -> Ending:
    """Play one run."""
    M, K, T = game.agents, game.arms, horizon
    passive = isinstance(principal.rule, fp.rules.Passive)
    theta = math.inf if passive else principal.rule.theta(K, M, T)  # type: ignore[attr-defined]
    adaptive = isinstance(principal.observe, fp.observe.Adaptive)
    kappa: float = math.inf
    if not adaptive:
        started = principal.start(arms=K, agents=M, horizon=T).kappa
        assert started is not None
        kappa = started
    end = Ending(pulls=[[0] * K for _ in range(M)], sums=[[Fraction(0)] * K for _ in range(M)])
    end.paid = [[0] * K for _ in range(M)]
    minds = [copy.deepcopy(agent) for agent in agents]
    for m, mind in enumerate(minds):
        mind.start(K, randomness.key(seed, run, m, randomness.CHOICE))
    asked, refusals, until_step, active = [0] * M, [0] * M, [0.0] * M, set(range(K))
    money = math.inf
    if principal.budget is not None:
        money = int(Fraction(Decimal(str(principal.budget))) / Fraction(Decimal(str(principal.bonus))))
    for t in range(1, T + 1):
        if until == "decided" and end.decided_at is not None:
            break
        offers: dict[int, int] = {}
        if t > kappa and end.decided_at is None and not passive:
            room = money - sum(map(sum, end.paid))
            offers = plan(end, active, [m for m in range(M) if until_step[m] < t], room, principal.offers)
        for m in range(M):
            arm = None
            if m in offers:
                asked[m] += 1
                coin = randomness.uniform(randomness.word(randomness.key(seed, run, m, randomness.ANSWER), 0, t))
                told = list(end.pulls[m]), [float(s) for s in end.sums[m]]
                if answers[m].takes(Situation(t, offers[m], principal.bonus, asked[m], *told, coin)):
                    arm = offers[m]
            arm = minds[m].pick(t) if arm is None else arm
            end.pulls[m][arm] += 1
            stack = randomness.key(seed, run, m, randomness.REWARD)
            x = game.streams.draw(m, arm, randomness.word(stack, arm, end.pulls[m][arm]))
            end.sums[m][arm] += Fraction(x)
            minds[m].learn(arm, x)
            if m in offers:
                end.offered += 1
                end.paid[m][arm] += arm == offers[m]
                if arm != offers[m]:
                    end.refused += 1
                    refusals[m] += 1
                    banned = last_banned(principal.protocol, t, refusals[m])
                    until_step[m] = max(until_step[m], banned)
                    end.banned |= {m} if banned else set()
        if end.decided_at is None and not passive:
            if kappa == math.inf and starts(end, active, t, T, theta, principal):
                kappa = t
            if t >= kappa:
                active = eliminate(end, active, theta, K, M)
            end.decided_at = t if len(active) == 1 else None
        end.active.append(active)
    mean = means(end, K, M)
    end.arm = max(active, key=lambda k: (mean[k], -k))
    return end
