"""The load rows in a short form: what must hold on a busy machine too. The figures themselves are `make load`'s."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from load.__main__ import keep
from load.crowd import watch
from load.loads import batches, closed_loop, half_open, overload
from load.takeover import kill_the_owner
from load.traffic import agent_tokens, stage

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_little_load_meets_no_error_and_counts_every_event(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/load.db" if store == "sqlite" else request.getfixturevalue("postgres")
    process, admin, gateway = stage(url, agents=[f"user-{m}" for m in range(100)])
    try:
        tokens = agent_tokens(process, admin, 100)

        async def both() -> tuple[int, int]:
            end = asyncio.Event()
            viewers = [asyncio.create_task(watch(process.port, admin, end)) for _ in range(5)]
            first = await closed_loop(process.port, tokens, 32, 1.5)
            second = await batches(process.port, gateway, 100, 2, 100, 1.5)
            end.set()
            seen = await asyncio.gather(*viewers)
            assert set(first.statuses) == set(second.statuses) == {200}
            assert min(seen) > 500
            return first.events, second.events

        counts = asyncio.run(both())
        assert min(counts) > 0
        assert process.ask(admin, "GET", "/campaigns/c0")["observations"] == sum(counts)
        if store == "sqlite":
            found, healed = asyncio.run(overload(process.port, tokens, 1500, 1.0))
            assert set(found.statuses) <= {200, 429, 503}
            assert healed <= 20
            answered, _ = asyncio.run(half_open(process, 100))
            assert answered < 5
    finally:
        assert process.end() == 0


def test_another_process_takes_over_when_the_owner_is_killed(postgres: str) -> None:
    found = kill_the_owner(postgres, seconds=9.0)
    assert found.told > 20
    assert (found.lost, found.twice, found.unpaid, found.failed) == (0, 0, 0, 0)
    assert found.gap < 20


def test_another_process_takes_over_when_the_owner_hangs_and_it_may_wake_up(postgres: str) -> None:
    found = kill_the_owner(postgres, seconds=16.0, hang=True)
    assert found.told > 20
    assert (found.lost, found.twice, found.unpaid, found.failed) == (0, 0, 0, 0)
    assert found.gap <= 10, "8 s on a machine that has nothing else to do"


def test_rows_replace_older_ones_of_their_kind_and_what_follows_the_table_stays(tmp_path: Path) -> None:
    page = tmp_path / "load.md"
    keep(page, ["| SQLite | a | b | 1 | reached | then |", "| PostgreSQL | a | b | 2 | reached | then |"], "# Load\n\n")
    page.write_text(page.read_text() + "\n## By hand\n\n| SQLite | a | other | 9 |\n")
    keep(
        page,
        ["| PostgreSQL | a | b | 3 | reached | now |", "| SQLite | c | b | 4 | reached | now |"],
        "# Load anew\n\n",
    )
    assert page.read_text() == (
        "# Load anew\n\n| SQLite | a | b | 1 | reached | then |\n| PostgreSQL | a | b | 3 | reached | now |\n"
        "| SQLite | c | b | 4 | reached | now |\n\n## By hand\n\n| SQLite | a | other | 9 |\n"
    )
