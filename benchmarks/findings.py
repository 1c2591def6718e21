"""What a benchmark finds: rows of a table, bars of a chart, and sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

from .timing import Sample


@dataclass(frozen=True)
class Row:
    """One line: what was measured, and the bar it was held to, if there is one."""

    part: str
    what: str
    measured: str
    detail: str = ""
    bar: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Timed:
    """One bar of the chart, in ns per agent-step."""

    arms: int
    what: str
    phase: str
    sample: Sample
    ours: bool = False


@dataclass
class Findings:
    """Everything found so far."""

    rows: list[Row] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def at_most(self, part: str, what: str, value: float, bar: float, unit: str, detail: str = "") -> None:
        """Add a row that must not be larger than its bar."""
        self.rows.append(Row(part, what, f"{value:.3g}{unit}", detail, f"≤ {bar:g}{unit}", value <= bar))

    def at_least(self, part: str, what: str, value: float, bar: float, unit: str, detail: str = "") -> None:
        """Add a row that must not be smaller than its bar."""
        self.rows.append(Row(part, what, f"{value:.3g}{unit}", detail, f"≥ {bar:g}{unit}", value >= bar))

    def plain(self, part: str, what: str, measured: str, detail: str = "") -> None:
        """Add a row without a bar."""
        self.rows.append(Row(part, what, measured, detail))


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    pairs: int
    """Repetitions of what is compared with the C program on one thread."""
    few: int
    """Repetitions of everything else."""
    quick: bool


FULL = Effort(pairs=25, few=7, quick=False)
QUICK = Effort(pairs=3, few=1, quick=True)


def ns(value: float) -> str:
    """Show a number of nanoseconds so that people can read it."""
    return f"{value:,.0f} ns" if value >= 100 else f"{value:.3g} ns"
