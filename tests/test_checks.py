"""Checks of parameters: what they accept, what they refuse, and that each refusal is one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from drive import assert_sentence
from freepull import checks
from freepull.errors import InvalidInput, UnknownName


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.uint8(3)])
def test_whole_accepts_whole_numbers_and_returns_an_int(value: Any) -> None:
    found = checks.whole("n", value, 1, 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [0, 4, 2.5, "3", None, True, math.nan, math.inf, [3], np.array([1, 2]), 1j])
def test_whole_refuses_everything_else_with_a_sentence(value: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        checks.whole("n", value, 1, 3)
    assert assert_sentence(problem).startswith("n must be a whole number from 1 to 3, got ")


def test_whole_without_an_upper_limit_says_so() -> None:
    with pytest.raises(InvalidInput, match=r"^n must be a whole number of at least 2, got 1\.$"):
        checks.whole("n", 1, 2)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_real_accepts_numbers_within_closed_limits(value: Any) -> None:
    found = checks.real("p", value, 0.0, 1.0)
    assert found == float(value)
    assert type(found) is float


@pytest.mark.parametrize("value", [-1e-9, 1.1, math.nan, math.inf, "0.5", b"1", True, None, [0.5]])
def test_real_refuses_everything_else_with_a_sentence(value: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        checks.real("p", value, 0.0, 1.0)
    assert assert_sentence(problem).startswith("p must be a number in [0, 1], got ")


def test_open_limits_are_refused_and_named() -> None:
    with pytest.raises(InvalidInput, match=r"a number in \(0, 1\), got 0\.0\."):
        checks.real("p", 0.0, 0.0, 1.0, open_low=True, open_high=True)
    with pytest.raises(InvalidInput, match=r"a number in \(0, 1\), got 1\.0\."):
        checks.real("p", 1.0, 0.0, 1.0, open_low=True, open_high=True)
    with pytest.raises(InvalidInput, match=r"a number above 0, got 0\."):
        checks.real("p", 0, 0.0, open_low=True)
    with pytest.raises(InvalidInput, match=r"a number of at least 0, got -1\."):
        checks.real("p", -1, 0.0)
    with pytest.raises(InvalidInput, match=r"a finite number, got inf\."):
        checks.real("p", math.inf)


def test_a_misspelt_choice_is_guessed() -> None:
    with pytest.raises(UnknownName) as problem:
        checks.one_of("engine", "readible", ["auto", "readable"])
    message = assert_sentence(problem)
    assert message == "engine must be one of auto, readable; got 'readible'; did you mean 'readable'?"


@pytest.mark.parametrize("value", ["zzz", 3, None])
def test_an_unlike_choice_is_refused_without_a_guess(value: Any) -> None:
    with pytest.raises(UnknownName) as problem:
        checks.one_of("engine", value, ["auto", "readable"])
    assert "did you mean" not in assert_sentence(problem)


def test_a_class_in_place_of_an_object_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^x must be a number such as 3, got the class str\.$"):
        checks.instance("x", str, int, "a number such as 3")
