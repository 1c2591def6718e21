"""The command `freepull reproduce`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.program import freepull, inside


@pytest.mark.slow
def test_it_tells_the_findings_and_can_speak_json(tmp_path: Path) -> None:
    asked = ("reproduce", "--figure", "2a", "--setting", "certified", "--runs", "2", "--out", str(tmp_path))
    said = freepull(*asked)
    assert said.returncode == 0, said.stderr
    assert "Fig. 2(a)" in said.stdout
    assert "report.html" in said.stdout.replace("\n", "")
    assert said.stderr == ""
    again = inside(*asked, "--json")
    told = json.loads(again.stdout)
    assert told["sections"][0]["name"] == "2a"
    assert {check["agrees"] for check in told["checks"]} == {True}


def test_bad_input_gets_a_sentence(tmp_path: Path) -> None:
    said = inside("reproduce", "--figure", "2e", "--out", str(tmp_path / "new"))
    assert said.returncode == 2
    assert said.stderr.startswith("error: figure must be one of 2a, 2b, 2c, 2d, 3")
    assert not (tmp_path / "new").exists()


def test_the_help_has_an_example() -> None:
    assert "Example: freepull reproduce --figure 2a" in inside("reproduce", "--help").stdout
