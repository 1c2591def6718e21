"""Sweeps: every combination is one cell, and a principal is not multiplied by what it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

import freepull as fp
from freepull import studies
from freepull.errors import StudyError
from freepull.studies.cells import build_principal
from freepull.studies.study import key
from support.sample import STUDY, written

DELTA = '"principals.*.rule.delta" = [0.01, 0.05]'


def names(tmp_path: Path, sweep: str) -> list[str]:
    return [cell.name for cell in studies.read(written(tmp_path, STUDY.partition("[sweep]")[0] + sweep)).cells]


def test_every_combination_for_the_principals_that_have_the_key(tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, STUDY))
    assert [cell.name for cell in study.cells] == [
        "authors,delta=0.01,horizon=400",
        "authors,delta=0.01,horizon=600",
        "authors,delta=0.05,horizon=400",
        "authors,delta=0.05,horizon=600",
        "passive,horizon=400",
        "passive,horizon=600",
    ]
    assert study.axes == ("delta", "horizon")
    assert study.cells[1].coordinates == {"delta": 0.01, "horizon": 600}
    assert study.cells[1].parameters["principal"]["rule"]["delta"] == 0.01
    assert study.cells[5].coordinates == {"horizon": 600}


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("", [""]),
        ('[sweep]\n"agents.alpha" = [1, 2]', [",agents.alpha=1", ",agents.alpha=2"]),
        ('[sweep]\nagents = ["greedy", {kind = "alpha-ucb", alpha = 3}]', [",agents=greedy", ",agents=alpha-ucb"]),
        ('[sweep]\nagents = [["greedy", "thompson"], ["greedy", "greedy"]]', [",agents=list#1", ",agents=list#2"]),
        (
            '[sweep.agents]\nbold = "alpha-ucb:1"\nshy = {kind = "alpha-ucb", alpha = 4}',
            [",agents=bold", ",agents=shy"],
        ),
        ('[sweep]\nanswers = ["always", "never"]', [",answers=always", ",answers=never"]),
        ('[sweep]\ngame = ["toy", "family:agents=2"]', [",game=toy", ",game=family:agents=2"]),
        ('[sweep]\n"game.rewards" = ["beta:3", "bernoulli"]', [",game.rewards=beta:3", ",game.rewards=bernoulli"]),
        ('[sweep]\n"principals.*.observe" = ["root", "steps:9"]', [",observe=root", ",observe=steps:9"]),
        (
            '[sweep]\n"principals.*.pricing" = ["fixed:2", "compensate", {kind = "posted", accept = 0.9}]',
            [",pricing=fixed:2", ",pricing=compensate", ",pricing=posted"],
        ),
        (
            "[sweep]\nruns = [2, 3]\nseed = [1, 2]",
            [",runs=2,seed=1", ",runs=2,seed=2", ",runs=3,seed=1", ",runs=3,seed=2"],
        ),
    ],
)
def test_anything_can_be_swept(sweep: str, expected: list[str], tmp_path: Path) -> None:
    assert names(tmp_path, sweep) == [f"{who}{name}" for who in ("authors", "passive") for name in expected]


def test_a_parameter_may_stand_in_the_sweep_alone(tmp_path: Path) -> None:
    text = 'horizon = 50\n[game]\nkind = "family"\n[principals.p]\nrule.kind = "paper"\n[sweep]\n'
    both = '"game.agents" = [2, 3]\n"principals.p.rule.delta" = [0.1, 0.2]\n'
    study = studies.read(written(tmp_path, text + both))
    assert [cell.shape for cell in study.cells] == [(2, 30), (2, 30), (3, 30), (3, 30)]
    assert study.axes == ("game.agents", "delta")


def test_a_part_of_a_list_can_be_swept(tmp_path: Path) -> None:
    text = STUDY.replace(
        '[agents]\nkind = "alpha-ucb"\nalpha = 2.0', '[[agents]]\nkind="alpha-ucb"\n[[agents]]\nkind="greedy"'
    )
    study = studies.read(written(tmp_path, text.replace(DELTA, '"agents.0.alpha" = [1, 3]')))
    assert [agent.get("alpha") for agent in study.cells[-1].parameters["agents"]] == [3, None]


def test_a_key_inside_a_swept_text_is_refused(tmp_path: Path) -> None:
    sweep = '[sweep]\n"principals.*.observe" = ["root", "share"]\n"principals.*.observe.rho" = [0.1, 0.2]'
    with pytest.raises(StudyError, match=r"line 23: principals.\*.observe.rho must lie inside a table"):
        names(tmp_path, sweep)


PRICED = """
game = "toy"
runs = 3
horizon = 300
answers = "worth-at-least:0.1"

