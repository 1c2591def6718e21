"""How much a large trial takes, in short; benchmarks/trial.py has it in full."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.saving import unpack
from support.drive import assert_sentence

RATE, WAIT = 200_000, 0.05


def start(rule: Any, agents: int, arms: int, **more: Any) -> fp.Trial:
    return fp.Principal(rule, observe=fp.observe.Steps(0), offers="each").start(arms=arms, agents=agents, **more)


def everybody(trial: fp.Trial, rng: np.random.Generator) -> list[tuple[Any, Any, Any]]:
    """Every stream once, in a random order."""
    M, K = trial.setting.agents, trial.setting.arms
    streams = rng.permutation(M * K)
    return [(some // K, some % K, rng.random(len(some))) for some in np.array_split(streams, max(1, M * K // 1_000))]


@pytest.mark.parametrize(
    ("rule", "a_stream"),
    [
        (fp.rules.Certified(0.05), 48),
        (fp.rules.Population(0.05), 24),
        (fp.rules.Population(0.05, pulls=100), 20),
        (fp.rules.Paper(0.05), 12),
    ],
)
def test_bytes_a_stream(rule: Any, a_stream: int) -> None:
    M, K, an_agent, fixed = 4_000, 20, 120, 4_000_000
    start(rule, 2, K, horizon=100)  # compiles
    tracemalloc.start()
    try:
        trial = start(rule, M, K, horizon=100)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = [part for part in unpack(trial.state()).values() if isinstance(part, np.ndarray)]
    assert sum(part.itemsize for part in kept if part.size == M * K) == a_stream
    assert sum(part.itemsize for part in kept if part.size == M) <= 60
    assert taken <= M * K * a_stream + M * an_agent + fixed


def test_more_streams_than_there_are_numbers_for_are_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput) as problem:
        start(fp.rules.Passive(), 1 << 30, 4)
    said = "agents must be at most 1,073,741,823 with 4 arms, got 1,073,741,824; take a part of them."
    assert assert_sentence(problem) == said


def test_bytes_a_sample_that_waits() -> None:
    trial, n = start(fp.rules.Certified(0.05), 1_000, 3), 40
    agents = np.repeat(np.arange(1, 1_000), n)
    before = len(trial.state())
    trial.tell_many(agents, np.zeros(len(agents), int), np.ones(len(agents)))
    waiting = len(agents) - 999
    kept: dict[int, Any] = trial.rule.waiting  # type: ignore[attr-defined]
    assert sum(len(some) for some in kept.values()) == waiting
    assert len(trial.state()) - before <= 1.25 * (8 * waiting + 8 * 999)


def test_pulls_in_bulk_are_fast_and_nobody_waits_long_while_a_round_is_closed() -> None:
    rng = np.random.default_rng(1)
    small = start(fp.rules.Certified(0.05), 50, 2)  # compiles
    trial = start(fp.rules.Certified(0.05), 100_000, 2)
    for one in (small, trial):
        batches = everybody(one, rng)
        began = time.thread_time()
        for agents, arms, rewards in batches:
            one.tell_many(agents, arms, rewards)
        told = time.thread_time() - began
        one.end_step(at_once=False)
        waits = []
        while one.closing:
            began = time.thread_time()
            one.work(0.001)
            waits.append(time.thread_time() - began)
    assert 200_000 / told >= RATE
    assert max(waits) <= WAIT
    assert len(waits) > 3, "it was not cut"
    assert trial.rule.used.course.tolist() == [1, 1]  # type: ignore[attr-defined]
