"""The layouts that `auto` chooses, the candidate gaps, and what designs and the rule refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.rules import Certified, Design, Forecast
from freepull.principal.rules.base import Setting
from freepull.principal.rules.certified.rule import auto, candidate_gaps
from support.certified_reference import candidates
from support.drive import assert_sentence

FEW = Forecast(0.7, 0.5, 8.0, 1.0, 1.25, 6.0)
MANY = Forecast(0.5, 1.0, 3.0, 1.0, 2.0, 10.0)

FEW_ARMS_SHORT = Design(10, 2, neyman=0.1, stretch=0.5, held_back=0.9, forecast=FEW, held_until=2)
MANY_ARMS = Design(stretch=0.25, held_back=0.95, fitted=0.9, forecast=MANY)


def setting(
    K: int = 3, M: int = 2, T: int | None = 1_000, kappa: int | None = None, offers: str = "one", **more: Any
) -> Setting:
    return Setting(K, M, T, np.full(M, 1 / M), False, offers, kappa, **more)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"T": None}, Design()),
        ({"T": 478}, Design()),  # κ = 239, and 239/24 = 9.96
        ({"T": 480}, FEW_ARMS_SHORT),  # κ/(8K) = 10, 2·log κ = 10.96
        ({"T": None, "kappa": 240}, FEW_ARMS_SHORT),
        ({"T": 10**6, "kappa": 239}, Design()),
        ({"T": 10**6, "kappa": 0}, Design()),
        ({"T": 250, "kappa": 250}, FEW_ARMS_SHORT),
        ({"T": 480, "M": 500}, FEW_ARMS_SHORT),
        ({"T": 100_000}, replace(FEW_ARMS_SHORT, first_block=21, first_level=4, held_until=17)),  # 2·log, 8·log κ
        ({"T": 100_000, "K": 10}, replace(FEW_ARMS_SHORT, first_block=21, first_level=4, held_until=17)),
        ({"T": 100_000, "K": 11}, replace(MANY_ARMS, first_block=43, first_level=43, held_until=86)),
        ({"T": 100_000, "K": 100, "M": 11}, replace(MANY_ARMS, first_block=43, first_level=43, held_until=62)),
        ({"T": 1_800, "K": 11}, replace(MANY_ARMS, first_block=10, first_level=10, held_until=10)),
        ({"T": 1_740, "K": 11}, Design()),
    ],
)
def test_auto(frame: dict[str, Any], expected: Design) -> None:
    assert auto(setting(**frame)) == expected
    assert Certified().designed(setting(**frame)) == expected
    own = Design(7)
    assert Certified(design=own).designed(setting(**frame)) is own


def test_auto_looks_at_arms_agents_horizon_and_kappa_only() -> None:
    plain = setting(M=4, T=5_000)
    for other in (
        replace(plain, weights=np.array([0.7, 0.3, 0.0, 0.0]), weighted=True),
        replace(plain, offers="each"),
        replace(plain, leavers="independent"),
    ):
        assert auto(other) == auto(plain)
    assert auto(replace(plain, kappa=2_500)) == auto(plain)
    assert auto(replace(plain, horizon=9_000, kappa=2_500)) == auto(plain)


def test_the_default_layout() -> None:
    told = Design(1, 1, 0.02, None, 0.0, 0.8, 0.5, 5.0, 0.2, True, None)
    assert Design() == told
    assert Forecast() == FEW


@pytest.mark.parametrize("planned", [None, 0.4, 0.1, 0.0031, 1.0, 1e-6])
@pytest.mark.parametrize("delta", [0.05, 1e-12])
@pytest.mark.parametrize(
    "frame",
    [
        setting(T=None), setting(T=10, K=2, M=1), setting(T=100_000), setting(T=100_000, offers="each"),
        setting(T=10**7, kappa=10**6, M=30, K=30, offers="each"), setting(T=10**9, kappa=0, M=1, K=2),
        replace(setting(T=5_000, M=50), weights=np.array([0.51, *[0.01] * 49])), setting(T=500, kappa=500),
        setting(T=1_000, M=10**6), setting(T=10**12, M=10**6),
    ],
)  # fmt: skip
def test_candidate_gaps(frame: Setting, delta: float, planned: float | None) -> None:
    gaps, prior = candidate_gaps(frame, delta, planned)
    expected = candidates(Certified(delta, gap=planned), frame)
    np.testing.assert_allclose(gaps, expected[0], rtol=1e-12)
    np.testing.assert_allclose(prior, expected[1], rtol=1e-9)
    assert math.isclose(prior.sum(), 1, rel_tol=1e-12)
    assert (prior > 0).all()
    assert len(gaps) >= 13
    assert gaps[0] == 0.4


def test_gaps_by_hand() -> None:
    gaps, prior = candidate_gaps(setting(T=None), 0.05, None)
    assert len(gaps) == 26
    assert prior[gaps > 0.003].sum() == pytest.approx(0.8)
    gaps, prior = candidate_gaps(setting(T=100_000), 0.01, None)
    # the window is [.0205, .2431]: 1.2 times as wide it holds .2667 … .0234, seven gaps
    assert np.flatnonzero(prior > 0.1).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert prior[1] == pytest.approx(0.8 / 7 + 0.2 / 13)
    gaps, prior = candidate_gaps(setting(T=None), 0.01, 0.4 / 1.5**5)
    assert prior.argmax() == 5
    assert prior[6] - 0.05 / 13 == pytest.approx((prior[5] - 0.05 / 13) / math.e)


@pytest.mark.parametrize("gap", [None, 0.1])
def test_constants_come_from_the_design(gap: float | None) -> None:
    forecast = Forecast(0.1, 0.2, 3.0, 0.4, 1.5, 7.0)
    layout = Design(11, 12, 0.13, 0.14, 0.15, 0.16, 0.17, 1.8, 1.9, False, forecast, 5)
    margins = np.array([0.0, 0.1])
    constants, prior = Certified(0.01, gap, layout).constants(setting(kappa=321), margins)
    told = (100, math.log(100), 0.13, 11, 12, 0.14, 0.15, 0.16, 5, 0.17 if gap is None else 0.0, 1.8, 1.9, False, 321)
    assert constants[8:] == pytest.approx((*told, 0.1, 0.2, 3.0, 0.4, 1.5, 7.0))
    assert (constants.margins.tolist(), constants.decides, constants.margin) == ([0.0, 0.1], 0, 0.0)
    robust, _ = Certified(0.01, gap, layout, robust=0.04).constants(setting(), margins)
    assert (robust.margins.tolist(), robust.decides, robust.margin) == ([0.0, 0.08, 0.1], 1, 0.08)
    assert Certified(0.01, robust=0.05).constants(setting(), np.zeros(0))[0].margins.tolist() == [0.1]
    assert [Certified().constants(setting(rules=rules), margins)[0].rules for rules in (1, 2)] == [1, 2]
    assert len(prior) == len(constants.gaps)
    assert Certified(design=replace(layout, forecast=None)).constants(setting(kappa=321), margins)[0].kappa == 0
    assert Certified(design=layout).constants(setting(T=101), margins)[0].kappa == 50
    assert Certified(design=layout).constants(setting(T=None), margins)[0].kappa == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Certified(0.0), "delta must be a number in [1e-100, 1), got 0.0."),
        (lambda: Certified(1.0), "delta must"),
        (lambda: Certified(1e-101), "delta must"),
        (lambda: Certified(math.nan), "delta must"),
        (lambda: Certified("0.05"), "delta must"),  # type: ignore[arg-type]
        (lambda: Certified(gap=0.0), "gap must be a number in [1e-06, 1], got 0.0."),
        (lambda: Certified(gap=1.1), "gap must"),
        (lambda: Certified(robust=-0.01), "robust must be a number in [0, 0.5), got -0.01."),
        (lambda: Certified(robust=0.5), "robust must"),
        (lambda: Certified(gap=0.1, robust=0.05), "robust must be below 0.05, half of the planned gap, because"),
        (lambda: Certified(design="fast"), "design must be 'auto' or a rules.Design, got 'fast'."),
        (lambda: Certified(design=None), "design must"),  # type: ignore[arg-type]
        (lambda: Design(0), "first_block must be a whole number of at least 1, got 0."),
        (lambda: Design(1.5), "first_block must"),  # type: ignore[arg-type]
        (lambda: Design(first_level=0), "first_level must"),
        (lambda: Design(growth=-0.1), "growth must be a number in [0, 10], got -0.1."),
        (lambda: Design(growth=11), "growth must"),
        (lambda: Design(neyman=0.0), "neyman must be a number in [0.01, 0.5], got 0.0."),
        (lambda: Design(neyman=0.6), "neyman must"),
        (lambda: Design(stretch=1.1), "stretch must be a number in [0, 1], got 1.1."),
        (lambda: Design(stretch=-1), "stretch must"),
        (lambda: Design(held_back=1.1), "held_back must"),
        (lambda: Design(held_back=-0.1), "held_back must"),
        (lambda: Design(fitted=1.1), "fitted must"),
        (lambda: Design(fitted=-0.1), "fitted must"),
        (lambda: Design(rival_memory=-1), "rival_memory must be a number of at least 0, got -1."),
        (lambda: Design(gap_memory=math.inf), "gap_memory must"),
        (lambda: Design(gap_memory=-0.1), "gap_memory must"),
        (lambda: Design(forecast=True), "forecast must be a rules.Forecast or None, got True."),  # type: ignore[arg-type]
        (lambda: Forecast(phi=-1), "phi must be a number in [0, 1000], got -1."),
        (lambda: Forecast(z=-1), "z must"),
        (lambda: Forecast(gamma=math.nan), "gamma must"),
        (lambda: Forecast(cap=0.9), "cap must be a number in [1, 1000], got 0.9."),
        (lambda: Forecast(shortest=0.9), "shortest must"),
        (lambda: Forecast(shortest=3.0, longest=2.0), "longest must be a number in [3, 1"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


@pytest.mark.parametrize(
    "rule",
    [
        Certified(), Certified(0.01), Certified(gap=0.1), Certified(1e-100, 1e-6, Design(2)), Certified(0.999999),
        Certified(0.5, None, Design(2, 3, 0.4, 0.1, 1.0, 0.0, 1.0, 0.0, 0.0, False, Forecast(0, 0, 1, 0, 1, 1))),
    ],
)  # fmt: skip
def test_rules_print_as_they_are_written(rule: Certified) -> None:
    assert eval(repr(rule), vars(fp.rules)) == rule
    assert repr(Certified(0.05)) == "Certified(delta=0.05)"
    assert repr(Certified(0.05, 0.1)) == "Certified(delta=0.05, gap=0.1)"
