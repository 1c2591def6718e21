"""Verdicts: exact binomial limits from the number of runs, and the bars that the suite holds the package to."""

from __future__ import annotations

from dataclasses import dataclass, field

from scipy.special import betaincinv

TAIL = 1e-3
"""All limits are one-sided at 99.9 %."""
LEVELS = (0.01, 0.05, 0.1)
"""The δ' at which one set of runs is judged."""


def upper(failures: int, runs: int) -> float:
    """Clopper and Pearson's upper limit."""
    return 1.0 if failures >= runs else float(betaincinv(failures + 1, runs - failures, 1 - TAIL))


def lower(failures: int, runs: int) -> float:
    """Clopper and Pearson's lower limit."""
    return 0.0 if failures == 0 else float(betaincinv(failures, runs - failures + 1, TAIL))


@dataclass(frozen=True)
class Rate:
    """How often something false happened, and how often it may."""

    what: str
    runs: int
    failures: int
    bound: float

    @property
    def share(self) -> float:
        """The rate itself."""
        return self.failures / self.runs

    @property
    def high(self) -> float:
        """The upper limit."""
        return upper(self.failures, self.runs)

    @property
    def low(self) -> float:
        """The lower limit."""
        return lower(self.failures, self.runs)

    @property
    def holds(self) -> bool:
        """Whether the upper limit is within the bound."""
        return self.high <= self.bound

    @property
    def broken(self) -> bool:
        """Whether the lower limit is beyond the bound."""
        return self.low > self.bound


@dataclass(frozen=True)
class Bar:
    """One thing that must hold."""

    part: str
    what: str
    bar: str
    measured: str
    met: bool | None
    """None if the runs are too few to tell."""

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "met", False: "missed", None: "cannot tell"}[self.met]


@dataclass
class Bars:
    """All of them, in order."""

    rows: list[Bar] = field(default_factory=list)

    def holds(self, part: str, what: str, rates: list[Rate]) -> None:
        """Every upper limit must be within its bound."""
        worst = max(rates, key=lambda rate: rate.high / rate.bound)
        among = f"worst of {len(rates)}: " if len(rates) > 1 else ""
        told = f"{among}{worst.failures:,} of {worst.runs:,}, limit {percent(worst.high)}"
        bar = "every upper limit ≤ δ" if len(rates) > 1 else "upper limit ≤ δ"
        met = False if any(rate.broken for rate in rates) else all(rate.holds for rate in rates) or None
        self.rows.append(Bar(part, what, bar, f"{told} at δ = {worst.bound:g}", met))

    def breaks(self, part: str, what: str, rates: list[Rate]) -> None:
        """Every lower limit must be beyond its bound: the suite can see."""
        least = min(rates, key=lambda rate: rate.low / rate.bound)
        told = f"{least.failures:,} of {least.runs:,}, lower limit {percent(least.low)} at δ = {least.bound:g}"
        met = False if any(rate.holds for rate in rates) else all(rate.broken for rate in rates) or None
        self.rows.append(Bar(part, what, "lower limit > δ", told, met))

    def number(self, part: str, what: str, bar: str, measured: str, met: bool) -> None:
        """A number against a number."""
        self.rows.append(Bar(part, what, bar, measured, met))

    @property
    def missed(self) -> list[Bar]:
        """Those that are not seen to hold."""
        return [bar for bar in self.rows if not bar.met]


def percent(share: float) -> str:
    """A rate in per cent, with as many digits as it is small."""
    return "0 %" if share == 0 else f"{100 * share:.3g} %" if share < 0.995 else f"{100 * share:.1f} %"
