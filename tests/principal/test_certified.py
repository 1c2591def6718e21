"""The certified rule against a second implementation, round by round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.principal.rules import Certified as Rule
from freepull.principal.rules import Design, Forecast
from freepull.principal.rules.certified.evaluation import eliminate
from freepull.principal.rules.certified.state import CertifiedState
from support.certified_reference import Reference


class Stand:
    """A trial and its double, fed from the same stacks in a random order."""

    def __init__(self, rule: Rule, means: Any, seed: int, *, law: str = "coin", kappa: int = 0, **frame: Any) -> None:
        self.means, self.law, self.rng = np.array(means), law, np.random.default_rng(seed)
        M, K = self.means.shape
        offers = frame.pop("offers", "one")
        principal = fp.Principal(rule, observe=fp.observe.Steps(kappa), offers=offers)
        self.trial = principal.start(arms=K, agents=M, **frame)
        self.double = Reference(rule, self.trial.setting)
        self.stacks: list[list[list[float]]] = [[[] for _ in range(M)] for _ in range(K)]

    @property
    def rule(self) -> CertifiedState:
        assert isinstance(self.trial.rule, CertifiedState)
        return self.trial.rule

    def draw(self, m: int, k: int) -> float:
        mean = float(self.means[m, k])
        if self.law == "coin":
            return float(self.rng.random() < mean)
        if self.law == "narrow":
            return round((mean + 0.1 * (float(self.rng.random()) - 0.5)) * 1024) / 1024
        return round(float(self.rng.beta(8 * mean, 8 * (1 - mean))) * 1024) / 1024

    def tell(self, m: int, k: int) -> None:
        reward = self.draw(m, k)
        self.stacks[k][m].append(reward)
        self.trial.tell(m, k, reward)

    def step(self) -> None:
        """Tell about as much as the coming round lacks, some streams less and some more, in any order."""
        owed = [
            (m, k)
            for m in range(self.trial.setting.agents)
            for k in range(self.trial.setting.arms)
            for _ in range(
                int(self.rule.owed(m, k) * self.rng.choice([0.4, 1.0, 1.0, 1.0, 2.5]) + self.rng.integers(2))
            )
        ]
        for at in self.rng.permutation(len(owed)):
            self.tell(*owed[at])
        self.trial.end_step()

    def compare(self) -> None:
        state, double = self.rule, self.double
        assert state.used.course.tolist() == [double.R, double.rounds]
        assert state.used.pulls.tolist() == double.U.tolist()
        assert self.trial.active == np.flatnonzero(double.active).tolist()
        assert all(double.active[k] and double.on[m] for k, m in state.waiting), "the others would wait for ever"
        assert not (state.decided and state.waiting)
        if not state.decided:
            assert state.coming.blocks.tolist() == double.b.tolist()
            assert state.coming.worth.tolist() == [double.r]
        capital = state.coming.capital.copy()
        cash = np.einsum("xkki->xki", capital)
        np.testing.assert_allclose(cash, np.broadcast_to(double.cash, cash.shape), rtol=1e-12)
        cash[...] = 0
        totals = double.totals()
        assert (np.abs(capital - double.C) <= 1e-9 * totals[:, :, None, None]).all()
        np.testing.assert_allclose(state.evidence(), totals[double.at], rtol=1e-9)
        np.testing.assert_allclose(state.coming.peaks, double.peaks, rtol=1e-9)
        assert state.declared == double.declared
        if state.epsilon > 0:
            np.testing.assert_allclose(state.coming.near, double.E, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(state.coming.reached, double.reached, rtol=1e-9)
        assert state.bounds() == state.evidence()
        assert state.worse_by() == double.worse_by()
        verdict = self.trial.verdict()
        assert verdict.survives == (double.survives() if state.decided else None)


TWO, THREE = [[0.6, 0.3]], [[0.8, 0.5, 0.2], [0.4, 0.5, 0.6]]
CLOSE = [[0.7, 0.5, 0.4], [0.4, 0.5, 0.6]]
MANY = (0.2 + 0.6 * np.random.default_rng(1).random((12, 3)) * [1.0, 1.0, 0.7]).tolist()
ODD = Design(3, 2, growth=0.3, stretch=0.7, held_back=0.3, fitted=0.2, rival_memory=1.0, gap_memory=0.7, shrink=False)
CASES: dict[str, tuple[Rule, Any, int, dict[str, Any]]] = {
    "auto, short": (Rule(0.05), [[0.9, 0.3, 0.1]] * 2, 40, {"horizon": 300, "kappa": 150}),
    "auto, few agents": (Rule(0.001), THREE, 50, {"horizon": 4_000, "kappa": 2_000}),
    "auto, few agents, long": (Rule(1e-9), CLOSE, 40, {"horizon": 100_000, "kappa": 50_000, "law": "beta"}),
    "auto, many agents": (Rule(1e-6), MANY, 30, {"horizon": 3_000, "kappa": 1_500, "law": "beta"}),
    "auto, many arms": (
        Rule(0.01),
        [[0.6 - 0.03 * k for k in range(12)], [0.5] * 12, [0.7] * 4 + [0.6] * 8],
        30,
        {"horizon": 6_000, "kappa": 3_000},
    ),
    "auto, many agents, each": (Rule(1e-6), MANY, 45, {"horizon": 10_000, "kappa": 4_000, "offers": "each"}),
    "up to ε": (Rule(1e-7, epsilon=0.02), MANY, 30, {"horizon": 3_000, "kappa": 1_500, "law": "beta"}),
    "up to ε, nothing held back": (
        Rule(0.01, epsilon=0.3, robust=0.01, design=Design(held_back=0.0)),
        THREE,
        30,
        {"horizon": 1_000, "kappa": 100},
    ),
    "up to ε, many arms": (
        Rule(0.01, epsilon=0.02),
        [[0.7 - 0.05 * k for k in range(12)]] * 3,
        40,
        {"horizon": 6_000, "kappa": 3_000},
    ),
    "explicit": (Rule(0.05, design=ODD), THREE, 30, {"horizon": 1_000, "kappa": 100}),
    "everything": (
        Rule(1e-9, design=Design(5, 3, 0.1, 0.05, 1.0, 0.6, 0.3, forecast=Forecast(2.0, 0.1, 4.0, 0.2, 1.0, 3.0))),
        [[0.5, 0.4, 0.2, 0.3], [0.4, 0.5, 0.3, 0.1]],
        35,
        {"horizon": 5_000, "kappa": 3_000, "law": "beta"},
    ),
    "kappa just enough": (Rule(0.05, design=Design(forecast=Forecast(20.0))), CLOSE, 20, {"horizon": 99, "kappa": 6}),
    "kappa too small": (Rule(0.05, design=Design(forecast=Forecast(20.0))), CLOSE, 20, {"horizon": 99, "kappa": 5}),
    "narrow": (Rule(1e-60), [[0.53, 0.5, 0.1]] * 2, 30, {"horizon": 4_000, "kappa": 2_000, "law": "narrow"}),
    "extreme": (Rule(1e-60), [[0.99, 0.97, 0.005]] * 2, 30, {"horizon": 4_000, "kappa": 2_000}),
    "no cash": (Rule(0.1, design=Design(held_back=0.0)), THREE, 50, {"horizon": 500, "kappa": 20}),
    "all cash, all fitted": (Rule(0.1, design=Design(2, held_back=1.0, fitted=1.0)), THREE, 40, {"horizon": 500}),
    "cash held": (
        Rule(1e-3, design=Design(2, 2, held_back=0.7, held_until=12)),
        [[0.7, 0.55, 0.1], [0.5, 0.5, 0.2]],
        40,
        {"horizon": 500},
    ),
    "weights": (Rule(1e-5), CLOSE, 40, {"horizon": 3_000, "kappa": 1_500, "weights": [1.0, 3.0]}),
    "zero weights": (Rule(1e-9), MANY[:5], 40, {"horizon": 2_000, "kappa": 1_000, "weights": [0, 3, 0, 1, 1]}),
    "one of three counts": (Rule(0.05), MANY[:3], 40, {"horizon": 500, "weights": [0.0, 1.0, 0.0]}),
    "one agent, two arms": (Rule(1e-9), TWO, 40, {"horizon": 1_000, "kappa": 500}),
    "one agent, many arms": (Rule(0.05), [[0.9, 0.7, 0.5, 0.3, 0.1]], 40, {"horizon": 400, "law": "beta"}),
    "planned gap": (Rule(1e-4, gap=0.1), THREE, 40, {"horizon": 1_000, "kappa": 500, "law": "beta"}),
    "planned small gap": (Rule(0.05, gap=0.0007), TWO, 40, {}),
    "no horizon": (Rule(0.05), THREE, 60, {"law": "beta"}),
    "no horizon, but kappa": (Rule(0.01), THREE, 40, {"kappa": 2_000}),
    "large delta": (Rule(0.9), [[0.5, 0.5, 0.5]] * 2, 40, {"horizon": 300}),
    "near nothing": (Rule(1e-4), [[0.05, 0.02, 0.01]] * 3, 60, {"horizon": 9_000, "kappa": 3_000}),
    "robust": (Rule(1e-4, robust=0.03), THREE, 60, {"horizon": 4_000, "kappa": 2_000}),
    "robust, planned gap": (Rule(0.05, gap=0.3, robust=0.1), [[0.9, 0.3, 0.4]] * 2, 60, {"horizon": 400}),
    "robust, many agents": (Rule(1e-3, robust=0.0205), MANY, 30, {"horizon": 3_000, "kappa": 1_500, "law": "beta"}),
    "first rules": (Rule(1e-3), CLOSE, 40, {"horizon": 3_000, "kappa": 1_500, "rules": 1}),
    "small delta": (Rule(1e-30), [[0.8, 0.2]], 60, {"horizon": 10_000, "kappa": 100}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_round_agrees_with_a_second_implementation(name: str) -> None:
    rule, means, steps, frame = CASES[name]
    stand = Stand(rule, means, len(name), **frame)
    stand.compare()
    after = 0
    while after < 3 and steps > 0:
        stand.step()
        stand.double.advance(stand.stacks)
        stand.compare()
        steps, after = steps - 1, after + stand.rule.decided
    assert stand.double.rounds >= 10


@pytest.mark.parametrize("name", ["near nothing", "everything", "auto, many agents", "one agent, many arms"])
def test_the_evidence_is_at_most_that_of_the_exact_psi_and_not_much_less(name: str) -> None:
    rule, means, steps, frame = CASES[name]
    stand = Stand(rule, means, 5, **frame)
    exact = Reference(rule, stand.trial.setting, exact=True)
    for _ in range(steps):
        stand.step()
        exact.advance(stand.stacks)
        if not (exact.active == stand.rule.used.active).all():
            break
        ours, theirs = np.array(stand.rule.evidence()), exact.totals()[exact.at]
        assert (ours <= theirs * (1 + 1e-9)).all()
        assert (ours >= theirs * math.exp(-exact.behind) * (1 - 1e-9)).all()
    assert exact.rounds >= 10
    assert exact.behind < 0.1


@pytest.mark.parametrize("rules", [1, 2])
def test_a_bet_of_less_than_a_trillionth_of_its_account_is_given_up(rules: int) -> None:
    layout = Design(held_back=0.0, rival_memory=0.0, gap_memory=0.0)
    stand = Stand(Rule(0.05, design=layout), [[0.5, 0.5]], 0, rules=rules)
    capital = stand.rule.coming.capital
    capital[:, 0, 1], capital[1:, 0, 1, :2], capital[1:, 0, 1, 3] = 0.0, 1.0, 1.0
    capital[0, 0, 1, :4] = 3.0, 3.1e-12, 2.9e-12, 2.8e-12
    for arm in range(2):
        stand.trial.tell(0, arm, 0.5)
    stand.trial.end_step()
    assert (capital[0, 0, 1] > 0).tolist()[:4] == [True, True, False, rules == 1]  # the margin that decides says it
    assert (capital[1:, 0, 1, :2] > 0).all()


@pytest.mark.parametrize(
    ("evidence", "left"),
    [
        ([2.0, 0.5, 1.75], [1, 2]),  # 1/δ = 2 is enough
        ([4.0, 2.0, 1.75], [2]),
        ([4.0, 2.5, 3.0], [1]),  # all of them: the one with least evidence stays
        ([4.0, 3.0, 3.0], [1]),  # of several, the lowest
        ([2.0, 2.0, 2.0], [0]),
        ([math.inf, 0.0, 5.0], [1]),
    ],
)
def test_elimination(evidence: list[float], left: list[int]) -> None:
    state = Stand(Rule(0.5), [[0.5, 0.5, 0.5]], 0).rule
    state.coming.capital[...] = 0.0
    state.coming.capital[:, [0, 1, 2], [1, 2, 0], 0] = evidence
    assert eliminate(state.used, state.coming, state.constants) == len(left)
    assert np.flatnonzero(state.used.active).tolist() == left
    assert state.evidence() == evidence
    assert state.coming.peaks[3].tolist() == [max(1.0, held) for held in evidence]
