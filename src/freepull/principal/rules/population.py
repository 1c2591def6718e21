"""The population rule: one look, fixed beforehand, at the agents' own differences (docs/certified.md, population).

The panel's bounds speak of the agents who take part. To speak of the population that they were drawn from, an agent
counts as one draw: D_m, the difference of its means over the first n rewards of two arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from freepull import checks
from freepull.compiling import jit
from freepull.errors import InvalidInput
from freepull.game import TIE
from freepull.numerics import zeros
from freepull.principal.record import BATCH, Record, Words, enter
from freepull.principal.rules.base import SMALLEST, STACKS, Floats, Rule
from freepull.principal.rules.owing import Ints, OwingState
from freepull.principal.setting import Setting
from freepull.principal.work import STREAMS, Work, finish, pieces
from freepull.registry import part

BETS = np.array([0.99, 0.8, 0.5, 0.25, 0.12])
"""λ_i."""
SHARES = np.array([0.4, 0.2, 0.15, 0.15, 0.1])
"""π_i."""
MOST = 1 << 30
"""No sum of first rewards, in units of 2⁻³⁰, can then overflow."""


@part("rule", "population", kernel=2)
@dataclass(frozen=True)
class Population(Rule):
    """One look at the first ``pulls`` rewards of every stream: **proven** for the population, if agents are drawn.

    Arm j is claimed above arm k if Σ_i π_i·Π_m (1 + λ_i·D_m) ≥ (K−1)/δ. The trial is decided if one arm is claimed
    above all others at that look, and stays undecided for ever if not.

    >>> Population(delta=0.05, pulls=200)
    Population(delta=0.05, pulls=200)
    """

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent")

    delta: float = 0.05
    pulls: int = 100

    def __post_init__(self) -> None:
        checks.keep_real(self, "delta", SMALLEST, 1.0, open_high=True)
        checks.keep_whole(self, "pulls", 1, MOST)

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
        """Say which is missing: agents, or time for their pulls."""
        K, M, least = setting.arms, int((setting.weights > 0).sum()), self.fewest_agents(setting.arms)
        if least > M:
            return f"at least {least} agents are needed for {K} arms at δ = {self.delta:g}, and there are {M}"
        if setting.horizon is not None and K * self.pulls > setting.horizon:
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
def fill_evidence(evidence: Any, sums: Any, weights: Any, pulls: int) -> None:
    """log Σ_i π_i·Π_m (1 + λ_i·D_m) for every arm j (row) above every arm k (column), agents in their order.

    ``sums`` are those of the first ``pulls`` rewards by arm and agent, in units of 2⁻³⁰.
    """
    K, M = sums.shape
    for j in range(K):
        for k in range(K):
            total = 0.0
            for i in range(BETS.shape[0]):
                log = add_logs(log_share(i), sums, weights, pulls, j, k, i, 0, M)
                total = add_exp(total, log)
            evidence[j, k] = log_of(total)


@jit
def log_share(i: int) -> float:
    """log π_i."""
    return math.log(SHARES[i])


@jit
def add_logs(log: float, sums: Any, weights: Any, pulls: int, j: int, k: int, i: int, first: int, last: int) -> float:
    """Add Σ_m log(1 + λ_i·D_m) over a range of agents."""
    for m in range(first, last):
        if weights[m] > 0.0:
            log += math.log1p(BETS[i] * (float(sums[j, m] - sums[k, m]) * 2.0**-30 / float(pulls)))
    return log


@jit
def add_exp(total: float, log: float) -> float:
    """Add what a bet holds to what all hold, without overflow."""
    return total + math.exp(min(log, 700.0))


@jit
def log_of(total: float) -> float:
    """Return the logarithm."""
    return math.log(total)


@jit
def take(
    pulls: Any, totals: Any, changes: Any, sums: Any, owing: Any, weights: Any, most: int, streams: Any, rewards: Any
) -> None:
    """Enter pulls into the record and see them, in their order."""
    K = pulls.shape[1]
    for i in range(streams.shape[0]):
        m, k = streams[i] // K, streams[i] % K
        enter(pulls, totals, changes, m, k, rewards[i])
        see(pulls, sums, owing, weights, most, m, k, rewards[i])


@jit
def see(pulls: Any, sums: Any, owing: Any, weights: Any, most: int, m: int, k: int, reward: Any) -> None:
    """Add up first rewards; later ones do not count. The record has this pull already."""
    n = np.int64(pulls[m, k])
    if weights[m] > 0.0 and n <= most:
        sums[k, m] += np.int64(reward)
        owing[0] -= n == most


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


class PopulationState(OwingState):
    """The sums of everybody's first rewards, up to the look."""

    proven = True
    stepwise = False
    assumptions = (
        "agents were drawn independently from the population",
        "nobody is missing because of rewards",
        "there is one look, fixed beforehand",
        *STACKS,
    )

    def __init__(self, rule: Population, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        K, M = setting.arms, setting.agents
        self.pulls, self.threshold, self.fewest = rule.pulls, rule.threshold(K), rule.fewest_agents(K)
        self.title = f"the population rule at δ = {rule.delta:g} after {rule.pulls} pulls a stream (proven)"
        self.sums: Ints = zeros((K, M), np.int64)
        """Sums of the first rewards, in units of 2⁻³⁰, by arm and agent."""
        self.claims = np.full((K, K), -np.inf)
        """log evidence for every arm (row) above every other (column)."""
        self.owing: Ints = np.array([K * int((setting.weights > 0).sum())])
        """Streams that have not given their first rewards (one entry)."""
        self.looked = False

    @property
    def target(self) -> str:
        """The population, not the panel."""
        among = int((self.setting.weights > 0).sum())
        return f"the population from which the {among} agents of the panel were drawn"

    @property
    def finished(self) -> bool:
        """Whether the look is over: who leaves later makes no second one."""
        return self.looked

    def claim(self) -> str:
        """Say what the look has shown."""
        return f"it was claimed above every other arm by {self.title}, at its one look"

    def standing(self) -> str:
        """Say that there will be no second look, or that even the first can show nothing."""
        if not self.looked:
            return super().standing() + self._short_of_agents()
        return f"the one look of {self.title} claimed no arm above all others, and there is no second"

    def _short_of_agents(self) -> str:
        among = int((self.setting.weights > 0).sum())
        return f", which can never decide with fewer than {self.fewest} agents" if among < self.fewest else ""

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Add up first rewards; later ones do not count."""
        see(self.record.pulls, self.sums, self.owing, self.setting.weights, self.pulls, agent, arm, reward)

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and see them, in their order."""
        record = self.record
        for first, last in pieces(len(streams), BATCH):
            take(
                record.pulls, record.sums, record.changes, self.sums, self.owing, self.setting.weights, self.pulls,
                streams[first:last], rewards[first:last],
            )  # fmt: skip
            record.note(0, record.arms)

    def evaluate(self, incentivizing: bool) -> None:
        """Look, once, when every stream has given its first rewards."""
        finish(self.evaluation(incentivizing))

    def evaluation(self, incentivizing: bool) -> Work[None]:
        """Look in slices, as `fill_evidence` does."""
        if self.owing[0] > 0 or self.looked:
            return
        self.looked = True
        K, M, weights = self.setting.arms, self.setting.agents, self.setting.weights
        for j in range(K):
            for k in range(K):
                total = 0.0
                for i in range(len(BETS)):
                    log = log_share(i)
                    for first, last in pieces(M, STREAMS):
                        log = add_logs(log, self.sums, weights, self.pulls, j, k, i, first, last)
                        yield
                    total = add_exp(total, log)
                self.claims[j, k] = log_of(total)
        found = winner(self.claims, self.threshold)
        if found >= 0:
            self.active = [k == found for k in range(K)]

    def owed_by(self, agents: Any) -> Ints:
        """Return how far streams are below n."""
        below = np.maximum(self.pulls - self.record.pulls[agents].astype(np.int64), 0)
        return np.asarray(below * (self.setting.weights[agents] > 0)[:, None])

    def needed(self) -> Work[Floats]:
        """n."""
        yield
        return np.full(self.setting.arms, float(self.pulls))

    def parts(self) -> dict[str, Any]:
        """Return the sums, the look if there was one, and what it claimed."""
        kept = {"sums": self.sums, "owing": self.owing, "claims": self.claims}
        return kept | {"looked": self.looked, "active": self.active}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        for mine, kept in ((self.sums, "sums"), (self.owing, "owing"), (self.claims, "claims")):
            np.copyto(mine, parts[kept])
        self.looked, self.active = parts["looked"], parts["active"]

    @property
    def goes_at(self) -> float:
        """(K−1)/δ."""
        return math.exp(min(self.threshold, 700.0))

    def bounds(self) -> list[float]:
        """The largest evidence against every arm, 0 before the look."""
        return against(self.claims)

    def evidence(self) -> list[float]:
        """Return the largest evidence against every arm, 0 before the look."""
        return self.bounds()
