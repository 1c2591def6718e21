"""Services for the tests of HTTP: on a SQLite file, and on a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from support.browsing import launched, opened
from support.running import Service


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A service on each store, one after the other."""
    url = f"sqlite:///{tmp_path}/trial.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    with Service(url) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service on a file."""
    with Service(f"sqlite:///{tmp_path}/trial.db") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with opened(browser) as found:
        yield found
