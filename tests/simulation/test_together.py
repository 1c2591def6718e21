"""Sixteen runs at once under the paper's rule give what each of them gives by itself (docs/engine.md)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.coding import LONGEST_STREAM, code
from freepull.simulation.compiled.few import LIFTED
from freepull.simulation.compiled.state import Block
from freepull.simulation.experiment import Experiment, check
from support.paths import compare, same
from support.tiers import some_quick

UCB = fp.agents.AlphaUCB()
EASY = fp.rules.Paper(0.3, "simplified", 0.1)
SIZES = [*product((1, 2, 3, 5), (2, 3, 4), ("horizon", "decided"))]


def experiment(M: int, K: int, until: Any = "horizon", **others: Any) -> Experiment:
    means = np.random.default_rng(10 * M + K).uniform(0.2, 0.4, (M, K))
    means[:, K - 2] += 0.45
    case: dict[str, Any] = {
        "agents": UCB,
        "rule": EASY,
        "observe": fp.observe.Steps(K + 3),
        "runs": 37,
        "horizon": 250,
        "trace": None,
    }
    case |= {"game": fp.Game(means)} | others
    principal = fp.Principal(case["rule"], case["observe"], budget=case.get("budget"))
    return check(
        case["game"],
        case["agents"],
        fp.answers.Always(),
        principal,
        case["horizon"],
        case["runs"],
        7,
        until,
        case["trace"],
    )


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each block had that began to be played together."""
    found: list[int] = []
    begin = Block.begin_together

    def count(block: Block) -> None:
        found.append(len(block.runs))
        begin(block)

    monkeypatch.setattr(Block, "begin_together", count)
    return found


@pytest.mark.parametrize("number", some_quick(len(SIZES), 6))
def test_runs_are_the_same_together(number: int, begun: list[int]) -> None:
    found = compare(experiment(*SIZES[number]), lanes=1000)
    assert set(begun) == {37}
    assert sum(o.paid.sum() > 0 for o in found) > 20
    assert len({o.decided_at for o in found}) > 3


@pytest.mark.parametrize(
    "others",
    [
        {"observe": fp.observe.Steps(0)},
        {"agents": [UCB, fp.agents.AlphaUCB(0.5), fp.agents.AlphaUCB(2.0)]},
        {"game": lambda rng: fp.Game(rng.uniform(0.2, 0.8, (3, 3)))},
        {"game": fp.Game([[0.0, 1.0, 1.0]] * 3)},
        {"trace": [5, 40, 41, 250]},
        {"runs": [*range(3, 12)]},
        {"rule": fp.rules.Paper(0.05), "horizon": 400},
    ],
)
def test_games_of_every_kind_are_the_same_together(others: dict[str, Any], begun: list[int]) -> None:
    for until in ("horizon", "decided"):
        compare(experiment(3, 3, until, **others))
    assert begun


@pytest.mark.parametrize(
    "others",
    [
        {"agents": [UCB, fp.agents.Greedy(), UCB]},
        {"budget": 20.0},
        {"observe": fp.observe.Adaptive()},
        {"rule": fp.rules.Paper(0.3, "simplified", 0.3, pay="uniform")},
        {"runs": 5},
        {"game": fp.Game([[0.2, 0.8, 0.4, 0.5, 0.3]] * 3)},
    ],
)
def test_other_runs_are_played_by_themselves(others: dict[str, Any], begun: list[int]) -> None:
    compare(experiment(3, 3, **others))
    assert not begun


def test_more_offers_are_counted_than_sixteen_bits_hold(begun: list[int]) -> None:
    game = fp.Game([[0.5, 0.5]])
    e = experiment(1, 2, game=game, rule=fp.rules.Paper(1e-9), horizon=140_000, runs=8)
    for outcome in engine.play(e, 1):
        assert outcome.paid.sum() == outcome.offered == 140_000 - 5
    assert len(begun) >= 3


def test_the_number_of_neighbours_changes_no_bit() -> None:
    e = experiment(2, 3, "decided", runs=50)
    for lanes in (1, 16, 32, 64, 1000):
        for one, other in zip(engine.play(e, 1, lanes), engine.play(e, 1), strict=True):
            same(one, other)


def test_what_is_computed_of_the_root_is_what_the_table_says() -> None:
    pulls = np.arange(1, LONGEST_STREAM + 1)
    root = 1.0 / np.sqrt(pulls)
    assert np.array_equal(np.floor(root * root * LIFTED).astype(np.int64), (1 << 40) // pulls)


def test_vectors_begin_with_a_line_of_the_cache() -> None:
    e = experiment(2, 3)
    block = Block(e, code(e), tuple(range(16)))
    assert block.together is not None
    lanes = block.lanes
    for array in (lanes.streams.mean, lanes.root, lanes.desk, lanes.arm, block.together.barred, block.together.counted):
        assert array.ctypes.data % 64 == 0
