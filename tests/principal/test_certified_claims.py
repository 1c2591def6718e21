"""What the certified rule claims, held against sums over all that can happen, and against longer arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.principal.rules.certified import evaluation as steps
from freepull.principal.rules.certified.books import MEAN, Fill
from freepull.principal.rules.certified.design import prediction
from freepull.principal.rules.certified.state import CertifiedState
from support.certified_reference import psi
from support.examples import cases
from support.rounded import downwards
from support.tiers import mostly_slow

ROUNDS = 5
MOVED = "until it looks bad", "always"
DESIGN = fp.rules.Design(held_back=0.0, gap_memory=2.0)


def mean_of_accounts(best: float, other: float, robust: float, bias: Any, epsilon: float = 0.0) -> np.ndarray[Any, Any]:
    """E W_k(x) after some rounds of one coin an arm, by margin and arm: every path with its probability.

    With an ε, what is bet on the other arm being at most ε worse is part of it. ``bias(state)`` moves the means of the
    coming round, and may depend on all rounds before.
    """
    rule = fp.rules.Certified(1e-9, design=DESIGN, robust=robust, epsilon=epsilon)
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
        total = total + chance * (state.coming.capital.sum((2, 3)) + (state.coming.near.sum((1, 2)) if epsilon else 0))
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


@pytest.mark.slow
def test_sums_over_a_million_agents_lose_nothing() -> None:
    """Kahan's sums: three roundings at most, however many terms; a plain sum of these loses thousands of times that."""
    K, M, rng = 2, 1_000_000, np.random.default_rng(3)
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0))
    for rules, most in ((2, 4.0), (1, 1e6)):
        state = principal.start(arms=K, agents=M, rules=rules).rule
        assert isinstance(state, CertifiedState)
        fill = Fill(rng.integers(0, 2, (K, M)).astype(float), np.full((K, M), 0.1))
        steps.clear(state.measure)
        for first in (0, 300_000):  # in two slices
            tile = (0, K, first, 300_000 if first == 0 else M)
            part = Fill(fill.sums[:, tile[2] : tile[3]], fill.errors[:, tile[2] : tile[3]])
            steps.measure_streams(state.used, state.coming, part, state.measure, state.constants, tile)
        u = float(state.constants.weights[0])
        for k in range(K):
            exact = [(state.measure.values[k, steps.Y], math.fsum((u * fill.sums[k]).tolist()))]
            a = 0.5 if rules > 1 else 1.0
            exact += [(state.measure.powers[k, 1, q], M * (0.1 * u**q * a ** (q - 2))) for q in range(2, 10)]
            worst = max(abs(found / true - 1) for found, true in exact)
            assert worst <= (most + 40) * 2**-53 if rules > 1 else worst > 1000 * 2**-53


