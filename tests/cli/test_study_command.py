"""`freepull study` from the outside: tables, JSON, pictures, sentences and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.program import check_refusal, inside

STUDY = """\
title = "Two rules"
runs = 3
horizon = 300
game = "toy"

[principals.authors]
rule = { kind = "paper", bound = "simplified", scale = 0.1 }

[principals.passive]
rule = "passive"

[sweep]
"principals.*.rule.delta" = [0.01, 0.1]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    (path / "two.toml").write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    return inside("study", "run", "two.toml", cwd=folder)


def test_run_prints_a_table_and_where_the_results_are(ran: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "Two rules" in ran.stdout
    assert re.search(r"authors\s+│\s+0.01 │\s+3 │", ran.stdout)
    assert re.search(r"passive\s+│\s+– │\s+3 │\s+0 ± 0 │", ran.stdout)
    assert "9 of 9 runs simulated" in ran.stdout
    assert "kept in out/two" in ran.stdout


@pytest.mark.usefixtures("ran")
def test_show_and_run_give_the_same_json(folder: Path) -> None:
    shown = json.loads(inside("study", "show", "out/two", "--json", cwd=folder).stdout)
    again = json.loads(inside("study", "run", "two.toml", "--json", cwd=folder).stdout)
    assert (again["new"], again["kept"], again["wanted"]) == (0, 9, 9)
    assert again["cells"] == shown["cells"]
    assert [cell["cell"] for cell in shown["cells"]] == ["authors,delta=0.01", "authors,delta=0.1", "passive"]
    assert shown["cells"][2]["delta"] is None
    assert shown["cells"][2]["decided_at"] is None
    assert "Two rules" in inside("study", "show", "out/two", cwd=folder).stdout


@pytest.mark.usefixtures("ran")
def test_chart_writes_a_picture(folder: Path) -> None:
    done = inside("study", "chart", "out/two", "--out", "pictures/two.png", cwd=folder)
    assert done.stdout == "picture: pictures/two.png\n"
    assert (folder / "pictures" / "two.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "pictures" / "two.png").stat().st_size > 10_000


@pytest.mark.usefixtures("ran")
def test_a_chart_has_the_axes_that_are_asked_for(folder: Path) -> None:
    options = ["--quantity", "regret", "--no-labels", "--no-legend", "--log-y", "--no-log-x", "--x-label", "level δ"]
    done = inside("study", "chart", "out/two", "--out", "pictures/two.svg", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    written = (folder / "pictures" / "two.svg").read_text(encoding="utf-8")
    assert "level δ" in written
    assert "regret of all agents" in written
    assert "authors" not in written
    done = inside("study", "chart", "out/two", "--out", "x.svg", "--quantity", "regrets", cwd=folder)
    assert "quantity must be one of" in done.stderr
    assert "did you mean 'regret'?" in done.stderr


@pytest.mark.usefixtures("ran")
def test_a_changed_file_is_refused_and_the_difference_shown(folder: Path) -> None:
    (folder / "other.toml").write_text(STUDY.replace("horizon = 300", "horizon = 400"))
    done = inside("study", "run", "other.toml", "--out", "out/two", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "-horizon = 300\n+horizon = 400\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: out/two holds another study")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "paper-2"], ["'paper-2'", "did you mean 'paper-2"]),
        (["run", "two.toml", "--runs", "0"], ["runs", "from 1", "got 0"]),
        (["run", "two.toml", "--workers", "0"], ["workers", "at least 1"]),
        (["run", "two.toml", "--out", "."], ["holds other files"]),
        (["run", "wrong.toml"], ["wrong.toml, line 2:", "did you mean 'runs'?"]),
        (["show", "nowhere"], ["nowhere is not the folder of a study"]),
        (["chart", "out/two", "--out", "x.gif"], ["--out", ".png, .pdf or .svg"]),
        (["chart", "out/two", "--out", "x.png", "--x", "dleta"], ["x must be one of delta", "did you mean 'delta'?"]),
    ],
)
@pytest.mark.usefixtures("ran")
def test_bad_input_gets_one_sentence_and_exit_code_2(args: list[str], words: list[str], folder: Path) -> None:
    (folder / "wrong.toml").write_text(STUDY.replace("runs =", "rnus ="))
    check_refusal(inside("study", *args, cwd=folder), words)


@pytest.mark.slow
def test_the_examples_of_the_help_run(tmp_path: Path) -> None:
    for name in ("run", "show", "chart"):
        shown = inside("study", name, "--help").stdout
        found = re.search(r"Example: freepull study (.*)", shown)
        assert found is not None
        args = ["1" if part == "5" else part for part in found.group(1).split()]
        done = inside("study", *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "2c.pdf").exists()
