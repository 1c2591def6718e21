"""Figures of an independent program, and whether ours agree with them.

The other program was written apart from this package, for the same games (T = 10⁵). Means are compared in units of
both standard errors together; shares by Fisher's exact test, and costs that are mostly 0 by their share of zeros. The
threshold is 5.5 standard errors, or the same probability: with few runs Student's, which is wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from scipy.stats import fisher_exact

from freepull.reproduction.section import Found, free, mean, share

THRESHOLD = 5.5
CHANCE = math.erfc(THRESHOLD / math.sqrt(2))
TOY_RUNS, FAMILY_RUNS = 1024, 100
FEW = 30
"""Below this many runs, the error of a mean is itself uncertain."""
MOSTLY = 0.5
"""From this share of zeros on, a mean is not compared."""

PASSIVE = (6000, 10016)
FULL = ((0.0, 15999.0, 9000.0), (9001.0, 16000.0, 0.0))
TOY = {
    "paper": (50000.0, 0.0, 0, FULL), "paper-appendix": (50000.0, 0.0, 0, FULL),
    "authors-at-01": (25336.0, 309.0, 1004, ((0.0, 8369.0, 4290.0), (4306.0, 8371.0, 0.0))),
}  # fmt: skip
"""C(T), its standard error, runs decided of 1,024, and payments by agent and arm; all are right in every run."""
AUTHORS_AT_05 = (23025.0, 302.0)
STOCHASTIC = (25079.0, 281.0, 924, 31347.0)
"""Fig. 3 under the authors' constant: C(T), its error, runs decided, offers."""
DELTAS = dict(zip(range(0, 21, 2), (18189, 21327, 24299, 27560, 30612, 33492, 36255, 38803, 41096, 42926, 44499),
                  strict=True))  # fmt: skip
DELTAS_ERROR = 324.0
"""The largest of their standard errors; they lie between 234 and 324."""
FAMILY = {
    (0.005, 30): (28118.0, 1971.0, 13, 69), (0.005, 60): (12100.0, 1444.0, 36, 97),
    (0.005, 90): (2195.0, 532.0, 76, 100), (0.005, 120): (476.0, 196.0, 91, 100),
    (0.1, 30): (49695.0, 286.0, 0, 2), (0.1, 60): (49017.0, 456.0, 0, 6),
    (0.1, 90): (47298.0, 875.0, 0, 12), (0.1, 120): (44581.0, 1340.0, 0, 17),
}  # fmt: skip
"""Fig. 2(d) under the authors' constant: C(T), its error, runs that paid nothing and runs decided, of 100."""


@dataclass(frozen=True)
class Check:
    """One figure beside its reference."""

    what: str
    ours: str
    theirs: str
    distance: str
    agrees: bool


def checks(found: dict[str, Found]) -> list[Check]:
    """Compare all that was run and that has a reference."""
    parts: dict[str, Callable[[Found], Iterator[Check]]] = {
        "paper-2ab": _toy, "paper-2c": _deltas, "paper-2d": _family, "paper-3": _stochastic
    }  # fmt: skip
    return [check for name, part in parts.items() if name in found for check in part(found[name])]


def _toy(found: Found) -> Iterator[Check]:
    none = found.get("none")
    if none is not None:
        yield _shares("2(a): right without incentives", share(none, "correct"), PASSIVE)
    for name, (paid, error, decided, payments) in TOY.items():
        result = found.get(name)
        if result is None:
            continue
        yield _shares(f"2(a): right, {name}", share(result, "correct"), (TOY_RUNS, TOY_RUNS))
        yield _shares(f"2(a): decided, {name}", share(result, "decided"), (decided, TOY_RUNS))
        yield _means(f"2(b): C(T), {name}", mean(result, "paid"), (paid, error), result.frame.height)
        for m, k in ((m, k) for m in range(2) for k in range(3)):
            own = float(result.paid[m, k]), float(result.paid_error[m, k])
            theirs = payments[m][k], own[1] * math.sqrt(result.frame.height / TOY_RUNS)
            yield _means(f"2(b): agent {m + 1}, arm {k + 1}, {name}", own, theirs, result.frame.height, 1.0)
    at_05 = found.get("authors")
    if at_05 is not None:
        yield _means("2(b): C(T), authors, δ = .05", mean(at_05, "paid"), AUTHORS_AT_05, at_05.frame.height)


def _deltas(found: Found) -> Iterator[Check]:
    for cell, result in found:
        exponent = round(-math.log(cell.coordinates["delta"]))
        if cell.principal == "authors":
            theirs = DELTAS[exponent], DELTAS_ERROR
            yield _means(f"2(c): −ln δ = {exponent}, authors", mean(result, "paid"), theirs, result.frame.height)


def _family(found: Found) -> Iterator[Check]:
    for (sd, agents), (paid, error, unpaid, decided) in FAMILY.items():
        where = f"M = {agents}, σ = {sd:g}"
        result = found.get("authors", sd=sd, agents=agents)
        if result is not None:
            yield _shares(f"2(d): decided, {where}, authors", share(result, "decided"), (decided, FAMILY_RUNS))
            yield _shares(f"2(d): free, {where}, authors", free(result), (unpaid, FAMILY_RUNS))
            if unpaid / FAMILY_RUNS < MOSTLY:
                yield _means(f"2(d): C(T), {where}, authors", mean(result, "paid"), (paid, error), result.frame.height)
        printed = found.get("paper", sd=sd, agents=agents)
        if printed is not None:
            yield _shares(f"2(d): decided, {where}, paper", share(printed, "decided"), (0, FAMILY_RUNS))
            yield _means(f"2(d): C(T), {where}, paper", mean(printed, "paid"), (50000.0, 0.0), printed.frame.height)


def _stochastic(found: Found) -> Iterator[Check]:
    result = found.get("authors")
    if result is not None:
        paid, error, decided, offered = STOCHASTIC
        yield _shares("3: decided, authors", share(result, "decided"), (decided, TOY_RUNS))
        yield _means("3: C(T), authors", mean(result, "paid"), (paid, error), result.frame.height)
        ours = mean(result, "offered")
        theirs = offered, ours[1] * math.sqrt(result.frame.height / TOY_RUNS)
        yield _means("3: offers, authors", ours, theirs, result.frame.height)


def _means(
    what: str, ours: tuple[float, float], theirs: tuple[float, float], runs: int, rounding: float = 0.5
) -> Check:
    """Compare two means; the reference is rounded to whole bonuses."""
    both = math.hypot(*(0.0 if math.isnan(error) else error for _, error in (ours, theirs)))
    apart = max(0.0, abs(ours[0] - theirs[0]) - rounding)
    distance = 0.0 if apart == 0.0 else apart / both if both > 0 else math.inf
    here, there = (f"{centre:,.0f} ± {error:,.0f}" for centre, error in (ours, theirs))
    limit = max(THRESHOLD, float(-stdtrit(runs - 1, CHANCE / 2))) if runs < FEW else THRESHOLD
    return Check(what, here, there, f"{distance:.1f} se", distance <= limit)


def _shares(what: str, ours: tuple[int, int], theirs: tuple[int, int]) -> Check:
    """Compare two shares."""
    table = np.array([[count, of - count] for count, of in (ours, theirs)])
    chance = float(fisher_exact(table).pvalue)
    here, there = (f"{count:,} of {of:,}" for count, of in (ours, theirs))
    return Check(what, here, there, f"p = {chance:.2g}", chance >= CHANCE)
