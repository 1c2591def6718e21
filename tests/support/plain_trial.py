"""A trial a second time, as plain as can be: lists and dictionaries, one pull after the other, everything at once.

Of the package it uses the settings and the mathematics of rounds, called for a whole round with 64-bit counts, and the
book of comparisons, which is compared with its page elsewhere. How samples wait, who is heard and wanted, what is paid,
who is banned, and how a panel is renewed it does by itself.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

import freepull as fp
from freepull.principal.offers import affordable
from freepull.principal.record import Record
from freepull.principal.rules.base import Setting
from freepull.principal.rules.certified.books import MARGINS, Fill, blank, fresh
from freepull.principal.rules.certified.design import design, prediction
from freepull.principal.rules.certified.evaluation import eliminate, evaluate, evidence
from freepull.principal.rules.population import BETS, SHARES, TOGETHER, winner

UNITS, FIXED = 2**30, 2**40
Stream = tuple[int, int]
"""Agent and arm."""


class Certified:
    """Rounds: what a stream owes, and what waits."""

    def __init__(self, rule: Any, setting: Setting) -> None:
        K, M = setting.arms, setting.agents
        self.setting, self.active = setting, [True] * K
        self.constants, prior = rule.constants(setting, MARGINS)
        self.used, self.coming = fresh(K, M, self.constants, prior)
        self.fill, self.measure = Fill(np.zeros((K, M)), np.zeros((K, M))), blank(K, self.constants)
        self.waiting: dict[Stream, list[int]] = defaultdict(list)
        self.begin()

    def begin(self) -> None:
        design(self.used, self.coming, self.constants)
        self.fill.sums[...], self.fill.errors[...] = 0, 0
        self.have: dict[Stream, int] = defaultdict(int)
        waited, self.waiting = self.waiting, defaultdict(list)
        for (m, k), rewards in waited.items():
            for reward in rewards:
                self.see(m, k, reward)

    def see(self, m: int, k: int, reward: int) -> None:
        if self.owed(m, k) > 0:
            error = reward / UNITS - prediction(self.used, k, m)
            self.have[m, k] += 1
            self.fill.sums[k, m] += reward / UNITS
            self.fill.errors[k, m] += error * error
        elif self.coming.blocks[k, m] > 0 and sum(self.active) > 1:
            self.waiting[m, k].append(reward)

    def look(self) -> None:
        streams = [(m, k) for m in range(self.setting.agents) for k in range(self.setting.arms)]
        while sum(self.active) > 1 and not any(self.owed(*stream) for stream in streams):
            evaluate(self.used, self.coming, self.fill, self.measure, self.constants)
            eliminate(self.used, self.coming, self.constants)
            self.active = [alive == 1 for alive in self.used.active]
            if sum(self.active) > 1:
                self.begin()

    def owed(self, m: int, k: int) -> int:
        return int(self.coming.blocks[k, m]) - self.have[m, k] if self.active[k] else 0

    def numbers(self) -> list[float]:
        return [float(evidence(self.coming, 0, k)) for k in range(self.setting.arms)]


class Population:
    """First rewards; every stream keeps all its own."""

    def __init__(self, rule: Any, setting: Setting) -> None:
        self.setting, self.active = setting, [True] * setting.arms
        self.once, self.n = rule.pulls is not None, rule.pulls or 1
        self.threshold = rule.threshold(setting.arms)
        self.rewards: dict[Stream, list[int]] = defaultdict(list)
        self.claims = np.full((setting.arms, setting.arms), -np.inf)
        self.looked = False

    def see(self, m: int, k: int, reward: int) -> None:
        self.rewards[m, k].append(reward)

    def look(self) -> None:
        M, K = self.setting.agents, self.setting.arms
        while not self.looked and sum(self.active) > 1 and not any(self.owed(m, k) for m in range(M) for k in range(K)):
            self.fill([m for m in range(M) if self.setting.weights[m] > 0])
            if self.once:
                self.looked, found = True, winner(self.claims, self.threshold)
                self.active = [k == found for k in range(K)] if found >= 0 else self.active
            else:
                self.n += 1
                self.active = [self.active[k] and max(self.claims[:, k]) < self.threshold for k in range(K)]

    def fill(self, agents: list[int]) -> None:
        K = self.setting.arms
        sums = {(m, k): sum(self.rewards[m, k][: self.n]) for m in agents for k in range(K)}
        totals = [sum(sums[m, k] for m in agents) for k in range(K)]
        for j, k in ((j, k) for j in range(K) for k in range(K) if self.active[k]):
            self.claims[j, k] = -math.inf
            if self.once or (self.active[j] and totals[j] > totals[k]):
                total = 0.0
                for bet, share in zip(BETS, SHARES, strict=True):
                    log, product = math.log(share), 1.0
                    for m in range(self.setting.agents):
                        own = bet * ((sums[m, j] - sums[m, k]) / UNITS / self.n) if m in agents else 0.0
                        log, product = (log + math.log1p(own), 1.0) if self.once else (log, product * (1.0 + own))
                        if m % TOGETHER == TOGETHER - 1:
                            log, product = log + math.log(product), 1.0
                    total += math.exp(min(log + math.log(product), 700.0))
                self.claims[j, k] = math.log(total)

    def owed(self, m: int, k: int) -> int:
        counts = self.setting.weights[m] > 0 and self.active[k] and sum(self.active) > 1
        return max(0, self.n - len(self.rewards[m, k])) if counts else 0

    def numbers(self) -> list[float]:
        K = self.setting.arms
        return [max(math.exp(min(self.claims[j, k], 700.0)) for j in range(K) if j != k) for k in range(K)]


class Paper:
    """Eq. (3) in whole numbers; streams owe nothing, and everybody is wanted for what it pulled least."""

    def __init__(self, rule: Any, setting: Setting) -> None:
        assert setting.offers == "each"
        self.setting, self.active = setting, [True] * setting.arms
        self.theta = rule.theta(setting.arms, setting.agents, setting.horizon)
        self.rewards: dict[Stream, list[int]] = defaultdict(list)

    def see(self, m: int, k: int, reward: int) -> None:
        self.rewards[m, k].append(reward)

    def width(self, k: int) -> float:
        pulls = [len(self.rewards[m, k]) for m in range(self.setting.agents)]
        return math.inf if 0 in pulls else math.sqrt(sum(FIXED // n for n in pulls) / FIXED * self.theta)

    def total(self, k: int) -> float:
        own = (self.rewards[m, k] for m in range(self.setting.agents))
        return sum(sum(rewards) * (FIXED // UNITS) // len(rewards) for rewards in own if rewards) / FIXED

    def look(self) -> None:
        ends = [(self.total(k), self.width(k)) for k in range(self.setting.arms)]
        highest = max(total - width for (total, width), alive in zip(ends, self.active, strict=True) if alive)
        self.active = [a and sum(end) >= highest for end, a in zip(ends, self.active, strict=True)]

    def want(self, m: int) -> tuple[int, int]:
        return min((len(self.rewards[m, k]), k) for k in range(self.setting.arms) if self.active[k])

    def numbers(self) -> list[float]:
        return [self.width(k) / self.setting.agents for k in range(self.setting.arms)]


class Comparisons:
    """The book, with a record of its own."""

    def __init__(self, rule: Any, setting: Setting) -> None:
        self.record = Record(setting.agents, setting.arms)
        self.book = rule.start(setting, self.record)

    @property
    def active(self) -> list[bool]:
        found: list[bool] = self.book.active
        return found

    def see(self, m: int, k: int, reward: int) -> None:
        self.record.add(m, k, reward)
        self.book.observe(m, k, reward)

    def numbers(self) -> list[float]:
        found: list[float] = self.book.bounds()
        return found


KINDS: dict[type, Any] = {
    fp.rules.Certified: Certified,
    fp.rules.Population: Population,
    fp.rules.Paper: Paper,
    fp.rules.Comparisons: Comparisons,
}


class PlainTrial:
    """The same face as `freepull.Trial`; the schedule must be one that fixes κ beforehand."""

    def __init__(self, principal: fp.Principal, setting: Setting) -> None:
        self.principal, self.setting, self.panels = principal, setting, 1
        self.kappa, self.steps, self.decided_at = setting.kappa, 0, None
        self.affordable = affordable(principal.budget, principal.bonus)
        self.left, self.leaving = [False] * setting.agents, list[int]()
        self.refusals, self.until = [0] * setting.agents, [0] * setting.agents
        self.paid, self.told = list[Stream](), list[tuple[int, int, int]]()
        self.last = [0] * setting.agents
        self.open: dict[int, int] = {}
        self.waiting: dict[int, list[list[Any]]] = {}
        self.offered, self.refused, self.refusing = 0, 0, list[int]()
        self.released: set[int] = set()
        self.resting: set[int] = set()
        self.planned: dict[int, int] = {}
        self.rule = self.renewed()
        self.plan()

    def renewed(self) -> Any:
        """The rule at work on today's panel, from the first pull on."""
        rule = self.principal.rule
        if self.setting.leavers == "independent":
            assert rule.delta is not None
            rule = replace(rule, delta=rule.delta / (self.panels * (self.panels + 1)))  # type: ignore[type-var]
        state = KINDS[type(rule)](rule, self.setting)
        for m, k, reward in self.told:
            state.see(m, k, reward)
        return state

    @property
    def active(self) -> list[int]:
        return [k for k, alive in enumerate(self.rule.active) if alive]

    @property
    def awaited(self) -> list[int]:
        absent = [m for m in range(self.setting.agents) if self.left[m] or self.until[m] > self.steps]
        over = self.setting.horizon is not None and self.steps >= self.setting.horizon
        silent = sorted((t, m) for m, t in enumerate(self.last) if t < self.steps and not over)
        owes = {m: any(self.rule.owed(m, k) > 0 for k in range(self.setting.arms)) for m in range(self.setting.agents)}
        gone, waiting = [m for m in absent if owes[m]], [m for _, m in silent if owes[m]][:10]
        return [*gone, *(m for m in waiting if m not in gone)] if self.decided_at is None else []

    @property
    def taken_up(self) -> bool:
        return self.setting.offers == "one" and len(self.open) > len(self.released)

    def pulls(self) -> list[list[int]]:
        counts = Counter((m, k) for m, k, _ in self.told)
        return [[counts[m, k] for k in range(self.setting.arms)] for m in range(self.setting.agents)]

    def wanted(self, m: int) -> int | None:
        if m in self.open:
            return None if m in self.released else self.open[m]
        if self.taken_up:
            return None
        if self.affordable is not None and len(self.paid) + len(self.open) + 1 > self.affordable:
            return None
        return self.planned.get(m)

    def hear(self, m: int) -> None:
        """Asks are nothing to these rules."""

    def passed(self, m: int) -> None:
        """Nor is that nothing came of them."""

    def numbers(self) -> list[float]:
        numbers: list[float] = self.rule.numbers()
        return numbers

    def ask(self, m: int) -> int | None:
        arm = self.wanted(m)
        if arm is not None and m not in self.open:
            del self.planned[m]
            self.open[m] = arm
            self.offered += 1
        return arm

    def act(self, m: int, k: int, number: int, x: float | None = None) -> str | None:
        """A pull is made, its outcome perhaps to come: rewards are seen in the order of an agent's pulls."""
        self.left[m] = False
        self.last[m] = self.steps + 1
        self.waiting.setdefault(m, []).append([number, k, x])
        self.see(m)
        return self.settle(m, k)

    def see(self, m: int) -> None:
        while self.waiting[m] and self.waiting[m][0][2] is not None:
            _, k, x = self.waiting[m].pop(0)
            self.told.append((m, k, round(x * UNITS)))
            self.rule.see(*self.told[-1])

    def outcome(self, number: int, x: float) -> None:
        for m, acts in self.waiting.items():
            for act in acts:
                if act[0] == number:
                    act[2] = x
            self.see(m)

    def tell(self, m: int, k: int, x: float) -> str | None:
        return self.act(m, k, -1, x)

    def decline(self, m: int) -> str | None:
        return self.settle(m, -1)

    def lapse(self, m: int) -> None:
        arm = self.cancel(m)
        may = m not in self.resting and not self.left[m] and self.until[m] <= self.steps and self.decided_at is None
        if may and arm is not None and self.steps < (self.setting.horizon or math.inf):
            self.planned[m] = arm

    def settle(self, m: int, k: int) -> str | None:
        if m not in self.open:
            return None
        offered, released = self.open.pop(m), m in self.released
        self.released.discard(m)
        if offered == k:
            self.paid.append((m, k))
            return "paid"
        if released:
            return None
        self.refused += 1
        self.refusing.append(m)
        return "refused"

    def cancel(self, m: int) -> int | None:
        self.released.discard(m)
        return self.open.pop(m, None)

    def recall(self, m: int) -> None:
        self.released |= self.open.keys() & {m}

    def unban(self, m: int) -> None:
        self.refusals[m], self.until[m] = 0, min(self.until[m], self.steps)
        self.refusing = [other for other in self.refusing if other != m]

    def afford(self, bonuses: int | None) -> None:
        self.affordable = bonuses
        self.plan()

    def leave(self, m: int) -> None:
        finished = self.decided_at is not None or getattr(self.rule, "looked", False)
        if not self.left[m] and not finished and self.setting.leavers == "independent" and self.setting.weights[m] > 0:
            self.leaving.append(m)
        self.left[m] = True
        self.cancel(m)
        self.planned.pop(m, None)

    def end_step(self) -> None:
        self.steps += 1
        t, refusing, self.refusing = self.steps, self.refusing, []
        for m in refusing:
            self.refusals[m] += 1
            until = self.principal.protocol.banned_until(t, self.refusals[m])
            self.until[m] = until if until > t else self.until[m]
        if self.decided_at is not None or (self.setting.horizon is not None and t > self.setting.horizon):
            return
        if self.leaving:
            self.panels += sum(self.setting.weights[m] > 0 for m in self.leaving)
            self.setting, self.leaving = self.setting.without(self.leaving), []
            self.rule = self.renewed()
        self.decided_at = t if self.look() else None  # type: ignore[assignment]
        self.plan()

    def look(self) -> bool:
        """Let the rule look at the end of a step; say whether that decides."""
        if not isinstance(self.rule, Paper) or self.steps >= (self.kappa or 0):
            self.rule.look()
        return bool(sum(self.rule.active) == 1)

    def plan(self) -> None:
        M, T = self.setting.agents, self.setting.horizon
        self.planned = {}
        room = M if self.affordable is None else self.affordable - len(self.paid) - len(self.open)
        over = self.decided_at is not None or (T is not None and self.steps >= T) or self.steps < (self.kappa or 0)
        if over or room < 1 or self.taken_up:
            return
        payable = [m for m in range(M) if self.until[m] <= self.steps and m not in self.open and not self.left[m]]
        wants = sorted((*self.want(m), m) for m in payable if m not in self.resting)
        wants = [want for want in wants if want[0] < 0 or isinstance(self.rule, Paper)]
        self.planned = {m: k for _, k, m in wants[: room if self.setting.offers == "each" else 1]}

    def want(self, m: int) -> tuple[int, int]:
        """How little an agent is needed, and for which arm it is needed most; below 0 where it owes something."""
        if isinstance(self.rule, Paper):
            return self.rule.want(m)
        return min((-self.rule.owed(m, k), k) for k in range(self.setting.arms))


