"""Builds and measures limit/limit.c, the program written by hand that the engine is compared with.

With AVX-512 and gcc it is built as it was written. Without AVX-512, clang splits its vectors for what the machine has.
`python -m benchmarks.limit` prints its figures alone.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from ctypes import c_double, c_int64
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np

from .cases import CASES, PAPER, Case
from .limit_state import Large, Small, address
from .timing import Clock, Gate, in_turn, no_gate

SOURCE = Path(__file__).parent / "limit" / "limit.c"


@dataclass(frozen=True)
class Built:
    """The program, ready to be measured."""

    path: Path
    how: str
    compiler: str

    def measure(self, case: Case, gate: Gate = no_gate, clock: Clock = time.thread_time) -> float:
        """Return ns per agent-step."""
        program = ctypes.CDLL(str(self.path))
        program.incentivize_k.restype = c_int64
        play = {"observing": (_observe_3, _observe_k), "incentivizing": (_incentivize_2x3, _incentivize_k)}
        return play[case.phase][case.arms > 3](program, case, gate, clock)


def build(folder: Path) -> Built | None:
    """Compile the program for this machine; None if it cannot be done."""
    features = llvmlite.binding.get_host_cpu_features()
    path = folder / "limit.so"
    common = ["-O3", "-march=native", "-shared", "-fPIC", str(SOURCE), "-o", str(path), "-lm"]
    if features.get("avx512f") and features.get("avx512dq") and shutil.which("gcc"):
        how, command = "built as it was written, for AVX-512, by gcc", ["gcc", *common]
    elif shutil.which("clang++"):
        target = "AVX2" if features.get("avx2") else "this machine"
        how = f"the same program, its 512-bit vectors split for {target} by clang"
        command = ["clang++", "-x", "c++", "-DSPLIT", "-Wno-psabi", *common]
    else:
        return None
    if subprocess.run(command, check=False).returncode != 0:
        return None
    version = subprocess.run([command[0], "--version"], check=True, capture_output=True, text=True).stdout
    return Built(path, how, version.splitlines()[0])


class TwoProcesses:
    """The program in two processes that start at the same moment."""

    def __init__(self, built: Built) -> None:
        context = multiprocessing.get_context("spawn")
        gate = context.Barrier(2, timeout=120)
        self.pools = [
            ProcessPoolExecutor(1, mp_context=context, initializer=_share, initargs=(built, gate)) for _ in range(2)
        ]

    def measure(self, case: Case) -> float:
        """Return ns per agent-step of the slower one."""
        return max(future.result() for future in [pool.submit(_measure_shared, case) for pool in self.pools])

    def close(self) -> None:
        """End both."""
        for pool in self.pools:
            pool.shutdown()


_shared: dict[str, Any] = {}


def _share(built: Built, gate: Any) -> None:
    _shared.update(built=built, gate=gate)


def _measure_shared(case: Case) -> float:
    built: Built = _shared["built"]
    return built.measure(case, _shared["gate"].wait, time.perf_counter)


def _tables(case: Case) -> tuple[Any, Any, Any, Any]:
    """s_t and 1/√n as the program wants them; the arrays themselves come last, so that they live as long."""
    t = np.arange(case.horizon + 2, dtype=float).clip(1.0)
    s, roots = np.sqrt(2.0 * np.log(t)), 1.0 / np.sqrt(t)
    return address(s), address(roots), s, roots


def _theta(case: Case) -> c_double:
    return c_double(PAPER.theta(case.arms, case.agents, case.horizon))


def _observe_3(program: Any, case: Case, gate: Gate, clock: Clock) -> float:
    state = Small(case)
    s, roots, *_alive = _tables(case)
    lanes = c_int64(case.runs * case.agents)
    gate()
    began = clock()
    program.observe_3(lanes, *state.addresses, s, roots, c_int64(case.first), c_int64(case.last))
    return (clock() - began) / case.agent_steps * 1e9


def _incentivize_2x3(program: Any, case: Case, gate: Gate, clock: Clock) -> float:
    s, roots, *_alive = _tables(case)
    watched = [Small(case, agent) for agent in range(2)]
    for one in watched:
        program.observe_3(c_int64(case.runs), *one.addresses, s, roots, c_int64(4), c_int64(case.first - 1))
    state = Small.together(watched)
    paid, active = np.zeros((2, 3, case.runs)), np.zeros((3, case.runs), np.int64)
    played = c_int64()
    gate()
    began = clock()
    program.incentivize_2x3(
        c_int64(case.runs), *state.addresses, _theta(case), s, roots, c_int64(case.first), c_int64(case.last),
        address(paid), address(active), ctypes.byref(played),
    )  # fmt: skip
    return (clock() - began) / played.value * 1e9


def _observe_k(program: Any, case: Case, gate: Gate, clock: Clock) -> float:
    state = Large(case.runs * case.agents, case.arms)
    s, roots, *_alive = _tables(case)
    size = (c_int64(state.vectors // 4), c_int64(4), c_int64(case.arms))
    gate()
    began = clock()
    program.observe_k(*size, *state.addresses, s, roots, c_int64(case.first), c_int64(case.last))
    return (clock() - began) / case.agent_steps * 1e9


def _incentivize_k(program: Any, case: Case, gate: Gate, clock: Clock) -> float:
    M, K = case.agents, case.arms
    s, roots, *_alive = _tables(case)
    states = [Large(-(-M // 32) * 32, K, seed) for seed in range(case.runs)]
    for state in states:
        size = (c_int64(state.vectors // 4), c_int64(4), c_int64(K))
        program.observe_k(*size, *state.addresses, s, roots, c_int64(K + 1), c_int64(case.first - 1))
    paid, active = np.zeros((K, M), np.int64), [np.ones(K, np.int64) for _ in states]
    played = 0
    gate()
    began = clock()
    for state, left in zip(states, active, strict=True):
        last = program.incentivize_k(
            c_int64(M), c_int64(K), *state.addresses, _theta(case), s, roots, c_int64(case.first), c_int64(case.last),
            address(paid), address(left),
        )  # fmt: skip
        played += M * (last - case.first + 1)
    return (clock() - began) / played * 1e9


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(Path(folder))
        if built is None:
            print("No program to compare with: it needs AVX-512 and gcc, or clang++.")
            return
        print(f"{built.how} ({built.compiler}), ns per agent-step:")
        for case in CASES:
            print(f"{case.name:>22}: {in_turn([partial(built.measure, case)], 5)[0].median:.2f}")


if __name__ == "__main__":
    main()
