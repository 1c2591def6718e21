"""Files that are there as a whole or not at all, also after the power failed."""

from __future__ import annotations

import os
from pathlib import Path

UNFINISHED = ".unfinished"
"""How the names of files end that are still being written."""


def make_durable(path: Path) -> None:
    """Have a file on the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def finish(unfinished: Path, path: Path) -> Path:
    """Give a file that has been written its name, once it is on the disk; what had the name before is replaced."""
    make_durable(unfinished)
    unfinished.replace(path)
    make_durable(path.parent)
    return path
