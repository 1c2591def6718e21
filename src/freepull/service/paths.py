"""Paths: as the framework reads them, but a slash within a name is told from those between names."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

SLASHES = re.compile("/{2,}")
ENCODED = re.compile("%2f", re.IGNORECASE)
WITHIN = "\0"
"""Stands for a slash within a name; names are printable, so none has it of its own."""


def plain_path(scope: Any) -> str:
    """Return the path of a request: decoded, without empty parts, slashes within names marked."""
    path: str = scope["path"]
    if b"%" in scope["raw_path"]:
        path = unquote(ENCODED.sub(WITHIN, scope["raw_path"].decode("latin-1")))
    return SLASHES.sub("/", path).rstrip("/") or "/"


def name_in(part: str) -> str:
    """Return the name that a part of a path stands for.

    >>> name_in(plain_path({"path": "", "raw_path": b"/v1/a%2Fb"}).rpartition("/")[2])
    'a/b'
    """
    return part.replace(WITHIN, "/")
