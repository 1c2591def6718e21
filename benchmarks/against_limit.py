"""The engine beside the program written by hand: one thread, and what a second one gains."""

from __future__ import annotations

import time
from functools import partial

from . import limit, ours
from .cases import CASES, Case
from .findings import Effort, Findings, Timed, ns
from .timing import Sample, in_turn

BARS = {
    "observing 2×3": 1.4,
    "observing 120×30": 1.8,
    "incentivizing 2×3": 1.4,
    "incentivizing 120×30": 1.6,
}
GAIN = 0.85
FREE = 1.5
"""Where two C processes gain less than this, the second core was not free, and nothing can be said."""


def one_thread(found: Findings, effort: Effort, built: limit.Built | None) -> None:
    """Measure all cases, beside the program if there is one."""
    for case in CASES:
        mine = partial(ours.measure, case)
        if built is None:
            (our,) = in_turn([mine], effort.pairs)
            found.plain("one thread", case.name, ns(our.median))
        else:
            our, its = in_turn([mine, partial(built.measure, case)], effort.pairs)
            detail = f"{ns(our.median)} beside {ns(its.median)}"
            found.at_most("one thread, times the C program", case.name, our.ratio(its), BARS[case.name], "×", detail)
            found.timed.append(Timed(case.arms, "C, by hand", case.phase, its))
        found.timed.append(Timed(case.arms, "freepull", case.phase, our, ours=True))


def two_threads(found: Findings, effort: Effort, built: limit.Built) -> None:
    """Compare what two threads gain with what two processes of the program gain."""
    both = limit.TwoProcesses(built)
    try:
        for case in CASES:
            _two_threads(found, effort, built, both, case)
    finally:
        both.close()


def _two_threads(found: Findings, effort: Effort, built: limit.Built, both: limit.TwoProcesses, case: Case) -> None:
    measures = [
        partial(ours.measure, case, clock=time.perf_counter),
        partial(ours.measure_two, case),
        partial(built.measure, case, clock=time.perf_counter),
        partial(both.measure, case),
    ]
    one, two, its_one, its_two = in_turn(measures, effort.few)
    gains = Sample(tuple(2 * a / b for a, b in zip(one.values, two.values, strict=True)))
    its_gains = Sample(tuple(2 * a / b for a, b in zip(its_one.values, its_two.values, strict=True)))
    detail = f"{gains.median:.2f}× as fast; two C processes {its_gains.median:.2f}×"
    part = "two threads: what we gain over what two C processes gain"
    if its_gains.median < FREE:
        found.plain(part, case.name, "cannot tell", f"{detail}; the second core was not free")
    else:
        found.at_least(part, case.name, gains.ratio(its_gains), GAIN, "", detail)
