"""An index may ask for any of what there is: whatever it asks for, it sees the same on both engines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import freepull as fp
from freepull.simulation.compiled.formulas import NOTHING, SQUARES, SUMS, _wanted

GAME = fp.Game([[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3]], rewards=fp.rewards.Beta(2))


def given(mean: float, root: float, t: int) -> float:
    return mean + math.sqrt(2.0 * math.log(t)) * root


def only_mean(mean: float, arm: int) -> float:
    return mean + 0.01 * arm


def natural(pulls: float, total: float, t: int) -> float:
    return total / pulls + math.sqrt(2 * math.log(t) / pulls)


def only_pulls(pulls: float) -> float:
    return -pulls


def only_total(total: float) -> float:
    return -total


def squares_alone(squares: float, root: float) -> float:
    return -squares * root


def all_of_it(pulls: float, total: float, squares: float, mean: float, t: int) -> float:
    variance = max(squares / pulls - mean * mean, 0.0)
    return total / pulls + math.sqrt(2.0 * variance * math.log(t) / pulls) + math.log(t) / pulls


KEPT: list[tuple[Callable[..., float], int]] = [
    (given, NOTHING), (only_mean, NOTHING), (natural, SUMS), (only_pulls, SUMS), (only_total, SUMS),
    (squares_alone, SQUARES), (all_of_it, SQUARES),
]  # fmt: skip


@pytest.mark.parametrize(("index", "kept"), KEPT, ids=[index.__name__ for index, _ in KEPT])
@pytest.mark.parametrize("paying", [False, True], ids=["watched", "paid"])
def test_an_index_sees_the_same_on_both_engines(index: Any, kept: int, paying: bool) -> None:
    """While everybody acts alike sixteen pick at once; where somebody is paid or idle, one by one."""
    made: Any = type(f"Asks_{index.__name__}", (fp.agents.Indexed,), {"index": staticmethod(index)})
    assert _wanted(made) == kept
    rule = fp.rules.Paper(0.1, "simplified", 0.1) if paying else fp.rules.Passive()
    more: dict[str, Any] = {"activity": fp.activity.Rate(0.7)} if paying else {}
    agents = [made(), fp.agents.AlphaUCB(), made()]
    found = [fp.simulate(GAME, principal=fp.Principal(rule), agents=agents, horizon=250, runs=2, seed=3, keep="agents",
                         engine=engine, progress=False, **more) for engine in ("readable", "compiled")]  # fmt: skip
    assert found[0].agents is not None
    assert found[1].agents is not None
    assert found[0].agents.equals(found[1].agents)
    assert (found[0].frame["paid"].sum() > 0) == paying
