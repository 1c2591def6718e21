"""The population rule: looks at the agents' own differences over their first n rewards (docs/certified.md, population).

The panel's bounds speak of the agents who take part. To speak of the population that they were drawn from, an agent
counts as one draw: D_m, the difference of its means over the first n rewards of two arms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from freepull import validation
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.game import TIE
from freepull.numerics import zeros
from freepull.principal.record import BATCH, STREAMS, Record, Words, Work, enter, finish, tiles
from freepull.principal.rules.base import SMALLEST, STACKS, Floats, Rule, Setting
from freepull.principal.rules.certified.samples import Queues, Waiting, drop, is_full, pop, push
from freepull.principal.rules.rounds import Ints, OwingState, fill_needed, smallest_gap
from freepull.registry import part

BETS = np.array([0.99, 0.8, 0.5, 0.25, 0.12])
"""λ_i."""
SHARES = np.array([0.4, 0.2, 0.15, 0.15, 0.1])
"""π_i."""
TOGETHER = 32
"""Factors that are multiplied before a logarithm is taken."""
MOST = 1 << 30
"""No sum of first rewards, in units of 2⁻³⁰, can then overflow."""


@part("rule", "population", kernel=2)
@dataclass(frozen=True)
class Population(Rule):
    """Looks at the first n rewards of every stream, n = 1, 2, …: **proven** for the population, if agents are drawn.

    Arm k goes if, at any n, some arm j that is still in has Σ_i π_i·Π_m (1 + λ_i·D_m) ≥ (K−1)/δ.

    Parameters
    ----------
    delta
        The most that the probability of a wrong certified verdict may be, in (0, 1).
    pulls
        If given, there is one look only, at n = pulls. The trial is decided if one arm is above all others there, and
        stays undecided for ever if not. No reason to want this is known: campaigns of version 0.1 have it.

    >>> Population(delta=0.05)
    Population(delta=0.05, pulls=None)
    """

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent")

    delta: float = 0.05
    pulls: int | None = None

    def __post_init__(self) -> None:
        validation.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        if self.pulls is not None:
            validation.keep_whole(self, "pulls", 1, MOST)

    def threshold(self, arms: int) -> float:
        """log((K−1)/δ): a union over the rivals of the best arm."""
        return math.log((arms - 1) / self.delta)

    def fewest_agents(self, arms: int) -> int:
        """Return the smallest M with Σ_i π_i·(1 + λ_i)^M ≥ (K−1)/δ: with fewer, not even D_m = 1 decides."""
        agents = 1
        while float(SHARES @ (1.0 + BETS) ** agents) < (arms - 1) / self.delta:
            agents += 1
        return agents

    def futile(self, setting: Setting) -> str | None:
        """Say which is missing: agents, or time for the pulls of the one look."""
        K, M, least = setting.arms, int((setting.weights > 0).sum()), self.fewest_agents(setting.arms)
        if least > M:
            return f"at least {least} agents are needed for {K} arms at δ = {self.delta:g}, and there are {M}"
        if self.pulls is not None and setting.horizon is not None and K * self.pulls > setting.horizon:
            return f"{K} × {self.pulls} pulls of every agent are needed, and the horizon is {setting.horizon}"
        return None

    def check(self, setting: Setting) -> None:
        """Refuse weights that differ: an agent is one draw from the population."""
        if np.ptp(setting.weights[setting.weights > 0]) > TIE:
            raise InvalidInput(
                "weights must be equal or 0 with rules.Population, where an agent is one draw; leave them out."
            )

    def start(self, setting: Setting, record: Record) -> PopulationState:
        """Begin a trial."""
        self.check(setting)
        return PopulationState(self, setting, record)


@jit
def look(evidence: Any, rows: Any, sums: Any, targets: Any, weights: Any, n: int, once: bool) -> None:
    """log E_jk(n) for every arm j (row) above every arm k (column) that is still in, from sums of n rewards.

    ``rows`` is to work in: sums over agents, a row of logarithms for each bet, and one of products not yet among them.
    """
    K, M = sums.shape
    clear(evidence, rows, targets)
    add_totals(rows, sums, weights, (0, K, 0, M))
    for j in range(K):
        if targets[j] > 0:
            begin_row(rows)
            add_logs(rows, sums, targets, weights, n, once, j, (0, K, 0, M))
            end_row(evidence, rows, targets, once, j)


@jit
def clear(evidence: Any, rows: Any, targets: Any) -> None:
    """Forget the last look; an arm that is out keeps what it fell to."""
    for k in range(evidence.shape[0]):
        rows[0, k] = 0.0
        if targets[k] > 0:
            evidence[:, k] = -np.inf


@jit
def add_totals(rows: Any, sums: Any, weights: Any, tile: Any) -> None:
    """Add up the first rewards of a tile of streams (first arm, last, first agent, last)."""
    for k in range(tile[0], tile[1]):
        for m in range(tile[2], tile[3]):
            if weights[m] > 0.0:
                rows[0, k] += float(sums[k, m])


@jit
def compared(rows: Any, targets: Any, once: bool, j: int, k: int) -> Any:
    """Whether E_jk is looked at: it is at most 1 unless Σ_m D_m is positive, so k would stay. The one look has all."""
    return once or (targets[k] > 0 and rows[0, j] > rows[0, k])


@jit
def begin_row(rows: Any) -> None:
    """log π_i, and empty products."""
    for i in range(BETS.shape[0]):
        rows[1 + i, :] = math.log(SHARES[i])
        rows[BETS.shape[0] + 1 + i, :] = 1.0


@jit
def add_logs(rows: Any, sums: Any, targets: Any, weights: Any, n: int, once: bool, j: int, tile: Any) -> None:
    """Add Σ_m log(1 + λ_i·D_m) over the agents of a tile, for arm j above its arms, agents in their order."""
    for k in range(tile[0], tile[1]):
        if compared(rows, targets, once, j, k):
            for i in range(BETS.shape[0]):
                at = BETS.shape[0] + 1 + i
                log, product = rows[1 + i, k], rows[at, k]
                for m in range(tile[2], tile[3]):
                    if weights[m] > 0.0:
                        bet = BETS[i] * (float(sums[j, m] - sums[k, m]) * 2.0**-30 / float(n))
                        if once:  # as version 0.1 added them up
                            log += math.log1p(bet)
                        else:
                            product *= 1.0 + bet
                    if m % TOGETHER == TOGETHER - 1:
                        log += math.log(product)
                        product = 1.0
                rows[1 + i, k], rows[at, k] = log, product


@jit
def end_row(evidence: Any, rows: Any, targets: Any, once: bool, j: int) -> None:
    """Add up what the bets hold, without overflow."""
    for k in range(evidence.shape[0]):
        if compared(rows, targets, once, j, k):
            total = 0.0
            for i in range(BETS.shape[0]):
                log = rows[1 + i, k] + math.log(rows[BETS.shape[0] + 1 + i, k])
                total += math.exp(min(log, 700.0))
            evidence[j, k] = math.log(total)


@jit
def eliminate(evidence: Any, targets: Any, threshold: float) -> int:
    """Give arms that lose to another one no target, the others the next n; return how many are left."""
    left = 0
    for k in range(targets.shape[0]):
        if targets[k] > 0:
            targets[k] += 1
            for j in range(targets.shape[0]):
                if evidence[j, k] >= threshold:
                    targets[k] = 0
            left += targets[k] > 0
    return left


@jit
def winner(evidence: Any, threshold: float) -> int:
    """The arm that is claimed above all others, −1 if there is none; of several, which is all but impossible, none."""
    found = -1
    for j in range(evidence.shape[0]):
        claims = 0
        for k in range(evidence.shape[0]):
            if k != j and evidence[j, k] >= threshold:
                claims += 1
        if claims == evidence.shape[0] - 1:
            found = j if found == -1 else -2
    return max(found, -1)


def against(evidence: Any) -> list[float]:
    """Return the largest evidence against every arm, as a number that is always finite."""
    K = len(evidence)
    return [max(math.exp(min(float(evidence[j, k]), 700.0)) for j in range(K) if j != k) for k in range(K)]


class Coming(NamedTuple):
    """What the next look will see, and what waits for a later one."""

    sums: Ints
    targets: Ints
    owing: Ints
    queues: Queues
    weights: Floats
    once: bool


@jit
def take(pulls: Any, totals: Any, changes: Any, coming: Any, streams: Any, rewards: Any) -> int:
    """Enter pulls into the record and see them, in their order, until the pool is full; return how many."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        if is_full(coming.queues):
            return i
        m, k = streams[i] // K, streams[i] % K
        enter(pulls, totals, changes, m, k, rewards[i])
        see(pulls, coming, m, k, rewards[i])
    return len(streams)