def exponent(e: Fraction, Y: list[Fraction], B: list[Any], a: list[Any], u: Any) -> Fraction:
    """The exponent of a bet in exact arithmetic: a rival, the tested arm."""
    largest = max(max(x * y for x, y in zip(a[i], u[i], strict=True)) for i in range(2))
    found = e * (Y[0] - Y[1])
    for i in range(2):
        for q in range(2, 10):
            power = sum(b * x ** (q - 2) * y**q for b, x, y in zip(B[i], a[i], u[i], strict=True))
            found -= e**q * power / (q if q < 9 else 9 * (1 - e * largest))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_within_its_written_bound(seed: int) -> None:
    """docs/certified.md, floating point, for one round; the weights are such that nothing is exact."""
    rng, M, b = np.random.default_rng(seed), 30, 5
    weights = rng.random(M)
    principal = fp.Principal(fp.rules.Certified(1e-90, design=fp.rules.Design(b, held_back=0.0)), fp.observe.Steps(0))
    state = principal.start(arms=2, agents=M, horizon=400, weights=weights).rule
    assert isinstance(state, CertifiedState)
    state.used.arms[:, MEAN] = rng.uniform(0.02, 0.98, 2)
    rewards = rng.random((2, M, b)).round(3)
    x_hat = [float(prediction(state.used, k, 0)) for k in range(2)]
    fill = Fill(np.zeros((2, M)), np.zeros((2, M)))
    for k, m in product(range(2), range(M)):
        for x in rewards[k, m]:
            fill.sums[k, m] += x
            fill.errors[k, m] += (x - x_hat[k]) * (x - x_hat[k])
    before = state.coming.capital[0, 0, 1].copy()
    steps.clear(state.measure)
    steps.measure_streams(state.used, state.coming, fill, state.measure, state.constants, (0, 2, 0, M))
    steps.pay_out(state.used, state.coming, state.measure, state.constants, 0, 2)
    u = [[Fraction(float(w / b)) for w in state.constants.weights]] * 2
    exact = [[[Fraction(float(x)) for x in own] for own in arm] for arm in rewards]
    Y = [sum((v * sum(own) for v, own in zip(u[k], exact[k], strict=True)), Fraction(0)) for k in (1, 0)]
    B = [[sum((x - Fraction(x_hat[k])) ** 2 for x in own) for own in exact[k]] for k in (1, 0)]
    a = [[Fraction(x_hat[1])] * M, [1 - Fraction(x_hat[0])] * M]
    spread = state.measure.values[:, steps.V].sum()
    largest = max(state.measure.values[1, steps.LARGEST], state.measure.values[0, steps.LARGEST + 1])
    for i, gap in enumerate(state.constants.gaps.tolist()):
        e = min(gap / spread, steps.LARGEST_BET / largest)
        h = e * float(max(u[0]))
        true = exponent(Fraction(e), Y, B, a, u)
        assert -500 < true < 500
        found = Fraction(float(state.coming.capital[0, 0, 1, i])) / Fraction(float(before[i]))
        off = abs(math.log(float(found / Fraction(math.exp(float(true)))))) - abs(float(true)) * 2**-52
        assert off <= 2**-53 * (e * (24 + 1.8 * h * (b + 60)) + 5)


def no_bias(state: CertifiedState) -> Any:
    return np.zeros(2)


@pytest.mark.slow
@pytest.mark.parametrize("mean", mostly_slow(0.5, 0.01, 0.1, 0.9, 0.99))
def test_the_evidence_against_a_best_arm_has_mean_at_most_1_exactly(mean: float) -> None:
    found = mean_of_accounts(mean, mean, 0.0, no_bias)
    assert (found <= 1 + 1e-12).all()
    assert found[0].min() > 0.85, "not much is given away"


@pytest.mark.parametrize("mean", mostly_slow(0.6, 0.2, 0.95))
def test_with_the_other_arm_e_worse_all_that_is_bet_has_mean_at_most_1_exactly(mean: float) -> None:
    found = mean_of_accounts(mean, mean - 0.1, 0.0, no_bias, epsilon=0.1)
    assert (found[:, 0] <= 1 + 1e-12).all()
    assert found[0, 0] > 0.8, "not much is given away"


def test_an_arm_that_is_best_up_to_epsilon_is_named_while_others_are_in_and_stays_named_when_saved() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05, epsilon=0.3), observe=fp.observe.Steps(0))
    trial = principal.start(arms=3, agents=1, horizon=400)
    rng = np.random.default_rng(4)
    assert trial.verdict().rests_on.target.endswith("; the best arm up to ε = 0.3")
    while trial.decided_at is None:
        for arm, mean in enumerate((0.7, 0.68, 0.1)):
            trial.tell(0, arm, float(rng.random() < mean))
        trial.end_step()
    verdict, again = trial.verdict(), principal.restore(trial.state())
    assert {0, 1} <= set(trial.active)
    assert verdict.decided
    assert verdict.certified
    assert "it is at most ε = 0.3 worse than the best arm by the certified rule at δ = 0.05 (proven)" in verdict.why
    assert verdict.survives == 0.0
    assert (again.verdict().arm, again.verdict().why, again.phase) == (verdict.arm, verdict.why, "decided")
    assert again.awaited == trial.awaited == []


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "how"), cases([*zip((0.5, 0.12, 0.88) * 2, MOVED * 3, strict=True)], 2))
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
        assert (
            f"stands as long as payment, drift and the like move no mean by more than ± {downwards(verdict.survives)}"
            in str(verdict)
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
