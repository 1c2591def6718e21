"""Settings for the whole suite, its tiers, and a PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from chaos.postgres_server import PostgresServer
from support.tiers import (  # noqa: F401
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
    pytest_runtest_call,
)

collect_ignore_glob = ["conftest.py", "*/conftest.py"]
"""They have no doctests, and no two modules may have one name."""
settings.register_profile("freepull", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("freepull"), max_examples=15)
settings.register_profile("deep", settings.get_profile("freepull"), max_examples=1000)
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
