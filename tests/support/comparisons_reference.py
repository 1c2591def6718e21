"""The rule `Comparisons` as its page defines it, from a list of comparisons and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from freepull.principal.rules.comparisons.book import BETS, SHARES
from freepull.principal.rules.comparisons.rule import ComparisonsState


@dataclass
class Comparison:
    """One agent's, from its opening on."""

    agent: int
    arms: list[int]
    predictions: list[float]
    weight: float
    samples: dict[int, float] = field(default_factory=dict)


class Plain:
    """Watches a state's asks and tells, takes its openings for given, and computes everything else anew."""

    def __init__(self, state: ComparisonsState) -> None:
        self.state = state
        self.comparisons: list[Comparison] = []
        self.open: dict[int, Comparison] = {}
        self.asked: set[int] = set()

    def ask(self, agent: int) -> None:
        """Let an agent ask; note whether that opened a comparison."""
        state, before = self.state, int(self.state.book.openings[agent])
        state.asked(agent)
        if state.book.openings[agent] > before:
            assert agent not in self.asked, "an opening while a pull may be under way"
            edition = int(state.book.edition[agent])
            weight = float(state.setting.weights[agent] / state.setting.weights.max())
            arms = [k for k, alive in enumerate(state.active) if alive]
            mine = self.open.get(agent)
            assert mine is None or all(k in mine.samples for k in mine.arms if state.active[k]), "one is open already"
            predictions = state.book.predictions[0, edition].tolist()
            self.open[agent] = Comparison(agent, arms, predictions, weight)
            self.comparisons.append(self.open[agent])
        self.asked.add(agent)

    def tell(self, agent: int, arm: int, reward: float) -> None:
        """Tell one pull."""
        units = round(reward * 2**30)
        self.state.record.add(agent, arm, units)
        self.state.observe(agent, arm, units)
        mine = self.open.get(agent)
        if mine is not None and agent in self.asked and arm in mine.arms and arm not in mine.samples:
            mine.samples[arm] = units / 2**30
        self.asked.discard(agent)

    def log_evidence(self, j: int, k: int, x: float, n: int) -> float:
        """log E_jk(n; x)."""
        logs = []
        for bet, share in zip(BETS.tolist(), SHARES.tolist(), strict=True):
            log = math.log(share)
            for c in self.comparisons[:n]:
                v = bet * c.weight
                log += log_a(c.samples.get(j, 0.0), v, c.predictions[j])
                log += log_a(c.samples.get(k, 1.0), -v, c.predictions[k]) - v * x
            logs.append(log)
        most = max(logs)
        return most + math.log(sum(math.exp(log - most) for log in logs))

    def people(self, n: int) -> int:
        """How many agents the first n comparisons are of."""
        return len({c.agent for c in self.comparisons[:n]})


def log_a(x: float, v: float, prediction: float) -> float:
    """log a(X; v, x̂)."""
    return v * prediction + math.log(1 + v * (x - prediction))
