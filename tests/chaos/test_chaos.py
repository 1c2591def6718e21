"""A little of every kind of chaos; `make chaos` is the whole of it."""

from __future__ import annotations

import logging

import pytest

from chaos.__main__ import CHAOS

pytestmark = pytest.mark.slow

ELSEWHERE = ("forks", "payouts on PostgreSQL")
"""What tests of their own try too: test_forks.py, test_payouts.py."""


@pytest.mark.parametrize("kind", [kind for kind in CHAOS if kind not in ELSEWHERE])
def test_a_campaign_survives(kind: str) -> None:
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    _, short = CHAOS[kind]
    found = short()
    print(found)
    assert found.problems == []
