"""What the certified rule claims, held against sums over all that can happen, and against longer arithmetic."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import freepull as fp
from certified_reference import psi
from freepull.principal.rules.certified import evaluation as steps
from freepull.principal.rules.certified.books import MEAN, Fill
from freepull.principal.rules.certified.design import prediction
from freepull.principal.rules.certified.state import CertifiedState

ROUNDS = 5
DESIGN = fp.rules.Design(held_back=0.0, gap_memory=2.0)


def mean_of_accounts(best: float, other: float, robust: float, bias: Any) -> np.ndarray[Any, Any]:
    """E W_k(x) after some rounds of one coin an arm, by margin and arm: every path with its probability.

    ``bias(state)`` moves the means of the coming round, and may depend on all rounds before.
    """
    rule = fp.rules.Certified(1e-9, design=DESIGN, robust=robust)
    principal = fp.Principal(rule, observe=fp.observe.Steps(0))
    total: Any = 0.0
    for path in product((0, 1), repeat=2 * ROUNDS):
        trial, chance = principal.start(arms=2, agents=1, horizon=400), 1.0
        state = trial.rule
        assert isinstance(state, CertifiedState)
        for coins in zip(path[::2], path[1::2], strict=True):
            for arm, (coin, mean) in enumerate(zip(coins, np.array([best, other]) + bias(state), strict=True)):
                chance *= mean if coin else 1 - mean
                trial.tell(0, arm, coin)
            trial.end_step()
        assert state.used.course[1] == ROUNDS
        total = total + chance * state.coming.capital.sum((2, 3))
    return np.asarray(total)


class OneRound:
    """A round of one sample an arm, whose predictions are as good as can be, so that they give nothing away."""

    def __init__(self, best: float, rules: int = 2) -> None:
        rule = fp.rules.Certified(1e-9, design=DESIGN)
        trial = fp.Principal(rule, observe=fp.observe.Steps(0)).start(arms=2, agents=1, rules=rules)
        assert isinstance(trial.rule, CertifiedState)
        self.state, n = trial.rule, 10**6
        used = self.state.used
        used.pulls[...], used.sums[...], used.errors[...] = n, n * best, n * max(best * (1 - best), 1e-4)
        used.arms[:, MEAN] = best

    def factors(self, rewards: tuple[float, float]) -> Any:
        """What each bet against arm 0 is multiplied by, by candidate gap."""
        state, (first, second) = self.state, rewards
        state.coming.capital[...] = 1.0
        state.coming.blocks[...] = 1
        expected = prediction(state.used, 0, 0)
        fill = Fill(np.array([[first], [second]]), np.array([[(first - expected) ** 2], [(second - expected) ** 2]]))
        steps.clear(state.measure)
        steps.measure_streams(state.used, state.coming, fill, state.measure, state.constants, (0, 2, 0, 1))
        steps.pay_out(state.used, state.coming, state.measure, state.constants, 0, 2)
        return state.coming.capital[0, 0, 1].copy()


@pytest.mark.parametrize("mean", [0.02, 0.05, 0.3, 0.5, 0.7, 0.95, 0.98])
def test_one_coin_against_a_constant_has_factors_of_mean_at_most_1(mean: float) -> None:
    stand, plain = OneRound(mean), OneRound(mean, rules=1)
    for coin in ("rival", "tested arm"):
        total, before = np.zeros(1), np.zeros(1)
        for reward in (0.0, 1.0):
            rewards = (mean, reward) if coin == "rival" else (reward, mean)
            chance = mean if reward else 1 - mean
            total, before = total + chance * stand.factors(rewards), before + chance * plain.factors(rewards)
        assert (total <= 1 + 1e-9).all()
        small = stand.state.constants.gaps < 0.05 * mean * (1 - mean)  # neither ψ keeps the bet small there
        assert (total[small] >= before[small] - 1e-12).all(), "never worse for the same bets"
        assert (total > 0.9).all(), "and of use"


def no_bias(state: CertifiedState) -> Any:
    return np.zeros(2)


@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_the_evidence_against_a_best_arm_has_mean_at_most_1_exactly(mean: float) -> None:
    found = mean_of_accounts(mean, mean, 0.0, no_bias)
    assert (found <= 1 + 1e-12).all()
    assert found[0].min() > 0.85, "not much is given away"


@pytest.mark.parametrize("mean", [0.12, 0.5, 0.88])
@pytest.mark.parametrize("how", ["always", "until it looks bad"])
def test_moved_by_gamma_the_evidence_at_the_margin_2_gamma_has_mean_at_most_1(mean: float, how: str) -> None:
    gamma = 0.1

    def bias(state: CertifiedState) -> Any:
        """Against arm 0, or for it after rounds in which it looked bad."""
        along = how == "always" or state.evidence()[0] <= 1
        return np.array([-gamma, gamma]) * (1 if along else -1)

    found = mean_of_accounts(mean, mean, gamma, bias)
    margins = fp.Principal(fp.rules.Certified(robust=gamma)).start(arms=2, agents=1, horizon=400).rule
    assert isinstance(margins, CertifiedState)
    x = margins.constants.margins
    assert (found[x >= 2 * gamma, 0] <= 1 + 1e-12).all()
    if how == "always":
        assert (found[x <= 0.8 * gamma, 0] > 1.02).all(), "less would not do"


def test_what_a_robust_verdict_survives_and_says() -> None:
    for robust in (0.0, 0.04):
        principal = fp.Principal(fp.rules.Certified(0.05, robust=robust), observe=fp.observe.Steps(0))
        trial = principal.start(arms=3, agents=1, horizon=400)
        rng = np.random.default_rng(4)
        assert trial.verdict().survives is None
        while trial.decided_at is None:
            for arm, mean in enumerate((0.9, 0.3, 0.1)):
                trial.tell(0, arm, float(rng.random() < mean))
            trial.end_step()
        verdict, state = trial.verdict(), trial.rule
        assert isinstance(state, CertifiedState)
        margins, peaks = state.constants.margins, state.coming.peaks
        for x in margins:  # every margin up to twice what it survives was reached by both arms that are out
            reached = bool((peaks[margins == x, 1:] >= 20).all())
            assert reached == (x <= 2 * verdict.survives)  # type: ignore[operator]
        assert verdict.survives is not None
        assert verdict.survives >= robust
        assert f"stands as long as payment, drift and the like move no mean by more than ± {verdict.survives:g}" in str(
            verdict
        )
        np.testing.assert_allclose(state.bounds(), state.coming.capital[margins == 2 * robust][0].sum((1, 2)))


def test_the_sharper_psi_is_smaller_and_still_enough() -> None:
    u = np.linspace(0.0, 0.6, 61)[1:]
    one = np.ones(1)
    for a in (1e-3, 0.02, 0.3, 0.9, 1.0):
        ours, plain = psi(u / a, np.array([a])), psi(u / a, one) if a == 1.0 else None
        for xi in np.linspace(-a, 1.0, 57):
            assert (np.exp(u / a * xi - ours * xi * xi) <= (1 + u / a * xi) * (1 + 1e-12)).all()
        if plain is None:
            assert (psi(u, np.array([a])) < psi(u, one)).all()
        short = -a - 0.05  # further down it is not enough
        assert a == 1.0 or (np.exp(u / a * short - ours * short**2) > 1 + u / a * short).all()
    assert math.isclose(float(psi(np.array([0.3]), one)[0]), -math.log(0.7) - 0.3)
