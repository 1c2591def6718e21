"""Odd but possible input: both engines agree on it, or it gets a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull.errors import AgentError, InvalidInput, ResultError

TOY = fp.instances.toy()
PAPER = fp.Principal(fp.rules.Paper(0.1))


def run(**more: Any) -> fp.Result:
    settings: dict[str, Any] = {"game": TOY, "principal": PAPER, "horizon": 100, "runs": 2}
    return fp.simulate(**(settings | more))


@pytest.mark.parametrize("rounds", [3.0, 2**62, 2**63 - 1, 10**30])
def test_a_ban_of_any_length_is_the_same_in_both_engines(rounds: Any) -> None:
    principal = fp.Principal(fp.rules.Paper(0.1), protocol=fp.protocols.BanFor(rounds), offers="each")
    frames = [
        run(principal=principal, answers=fp.answers.WithProbability(0.5), engine=engine).frame
        for engine in ("compiled", "readable")
    ]
    assert frames[0].equals(frames[1])
    assert frames[0]["banned"].sum() > 0


@pytest.mark.parametrize("answer", [fp.answers.HoldOut(10**400), fp.answers.HoldOut(0)])
def test_holding_out_for_any_number_is_the_same_in_both_engines(answer: Any) -> None:
    frames = [run(answers=answer, engine=engine).frame for engine in ("compiled", "readable")]
    assert frames[0].equals(frames[1])


class Needy:
    def __init__(self, patience: int) -> None:
        self.patience = patience


class Manifold:
    def pick(self, t: int) -> Any:
        return np.array([0, 1])

    def learn(self, arm: int, reward: float) -> None:
        pass


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"game": fp.instances.toy}, "game must be a function that takes one generator"),
        ({"agents": Needy}, "agents must be objects, or classes without arguments, got Needy"),
        ({"runs": 10**12}, "runs must be at most"),
        ({"trace": "ab"}, "trace must be a whole number"),
        ({"trace": np.int64(0)}, "trace must be a whole number"),
        ({"game": lambda rng: TOY, "engine": "readable", "workers": 2}, "workers must be 1 here"),
    ],
)
def test_odd_parameters_get_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        run(**more)
    assert str(problem.value).startswith(said)
    assert "\n" not in str(problem.value)


def test_several_arms_are_no_arm() -> None:
    with pytest.warns(fp.errors.ReadableEngine), pytest.raises(AgentError, match="must return an arm from 0 to 2"):
        run(agents=Manifold())


@pytest.mark.parametrize(
    "make",
    [
        lambda: fp.instances.Family(agents=2, gap=0.1),  # type: ignore[arg-type]
        lambda: fp.instances.Family(agents=2, gap=("a", "b")),  # type: ignore[arg-type]
        lambda: fp.instances.Family(agents=2, means=5),  # type: ignore[arg-type]
        lambda: fp.rewards.Empirical([1, 2]),  # type: ignore[list-item]
        lambda: fp.Game([[0.1, 0.2], [0.3, 0.4]], weights=[1.7e308, 1.7e308]),
        lambda: fp.agents.AlphaUCB(10**400),
    ],
)
def test_odd_parts_get_a_sentence(make: Any) -> None:
    with np.errstate(over="ignore"), pytest.raises(InvalidInput, match=r"must .*got [^\n]*\.$"):
        make()


def test_a_companion_file_of_another_result_is_refused(tmp_path: Path) -> None:
    run(trace=50, seed=1).save(tmp_path / "a.parquet")
    run(trace=50, seed=2).save(tmp_path / "b.parquet")
    (tmp_path / "b.trace.parquet").rename(tmp_path / "a.trace.parquet")
    with pytest.raises(ResultError, match="belongs to another result"):
        fp.Result.load(tmp_path / "a.parquet")


def test_a_file_with_a_broken_head_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"run": [0]}).write_parquet(tmp_path / "x.parquet", metadata={"freepull": "{"})
    with pytest.raises(ResultError, match="holds no freepull result"):
        fp.Result.load(tmp_path / "x.parquet")


def test_whole_numbers_and_floats_do_not_compile_twice() -> None:
    from freepull.simulation.compiled.paper import incentivize

    run()
    before = len(incentivize.dispatcher.signatures)  # type: ignore[attr-defined]
    run(principal=fp.Principal(fp.rules.Paper(0.1), bonus=2, observe=fp.observe.Adaptive(3), budget=50))
    run(principal=fp.Principal(fp.rules.Paper(0.1), observe=fp.observe.Steps(10), protocol=fp.protocols.BanFor(3)))
    assert len(incentivize.dispatcher.signatures) == before  # type: ignore[attr-defined]
