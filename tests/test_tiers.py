"""Quick tests start nothing, and a whole run leaves nothing out."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from support.tiers import Everything


def report(when: str = "call", outcome: str = "passed", *marks: str) -> Any:
    return pytest.TestReport("t", ("t", 0, "t"), dict.fromkeys(marks, 1), outcome, None, when)  # type: ignore[arg-type]


def test_a_quick_test_starts_no_program_and_no_server() -> None:
    with pytest.raises(RuntimeError, match="not marked slow"):
        subprocess.run([sys.executable, "--version"], check=False)
    with socket.socket() as listening, pytest.raises(RuntimeError, match="not marked slow"):
        listening.bind(("127.0.0.1", 0))


@pytest.mark.slow
def test_a_slow_test_may_start_programs() -> None:
    assert subprocess.run([sys.executable, "--version"], check=False, capture_output=True).returncode == 0


def test_tests_with_a_database_a_service_or_a_browser_are_slow(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        if {"server", "service", "browser"} & {*getattr(item, "fixturenames", ())}:
            assert item.get_closest_marker("slow"), item.nodeid


def test_everything_means_that_postgres_and_a_browser_were_there_and_nothing_was_skipped() -> None:
    watching = Everything()
    watching.pytest_runtest_logreport(report("setup", "passed", "postgres", "browser"))
    assert watching.left_out() == ["browser", "postgres"]
    watching.pytest_runtest_logreport(report("call", "passed", "slow", "postgres"))
    assert watching.left_out() == ["browser"]
    watching.pytest_runtest_logreport(report("call", "passed", "browser"))
    assert watching.left_out() == []
    watching.pytest_runtest_logreport(report("setup", "skipped"))
    assert watching.left_out() == ["t"]
