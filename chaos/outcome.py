"""What a piece of chaos has found, and whether the bar was met."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Finding:
    """One row of the table."""

    title: str
    figures: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def demand(self, right: bool, what: str) -> None:
        """Note a problem, if there is one."""
        if not right:
            self.problems.append(what)

    def __str__(self) -> str:
        told = ", ".join(f"{name} {shown(value)}" for name, value in self.figures.items())
        wrong = "".join(f"\n    NOT AS PROMISED: {problem}" for problem in self.problems[:5])
        return f"{'ok  ' if not self.problems else 'FAIL'} {self.title}: {told} ({self.seconds:.0f} s){wrong}"


def shown(value: object) -> str:
    """Show a figure."""
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and abs(value) < 1000
        else f"{value:,.0f}"
        if isinstance(value, (int, float))
        else str(value)
    )


@contextmanager
def finding(title: str) -> Iterator[Finding]:
    """Time a piece of chaos."""
    found, begun = Finding(title), time.monotonic()
    yield found
    found.seconds = time.monotonic() - begun
