"""How many examples a property test looks at: a number for `make test`, a part of it for `make quick`, ten times it
for `make deep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import settings

WHOLE = 100
"""Examples that the profile of `make test` asks for; other profiles are a share or a multiple of it."""


def cases(numbers: Sequence[Any], every: int) -> list[Any]:
    """Return one case in ``every``, or all of them for `make deep`."""
    return list(numbers if settings.default is not None and settings.default.max_examples > WHOLE else numbers[::every])


def examples(count: int, **others: Any) -> settings:
    """Return settings with a number of examples, in proportion to the profile that was chosen."""
    share = settings.default.max_examples / WHOLE if settings.default is not None else 1
    return settings(max_examples=max(1, round(count * share)), **others)
