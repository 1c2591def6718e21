"""A word on the screen while the engine compiles: it takes a while, once, and nobody should wonder why."""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event

WORDS = "compiling the engine for this machine: half a minute to a minute, once"


class _Notice(event.Listener):
    """Says so when the first compilation starts, on a terminal only."""

    said = False

    def on_start(self, event: Any) -> None:
        """A function is being compiled, not read from the cache."""
        if not self.said and sys.stderr.isatty():
            print(WORDS, file=sys.stderr, flush=True)
        self.said = True

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def announce_compilation() -> None:
    """From now on, say once that something is being compiled."""
    global _listener
    if _listener is None:
        _listener = _Notice()
        register: Any = event.register
        register("numba:compile", _listener)


_listener: _Notice | None = None
