"""Real stores for the tests of campaigns: a SQLite file, and a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.staging import OPENED, Clock


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Both stores, one after the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/trial.db"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """A file."""
    return f"sqlite:///{tmp_path}/trial.db"


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def clock() -> Clock:
    return Clock()
