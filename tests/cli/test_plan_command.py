"""`freepull plan` from the outside: the two answers, JSON, the page, logs, sentences and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import freepull as fp
from support.program import check_refusal, freepull, inside

SMALL = ["--arms", "2", "--agents", "20", "--horizon", "40", "--gap", "0.2"]
LOG = "agent,arm,reward\n" + "".join(f"{i % 7},{i % 2},{i % 3 % 2}\n" for i in range(200))


@pytest.mark.slow
def test_the_first_answer_stands_before_the_second_and_a_pipe_sees_no_progress() -> None:
    done = freepull("plan", *SMALL, "--runs", "40", "--price", "2 EUR")
    assert done.returncode == 0
    assert done.stderr == ""
    shown = done.stdout
    assert shown.index("At once, by formulas") < shown.index("By simulation") < shown.index("expected spend")
    assert "simulation, 40 runs" in shown
    assert "Believed: a gap of 0.2 behind" in shown
    for title in ("more or fewer agents", "horizon", "κ/T", "another δ", "ε"):
        assert title in shown


def test_json_is_all_that_is_printed_and_equals_the_library() -> None:
    done = inside("plan", *SMALL, "--runs", "40", "--json", "--seed", "3", "--delta", "0.1", "--observe", "share:0.25")
    told = json.loads(done.stdout)
    principal = fp.Principal(fp.rules.Certified(0.1), observe=fp.observe.Share(0.25), offers="each")
    plan = fp.plan(arms=2, agents=20, horizon=40, gap=0.2, principal=principal, runs=40, seed=3).to_dict()
    for one in (told, plan):
        one.pop("provenance")
    assert told == plan
    assert done.stderr == ""


@pytest.mark.slow
def test_the_page_is_written(tmp_path: Path) -> None:
    done = inside("plan", *SMALL, "--runs", "40", "--html", "plan.html", cwd=tmp_path)
    assert "written to plan.html" in done.stdout
    assert (tmp_path / "plan.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_first_answer_loads_no_heavy_part() -> None:
    code = (
        "import sys\n"
        "from freepull.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*[m for m in ('polars', 'numba', 'scipy', 'matplotlib') if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "plan", *SMALL, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
    assert "formula" in done.stdout
    assert "simulation" not in done.stdout


def test_a_log_is_planned_from_and_must_not_be_imported(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text(LOG + "7,1,9\n")
    done = inside("plan", "--log", "past.csv", "--horizon", "30", "--quick", cwd=tmp_path)
    assert done.returncode == 0
    assert "Do not import this log into the trial" in done.stdout
    assert done.stderr == "note: 1 of 201 rows of the log are left out: line 202 (reward 9 is outside [0, 1]).\n"


def test_people_of_several_kinds_are_read() -> None:
    done = inside(
        "plan", *SMALL, "--quick", "--json", "--strategy", "thompson", "--strategy", "alpha-ucb:1", "--answers",
        "with-probability:0.8", "--protocol", "never-ban", "--rule", "certified", "--epsilon", "0.1",
        "--rewards", "beta:5", "--budget", "30", "--offers", "one", "--level", "0.6", "--spread", "0.2",
        "--error", "0.1",
    )  # fmt: skip
    asked = json.loads(done.stdout)["question"]
    assert asked["strategy"] == ["Thompson()", "AlphaUCB(alpha=1.0)"]
    assert asked["answers"] == ["WithProbability(p=0.8)"]
    assert asked["rule"] == "Certified(delta=0.05, epsilon=0.1)"
    assert (asked["budget"], asked["offers"], asked["protocol"]) == (30, "one", "NeverBan()")
    assert asked["beliefs"].endswith("these numbers off by about 10 % too")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--gap", "0.05,wide"], ["--gap", "'0.05,wide'"]),
        (["--gap", "0.1,0.2"], ["gap must be one number, or 1"]),
        (["--gap", "0.9"], ["gap must lie in (0, 0.49]", "level"]),
        (["--means", "0.5,0.4"], ["one of gap, means, log and game", "gap and means"]),
        (["--agents", "0"], ["agents", "got 0"]),
        (["--horizon", "1"], ["horizon", "got 1"]),
        (["--delta", "0"], ["delta", "got 0"]),
        (["--rule", "paper"], ["--rule must be one of certified, comparisons"]),
        (["--rule", "certifid"], ["--rule", "did you mean 'certified'?"]),
        (["--rule", "pairwise"], ["--rule must be one of certified, comparisons, got 'pairwise', which there is no"]),
        (["--pricing", "compensat"], ["--pricing", "did you mean 'compensate'?"]),
        (["--strategy", "tompson"], ["--strategy", "did you mean 'thompson'?"]),
        (["--price", "cheap"], ["price", "'0.50 EUR'"]),
        (["--runs", "3"], ["runs", "at least 40"]),
        (["--agents", "1000000000"], ["agents × arms must be at most 10,000,000"]),
        (["--html", "/proc/plan.html"], ["/proc/plan.html"]),
        (["--seconds", "-1"], ["seconds", "above 0"]),
        (["--offers", "every"], ["offers", "each"]),
        (["--html", "plan.txt"], ["--html", ".html"]),
        (["--html", "no/such/plan.html"], ["--html", "no folder"]),
        (["--log", "nowhere.csv"], ["one of gap, means, log and game", "log and gap"]),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(args: list[str], words: list[str], tmp_path: Path) -> None:
    done = inside("plan", *SMALL, *args, cwd=tmp_path)
    check_refusal(done, words)
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example_that_runs() -> None:
    shown = inside("plan", "--help").stdout
    found = re.search(r"Example: freepull (plan .*)", shown)
    assert found is not None
    assert inside(*found.group(1).split(), "--quick").returncode == 0


def test_the_list_of_commands_names_all() -> None:
    shown = inside("--help").stdout
    for name in ("plan", "simulate", "study", "reproduce"):
        assert name in shown


@pytest.mark.slow
def test_people_who_come_and_go_are_read_and_a_panel_has_its_own() -> None:
    done = inside(
        "plan", *SMALL, "--quick", "--json", "--activity", "rate:0.5", "--leaving", "at-random:0.1", "--answers",
        "with-probability:0.95", "--epsilon", "0.02",
    )  # fmt: skip
    told = json.loads(done.stdout)["question"]
    assert told["activity"] == ["Rate(rate=0.5)"]
    assert told["leaving"] == ["AtRandom(share=0.1, after=0)"]
    assert told["rule"].startswith("Comparisons(delta=0.05, epsilon=0.02, cap=None")
    assert (told["observe"], told["protocol"]) == ("Share(rho=0.1)", "NeverBan()")
    done = inside("plan", "--panel", "street:agents=60,arms=2,gap=0.4", "--horizon", "200", "--runs", "40")
    assert done.returncode == 0
    shown = done.stdout
    assert shown.index("First, by simulation only") < shown.index("By simulation (")
    assert "at most so many" in shown
    check_refusal(inside("plan", "--panel", "stret"), ["--panel", "did you mean 'street'?"])
    check_refusal(inside("plan", "--panel", "street", "--gap", "0.1"), ["one of gap, means, log and game"])
