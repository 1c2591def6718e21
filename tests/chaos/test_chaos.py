"""A little of every kind of chaos; `make chaos` is the whole of it."""

from __future__ import annotations

import logging

import pytest

from chaos.__main__ import CHAOS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", CHAOS)
def test_a_campaign_survives(kind: str) -> None:
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    _, short = CHAOS[kind]
    found = short()
    print(found)
    assert found.problems == []
