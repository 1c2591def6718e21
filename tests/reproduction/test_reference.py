"""Figures of an independent program: ours agree, and a wrong constant does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import freepull as fp
from freepull.reproduction.reproduce import CHANCE, _means, checks
from freepull.reproduction.section import Found, Request, gather
from freepull.studies import Cell

pytestmark = pytest.mark.slow

RUNS = 100


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Request:
    return Request(tmp_path_factory.mktemp("reference"), RUNS, 5, ("paper", "authors"), False)


@pytest.mark.parametrize("study", ["paper-2ab", "paper-2c", "paper-3"])
def test_the_toy_games_figures_agree(study: str, request_: Request) -> None:
    compared = checks({study: gather(study, request_)})
    assert len(compared) >= 3
    assert [check for check in compared if not check.agrees] == []


@pytest.mark.parametrize("sd", [0.005, 0.1])
def test_thirty_agents_and_arms_agree(sd: float) -> None:
    game = fp.instances.Family(30, sd=sd)
    principal = fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1))
    result = fp.simulate(game, principal=principal, horizon=100_000, runs=30, seed=11, until="decided", progress=False)
    cell = Cell("authors", "authors", {"game.sd": sd, "game.agents": 30}, {}, (30, 30))
    compared = checks({"paper-2d": Found(((cell, result),))})
    assert len(compared) == 3
    assert all(check.agrees for check in compared), compared


def test_a_wrong_constant_is_seen(request_: Request) -> None:
    found = gather("paper-2ab", request_)
    principal = fp.Principal(fp.rules.Paper(0.01, "simplified", 0.13))
    wrong = fp.simulate(fp.instances.toy(), principal=principal, horizon=100_000, runs=RUNS, seed=5, progress=False)
    cells = [(cell, wrong if cell.principal == "authors-at-01" else result) for cell, result in found]
    compared = {check.what: check.agrees for check in checks({"paper-2ab": Found(tuple(cells))})}
    assert not compared["2(b): C(T), authors-at-01"]
    assert compared["2(b): C(T), paper"]


def test_a_principal_who_always_guesses_right_is_seen(request_: Request) -> None:
    found = gather("paper-2ab", request_)
    none = found.get("none")
    assert none is not None
    lucky = replace(none, frame=none.frame.with_columns(correct=True))
    cells = tuple((cell, lucky if cell.principal == "none" else result) for cell, result in found)
    compared = checks({"paper-2ab": Found(cells)})
    assert [check.what for check in compared if not check.agrees] == ["2(a): right without incentives"]


def test_the_threshold_is_as_sharp_as_it_says() -> None:
    assert pytest.approx(3.8e-8, rel=0.01) == CHANCE
    assert _means("", (100.0, 3.0), (100.5 + 5.49 * 5, 4.0), 100).agrees
    assert _means("", (8990.0, 0.5), (9000.0, 0.0), 2).agrees  # two runs tell little
    assert not _means("", (100.0, 3.0), (100.5 + 5.51 * 5, 4.0), 100).agrees
    assert not _means("", (50000.0, 0.0), (49999.0, 0.0), 100).agrees


def test_the_seed_of_a_study_can_be_another(tmp_path: Path) -> None:
    a, b = (
        gather("paper-3", Request(tmp_path / str(seed), 2, seed, ("certified",), False)).get("certified")
        for seed in (1, 2)
    )
    assert a is not None
    assert b is not None
    assert not a.frame.equals(b.frame)
