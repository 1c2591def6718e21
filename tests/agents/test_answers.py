"""How agents answer offers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from freepull.agents import answers
from freepull.agents.answers import Answer, Situation
from freepull.errors import InvalidInput
from freepull.randomness import uniform, word
from support.drive import assert_average, assert_sentence


def offer(**more: Any) -> Situation:
    told: dict[str, Any] = {"t": 5, "arm": 0, "bonus": 1.0, "nth": 1, "pulls": [2, 2], "sums": [1.0, 1.0], "coin": 0.5}
    return Situation(**(told | more))


def test_always_takes_and_never_refuses() -> None:
    assert answers.Always().takes(offer())
    assert not answers.Never().takes(offer())


def test_a_coin_below_p_takes() -> None:
    answer = answers.WithProbability(0.8)
    assert answer.takes(offer(coin=0.7999999))
    assert not answer.takes(offer(coin=0.8))
    assert not answers.WithProbability(0.0).takes(offer(coin=0.0))
    assert answers.WithProbability(1.0).takes(offer(coin=1 - 2.0**-53))


def test_a_coin_takes_with_its_probability() -> None:
    taken = [answers.WithProbability(0.8).takes(offer(coin=uniform(word(1, 0, t)))) for t in range(20_000)]
    assert_average(np.array(taken, float), 0.8, 0.16)


def test_a_share_is_reluctant_and_refuses_with_its_probability() -> None:
    answer = answers.Reluctant(share=0.2, probability=0.3)
    assert [answer.takes(offer(lot=lot, coin=0.29)) for lot in (0.0, 0.19, 0.2, 0.9)] == [False, False, True, True]
    assert [answer.takes(offer(lot=0.1, coin=coin)) for coin in (0.0, 0.29, 0.3, 0.9)] == [False, False, True, True]
    for wrong in ({"share": -0.1, "probability": 0.3}, {"share": 0.1, "probability": 1.3}):
        with pytest.raises(InvalidInput) as problem:
            answers.Reluctant(**wrong)
        assert "must be a number in [0, 1]" in assert_sentence(problem)


def test_holding_out_refuses_the_first_n_offers_only() -> None:
    answer = answers.HoldOut(2)
    assert [answer.takes(offer(nth=n)) for n in (1, 2, 3, 4)] == [False, False, True, True]
    assert answers.HoldOut(0).takes(offer(nth=1))


@pytest.mark.parametrize(
    ("pulls", "sums", "arm", "bonus", "takes"),
    [
        ([4, 4], [1.0, 3.0], 0, 0.5, True),  # loss 3/4 − 1/4 = 1/2, exactly made up for
        ([4, 4], [1.0, 3.0], 0, 0.4999, False),
        ([4, 4], [1.0, 3.0], 1, 0.001, True),  # its own best arm costs nothing
        ([0, 4], [0.0, 3.0], 0, 0.25, True),  # an unpulled arm counts as ½
        ([0, 4], [0.0, 3.0], 0, 0.2, False),
        ([4, 0], [1.0, 0.0], 0, 0.2, False),  # … also as the rival
        ([4, 0], [1.0, 0.0], 0, 0.25, True),
        ([0, 0], [0.0, 0.0], 1, 0.001, True),
    ],
)
def test_worth_it_means_that_the_bonus_makes_up_for_the_loss(
    pulls: list[int], sums: list[float], arm: int, bonus: float, takes: bool
) -> None:
    assert answers.IfWorthIt().takes(offer(pulls=pulls, sums=sums, arm=arm, bonus=bonus)) is takes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: answers.WithProbability(1.1), "p must"),
        (lambda: answers.WithProbability(float("nan")), "p must"),
        (lambda: answers.HoldOut(-1), "n must"),
        (lambda: answers.HoldOut(1.5), "n must"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


@pytest.mark.parametrize(
    "answer",
    [answers.Always(), answers.Never(), answers.WithProbability(0.25), answers.HoldOut(3), answers.IfWorthIt()],
)
def test_answers_keep_the_contract_and_print_as_they_are_written(answer: Any) -> None:
    assert isinstance(answer, Answer)
    assert eval(repr(answer), vars(answers)) == answer
