"""`freepull simulate` from the outside: tables, JSON, files, sentences and exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import freepull as fp
from support.program import check_refusal, freepull, inside

SMALL = ["--horizon", "300", "--runs", "4"]


@pytest.mark.slow
def test_the_default_is_the_papers_game() -> None:
    done = freepull("simulate", *SMALL)
    assert done.returncode == 0
    assert "the certified rule at δ = 0.01 (proven)" in done.stdout
    assert "4 runs of 300 steps" in done.stdout
    assert "compiled engine" in done.stdout
    assert "agent 1" in done.stdout
    assert done.stderr == ""


def test_json_is_all_that_is_printed_and_equals_the_library() -> None:
    done = inside(
        "simulate", *SMALL, "--json", "--rule", "paper", "--bound", "simplified", "--scale", "0.1", "--seed", "5"
    )
    told = json.loads(done.stdout)
    principal = fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1))
    result = fp.simulate(fp.instances.toy(), principal=principal, horizon=300, runs=4, seed=5)
    assert told["paid"] == result.paid.tolist()
    assert told["summary"]["reward"]["mean"] == result.frame["reward"].mean()
    assert "(heuristic)" in told["provenance"]["parameters"]["rule"]
    assert told["summary"]["decided_at"]["low"] is None


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ([], "the population rule at δ = 0.2 (proven)"),
        (["--pulls", "9"], "the population rule at δ = 0.2 after 9 pulls a stream (proven)"),
    ],
)
def test_the_population_rule_looks_at_every_n_unless_pulls_are_given(more: list[str], rule: str) -> None:
    game = ["--game", "family:agents=30", "--horizon", "300", "--runs", "4"]
    done = inside("simulate", *game, "--rule", "population", "--delta", "0.2", *more)
    assert done.returncode == 0, done.stderr
    assert rule in " ".join(done.stdout.split())


def test_every_part_has_an_option(tmp_path: Path) -> None:
    means = tmp_path / "means.csv"
    means.write_text("0.9,0.1\n0.2,0.3\n")
    target = str(tmp_path / "out.parquet")
    done = inside(
        "simulate", *SMALL, "--game", str(means), "--rewards", "beta:5", "--agents", "thompson", "--agents",
        "epsilon-greedy:c=2", "--answers", "with-probability:0.5", "--rule", "paper", "--delta", "0.2", "--observe",
        "steps:n=20", "--protocol", "ban-for:rounds=3", "--offers", "each", "--bonus", "2", "--budget", "50", "--until",
        "decided", "--workers", "1", "--engine", "readable", "--trace", "100", "--keep", "agents", "--save", target,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = fp.Result.load(tmp_path / "out.parquet")
    told = loaded.provenance["parameters"]
    assert told["game"]["means"] == [[0.9, 0.1], [0.2, 0.3]]
    assert told["agents"] == [{"part": "Thompson"}, {"part": "EpsilonGreedy", "c": 2.0}]
    assert told["principal"]["protocol"] == {"part": "BanFor", "rounds": 3}
    assert loaded.frame["spent"].max() <= 50  # type: ignore[operator]
    assert loaded.trace is not None
    assert loaded.agents is not None
    assert loaded.provenance["engine"] == "readable"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--agents", "tompson"], ["--agents", "'tompson'", "did you mean 'thompson'?"]),
        (["--observe", "share:rh=0.5"], ["rh", "did you mean 'rho'?"]),
        (["--protocol", "never-ban:3"], ["never-ban", "takes no parameter"]),
        (["--answers", "hold-out:x"], ["must be a number", "'x'"]),
        (["--horizon", "2"], ["horizon", "at least 3", "got 2"]),
        (["--delta", "1.5"], ["delta", "1.5"]),
        (["--rule", "paper", "--delta", "1.5"], ["delta", "[1e-100, 1]", "1.5"]),
        (["--rule", "paper", "--bound", "finite-time"], ["bound", "did you mean 'finite_time'?"]),
        (["--bound", "equation"], ["--bound", "left out", "--rule paper"]),
        (["--rule", "paper", "--gap", "0.1"], ["--gap", "--rule certified"]),
        (["--rule", "population", "--pulls", "0"], ["pulls", "from 1"]),
        (["--gap", "2"], ["gap", "2"]),
        (["--rule", "papper"], ["--rule", "did you mean 'paper'?"]),
        (["--game", "nowhere.csv"], ["--game", "nowhere.csv"]),
        (["--game", "family:agents=0"], ["agents", "at least 1"]),
        (["--runs", "0"], ["runs", "at least 1", "got 0"]),
        (["--seed", "-1"], ["seed", "got -1"]),
        (["--bonus", "0"], ["bonus", "above 0"]),
        (["--engine", "fast"], ["engine", "compiled", "got 'fast'"]),
        (["--rule", "paper", "--weights", "1,2"], ["weights", "rules.Paper"]),
        (["--trace", "10"], ["--trace", "need --save"]),
        (["--save", "no/such/folder/x.parquet"], ["cannot be written", "no folder"]),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(args: list[str], words: list[str], tmp_path: Path) -> None:
    done = inside("simulate", *SMALL, *args, cwd=tmp_path)
    check_refusal(done, words)
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example_that_runs() -> None:
    shown = inside("simulate", "--help").stdout
    found = re.search(r"Example: freepull (simulate .*)", shown)
    assert found is not None
    done = inside(*found.group(1).split(), "--horizon", "200")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_version_and_unknown_commands() -> None:
    assert freepull("--version").stdout == f"freepull {fp.__version__}\n"
    assert freepull("simulat").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["compiled", "readable"])
def test_control_c_stops_within_two_seconds_and_keeps_the_finished_runs(engine: str, tmp_path: Path) -> None:
    script = (
        "import warnings, freepull as fp\n"
        "warnings.simplefilter('ignore')\n"
        "fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Paper(0.01)), horizon=2000, runs=1)\n"
        "print('ready', flush=True)\n"
        "result = fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Paper(0.01)), horizon=3000,\n"
        f"                     runs=1_000_000, engine='{engine}')\n"
        "print(result.interrupted, result.frame.height, (result.frame['paid'] == 1500).all(), flush=True)\n"
    )
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    starting = time.monotonic() - began  # about two seconds, more on a busy machine
    time.sleep(max(2.5, starting))
    child.send_signal(signal.SIGINT)
    asked = time.monotonic()
    out, _ = child.communicate(timeout=60)
    assert time.monotonic() - asked < max(2.0, starting)
    interrupted, kept, whole = out.split()
    assert interrupted == "True"
    assert 0 < int(kept) < 1_000_000
    assert whole == "True"


def test_a_panel_stands_where_a_game_does() -> None:
    done = inside("simulate", "--game", "street:40", "--runs", "2", "--rule", "passive", "--json")
    told = json.loads(done.stdout)
    result = fp.simulate(fp.panels.street(40), principal=fp.Principal(fp.rules.Passive()), runs=2)
    assert told["summary"]["acts"]["mean"] == result.frame["acts"].mean()
    assert told["provenance"]["parameters"] == json.loads(json.dumps(result.provenance["parameters"]))


def test_people_may_be_idle_and_leave() -> None:
    people = ["--activity", "lognormal:0.05,sigma=0.8,silent=0.04", "--leaving", "after-acts:3", "--leaving", "stays"]
    told = json.loads(inside("simulate", *SMALL, *people, "--json").stdout)["provenance"]["parameters"]
    assert told["activity"] == {"part": "Lognormal", "median": 0.05, "sigma": 0.8, "silent": 0.04}
    assert told["leaving"] == [{"part": "AfterActs", "acts": 3}, {"part": "Stays"}]
    check_refusal(inside("simulate", "--activity", "lognormal:0.05"), ["--activity lognormal must be given sigma"])
    check_refusal(
        inside("simulate", "--game", "street:3", "--weights", "1,2,3"), ["--game street, whose games are drawn"]
    )


@pytest.mark.slow
def test_warm_compiles_once_and_for_all() -> None:
    first = freepull("warm")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("functions compiled: ")
    told = json.loads(freepull("warm", "--json").stdout)
    assert told["compiled"] == {"simulate": 0, "people": 0, "serve": 0, "plan": 0}
    assert Path(told["folder"]).is_dir()


def test_warm_refuses_what_it_does_not_know() -> None:
    check_refusal(inside("warm", "papre"), ["rule must be one of", "did you mean 'paper'?"])
    check_refusal(inside("warm", "--workers", "0"), ["--workers"])
