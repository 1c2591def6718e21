"""The compiled engine beside the readable one, path by path."""

from __future__ import annotations

import numpy as np

from freepull.simulation import readable
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.coding import unsupported
from freepull.simulation.experiment import Experiment
from freepull.simulation.results import Outcome


def same(a: Outcome, b: Outcome) -> None:
    for name in ("run", "arm", "correct", "decided", "certified", "decided_at", "offered", "refused", "banned"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.survives == b.survives
    for name in ("pulls", "sums", "paid"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    received = [None if it.received is None else it.received.tolist() for it in (a, b)]
    assert received[0] == received[1]
    assert a.trace == b.trace


def compare(e: Experiment, workers: int = 1, lanes: int = 64) -> list[Outcome]:
    assert unsupported(e) is None
    found = sorted(engine.play(e, workers, lanes), key=lambda outcome: outcome.run)
    assert [outcome.run for outcome in found] == sorted(e.runs)
    for outcome in found:
        same(readable.play(e, outcome.run), outcome)
    return found
