"""Checks of parameters: what they accept, what they refuse, and that each refusal is one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import validation
from freepull.errors import InvalidInput, UnknownName
from support.drive import assert_sentence


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.uint8(3)])
def test_whole_accepts_whole_numbers_and_returns_an_int(value: Any) -> None:
    found = validation.whole("n", value, 1, 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [0, 4, 2.5, "3", None, True, math.nan, math.inf, [3], np.array([1, 2]), 1j])
def test_whole_refuses_everything_else_with_a_sentence(value: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        validation.whole("n", value, 1, 3)
    assert assert_sentence(problem).startswith("n must be a whole number from 1 to 3, got ")


def test_whole_without_an_upper_limit_says_so() -> None:
    with pytest.raises(InvalidInput, match=r"^n must be a whole number of at least 2, got 1\.$"):
        validation.whole("n", 1, 2)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_real_accepts_numbers_within_closed_limits(value: Any) -> None:
    found = validation.real("p", value, 0.0, 1.0)
    assert found == float(value)
    assert type(found) is float


@pytest.mark.parametrize("value", [-1e-9, 1.1, math.nan, math.inf, "0.5", b"1", True, None, [0.5]])
def test_real_refuses_everything_else_with_a_sentence(value: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        validation.real("p", value, 0.0, 1.0)
    assert assert_sentence(problem).startswith("p must be a number in [0, 1], got ")


def test_open_limits_are_refused_and_named() -> None:
    with pytest.raises(InvalidInput, match=r"a number in \(0, 1\), got 0\.0\."):
        validation.real("p", 0.0, 0.0, 1.0, open_low=True, open_high=True)
    with pytest.raises(InvalidInput, match=r"a number in \(0, 1\), got 1\.0\."):
        validation.real("p", 1.0, 0.0, 1.0, open_low=True, open_high=True)
    with pytest.raises(InvalidInput, match=r"a number above 0, got 0\."):
        validation.real("p", 0, 0.0, open_low=True)
    with pytest.raises(InvalidInput, match=r"a number of at least 0, got -1\."):
        validation.real("p", -1, 0.0)
    with pytest.raises(InvalidInput, match=r"a finite number, got inf\."):
        validation.real("p", math.inf)


def test_a_misspelt_choice_is_guessed() -> None:
    with pytest.raises(UnknownName) as problem:
        validation.one_of("engine", "readible", ["auto", "readable"])
    message = assert_sentence(problem)
    assert message == "engine must be one of auto, readable; got 'readible'; did you mean 'readable'?"


@pytest.mark.parametrize("value", ["zzz", 3, None])
def test_an_unlike_choice_is_refused_without_a_guess(value: Any) -> None:
    with pytest.raises(UnknownName) as problem:
        validation.one_of("engine", value, ["auto", "readable"])
    assert "did you mean" not in assert_sentence(problem)


def test_a_class_in_place_of_an_object_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^x must be a number such as 3, got the class str\.$"):
        validation.instance("x", str, int, "a number such as 3")


NUMBERS = [
    (fp.rules.Certified, {"delta": 0.05, "gap": 0.1}),
    (fp.rules.Paper, {"delta": 0.05, "bound": "simplified", "scale": 0.5}),
    (fp.rules.Population, {"delta": 0.05, "pulls": 5}),
    (fp.rules.Design, {"first_block": 4, "first_level": 2, "growth": 0.5, "neyman": 0.1, "stretch": 0.5,
                       "held_back": 0.5, "fitted": 0.5, "rival_memory": 0.5, "gap_memory": 0.5, "held_until": 2}),
    (fp.rules.Forecast, {"phi": 0.5, "z": 0.5, "cap": 2.0, "gamma": 0.5, "shortest": 2.0, "longest": 4.0}),
    (fp.observe.Share, {"rho": 0.5}),
    (fp.observe.Steps, {"n": 3}),
    (fp.observe.KnownGap, {"gap": 0.1}),
    (fp.observe.Adaptive, {"slack": 2.0}),
    (fp.protocols.BanFor, {"rounds": 3}),
    (fp.protocols.BanAfter, {"refusals": 3}),
    (fp.agents.AlphaUCB, {"alpha": 2.0}),
    (fp.agents.EpsilonGreedy, {"c": 2.0}),
    (fp.agents.KLUCB, {"c": 2.0}),
    (fp.answers.WithProbability, {"p": 0.5}),
    (fp.answers.HoldOut, {"n": 3}),
    (fp.rewards.Beta, {"concentration": 2.0}),
    (fp.rewards.TruncatedNormal, {"sd": 0.1}),
    (fp.instances.Family, {"agents": 3, "sd": 0.1}),
    (fp.Principal, {"bonus": 2.0, "budget": 3.0}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), NUMBERS, ids=lambda part: getattr(part, "__name__", ""))
@pytest.mark.parametrize("other", [np.array, np.float64, float], ids=["array", "numpy", "float"])
def test_settings_keep_plain_numbers_whatever_they_are_given(kind: Any, settings: dict[str, Any], other: Any) -> None:
    plain = kind(**settings)
    given = {name: value if isinstance(value, str) else other(value) for name, value in settings.items()}
    found = kind(**given)
    assert found == plain
    assert repr(found) == repr(plain)
    for name, value in settings.items():
        assert type(getattr(found, name)) is type(value)


def test_a_whole_number_where_any_would_do_stays_as_it_was_written() -> None:
    assert repr(fp.agents.AlphaUCB(2)) == "AlphaUCB(alpha=2)"
    assert fp.Principal(bonus=2).bonus == 2
