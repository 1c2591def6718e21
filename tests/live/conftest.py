"""Real stores for the tests of campaigns: a SQLite file, and a PostgreSQL that is started here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from postgres_server import PostgresServer
from staging import Clock

_NUMBERS = count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def postgres(server: PostgresServer) -> str:
    """A database of its own."""
    name = f"trials_{next(_NUMBERS)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.replace("/postgres?", f"/{name}?")


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


@pytest.fixture
def clock() -> Clock:
    return Clock()
