"""A team's story over real HTTP, in a small form; in full size it is ``python -m load --only story``."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.story import story


@pytest.mark.slow
def test_from_a_log_of_stars_to_the_last_payment(tmp_path: Path) -> None:
    found = story(
        f"sqlite:///{tmp_path}/story.db", tmp_path, people=14, means=(0.85, 0.4, 0.3), days=16, often=1.2 / 24,
        seed=3, epsilon=0.05,
    )  # fmt: skip
    assert found.problems == []
    assert (found.arm, found.planned[:14]) == ("A", "Expect to pay ")
    assert found.late > 10  # hours
    assert min(found.paid, found.outcomes) > 5
