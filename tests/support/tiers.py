"""The tiers of the suite: a test is quick unless it is marked `slow`, by hand or because of a fixture that it uses.

Quick tests start neither programs nor servers, which is checked. `--everything` fails where something was left out.
"""

from __future__ import annotations

import gc
import platform
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OUTSIDE = {"server": "postgres", "browser": "browser", "service": "slow", "both": "slow"}
"""Fixtures that start something, and how tests that use them are marked; whatever is marked is slow."""
STARTS = ("subprocess.Popen", "socket.bind")
QUICK, WHOLE_FILE = "not slow", "\npytestmark = pytest.mark.slow\n"
LONGEST = {
    f"test_{it}.py"
    for it in (
        *("compiled_paths", "chaos", "reproduce", "golden", "stateful", "load", "docs", "blocks", "cluster"),
        *("hostile_server", "dashboard", "dashboard_contents"),
    )
}
"""These come first, then files with many slow tests, so that at the end no worker is left alone with one of them."""
_running: list[str] = []
"""The quick test that is running."""


def some_quick(count: int, every: int) -> list[Any]:
    """Return the numbers below a count as parameters, of which one in `every` is quick."""
    return [n if n % every == 0 else pytest.param(n, marks=pytest.mark.slow) for n in range(count)]


def mostly_slow(first: Any, *others: Any) -> list[Any]:
    """Return values of a parameter, of which `make quick` takes the first alone."""
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--everything", action="store_true", help="fail if a test is skipped, or none had a PostgreSQL or a browser"
    )


def pytest_configure(config: pytest.Config) -> None:
    platform.processor()  # it asks a program, once
    config.addinivalue_line("markers", "slow: starts programs or servers, or takes more than two seconds")
    config.addinivalue_line("markers", "postgres: uses a PostgreSQL")
    config.addinivalue_line("markers", "browser: uses a browser")
    if config.getoption("everything") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Everything())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files that are slow as a whole, where only quick tests are wanted."""
    wanted = config.getoption("markexpr") == QUICK and collection_path.name.startswith("test_")
    return True if wanted and WHOLE_FILE in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = {*getattr(item, "fixturenames", ())}
        params = getattr(getattr(item, "callspec", None), "params", {}).values()
        if any(isinstance(value, str) and value == "postgres" for value in params):
            used.add("server")
        for mark in {OUTSIDE[name] for name in used & OUTSIDE.keys()}:
            item.add_marker(mark)
            item.add_marker("slow")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow") is not None)
    items.sort(key=lambda item: (item.path.name not in LONGEST, -slow[item.path]))


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of garbage collections, which took an eighth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("slow") is None:
        _running.append(item.nodeid)
    try:
        yield
    finally:
        _running.clear()


def _start_nothing(event: str, _: object) -> None:
    if event in STARTS and _running:
        raise RuntimeError(f"{event} in {_running[-1]}, which is not marked slow")


sys.addaudithook(_start_nothing)


class Everything:
    """Watches that nothing was left out."""

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)
        if report.passed and report.when == "call":
            self.passed |= {"postgres", "browser"} & report.keywords.keys()

    def left_out(self) -> list[str]:
        """What was not tested."""
        return [*self.skipped, *sorted({"postgres", "browser"} - self.passed)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.left_out() and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for what in self.left_out():
            terminalreporter.line(f"left out, and nothing may be: {what}", red=True)
