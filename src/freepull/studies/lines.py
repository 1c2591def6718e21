"""On which line of a TOML file a key stands: the parser itself is asked, with more and more of the file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the line on which the key, or the nearest table around it, begins; None for the whole file.

    >>> line_of("runs = 3\\n\\n[game]\\nkind = 'toy'", ("game", "kind"))
    4
    """
    for length in range(len(path), 0, -1):
        found = _first(text, path[:length])
        if found is not None:
            return found
    return None


def _first(text: str, path: Sequence[str]) -> int | None:
    lines = text.splitlines()
    begins = 0
    for end in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value
        if _holds(data, path):
            while not lines[begins].strip() or lines[begins].lstrip().startswith("#"):
                begins += 1
            return begins + 1
        begins = end
    return None


def _holds(data: Any, path: Sequence[str]) -> bool:
    for key in path:
        if isinstance(data, list):
            data = dict(zip(map(str, range(len(data))), data, strict=True))
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True
