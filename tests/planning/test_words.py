"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from freepull.errors import InvalidInput
from freepull.money import Money
from freepull.planning import words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.02, "< 0.1"),
        (0.26, "0.3"),
        (4.04, "4.0"),
        (12.6, "13"),
        (12345.6, "12,346"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_counts(value: float, shown: str) -> None:
    assert words.count(value) == shown


def test_the_share_of_few_runs_says_how_far_it_may_be_off() -> None:
    assert words.chance(0.75, 0.58, 0.87) == "75 % ± 15"


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0 %"),
        (0.0001, "< 0.1 %"),
        (0.012, "1.2 %"),
        (0.5, "50 %"),
        (0.984, "98.4 %"),
        (0.9999, "> 99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_percentages_are_exact_at_the_ends(share: float, shown: str) -> None:
    assert words.percent(share) == shown


@pytest.mark.parametrize(
    ("value", "up"), [(1, 1), (9.2, 10), (10, 10), (354, 360), (350, 350), (1401, 1500), (20480, 21000)]
)
def test_numbers_of_agents_are_rounded_up_to_two_digits(value: float, up: int) -> None:
    assert words.rounded(value) == up


def test_prices_are_exact() -> None:
    price = Money.price("0.10 EUR")
    assert str(price.times(3)) == "0.30 EUR"
    assert str(price.times(1.17)) == "0.12 EUR"  # rounded, not cut off
    with pytest.raises(InvalidInput, match=r"^price must have at most 0 decimals in JPY, got '0.5 JPY'\.$"):
        Money.price("0.5 JPY")
    assert f"{Money.price('50 JPY').times(1234.5):,}" == "61,725 JPY"
    assert words.spend(1234.5, price, " bonuses") == "1,234 bonuses (123.45 EUR)"
    assert words.spend(math.inf, price) == "∞"
    assert words.pulls([1, 2, 3, 4, 5, 6, 7]) == "1 / 2 / 3 / 4 / 5 / 6 / …"
    assert words.agents(math.inf) == "no number"


def test_differences_have_a_sign_and_their_error() -> None:
    assert [words.signed(more, 0.0) for more in (-12.0, 0.0, 3.0)] == ["−12", "0", "+3"]
    assert words.signed(-12.0, 4.0) == "−12 ± 4"


def test_ranges_are_rounded_outwards() -> None:
    assert words.between(0.8, 9.2) == "0 to 10"
    assert words.between(0.8, 9.2, Money.price("2 EUR")) == "0 to 10 (20.00 EUR)"
    assert (words.people(1), words.people(2000)) == ("1 agent", "2,000 agents")
