"""The toy agrees with the check figures of docs/statistics.md, within what chance allows.

A tolerance is 5.5 times the two standard errors combined: a right program fails about once in 10⁷ comparisons.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import freepull as fp

pytestmark = pytest.mark.slow

Z = 5.5
T, RUNS, REFERENCE_RUNS = 100_000, 400, 1024
AUTHORS: dict[str, Any] = {"bound": "simplified", "scale": 0.1}


@cache
def toy(delta: float, bound: str, scale: float, p: float | None = None) -> fp.Result:
    return fp.simulate(
        fp.instances.toy(),
        answers=fp.answers.Always() if p is None else fp.answers.WithProbability(p),
        principal=fp.Principal(
            fp.rules.Paper(delta, bound, scale),
            protocol=fp.protocols.TakeOrBan() if p is None else fp.protocols.NeverBan(),
        ),
        horizon=T,
        runs=RUNS,
        seed=2021,
    )


def close(mean: float, error: float, reference: float, reference_error: float) -> bool:
    return abs(mean - reference) <= Z * math.hypot(error, reference_error)


def mean_and_error(result: fp.Result, column: str) -> tuple[float, float]:
    values = result.frame[column].cast(float).to_numpy()
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


def rate_error(rate: float, runs: int) -> float:
    return math.sqrt(rate * (1 - rate) / runs)


def test_without_incentives_six_in_ten_name_the_best_arm() -> None:
    runs = 4000
    passive = fp.simulate(
        fp.instances.toy(), principal=fp.Principal(fp.rules.Passive()), horizon=T, runs=runs, seed=2021
    )
    assert close(
        float(passive.frame["correct"].sum()) / runs, rate_error(0.599, runs), 0.599, rate_error(0.599, 10_016)
    )
    assert passive.frame["paid"].sum() == 0


@pytest.mark.parametrize(("bound", "scale"), [("equation", 1.0), ("simplified", 1.0)])
def test_as_printed_nothing_is_decided_and_everything_is_spent(bound: str, scale: float) -> None:
    result = toy(0.01, bound, scale)
    assert result.frame["correct"].all()
    assert not result.frame["decided"].any()
    assert (result.frame["paid"] == T // 2).all()
    reference = np.array([[0, 15999, 9000], [9001, 16000, 0]])
    tolerance = Z * result.paid_error * math.sqrt(1 + RUNS / REFERENCE_RUNS) + 1.0
    assert (np.abs(result.paid - reference) <= tolerance).all()


@pytest.mark.parametrize(("delta", "cost", "error"), [(0.01, 25336, 309), (0.05, 23025, 302)])
def test_the_authors_constant_costs_what_it_should(delta: float, cost: float, error: float) -> None:
    result = toy(delta, **AUTHORS)
    assert result.frame["correct"].sum() >= 0.995 * RUNS
    assert close(*mean_and_error(result, "spent"), cost, error)


def test_the_authors_constant_decides_and_pays_whom_it_should() -> None:
    result = toy(0.01, **AUTHORS)
    decided = float(result.frame["decided"].sum()) / RUNS
    assert close(decided, rate_error(0.98, RUNS), 0.98, rate_error(0.98, REFERENCE_RUNS))
    reference = np.array([[0, 8369, 4290], [4306, 8371, 0]])
    tolerance = Z * result.paid_error * math.sqrt(1 + RUNS / REFERENCE_RUNS) + 1.0
    assert (np.abs(result.paid - reference) <= tolerance).all()
    assert result.frame["certified"].sum() == 0


def test_agents_who_take_eight_offers_in_ten_cost_the_same() -> None:
    result = toy(0.01, p=0.8, **AUTHORS)
    paid, error = mean_and_error(result, "paid")
    assert close(paid, error, 25079, 281)
    assert close(*mean_and_error(result, "offered"), 31347, 281 / 0.8)
    decided = float(result.frame["decided"].sum()) / RUNS
    assert close(decided, rate_error(0.902, RUNS), 0.902, rate_error(0.902, REFERENCE_RUNS))
    assert result.frame["banned"].sum() == 0


@pytest.mark.parametrize(("power", "cost"), [(0, 18189), (4, 24299), (12, 36255), (20, 44499)])
def test_cost_grows_with_the_logarithm_of_delta(power: int, cost: float) -> None:
    result = toy(math.exp(-power), **AUTHORS)
    mean, error = mean_and_error(result, "spent")
    assert close(mean, error, cost, 324)


@pytest.mark.parametrize(("sd", "agents", "cost", "error"), [(0.005, 60, 12100, 1444), (0.1, 30, 49695, 286)])
def test_thirty_arms_cost_what_they_should(sd: float, agents: int, cost: float, error: float) -> None:
    result = fp.simulate(
        fp.instances.Family(agents=agents, sd=sd),
        principal=fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1)),
        horizon=T,
        runs=24,
        seed=2021,
        until="decided",
    )
    mean, own = mean_and_error(result, "spent")
    assert close(mean, max(own, error * math.sqrt(100 / 24)), cost, error)
