"""Settings for the whole suite, and a PostgreSQL; beside this file tests also find `drive` and `reference`."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from postgres_server import PostgresServer

collect_ignore_glob = ["*/conftest.py"]
"""They have no doctests, and no two modules may have one name."""
settings.register_profile("freepull", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("freepull")


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