@jit
def see(pulls: Any, coming: Any, m: int, k: int, reward: Any) -> None:
    """Add up first rewards up to the next look, and let later ones wait. The record has this pull already."""
    n, target = np.int64(pulls[m, k]), coming.targets[k]
    if coming.weights[m] > 0.0 and n <= target:
        coming.sums[k, m] += np.int64(reward)
        coming.owing[0] -= n == target
    elif coming.weights[m] > 0.0 and target > 0 and not coming.once:
        push(coming.queues, k, m, reward)


@jit
def refill(coming: Any, tile: Any) -> None:
    """Let what waited of a tile of streams enter the next look, and count those that owe it."""
    queues = coming.queues
    for k in range(tile[0], tile[1]):
        for m in range(tile[2], tile[3]):
            if coming.targets[k] == 0:
                if queues.tails[k, m] > 0:
                    drop(queues, k, m)
            elif coming.weights[m] > 0.0:
                if queues.tails[k, m] > 0:
                    coming.sums[k, m] += pop(queues, k, m)
                else:
                    coming.owing[0] += 1


class PopulationState(OwingState):
    """The sums of everybody's first rewards up to the next look, and the rewards that wait for a later one.

    A stream takes 12 bytes here, and a reward that waits 8.
    """

    def __init__(self, rule: Population, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        K, M = setting.arms, setting.agents
        self.delta, self.threshold, self.fewest = rule.delta, rule.threshold(K), rule.fewest_agents(K)
        self.once = rule.pulls is not None
        """Whether there is one look only."""
        when = f" after {rule.pulls} pulls a stream" if self.once else ""
        self.title = f"the population rule at δ = {rule.delta:g}{when} (proven)"
        self.assumptions = (
            "agents were drawn independently from the population",
            "nobody is missing because of rewards, or of which arms they like",
            *(("there is one look, fixed beforehand",) if self.once else ()),
            *STACKS,
        )
        self.sums: Ints = zeros((K, M), np.int64)
        """Sums of the first rewards up to the next look, in units of 2⁻³⁰, by arm and agent."""
        self.claims = np.full((K, K), -np.inf)
        """log evidence for every arm (row) above every other (column), at the last look."""
        self.targets: Ints = np.full(K, 1 if rule.pulls is None else rule.pulls)
        """n of the next look by arm, 0 for arms that are out."""
        self.owing: Ints = np.array([K * int((setting.weights > 0).sum())])
        """Streams that have not given the first rewards of the next look (one entry)."""
        self.looked = False
        """Whether the one look is over."""
        self._waiting = Waiting(K, M)
        self._looking = False

    @property
    def target(self) -> str:
        """The population, not the panel."""
        among = int((self.setting.weights > 0).sum())
        return f"the population from which the {among} agents of the panel were drawn"

    @property
    def finished(self) -> bool:
        """Whether the one look is over: who leaves later makes no second one."""
        return self.looked

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say what the looks have shown."""
        if not self.once:
            return super().claim(arm)
        return f"it was claimed above every other arm by {self.title}, at its one look"

    def standing(self) -> str:
        """Say that there will be no second look, or that not even the clearest can show anything."""
        if not self.looked:
            return super().standing() + self._short_of_agents()
        return f"the one look of {self.title} claimed no arm above all others, and there is no second"

    def _short_of_agents(self) -> str:
        among = int((self.setting.weights > 0).sum())
        return f", which can never decide with fewer than {self.fewest} agents" if among < self.fewest else ""

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Add up first rewards, or let one wait."""
        self._waiting.make_room()
        see(self.record.pulls, self._coming, agent, arm, reward)

    @property
    def _coming(self) -> Coming:
        return Coming(self.sums, self.targets, self.owing, self._waiting.queues, self.setting.weights, self.once)

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and see them, in their order."""
        record, done = self.record, 0
        while done < len(streams):
            batch = slice(done, done + BATCH)
            done += take(record.pulls, record.sums, record.changes, self._coming, streams[batch], rewards[batch])
            record.note(0, record.arms)
            self._waiting.make_room()

    def evaluate(self, incentivizing: bool) -> None:
        """Look at every n that all streams have given."""
        finish(self.evaluation(incentivizing))

    def evaluation(self, incentivizing: bool) -> Work[None]:
        """Look at every n that all streams have given, in slices."""
        if self.owing[0] > 0 or self.looked or self.decided:
            return
        self._looking, claims, active = True, self.claims.copy(), self.active
        while self.owing[0] == 0 and sum(active) > 1:
            yield from self._look(claims)
            if self.once:
                found = winner(claims, self.threshold)
                active, self.looked = [found in (-1, k) for k in range(self.setting.arms)], True
                break
            left = eliminate(claims, self.targets, self.threshold)
            active = (self.targets > 0).tolist()
            if left == 1:
                self._end()
            else:
                yield from self._begin_look()
        self._looking, self.claims, self.active = False, claims, active

    def _look(self, claims: Floats) -> Work[None]:
        """Do what `look` does."""
        sums, targets, weights, n = self.sums, self.targets, self.setting.weights, int(self.targets.max())
        rows = np.zeros((1 + 2 * len(BETS), self.setting.arms))
        size = self.setting.arms, self.setting.agents, STREAMS
        clear(claims, rows, targets)
        for tile in tiles(*size):
            add_totals(rows, sums, weights, tile)
            yield
        for j in np.flatnonzero(targets).tolist():
            begin_row(rows)
            for tile in tiles(*size):
                add_logs(rows, sums, targets, weights, n, self.once, j, tile)
                yield
            end_row(claims, rows, targets, self.once, j)

    def _begin_look(self) -> Work[None]:
        """Let what waited enter the next look."""
        for tile in tiles(self.setting.arms, self.setting.agents, STREAMS):
            refill(self._coming, tile)
            yield

    def _end(self) -> None:
        """One arm is left: nobody owes anything, and nothing waits."""
        self._waiting.end()
        self.targets[:] = 0

    def owed_by(self, agents: Any) -> Ints:
        """Return how far streams are below n; nothing while that is being looked at."""
        below = np.maximum(self.targets - self.record.pulls[agents].astype(np.int64), 0)
        return np.asarray(below * (self.setting.weights[agents] > 0)[:, None] * (not self._looking))

    def needed(self) -> Work[Floats]:
        """n of the one look; else n_k from the sample means so far (`fill_needed`), β = log((K−1)/δ) + 2, σ² = ¼."""
        K = self.setting.arms
        if self.once:
            yield
            return self.targets.astype(float)
        spreads, needed = np.full(K, 0.25 * float((self.setting.weights**2).sum())), np.zeros(K)
        means = yield from self.means()
        smallest = smallest_gap(self.setting, self.delta)
        fill_needed(needed, means, self.targets, spreads, self.threshold + 2.0, smallest)
        return needed

    def parts(self) -> dict[str, Any]:
        """Return the sums, what waits, and what the looks have claimed."""
        kept: dict[str, Any] = {"sums": self.sums, "owing": self.owing, "claims": self.claims}
        if not self.once:
            kept |= {"targets": self.targets} | self._waiting.queues._asdict()
        return kept | {"looked": self.looked, "active": self.active}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        for name in ("sums", "owing", "claims") if self.once else ("sums", "owing", "claims", "targets"):
            np.copyto(getattr(self, name), parts[name])
        if not self.once:
            self._waiting.restore(*(parts[name] for name in Queues._fields))
        self.looked, self.active = parts["looked"], parts["active"]

    @property
    def goes_at(self) -> float:
        """(K−1)/δ."""
        return math.exp(min(self.threshold, 700.0))

    def bounds(self) -> list[float]:
        """The largest evidence against every arm at the last look; 0 before it, and where no arm did better."""
        return against(self.claims)

    def evidence(self) -> list[float]:
        """Return the largest evidence against every arm, as `bounds` does."""
        return self.bounds()