class HearingTrial(PlainTrial):
    """The same for a rule that hears asks: who is wanted is found at asks, and outcomes are entered as they come."""

    def __init__(self, principal: fp.Principal, setting: Setting) -> None:
        super().__init__(principal, setting)
        assert setting.offers == "each"
        self.asking = [False] * setting.agents
        self.samples: dict[int, tuple[int, int, Any]] = {}

    def hear(self, m: int) -> None:
        over = self.decided_at is not None or self.steps >= (self.setting.horizon or math.inf)
        if not over and (self.rule.book.counts_asks or not self.asking[m]):
            self.asking[m] = True
            self.rule.book.asked(m)

    def passed(self, m: int) -> None:
        self.asking[m] = False
        self.rule.book.passed_over(m)

    def plan(self) -> None:
        """Nobody is chosen beforehand."""

    def wanted(self, m: int) -> int | None:
        free = m not in self.open and m not in self.resting and not self.left[m] and self.until[m] <= self.steps
        paying = self.decided_at is None and (self.kappa or 0) <= self.steps < (self.setting.horizon or math.inf)
        arm = self.rule.book.wanted(m) if free and paying else -1
        self.planned = {m: arm} if arm >= 0 else {}
        return super().wanted(m)

    def act(self, m: int, k: int, number: int, x: float | None = None) -> str | None:
        self.left[m], self.asking[m], self.last[m] = False, False, self.steps + 1
        if x is None:
            self.samples[number] = m, k, self.rule.book.acted(m, k)
        else:
            self.told.append((m, k, round(x * UNITS)))
            self.rule.see(*self.told[-1])
        return self.settle(m, k)

    def outcome(self, number: int, x: float) -> None:
        m, k, sample = self.samples.pop(number)
        self.told.append((m, k, round(x * UNITS)))
        self.rule.book.came(m, k, sample, round(x * UNITS))

    def look(self) -> bool:
        self.rule.book.step = self.steps
        self.rule.book.evaluate(self.steps >= (self.kappa or 0))
        return bool(self.rule.book.decided)


def plain_trial(principal: fp.Principal, setting: Setting) -> PlainTrial:
    """The plain trial for a principal's rule."""
    made = HearingTrial if isinstance(principal.rule, fp.rules.Comparisons) else PlainTrial
    return made(principal, setting)
