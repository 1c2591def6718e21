"""Real stores for the tests of campaigns: a SQLite file, and a PostgreSQL that is started here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgres_server import PostgresServer
from staging import OPENED, Clock


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def postgres(server: PostgresServer) -> str:
    """An empty database."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")
    return server.url


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