[principals.dear]
rule = "certified:0.2"

[principals.cheap]
rule = "certified:0.2"
pricing = { kind = "compensate", margin = 0.05 }
budget = 9.5

[sweep]
"principals.*.futility" = [0, 0.3]
"principals.cheap.pricing.margin" = [0.1, 0.2]
"""


def test_a_grid_over_prices_and_futility_is_what_simulate_finds(tmp_path: Path) -> None:
    study = studies.read(written(tmp_path, PRICED))
    assert [cell.name for cell in study.cells] == [
        "dear,futility=0", "dear,futility=0.3",
        *(f"cheap,futility={f},pricing.margin={m}" for f in (0, 0.3) for m in (0.1, 0.2)),
    ]  # fmt: skip
    studies.run(study, tmp_path / "out")
    store, spent = studies.Store.open(tmp_path / "out"), []
    for cell, futility, margin in zip(study.cells[2:], (0, 0, 0.3, 0.3), (0.1, 0.2) * 2, strict=True):
        principal = fp.Principal(
            fp.rules.Certified(0.2), pricing=fp.pricing.Compensate(margin), budget=9.5, futility=futility
        )
        alone = fp.simulate(fp.instances.toy(), principal=principal, answers=fp.answers.WorthAtLeast(0.1),
                            horizon=300, runs=3, progress=False)  # fmt: skip
        assert studies.result(store, cell).frame.equals(alone.frame)
        spent.append(alone.frame["spent"].to_list())
    assert spent[0] != spent[1]
    table = studies.summary(store)
    assert table["spent"].is_not_null().all()


def test_a_study_from_before_there_were_prices_is_the_same_study(tmp_path: Path) -> None:
    cell = studies.read(written(tmp_path, STUDY)).cells[0]
    before = dict(cell.parameters["principal"])
    assert (before.pop("pricing"), before.pop("futility")) == (None, 0.0)
    assert key(cell.name, {**cell.parameters, "principal": before}) == cell.key
    assert build_principal(before) == build_principal(cell.parameters["principal"])


def test_files_of_means_are_read_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "means.csv").write_text("0.9,0.1\n0.2,0.3\n")
    study = studies.read(written(tmp_path, STUDY.replace('kind = "toy"', 'kind = "file"\npath = "means.csv"')))
    assert study.cells[0].parameters["game"]["means"] == [[0.9, 0.1], [0.2, 0.3]]
    assert study.cells[0].shape == (2, 2)


def test_too_many_cells_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"line 22: the sweep of seed must have at most 10,000 values, got 10,001"):
        names(tmp_path, f"[sweep]\nseed = {list(range(10_001))}")
    with pytest.raises(StudyError, match=r"line 21: sweep must give at most 10,000 cells, got 10,082"):
        names(tmp_path, f"[sweep]\nseed = {list(range(71))}\nhorizon = {list(range(9, 80))}")


def test_numbers_are_the_same_however_they_are_written(tmp_path: Path) -> None:
    one = studies.read(written(tmp_path, STUDY))
    other = STUDY.replace("alpha = 2.0", "alpha = 2  # two").replace("horizon = 600", "horizon = 6_00")
    assert studies.read(written(tmp_path, other)).identity == one.identity
    assert studies.read(written(tmp_path, STUDY.replace("2.0", "2.1"))).identity != one.identity
