"""Services for the tests of HTTP: on a SQLite file, and on a PostgreSQL that is started here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from browsing import launched, opened
from playwright.sync_api import Browser, Page
from postgres_server import PostgresServer
from running import Service


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> str:
    """An empty database."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS freepull CASCADE")
    return postgres_server.url


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
